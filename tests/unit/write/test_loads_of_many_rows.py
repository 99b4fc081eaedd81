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
from pyhudi_core.storage import LocalStorage


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
    assert many == ["placed", "placed", "scattered", "scattered", "placed"]
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


@pytest.mark.parametrize(
    "keys", [[*range(60)], [*range(60)][::-1], [*range(60), 7, 8]], ids=["ordered", "other order", "repeated"]
)
def test_a_first_upsert_sorts_its_rows_only_if_a_key_may_occur_twice(
    tmp_path: Path, many: list[str], keys: list[int]
) -> None:
    table = make(str(tmp_path / "t"), ordering="ts")
    commit = table.upsert(orders(*((key, "ab"[key % 2], float(place), place) for place, key in enumerate(keys))))
    newest = {key: float(place) for place, key in enumerate(keys)}
    assert rows(table, "id", "price") == sorted(newest.items())
    assert commit.stats.rows_combined == len(keys) - len(newest)
    assert many == ["scattered" if len(newest) < len(keys) else "placed"]


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_rows_with_generated_keys_go_straight_to_their_files_and_each_has_its_own_key(
    tmp_path: Path, many: list[str], partition_by: tuple[str, ...]
) -> None:
    options = {"hoodie.parquet.max.file.size": 4_000, "hoodie.copyonwrite.record.size.estimate": 1024}
    table = make(str(tmp_path / "t"), record_key=(), ordering=None, partition_by=partition_by, options=options)
    for _ in range(2):
        table.insert(orders(*((n % 9, "ab"[n % 2], float(n)) for n in range(400))))
    found = rows(table, "_hoodie_record_key", "price")
    assert len(found) == len({key for key, _ in found}) == 800
    assert sorted(price for _, price in found) == sorted([*map(float, range(400))] * 2)
    assert len(data_files(str(tmp_path / "t"))) > 2
    assert len(many) == 2


def test_many_new_files_are_announced_in_few_markers_of_hudis_timeline_server(
    tmp_path: Path, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location = str(tmp_path / "t")
    made: list[str] = []
    put = LocalStorage.put

    def noted(self: LocalStorage, path: str, data: bytes) -> Any:
        if path.startswith(".hoodie/.temp/"):
            made.append(data.decode())
        return put(self, path, data)

    monkeypatch.setattr(LocalStorage, "put", noted)
    make(location).upsert(orders(*((n, f"d{n % 20:02d}", 1.0) for n in range(60))))
    kinds, lists = [text for text in made if "\n" not in text], [text for text in made if "\n" in text]
    assert set(kinds) == {"TIMELINE_SERVER_BASED"}
    assert len(lists) <= 4, "one for each task"
    named = sorted(line for text in lists for line in text.splitlines())
    assert named == sorted(f"{path}.marker.CREATE" for path in data_files(location))
