"""Many rows of a stream go through files of the table's storage. The result is that of rows in memory, and no file stays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents, files
from support.homes import StandingClock, home_at, runtime_with
from support.memory_growth import growth, needs_pss
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.engine import spilled
from pyhudi_core.errors import DuplicateKeyError, SchemaMismatchError, StorageError, UnsupportedTableError
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction import layout, waiting_rows
from pyhudi_core.write import streams

pytestmark = pytest.mark.row("D8")


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All streams have many rows; the list gets the number of files that each of them went into."""
    used: list[int] = []
    stage = streams._staged

    def noted(*arguments: Any) -> Any:
        found = stage(*arguments)
        used.append(len(found.parts))
        return found

    for module, name in ((streams, "IN_MEMORY"), (streams, "_PART_BYTES"), (spilled, "_IN_MEMORY")):
        monkeypatch.setattr(module, name, 500)
    monkeypatch.setattr(streams, "_staged", noted)
    return used


def stream(table: pa.Table, error: Exception | None = None) -> pa.RecordBatchReader:
    """The rows, ten at a time, and then an error if there is one."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=10)
        if error is not None:
            raise error

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def history(location: str, given: Any, **how: Any) -> list[Any]:
    table = make(location, **how)
    table.insert(given(orders(*((key, "abc"[key % 3], float(key), 1) for key in range(100)))))
    table.upsert(given(orders(*((key, "abc"[key % 3], -1.0, key % 3) for key in range(50, 150)))))
    table.upsert(given(orders(*((key % 40, "abc"[key % 40 % 3], float(key), 5) for key in range(200)))))
    table.delete(given(pa.table({"id": range(20, 90), "day": ["abc"[key % 3] for key in range(20, 90)]})))
    table.insert_overwrite(given(orders(*((key, "b", 7.0, 1) for key in range(500, 560)))))
    assert table.check().ok
    return rows(table, "id", "day", "price", "ts")


@pytest.mark.parametrize("how", [{}, {"ordering": "ts"}, {"ordering": "ts", "table_type": "MERGE_ON_READ"}])
def test_a_stream_of_many_rows_gives_the_table_that_its_rows_give(
    tmp_path: Path, staged: list[int], how: dict[str, Any]
) -> None:
    found = history(str(tmp_path / "streams"), stream, **how)
    assert len(staged) == 5
    assert min(staged) > 1
    assert found == history(str(tmp_path / "tables"), lambda table: table, **how)
    assert len(staged) == 5
    assert not [path for path in files(tmp_path) if path.endswith(".arrow")]


def test_few_rows_of_a_stream_need_no_file(location: str, staged: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "IN_MEMORY", 64 << 20)
    table = make(location)
    table.upsert(stream(orders((1, "a", 1.0), (2, "b", 2.0))))
    assert not table.upsert(stream(orders()))
    assert rows(table, "id") == [(1,), (2,)]
    assert staged == []


def test_a_stream_that_ends_with_an_error_leaves_no_file(location: str, staged: list[int]) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = _files(location)
    many = orders(*((key, "a", 2.0) for key in range(100)))
    with pytest.raises(SchemaMismatchError, match="a column is broken"):
        table.upsert(stream(many, pa.ArrowInvalid("a column is broken")))
    with pytest.raises(KeyError, match="the source is gone"):
        table.upsert(stream(many, KeyError("the source is gone")))
    assert _files(location) == before
    assert staged == []


def _files(location: str) -> dict[str, bytes]:
    return {path: data for path, data in contents(location).items() if data is not None}


def test_wrong_rows_of_a_stream_are_refused_and_their_files_removed(location: str, staged: list[int]) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(DuplicateKeyError):
        table.insert(stream(orders(*((key, "a", 2.0) for key in range(100)))))
    assert len(staged) == 1
    assert rows(table, "id", "price") == [(1, 1.0)]
    assert files(location, "*.arrow") == []


def test_wrong_columns_are_refused_before_a_row_is_read(location: str, staged: list[int]) -> None:
    table = make(location)
    given = stream(pa.table({"id": range(100), "day": ["a"] * 100, "cost": [1.0] * 100}))
    with pytest.raises(SchemaMismatchError, match="price"):
        table.upsert(given)
    assert given.read_all().num_rows == 100


def test_a_write_in_steps_takes_a_stream_through_files_too(location: str, staged: list[int]) -> None:
    table = make(location)
    many = orders(*((key, "a", 2.0) for key in range(100)))
    with table.begin("upsert") as write:
        write.write(stream(many))
        assert write.staged().to_arrow().num_rows == 100
        assert files(location, "*.arrow")
    with table.begin("upsert") as write:
        write.write(stream(many)).commit()
    assert len(staged) == 2
    assert len(rows(table, "id")) == 100
    assert files(location, "*.arrow") == []


def test_a_commit_stands_although_its_rows_cannot_be_removed(
    location: str, staged: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise StorageError("the storage is gone")

    table = make(location)
    with monkeypatch.context() as patch:
        patch.setattr(type(open_storage(location)), "remove_empty_folders", fails)
        assert table.upsert(stream(orders(*((key, "a", 2.0) for key in range(100)))))
    assert "a sweep will" in caplog.text
    assert len(rows(table, "id")) == 100


def killed(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A stream of which only the rows are left, as if its process was killed; the folder, relative to the table, and its owner file."""
    with monkeypatch.context() as patch:
        patch.setattr(waiting_rows, "remove", lambda *_: None)
        table.upsert(stream(orders(*((key, "a", 2.0) for key in range(100)))))
    [owner] = Path(table.location, layout.ROWS).glob("*/owner")
    return str(owner.parent.relative_to(table.location)), owner


