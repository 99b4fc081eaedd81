"""Writes of many rows in this process: they are not prepared before they are in the task that writes them. The result is that of few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.disk import contents, data_files, files
from support.tables import ORDERS, make, orders, rows

from pyhudi_core.engine import local
from pyhudi_core.engine.local_source import LocalSource
from pyhudi_core.errors import DuplicateKeyError, InvalidPartitionValueError, InvalidRecordKeyError


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every batch has many rows; the list gets how they were brought to their tasks."""
    used: list[str] = []

    def noted(name: str, bring: Any) -> Any:
        def call(self: Any, *args: Any) -> Any:
            used.append(name)
            return bring(self, *args)

        return call

    monkeypatch.setattr(local, "_MANY_ROWS", 1)
    for name in ("scattered", "placed"):
        monkeypatch.setattr(LocalSource, name, noted(name, getattr(LocalSource, name)))
    return used


def _history(location: str) -> list[Any]:
    table = make(location, ordering="ts")
    table.bulk_insert(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(40))))
    table.insert(orders(*((n, "c", 1.0, 1) for n in range(40, 60))))
    table.upsert(orders((1, "b", 2.0, 2), (2, "a", 2.0, 0), (99, "d", 2.0, 1), (99, "d", 3.0, 1)))
    table.delete(orders((3, "b", 0.0), (4, "nowhere", 0.0), (500, "a", 0.0)))
    table.insert_overwrite(orders((70, "c", 7.0, 1)))
    table.insert(orders((71, "a", 7.0, 1)))  # keys are looked up
    return rows(table, "_hoodie_record_key", "_hoodie_partition_path", "price", "ts")


def test_tables_are_the_same_as_after_writes_of_few_rows(tmp_path: Path, many: list[str]) -> None:
    found = _history(str(tmp_path / "many"))
    assert many == ["placed", "placed", "scattered", "scattered", "scattered"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_MANY_ROWS", 1000)
        assert _history(str(tmp_path / "few")) == found
    assert len(many) == 5


BAD = {
    "null key": (orders((1, "a", 1.0), (None, "b", 2.0)), InvalidRecordKeyError, "'id'"),
    "bad partition": (orders((1, "a" * 300, 1.0)), InvalidPartitionValueError, "255"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_before_anything_is_written(tmp_path: Path, many: list[str], case: str) -> None:
    batch, kind, words = BAD[case]
    location = str(tmp_path / "t")
    table = make(location)
    before = contents(location)
    with pytest.raises(kind, match=words):
        table.bulk_insert(batch)
    assert (contents(location), many) == (before, [])


def test_a_repeated_key_leaves_no_file(tmp_path: Path, many: list[str]) -> None:
    location = str(tmp_path / "t")
    table = make(location)
    twice = orders(*((n, "a", 1.0) for n in [*range(400), 0, 399]))
    for write in (table.bulk_insert, table.insert):
        with pytest.raises(DuplicateKeyError, match="2 rows of the batch repeat a record key"):
            write(twice)
    assert (data_files(location), files(f"{location}/.hoodie/.temp")) == ([], [])
    assert many == ["placed", "placed"]


def test_keys_of_several_columns_that_can_be_confused_are_counted_before_a_file_is_written(
    tmp_path: Path, many: list[str]
) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("v", pa.int64())])
    pairs = [("x,b:y", "z"), ("x", "y,b:z"), (None, "1"), ("__null__", "1"), ("", "2"), ("__empty__", "2")]
    batch = pa.table([*zip(*pairs, strict=True), range(6)], schema=schema)
    options = {"hoodie.parquet.max.file.size": 1024, "hoodie.copyonwrite.record.size.estimate": 1024}
    whole = pa.concat_tables([batch, pa.table([[f"k{n}" for n in range(50)], ["q"] * 50, range(50)], schema=schema)])
    table = make(str(tmp_path / "t"), schema, record_key=["a", "b"], partition_by=(), options=options)
    for write in (table.bulk_insert, table.upsert):
        with pytest.raises(InvalidRecordKeyError, match="4 values"):
            write(whole)
    assert (data_files(str(tmp_path / "t")), many) == ([], [])
    table.bulk_insert(whole.slice(6))
    assert (len(rows(table, "a")), len(many)) == (50, 1)


def test_values_that_share_a_partition_path_go_to_the_same_files(tmp_path: Path, many: list[str]) -> None:
    batch = pa.table({"id": ["1", "1", "2"], "p": ["", None, "x"], "q": [None, None, 5]})
    table = make(str(tmp_path / "t"), batch.schema, partition_by=["p", "q"])
    with pytest.raises(DuplicateKeyError):
        table.insert(batch)
    table.upsert(batch)
    assert len(rows(table, "id")) == 2
    assert len(data_files(str(tmp_path / "t"))) == 2
    assert len(many) == 2


def test_a_large_partition_becomes_files_of_the_target_size(tmp_path: Path, many: list[str]) -> None:
    keys = np.arange(20_000)
    batch = pa.table({"id": keys, "day": np.where(keys < 19_000, "large", "small"), "price": keys / 7, "ts": keys})
    options = {"hoodie.parquet.max.file.size": 100_000, "pyhudi.parquet.row.group.rows": 1000}
    table = make(str(tmp_path / "t"), ORDERS, options=options)
    table.bulk_insert(batch)
    assert len([piece for piece in table.snapshot().view.all_slices() if piece.partition == "day=large"]) >= 4
    assert rows(table, "id", "price") == [(int(key), key / 7) for key in keys]
    assert len(many) == 1
