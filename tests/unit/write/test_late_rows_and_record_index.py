"""The record index of a merge-on-read table has a key if, and only if, readers see a row of it: also after late rows on deleted keys.

A compaction removes the delete. So a late row whose log belongs to the slice after the compaction must not be there at all.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true, assert_secondary_indexes, metadata_of
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.merge.log_scan import LogScan

INDEXES: dict[str, dict[str, Any]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2},
}
OPTIONS = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.enable": True,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
}


def made(index: str, schema: pa.Schema | None = None, **options: Any) -> hudi.HudiTable:
    """A table with event-time ordering and a record index, without rows."""
    return create_plain(
        f"memory://late_rows/{uuid4()}",
        schema or orders().schema,
        "id",
        "day",
        table_type="MERGE_ON_READ",
        ordering="ts",
        options=OPTIONS | INDEXES[index] | options,
    )


def deleted_key(index: str, **options: Any) -> hudi.HudiTable:
    """The same, with two rows (ts 5), of which row 1 was deleted by a log."""
    table = made(index, **options)
    table.insert(orders((1, "a", 1.0, 5), (2, "a", 2.0, 5)))
    table.delete(orders((1, "a")).select(["id", "day"]))
    assert_metadata_is_true(table)
    return table


def unnamed(table: hudi.HudiTable) -> hudi.HudiTable:
    """The table for a writer that names no index, so the record index finds keys; buckets are found by their names."""
    return hudi.open_table(table.location, options={"hoodie.bucket.index.num.buckets": 2})


@pytest.mark.row("I5", "K2", "M1")
@pytest.mark.parametrize(("index", "verb"), [("SIMPLE", "upsert"), ("SIMPLE", "insert"), ("BUCKET", "upsert")])
def test_a_late_row_on_a_deleted_key_leaves_no_key_in_the_record_index(index: str, verb: str) -> None:
    table = deleted_key(index)
    getattr(table, verb)(orders((1, "a", 0.0, 4)))
    assert rows(table, "id") == [(2,)]
    assert_metadata_is_true(table)
    table.insert_overwrite(orders((3, "a", 3.0, 1)))
    assert_metadata_is_true(table)
    unnamed(table).upsert(orders((1, "b", 9.0, 9)))
    assert rows(table, "id", "day") == [(1, "b"), (3, "a")]


@pytest.mark.row("I5", "K2", "M1")
@pytest.mark.parametrize(("index", "verb"), [("SIMPLE", "upsert"), ("BUCKET", "insert")])
def test_a_newer_row_on_a_deleted_key_is_in_the_record_index_again(index: str, verb: str) -> None:
    table = deleted_key(index)
    getattr(table, verb)(orders((1, "a", 7.0, 6)))
    assert rows(table, "id", "price") == [(1, 7.0), (2, 2.0)]
    assert_metadata_is_true(table)
    with pytest.raises(DuplicateKeyError):
        unnamed(table).upsert(orders((1, "b", 8.0, 8)))
    table.upsert(orders((1, "a", 0.0, 1), (2, "a", 9.0, 9)))
    assert rows(table, "id", "price") == [(1, 7.0), (2, 9.0)]
    assert_metadata_is_true(table)


# --- beside a compaction, which removes the delete


def assert_compaction_shows_nothing_of_key_1(table: hudi.HudiTable, index: str) -> None:
    """The pending compaction changes no row, the record index stays true, and the key is unique afterwards."""
    expected = rows(table, "id", "price")
    table.compaction.execute()
    assert rows(table, "id", "price") == expected
    assert_metadata_is_true(table)
    assert not hudi.open_table(table.location).scan(where="id = 1").to_arrow().num_rows
    unnamed(table).upsert(orders((1, "b", 9.0, 9)))
    assert rows(table, "id", "day") == [(1, "b"), *((key, "a") for key, _ in expected)]
    assert_metadata_is_true(table)


@pytest.mark.row("I5", "K6", "L4")
@pytest.mark.parametrize(("index", "verb"), [("SIMPLE", "upsert"), ("SIMPLE", "insert"), ("BUCKET", "upsert")])
def test_a_late_row_beside_a_planned_compaction_does_not_come_back(index: str, verb: str) -> None:
    table = deleted_key(index)
    table.compaction.schedule()
    getattr(table, verb)(orders((1, "a", 99.0, 4), (3, "a", 3.0, 4)))
    assert rows(table, "id") == [(2,), (3,)]
    assert_compaction_shows_nothing_of_key_1(table, index)


@pytest.mark.row("I5", "K6", "L4")
@pytest.mark.parametrize("index", INDEXES)
def test_a_late_row_that_was_written_before_a_compaction_was_planned_and_committed_after_it_does_not_come_back(
    index: str,
) -> None:
    table = deleted_key(index)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 99.0, 4), (2, "a", 4.0, 6)))
        hudi.open_table(table.location).compaction.schedule()
        write.commit()
    assert rows(table, "id", "price") == [(2, 4.0)]
    assert_compaction_shows_nothing_of_key_1(table, index)


@pytest.mark.row("I5", "K6")
@pytest.mark.parametrize("index", INDEXES)
def test_a_row_with_the_time_of_its_delete_comes_back_and_stays_beside_a_planned_compaction(index: str) -> None:
    table = deleted_key(index)
    table.compaction.schedule()
    table.upsert(orders((1, "a", 7.0, 5)))
    for _ in range(2):
        assert rows(table, "id", "price") == [(1, 7.0), (2, 2.0)]
        assert_metadata_is_true(table)
        table.compaction.execute()


@pytest.mark.row("I7", "K6")
@pytest.mark.parametrize("index", INDEXES)
def test_a_late_row_beside_a_planned_compaction_leaves_a_secondary_index_true(index: str) -> None:
    schema = orders().schema.append(pa.field("city", pa.string()))

    def cities(*found: tuple[int, str, float, int, str]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema)

    table = made(index, schema)
    table.insert(cities((1, "a", 1.0, 5, "Rome"), (2, "a", 2.0, 5, "Oslo")))
    table.indexes.create("by_city", ["city"])
    table.delete(orders((1, "a")).select(["id", "day"]))
    table.compaction.schedule()
    table.upsert(cities((1, "a", 9.0, 4, "Bern")))
    table.compaction.execute()
    assert rows(table, "id", "city") == [(2, "Oslo")]
    assert_metadata_is_true(table)
    assert_secondary_indexes(table, metadata_of(table))


@pytest.mark.row("K6")
@pytest.mark.parametrize("index", INDEXES)
def test_a_table_without_a_record_index_keeps_late_rows_out_beside_a_planned_compaction(index: str) -> None:
    table = deleted_key(index, **{"hoodie.metadata.record.index.enable": False})
    table.compaction.schedule()
    table.upsert(orders((1, "a", 99.0, 4), (2, "a", 4.0, 6)))
    for _ in range(2):
        assert rows(table, "id", "price") == [(2, 4.0)]
        table.compaction.execute()


@pytest.mark.row("K6")
def test_a_late_row_that_is_left_out_is_not_counted_and_alone_makes_no_commit() -> None:
    table = deleted_key("SIMPLE")
    mixed = table.upsert(orders((1, "a", 0.0, 4), (2, "a", 4.0, 6)))
    assert (mixed.stats.rows_updated, mixed.stats.rows_written) == (1, 1)
    before = len(table.timeline.commits)
    assert not table.upsert(orders((1, "a", 0.0, 4)))
    assert len(table.timeline.commits) == before


# --- what it costs


@pytest.fixture
def read_logs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logs of the table's rows whose entries were read."""
    found: list[str] = []
    real = LogScan.entries

    def watched(scan: LogScan, *arguments: Any, **named: Any) -> Any:
        found.extend(log.path for log in scan.logs if log.partition == "day=a")
        return real(scan, *arguments, **named)

    monkeypatch.setattr(LogScan, "entries", watched)
    return found


@pytest.mark.row("K6")
@pytest.mark.parametrize(
    ("record_index", "deletes", "planned", "reads"),
    [
        (False, True, False, False),
        (False, False, True, False),
        (True, False, True, False),
        (False, True, True, True),
        (True, True, False, True),
    ],
)
def test_an_upsert_reads_logs_only_if_they_have_deletes_and_an_index_or_a_planned_compaction_needs_it(
    record_index: bool, deletes: bool, planned: bool, reads: bool, read_logs: list[str]
) -> None:
    table = made("BUCKET", **{"hoodie.metadata.record.index.enable": record_index})
    table.insert(orders((1, "a", 1.0, 5), (2, "a", 2.0, 5)))
    table.upsert(orders((1, "a", 2.0, 6), (2, "a", 3.0, 6)))
    if deletes:
        table.delete(orders((1, "a"), (2, "a")).select(["id", "day"]))
    if planned:
        table.compaction.schedule()
    read_logs.clear()
    table.upsert(orders((1, "a", 3.0, 7)))
    assert bool(read_logs) is reads
