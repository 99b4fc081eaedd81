"""An index may say that a key is in another partition than its row: the row goes where the key is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.disk import contents, data_files
from support.global_index import GlobalIndex, job, written_by
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError
from pyhudi_core.model.operation import OperationType

META = ("_hoodie_record_key", "_hoodie_partition_path")


def _made(location: str) -> hudi.HudiTable:
    """Keys 1 and 2 in partition a, 3 in b, each in its own file group."""
    table = make(location)
    for row in ((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)):
        table.bulk_insert(orders(row))
    return table


def test_a_row_tagged_in_another_partition_is_updated_there(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(location)
    index = GlobalIndex.of(table)
    index.use(monkeypatch)
    commit = table.upsert(orders((1, "b", 9.0), (3, "c", 8.0), (4, "c", 7.0)))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (2, 1)
    assert rows(table, *META, "price") == [
        ("1", "day=a", 9.0), ("2", "day=a", 2.0), ("3", "day=b", 8.0), ("4", "day=c", 7.0),
    ]  # fmt: skip
    written = {(stat.partition, stat.file_id) for stat in commit.stats.files}
    assert {index.known["1"], index.known["3"]} < written, "in the file groups that held the keys"
    assert len(written) == 3


def test_a_key_tagged_in_another_partition_is_deleted_there(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(location)
    GlobalIndex.of(table).use(monkeypatch)
    commit = table.delete(pa.table({"id": [2, 3, 77], "day": ["b", "nowhere", "a"]}))
    assert commit.stats.rows_deleted == 2
    assert rows(table, *META) == [("1", "day=a")]


def test_a_key_may_be_deleted_in_one_partition_and_inserted_in_another_by_one_write(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("day", pa.string()), ("price", pa.float64()), ("_hoodie_is_deleted", pa.bool_())]
    )
    table = make(location, schema)

    def batch(*given: tuple[int, str, float]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, (*row, False), strict=True)) for row in given], schema)

    table.insert(batch((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    index = GlobalIndex.of(table, moves=True)
    index.use(monkeypatch)
    moving = batch((1, "b", 9.0), (2, "a", 8.0))
    with job(table, OperationType.UPSERT, moving, key_changes=True) as write:
        written = written_by(write)
        assert written.key_changes is not None
        changes = written.key_changes.collect().to_pylist()
        written.release()
    assert [(c["key"], c["partition"], c["deleted"]) for c in sorted(changes, key=lambda c: c["partition"])] == [
        ("1", "day=a", True), ("1", "day=b", False),
    ]  # fmt: skip
    commit = table.upsert(moving)
    assert (commit.stats.rows_updated, commit.stats.rows_inserted, commit.stats.rows_deleted) == (1, 1, 1)
    assert rows(table, *META, "price") == [("1", "day=b", 9.0), ("2", "day=a", 8.0), ("3", "day=b", 3.0)]


def test_an_insert_is_refused_for_a_key_of_another_partition(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(location)
    GlobalIndex.of(table).use(monkeypatch)
    with pytest.raises(hudi.errors.DuplicateKeyError, match="1 rows of the batch"):
        table.insert(orders((3, "a", 5.0), (9, "a", 5.0)))
    kept = hudi.open_table(
        table.location, {"fsync": "false"}, {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    )
    kept.insert(orders((3, "a", 5.0), (9, "a", 5.0)))
    assert [key for key, _ in rows(table, *META)] == ["1", "2", "3", "9"]


def test_an_index_that_is_wrong_ends_the_write_and_changes_nothing(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _made(location)
    before, files = contents(location), data_files(location)
    GlobalIndex({"1": ("day=a", "gone-0")}).use(monkeypatch)
    with pytest.raises(CorruptionError, match="no such file group") as caught:
        table.upsert(orders((1, "b", 9.0)))
    assert caught.value.path == "day=a/gone-0"
    assert data_files(location) == files
    assert {path for path in before if path.endswith(".parquet")} == {
        path for path in contents(location) if path.endswith(".parquet")
    }
