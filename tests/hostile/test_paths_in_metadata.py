"""Paths that come from a table's own metadata: nothing outside of the table's folder is read, written or deleted (promise P8).

A bait lies beside the table: a data file whose name fits and which would show as rows if anybody followed a path to it. Its folder is compared
before and after, and the kernel says what is opened there (`support/watching.py`).
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.doctor import examine, kinds
from support.tables import make, orders, rows
from support.watching import untouched

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError, HudiError, SnapshotExpiredError, UnsafePathError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, Instant, State, time_after

SYNC = bytes(16)


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("not yours")
    return folder


def test_the_watch_sees_what_it_should(bait: Path) -> None:
    with pytest.raises(AssertionError), untouched(bait):
        (bait / "secret").read_text()
    with pytest.raises(AssertionError), untouched(bait):
        pa.memory_map(str(bait / "secret")).close()


def _table(location: str, bait: Path) -> hudi.HudiTable:
    """A table with one row, and a copy of its file as bait."""
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    path = Path(location, commit.stats.files[0].path)
    shutil.copy(path, bait / path.name)
    (bait / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")
    return table


def _everything(table: hudi.HudiTable) -> list[HudiError]:
    """Every verb once; the errors that they end with."""
    errors: list[HudiError] = []
    for call in (
        lambda: rows(hudi.open_table(table.location), "id", "price"),
        lambda: table.incremental(after="0").to_arrow(),
        lambda: hudi.open_table(table.location, {"fsync": "false"}).upsert(orders((1, "a", 2.0))),
        lambda: table.upsert(orders((99, "zzz", 1.0))) and table.delete_partitions(["day=zzz"]),
        lambda: rows(hudi.open_table(table.location), "id", "price"),
    ):
        try:
            call()
        except HudiError as error:
            errors.append(error)
    return errors


def _right_or_refused(location: str, *expected: list[tuple[int, float]]) -> None:
    """The bait's rows never show, and the table's own are never gone without an error."""
    try:
        found = rows(hudi.open_table(location), "id", "price")
    except (
        UnsafePathError,
        SnapshotExpiredError,
        CorruptionError,
    ):  # the others where the name is harmless and the file is not there
        return
    assert found in expected


HOSTILE = ["{bait}/{name}", "../outside/{name}", "day=a/../../outside/{name}", "file:{bait}/{name}", "file://{bait}/{name}", "s3://other-bucket/{name}",
           "C:\\\\outside\\\\{name}", "day=a\\..\\..\\outside\\{name}", "/etc/passwd", "day=a//{name}", "./{name}", "day=a/\0{name}", "%2e%2e/outside/{name}",
           "day=a/.%2E/%2e./outside/{name}", "%2e%2e%2foutside%2f{name}"]  # fmt: skip


def _put(table: hudi.HudiTable, instant: Instant, body: bytes) -> None:
    Path(table.location, ".hoodie/timeline", instant.file_name()).write_bytes(body)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("field", ["path", "partition", "replaced"])
def test_a_commit_that_names_files_elsewhere_is_not_followed(
    location: str, bait: Path, pattern: str, field: str
) -> None:
    table = _table(location, bait)
    first = table.timeline[0]
    metadata = table.commit_metadata(first)
    [stat] = metadata.stats
    path = pattern.format(bait=bait, name=Path(stat.path).name)
    begin = time_after(first.completion_time or "")
    done = Instant(
        begin, Action.REPLACECOMMIT if field == "replaced" else Action.COMMIT, State.COMPLETED, time_after(begin)
    )
    if field == "replaced":
        commit = replace(metadata, stats=(), replaced={path: (stat.file_id,)})
    else:
        named = (
            replace(stat, path=path) if field == "path" else replace(stat, partition=path.rpartition("/")[0], path=path)
        )
        commit = replace(metadata, stats=(named,))
    _put(table, done, encode_record(commit.record_name(done.action), commit.to_avro(done.action), sync_marker=SYNC))
    with untouched(bait):
        report = examine(location)
        assert "unsafe_path" in kinds(report)
        _right_or_refused(location, [(1, 1.0)])
        errors = _everything(table)
        _right_or_refused(location, [(1, 1.0)], [(1, 2.0)])
    assert all(error.hint or isinstance(error, UnsafePathError) for error in errors)


def _dead_write(table: hudi.HudiTable) -> str:
    """A pending write whose writer is known to be gone."""
    time = time_after(table.timeline[-1].completion_time or "")
    for state in (State.REQUESTED, State.INFLIGHT):
        _put(table, Instant(time, Action.COMMIT, state), b"")
    beat = Path(table.location, ".hoodie/.heartbeat", time)
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    os.utime(beat, (1, 1))
    return time


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pattern", HOSTILE)
def test_markers_that_name_files_elsewhere_delete_nothing_there(location: str, bait: Path, pattern: str) -> None:
    table = _table(location, bait)
    time = _dead_write(table)
    victim = bait / f"f_0-1-2_{time}.parquet"
    victim.write_bytes(b"PAR1")
    folder = Path(location, ".hoodie/.temp", time)
    folder.mkdir(parents=True)
    folder.joinpath("MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    folder.joinpath("MARKERS0").write_text(f"{pattern.format(bait=bait, name=victim.name)}.marker.CREATE\n")
    with untouched(bait):
        assert "unsafe_path" in kinds(examine(location))
        assert _everything(table) == []
    assert rows(hudi.open_table(location), "id", "price") == [(1, 2.0)]
    assert not any(instant.requested_time == time for instant in table.timeline.pending), (
        "the dead write was rolled back"
    )


@pytest.mark.one_in(5)
@pytest.mark.parametrize("target", ["{time}", "../../outside/secret", ""])
@pytest.mark.parametrize("pattern", HOSTILE[:4])
def test_a_rollback_plan_of_a_dead_process_deletes_nothing_elsewhere(
    location: str, bait: Path, pattern: str, target: str
) -> None:
    table = _table(location, bait)
    time = _dead_write(table)
    rollback = time_after(time)
    path = pattern.format(bait=bait, name="secret")
    request = {
        "partitionPath": path.rpartition("/")[0],
        "fileId": "",
        "latestBaseInstant": "",
        "filesToBeDeleted": [path],
    }
    info = {"commitTime": target.format(time=time, bait=bait), "action": "commit"}
    plan = encode_record(
        "HoodieRollbackPlan", {"instantToRollback": info, "RollbackRequests": [request]}, sync_marker=SYNC
    )
    _put(table, Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan)
    _put(table, Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")
    beat = Path(location, ".hoodie/.heartbeat", rollback)
    beat.touch()
    os.utime(beat, (1, 1))
    with untouched(bait):
        report = examine(location)
        assert "unsafe_path" in kinds(report) or report.of("plan_names_other_place")
        errors = _everything(table)
    assert all(error.hint for error in errors)
    assert rows(hudi.open_table(location), "id", "price") in ([(1, 1.0)], [(1, 2.0)])
    assert not examine(location).of("examination_failed")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pattern", HOSTILE[:4])
@pytest.mark.parametrize("record", ["clean", "clustering"])
def test_plans_of_services_that_name_files_elsewhere_are_not_followed(
    location: str, bait: Path, pattern: str, record: str
) -> None:
    table = _table(location, bait)
    time = time_after(table.timeline[-1].completion_time or "")
    path = pattern.format(bait=bait, name="f_0-1-2_20260101000000000.parquet")
    if record == "clean":
        plan = {
            "policy": "KEEP_LATEST_COMMITS",
            "filePathsToBeDeletedPerPartition": {path: [{"filePath": path}]},
            "partitionsToBeDeleted": [path],
        }
        body = encode_record("HoodieCleanerPlan", plan, sync_marker=SYNC)
    else:
        piece = {"dataFilePath": path, "fileId": "f", "partitionPath": path.rpartition("/")[0]}
        plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [piece]}]}}
        body = encode_record("HoodieRequestedReplaceMetadata", plan, sync_marker=SYNC)
    _put(table, Instant(time, Action(record), State.REQUESTED), body)
    with untouched(bait):
        report = examine(location)
        assert "unsafe_path" in kinds(report) or report.of("plan_names_other_place")
        assert _everything(table) == []
    assert rows(hudi.open_table(location), "id", "price") == [(1, 2.0)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("field", ["path", "staged", "inflight"])
@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_commit_record_that_names_files_elsewhere_creates_nothing_there(
    location: str, bait: Path, pattern: str, field: str
) -> None:
    table = _table(location, bait)
    record = max(Path(location, ".hoodie/.aux/.pyhudi").glob("commit_record.*"))
    body = json.loads(record.read_bytes())
    path = pattern.format(bait=bait, name="made")
    publication = body["intent"]["publications"][0]
    staged = Path(location, publication["staged"])
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"whatever")
    if field == "inflight":
        body["intent"]["inflight"] = path
        publication["path"] = ".hoodie/timeline/20200101000000000_20200101000000001.commit"
    else:
        publication[field] = path
        publication["path"] = path if field == "path" else ".hoodie/timeline/20200101000000000_20200101000000001.commit"
    record.write_text(json.dumps(body))
    with untouched(bait):
        assert "commit_record_unsafe" in kinds(examine(location))
        errors = _everything(table)
        assert all(error.hint for error in errors)
        assert rows(hudi.open_table(location), "id", "price") in ([(1, 1.0)], [(1, 2.0)])


# --- symbolic links, which only disks have


@pytest.mark.parametrize("where", ["partition", "file", "timeline", "hoodie", "inside"])
def test_symbolic_links_out_of_the_table_are_not_followed(location: str, bait: Path, where: str) -> None:
    table = _table(location, bait)
    root = Path(location)
    copied = next(bait.glob("*.parquet"))
    if where == "partition":
        (root / "day=b").symlink_to(bait)
    elif where == "file":
        (root / "day=a" / copied.name.replace("_", "x_", 1)).symlink_to(copied)
    elif where == "inside":
        (root / "day=b").symlink_to(root / "day=a")
    elif where == "timeline":
        shutil.move(root / ".hoodie/timeline", bait / "timeline")
        (root / ".hoodie/timeline").symlink_to(bait / "timeline")
    else:
        shutil.move(root / ".hoodie", bait / "hoodie")
        (root / ".hoodie").symlink_to(bait / "hoodie")
    with untouched(bait):
        report = examine(location)
        assert not report.ok
        assert "unsafe_path" in kinds(report), report
        errors = _everything(table)
    assert errors
    assert all(isinstance(error, UnsafePathError) for error in errors), errors


def test_a_symbolic_link_as_marker_folder_deletes_nothing_there(location: str, bait: Path) -> None:
    table = _table(location, bait)
    time = _dead_write(table)
    (bait / "day=a").mkdir()
    (bait / f"day=a/f_0-1-2_{time}.parquet.marker.CREATE").touch()
    Path(location, ".hoodie/.temp").mkdir(exist_ok=True)
    Path(location, ".hoodie/.temp", time).symlink_to(bait)
    with untouched(bait):
        assert "unsafe_path" in kinds(examine(location))
        errors = _everything(table)
    assert all(isinstance(error, UnsafePathError) for error in errors)
