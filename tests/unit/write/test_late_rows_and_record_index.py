"""The record index of a merge-on-read table has a key if, and only if, readers see a row of it: also after late rows on deleted keys."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import DuplicateKeyError

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


def deleted_key(index: str) -> hudi.HudiTable:
    """A table with event-time ordering and a record index, whose row 1 (ts 5) was deleted by a log."""
    table = create_plain(
        f"memory://late_rows/{uuid4()}",
        orders().schema,
        "id",
        "day",
        table_type="MERGE_ON_READ",
        ordering="ts",
        options=OPTIONS | INDEXES[index],
    )
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
