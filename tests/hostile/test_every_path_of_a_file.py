"""Every file of a table that names other files, and every folder that may be a link: nothing outside the table is opened, changed or deleted.

`test_paths_in_metadata.py` has commits, plans, markers and the commit record, `test_hostile_metadata_table.py` the metadata table,
`test_history_files.py` the history, and `test_bootstrap_sources.py` the bootstrap index. Here is the rest, with the same ways out.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disk import contents
from support.doctor import examine
from support.tables import make, orders, rows
from support.watching import untouched

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError, HudiError, UnsafePathError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.read.engine_scan import EngineScan
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.transaction import layout

SYNC = bytes(16)
WAYS_OUT = {
    "absolute": "{bait}/{name}",
    "dots": "../outside/{name}",
    "dots in the middle": "day=a/../../outside/{name}",
    "file scheme": "file://{bait}/{name}",
    "another scheme": "s3://other-bucket/{name}",
    "drive": "C:\\outside\\{name}",
    "backslashes": "day=a\\..\\..\\outside\\{name}",
    "leading backslash": "\\..\\outside\\{name}",
    "encoded dots": "%2e%2e/outside/{name}",
    "encoded dots and slashes": "%2E%2e%2foutside%2F{name}",
    "half encoded": "day=a/.%2e/%2E./outside/{name}",
    "NUL": "day=a/\0../../outside/{name}",
}
VICTIM = "00000000-0000-0000-0000-000000000001-0_0-0-0_20260101000000000.parquet"


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """What lies beside the table."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / VICTIM).write_bytes(b"PAR1")
    return folder


def _new(location: str, kind: str = "cow") -> hudi.HudiTable:
    table = make(location, table_type=kind)
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)))
    return table


def _put(table: hudi.HudiTable, action: Action, record: str, body: dict[str, object], *more: State) -> str:
    """A planned instant with this plan, which a dead process has perhaps begun. Returns its requested time."""
    time = time_after(table.timeline[-1].completion_time or "")
    folder = Path(table.location, ".hoodie/timeline")
    for state in (State.REQUESTED, *more):
        (folder / Instant(time, action, state).file_name()).write_bytes(encode_record(record, body, sync_marker=SYNC))
    return time


def _savepoint(table: hudi.HudiTable, path: str) -> None:
    made = table.savepoints.create()
    (file,) = Path(table.location, ".hoodie/timeline").glob(f"{made.instant}_*.savepoint")
    folder, _, name = path.rpartition("/")
    kept = {folder: {"partitionPath": folder, "savepointDataFile": [name]}}
    body = {"savepointedBy": "x", "savepointedAt": 1, "comments": "", "partitionMetadata": kept, "version": 1}
    file.write_bytes(encode_record("HoodieSavepointMetadata", body, sync_marker=SYNC))


def _hold(table: hudi.HudiTable, path: str) -> None:
    hold = table.holds.create(seconds=1000)
    file = Path(table.location, layout.HOLDS, hold.name)
    folder, _, name = path.rpartition("/")
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "files": {folder: [name]}}))


def _restore(table: hudi.HudiTable, files: list[str], undone: str) -> None:
    """A restore that a process began, and the list of what it deletes."""
    point = table.timeline.commits[0].requested_time
    plan = {"instantsToRollback": [{"commitTime": undone, "action": "commit"}], "version": 2}
    plan["savepointToRestoreTimestamp"] = point
    time = _put(table, Action.RESTORE, "HoodieRestorePlan", plan, State.INFLIGHT)
    work = {"undone": [{"time": undone, "action": "commit", "files": files}], "cleans": [], "metadata_partitions": []}
    for path, body in ((layout.restore(time), json.dumps(work)), (layout.heartbeat(time), "")):
        file = Path(table.location, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body)
    os.utime(Path(table.location, layout.heartbeat(time)), (1, 1))


def _restore_list(table: hudi.HudiTable, path: str) -> None:
    _restore(table, [path], table.timeline.commits[-1].requested_time)


def _restored_instant(table: hudi.HudiTable, path: str) -> None:
    _restore(table, [], path)


def _compaction(table: hudi.HudiTable, path: str) -> None:
    operation = {"partitionPath": path.rpartition("/")[0], "fileId": VICTIM.partition("_")[0], "dataFilePath": path}
    _put(table, Action.COMPACTION, "HoodieCompactionPlan", {"operations": [operation], "version": 2})


def _property(name: str) -> Callable[[hudi.HudiTable, str], None]:
    def change(table: hudi.HudiTable, path: str) -> None:
        file = Path(table.location, ".hoodie/hoodie.properties")
        escaped = path.replace("\\", "\\\\").replace("\0", "\\u0000")
        kept = [line for line in file.read_text().splitlines() if not line.startswith(name)]
        file.write_text("\n".join([*kept, f"{name}={escaped}", ""]))

    return change


