"""What archived instants cost: the same calls and bytes, however many there are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.archival import FAST, filled
from support.homes import context_of, home_at
from support.tables import orders, rows

import pyhudi_core as hudi
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction.publication import create_once


class Metered:
    """A storage that counts calls and bytes read."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.calls: list[tuple[str, str]] = []
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("get", "head", "list", "list_folder", "open_input"):
            return real

        def call(path: str, *rest: Any) -> Any:
            self.calls.append((name, path))
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


def metered(location: str) -> tuple[hudi.HudiTable, Metered]:
    """The table as a new process opens it, on a storage that counts."""
    meter = Metered(LocalStorage(location, fsync=False))
    return HudiTable(home_at(meter, options=FAST)), meter  # type: ignore[arg-type]


def cost_of(location: str, archived: int, do: Callable[[hudi.HudiTable], object]) -> tuple[list[str], int]:
    archived_table(location, archived)
    table, meter = metered(location)
    do(table)
    assert any("/.hoodie/timeline" in f"/{path}" for _, path in meter.calls)
    return [verb for verb, _ in meter.calls], meter.bytes


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


def test_incremental_over_an_old_range_reads_only_the_files_that_overlap(location: str) -> None:
    table = archived_table(location, 2_345)
    history = context_of(table).folder.history
    before = [file.name for file in history.state().files]
    assert len(before) > 8
    fresh, meter = metered(location)
    rows(fresh.incremental(after="20200101000001100", until="20200101000001200"))
    opened = {path.rpartition("/")[2] for verb, path in meter.calls if verb == "open_input" and "/history/" in path}
    overlapping = {
        file.name for file in history.state().files if file.may_hold("20200101000001100", "20200101000001200")
    }
    assert opened == overlapping
    assert len(opened) <= 2


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