def test_rows_that_a_killed_write_left_are_named_and_swept(
    location: str, staged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no erasure is proved beside them."""
    table = make(location)
    folder, owner = killed(table, monkeypatch)
    [finding] = [finding for finding in table.check().findings if finding.where == folder]
    assert "bytes of rows of a write" in finding.what
    proof = table.erasure.verify(pa.table({"id": [777], "day": ["a"]}))
    assert not proof
    assert folder in proof.unread[0]
    now = reopen(table, pyhudi__sweep__min__age__minutes=0)
    assert "writers with a heartbeat" in now.sweep.plan().why_not, "its owner seems to live"
    os.utime(owner, (1, 1))
    assert not table.sweep.plan(), "its rows are young"
    assert now.sweep.run().staged > 1
    assert not Path(location, folder).exists()


def test_the_next_stream_removes_the_rows_of_a_dead_one(
    location: str, staged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    folder, owner = killed(table, monkeypatch)
    many = stream(orders(*((key, "a", 3.0) for key in range(100))))
    table.upsert(many)
    assert Path(location, folder).exists()
    os.utime(owner, (1, 1))
    table.upsert(stream(orders(*((key, "a", 4.0) for key in range(100)))))
    assert not Path(location, folder).exists()
    assert files(location, "*.arrow") == []


def test_a_living_stream_is_left_alone_by_a_machine_whose_clock_is_wrong(
    location: str, staged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage dates the heartbeat, so the storage's clock says whether it is old."""
    folder, _ = killed(make(location), monkeypatch)
    tomorrow = StandingClock(int(time.time() * 1000) + 48 * 3_600_000)
    runtime = runtime_with(clock=tomorrow, process=Stranger())
    ahead = HudiTable(home_at(location, runtime, {"pyhudi.sweep.min.age.minutes": 0}))
    ahead.upsert(stream(orders(*((key, "a", 3.0) for key in range(100)))))
    assert ahead.sweep.plan().rows, "by its own clock, the owner is dead"
    ahead.sweep.run()
    assert Path(location, folder, "owner").exists()
    assert Path(location, folder, "rows-0.arrow").exists()


class Stranger:
    """A process of another machine, which knows of no other process whether it lives."""

    def identity(self) -> str:
        return "a stranger"

    def is_gone(self, identity: str) -> bool:
        return False


def test_no_row_is_read_for_a_table_that_is_only_read(location: str, staged: list[int]) -> None:
    make(location)
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text() + "hoodie.table.format=iceberg\n")
    given = stream(orders(*((key, "a", 2.0) for key in range(100))))
    with pytest.raises(UnsupportedTableError):
        hudi.open_table(location).upsert(given)
    assert given.read_all().num_rows == 100


def test_a_stream_is_written_again_after_a_conflict(location: str, staged: list[int]) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    lost: list[str] = []

    def rival(candidate: Any) -> None:
        if not lost:
            lost.append(hudi.open_table(location).upsert(orders((1, "a", 5.0), (2, "a", 5.0))).instant or "")

    commit = table.upsert(stream(orders(*((key, "a", 9.0) for key in range(2, 100)))), pre_commit=[rival])
    assert commit.retries == 1
    assert rows(table, "id", "price") == [(1, 5.0), *((key, 9.0) for key in range(2, 100))]
    assert len(staged) == 1


_WORK = """
import numpy as np

def work(location, count):
    texts = pa.array([f"{number:03}" * 30 for number in range(199)])

    def batches():
        for start in range(0, count, 20_000):
            ids = np.arange(start, min(start + 20_000, count))
            yield pa.RecordBatch.from_arrays([pa.array(ids), texts.take(pa.array(ids % 199))], names=["id", "text"])

    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = hudi.create_table(location, schema, "id", storage_options={"fsync": "false"}, options={
        "hoodie.parquet.max.file.size": str(8 << 20), "pyhudi.parquet.row.group.rows": "20000"})
    table.bulk_insert(pa.RecordBatchReader.from_batches(schema, batches()))
    return {"bytes": count * 102}
"""


@pytest.mark.slow
@needs_pss
@pytest.mark.timeout(900)
def test_a_stream_needs_a_part_of_the_memory_of_its_rows(tmp_path: Path) -> None:
    answer = growth(_WORK, [str(tmp_path / "small"), 20_000], [str(tmp_path / "large"), 6_000_000])
    print(f"stream of {answer['bytes'] / 1e6:.0f} MB: grown by {answer['grown'] / 1e6:.0f} MB")
    assert answer["grown"] < answer["bytes"] / 2