CARRIERS: dict[str, Callable[[hudi.HudiTable, str], None]] = {
    "savepoint": _savepoint,
    "hold": _hold,
    "list of a restore": _restore_list,
    "plan of a restore": _restored_instant,
    "plan of a compaction": _compaction,
    "folder of the timeline": _property("hoodie.timeline.path"),
    "folder of the history": _property("hoodie.timeline.history.path"),
    "index definitions": _property("hoodie.table.index.defs.path"),
    "partitions of the metadata table": _property("hoodie.table.metadata.partitions"),
}


def _everything(location: str) -> list[HudiError]:
    """Reads, writes, services and the look at everything; the errors."""
    errors: list[HudiError] = []
    calls: list[Callable[[hudi.HudiTable], object]] = [
        lambda table: rows(table, "id", "price"),
        lambda table: table.savepoints and list(table.savepoints),
        lambda table: list(table.holds),
        lambda table: table.compaction.run(),
        lambda table: table.cleaning.run(),
        lambda table: table.restore.take_over(),
        lambda table: table.upsert(orders((1, "a", 3.0))),
        lambda table: table.sweep.run(),
        lambda table: table.archival.run(),
    ]
    for call in calls:
        try:
            call(hudi.open_table(location, {"fsync": "false"}, {"hoodie.clean.commits.retained": 1}))
        except HudiError as error:
            errors.append(error)
    return errors


@pytest.mark.one_in(7)
@pytest.mark.parametrize("way", list(WAYS_OUT))
@pytest.mark.parametrize("carrier", list(CARRIERS))
def test_a_path_in_a_file_leads_nowhere(
    location: str, bait: Path, carrier: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _new(location, "mor" if "compaction" in carrier else "cow")
    CARRIERS[carrier](table, WAYS_OUT[way].format(bait=bait, name=VICTIM))
    reached: list[str] = []
    resolved = LocalStorage._resolve

    def recorded(storage: LocalStorage, path: str, **how: bool) -> str:
        reached.append(resolved(storage, path, **how))
        return reached[-1]

    monkeypatch.setattr(LocalStorage, "_resolve", recorded)
    with untouched(bait):
        report = examine(location)
        errors = _everything(location)
    assert reached
    assert [error for error in errors if error.table != location] == []
    assert [path for path in reached if not os.path.realpath(path).startswith(f"{os.path.realpath(location)}/")] == []
    assert all(isinstance(error, CorruptionError | UnsafePathError) or error.hint for error in errors), errors
    assert any(isinstance(error, CorruptionError | UnsafePathError) for error in errors) or report.findings


FOLDERS = [
    ".hoodie/metadata",
    ".hoodie/timeline/history",
    ".hoodie/.index_defs",
    layout.HEARTBEATS,
    layout.MARKERS,
    layout.STAGED,
    layout.EXECUTIONS,
    layout.RESTORES,
    layout.ROWS,
    layout.HOLDS,
    layout.UNSWEPT,
    layout.PRIVATE,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("depth", ["itself", "a folder in it", "a file in it"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_link_in_place_of_a_folder_is_not_followed(location: str, bait: Path, folder: str, depth: str) -> None:
    _new(location)
    old = bait / "20200101000000000"
    old.mkdir()
    for name in ("owner", "MARKERS0", "index.json"):
        (old / name).write_text("x")
        os.utime(old / name, (1, 1))
    place = Path(location, folder)
    if depth == "itself":
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(bait)
    else:
        place.mkdir(parents=True, exist_ok=True)
        if depth == "a folder in it":
            (place / "20200101000000000").symlink_to(old)
        else:
            (place / "20200101000000000").symlink_to(old / "owner")
    with untouched(bait):
        examine(location)
        errors = _everything(location)
    assert contents(bait)
    assert all(isinstance(error, CorruptionError | UnsafePathError) or error.hint for error in errors), errors


def test_an_engine_is_not_given_a_data_file_that_is_a_link(location: str, bait: Path) -> None:
    """Spark opens the paths that it gets by itself; with a metadata table nothing lists the folder before."""
    table = make(location, options={"hoodie.metadata.enable": True})
    [written] = table.upsert(orders((1, "a", 1.0))).stats.files
    file = Path(location, written.path)
    shutil.move(file, bait / file.name)
    file.symlink_to(bait / file.name)
    scan = hudi.open_table(location).scan()
    parts = EngineScan(
        scan.snapshot, scan.storage, scan.executor, scan.rows, scan.merging, scan.slices(), lambda place, *_: place
    )
    with untouched(bait), pytest.raises(UnsafePathError, match="symbolic link"):
        parts.reading()
