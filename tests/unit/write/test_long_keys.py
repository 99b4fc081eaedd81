"""Keys that the record index cannot have are refused by every operation before anything is written."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from support.tables import timeline_names

import pyhudi as hudi
from pyhudi.errors import InvalidRecordKeyError

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
INDEXED = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
LIMIT = 32_767


def table(**options: object) -> hudi.HudiTable:
    return hudi.create_table(f"memory://long-keys/{uuid.uuid4()}", SCHEMA, "id", options=options)


def row(letters: int, letter: str = "x") -> pa.Table:
    return pa.table({"id": [letter * letters], "v": [1]}, SCHEMA)


@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_a_key_that_the_record_index_cannot_have_is_refused_before_anything_is_written(verb: str) -> None:
    indexed = table(**INDEXED)
    getattr(indexed, verb)(row(LIMIT))
    before = timeline_names(indexed), indexed.scan().count()
    for long in (row(LIMIT + 1), row(LIMIT // 2 + 1, "ü")):
        with pytest.raises(InvalidRecordKeyError, match="32,768 bytes") as caught:
            getattr(indexed, verb)(long)
        assert "drop the index" in str(caught.value.hint)
    assert (timeline_names(indexed), indexed.scan().count()) == before


def test_a_table_without_a_record_index_has_keys_of_any_length() -> None:
    assert table(**{"hoodie.metadata.enable": True}).upsert(row(LIMIT + 1)).changed
