"""What archived instants cost: the same calls and bytes, however many there are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.archival import FAST, MANUAL, filled
from support.homes import context_of, home_at
from support.tables import orders, rows
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.formats.history_file import HistoryFileReader, HistoryRow
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction.publication import create_once


class Metered(WrappedStorage):
    """A storage that counts calls and bytes read, and tells apart the calls that others had to wait for."""

    def __init__(self, location: str) -> None:
        self._storage = LocalStorage(location, fsync=False)
        self._lock = Path(location, ".hoodie", "lock")
        self.calls: list[tuple[str, str]] = []
        self.under_lock: list[tuple[str, str]] = []
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("get", "head", "list", "list_folder", "list_names", "open_input"):
            return real

        def call(path: str, *rest: Any) -> Any:
            self.calls.append((name, path))
            if self._lock.exists():
                self.under_lock.append((name, path))
            found = real(path, *rest)
            if name == "get":
                self.bytes += len(found)
            elif name == "open_input":
                self.bytes += found.size()
            return found

        return call


def archived_table(location: str, archived: int) -> hudi.HudiTable:
    """A table with so many archived commits of long ago, in files as archival and its merges leave them."""
    table, _ = filled(location, 3)
    context = context_of(table)
    metadata = next(Path(location, ".hoodie/timeline").glob("*_*.commit")).read_bytes()
    writer = HistoryWriter(context.folder.history, create_once, context.runtime.ids.uuid)
    state = context.folder.history.state()
    listed, begun = [], 0
    while begun < archived:
        layer = min(4, len(str(archived - begun)) - 1)
        many = min(10**layer, archived - begun)
        rows_ = [
            HistoryRow(str(20200101000000000 + n), str(20200101000000001 + n), "commit", metadata)
            for n in range(begun, begun + many)
        ]
        listed.append(writer.add(rows_, state, max(0, layer - 1)))
        begun += many
    assert writer.decide(state, listed)
    return table


def metered(location: str, options: dict[str, Any] = FAST) -> tuple[hudi.HudiTable, Metered]:
    """The table as a new process opens it, on a storage that counts."""
    meter = Metered(location)
    return HudiTable(home_at(meter, options=options)), meter  # type: ignore[arg-type]


def cost_of(location: str, archived: int, do: Callable[[hudi.HudiTable], object]) -> tuple[list[str], int]:
    archived_table(location, archived)
    table, meter = metered(location)
    do(table)
    assert any("/.hoodie/timeline" in f"/{path}" for _, path in meter.calls)
    return [verb for verb, _ in meter.calls], meter.bytes


@pytest.mark.alone
@pytest.mark.row("B9")
def test_opening_and_reading_cost_the_same_with_100_and_100_000_archived_instants(tmp_path: Path) -> None:
    few = cost_of(str(tmp_path / "few"), 100, rows)
    many = cost_of(str(tmp_path / "many"), 100_000, rows)
    assert many[0] == few[0]
    assert abs(many[1] - few[1]) < 1_000
    seconds = [min(_seconds_to_read(str(tmp_path / name)) for _ in range(3)) for name in ("few", "many")]
    assert seconds[1] < 3 * seconds[0] + 0.5


def _seconds_to_read(location: str) -> float:
    began = time.perf_counter()
    rows(hudi.open_table(location))
    return time.perf_counter() - began


def test_a_write_reads_no_data_file_of_the_history(tmp_path: Path) -> None:
    write = lambda table: table.upsert(orders((500, "a", 1.0)))  # noqa: E731
    few = cost_of(str(tmp_path / "few"), 100, write)
    many = cost_of(str(tmp_path / "many"), 100_000, write)
    assert len(many[0]) == len(few[0])
    assert many[1] - few[1] < 20_000, "the manifest alone"


def test_no_data_folder_is_listed_while_others_wait_for_the_lock(location: str) -> None:
    table, _ = filled(location, 2)
    replacing = table.insert_overwrite(orders((1, "a", 2.0)))
    for n in range(4):
        table.upsert(orders((10 + n, "b", 1.0)))
    [instant] = [i for i in table.timeline.completed if i.action is Action.REPLACECOMMIT]
    gone = {file for ids in context_of(table).folder.read_commit(instant).replaced.values() for file in ids}
    for path in Path(location).glob("day=*/*.parquet"):
        if path.name[:38].startswith(tuple(gone)):
            path.unlink()
    archiving, meter = metered(location, MANUAL)
    archived = archiving.archival.run()
    assert replacing.instant in {instant.requested_time for instant in archived.instants}
    assert ("list_folder", "day=a") in meter.calls, "what was replaced is looked for"
    assert meter.under_lock, "archival works under the lock"
    assert [call for call in meter.under_lock if not call[1].startswith(".hoodie")] == []


def test_incremental_over_an_old_range_reads_commits_only_of_the_files_that_overlap(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of later files only the times are read: whether a clean has been archived since."""
    table = archived_table(location, 2_345)
    history = context_of(table).folder.history
    files = history.state().files
    assert len(files) > 8
    read: set[str] = set()
    real = HistoryFileReader.rows

    def rows_of(self: HistoryFileReader, requested_times: Any = None) -> Any:
        read.add(self._path.rpartition("/")[2])
        return real(self, requested_times)

    monkeypatch.setattr(HistoryFileReader, "rows", rows_of)
    fresh, meter = metered(location)
    rows(fresh.incremental(after="20200101000001100", until="20200101000001200"))
    opened = {path.rpartition("/")[2] for verb, path in meter.calls if verb == "open_input" and "/history/" in path}
    overlapping = {file.name for file in files if file.may_hold("20200101000001100", "20200101000001200")}
    assert read == overlapping
    assert len(read) <= 2
    assert opened == overlapping | {file.name for file in files if file.last > "20200101000001200"}


def test_the_manifest_tells_completion_times_and_hudi_may_drop_them(location: str) -> None:
    table = archived_table(location, 345)
    history = context_of(table).folder.history
    number = history.state().number
    path = Path(location, f".hoodie/timeline/history/manifest_{number}")
    body = json.loads(path.read_bytes())
    asked = ("20200101000000100", "20200101000000110")
    told = history.completed_between(*asked)
    del body["pyhudi"]
    path.write_text(json.dumps(body))
    again = context_of(hudi.open_table(location)).folder.history
    assert all(file.completed is None for file in again.state().files)
    assert again.completed_between(*asked) == told
    assert len(told) == 10
