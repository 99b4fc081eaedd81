"""The sixth meta column, `_hoodie_operation`: where Hudi has it, and null, as Hudi's Spark writers leave it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.tables import make, orders, reopen, rows

from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION

KEY = "hoodie.allow.operation.metadata.field"
SIX = [*META_FIELDS, OPERATION]


@pytest.mark.one_in(3)
@pytest.mark.row("E9")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("block", ["parquet", "avro"])
def test_all_files_have_the_operation_behind_the_other_meta_columns(location: str, kind: str, block: str) -> None:
    options = {KEY: "true", "hoodie.table.cdc.enabled": "true", "hoodie.logfile.data.block.format": block}
    table = make(location, table_type=kind, ordering="ts", options=options)
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)))
    table = reopen(table, hoodie__logfile__data__block__format=block)  # the table knows that it has the column
    table.upsert(orders((1, "a", 1.5, 2), (4, "a", 4.0, 2)))
    table.upsert(orders((2, "a", 2.5, 2)).drop(["price"]), partial=True)
    table.delete(orders((3, "b")).select(["id", "day"]))
    found = table.scan().to_arrow()
    assert found.column_names == [*SIX, *table.schema.names]
    assert found[OPERATION].null_count == len(found) == 3
    assert rows(table, "id", "price") == [(1, 1.5), (2, 2.0), (4, 4.0)]
    if kind == "MERGE_ON_READ":
        table.compaction.run()
    table.clustering.run()
    for path in Path(location).rglob("*.parquet"):
        assert pq.read_schema(path).names[:6] == SIX, path
    assert rows(table, "id", "price") == [(1, 1.5), (2, 2.0), (4, 4.0)]
    assert table.check().ok


@pytest.mark.row("E9")
def test_the_operation_can_be_read_by_name_from_any_table(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    assert rows(table, OPERATION, "id") == [(None, 1)]
    table = reopen(table, **{KEY.replace(".", "__"): "true"})  # as for a table of Hudi's, which does not store it
    commit = table.upsert(orders((2, "a", 2.0)))
    assert pq.read_schema(Path(location, commit.stats.files[0].path)).names[:6] == SIX, "the option alone is enough"
    assert OPERATION not in table.scan().to_arrow().column_names
    assert rows(table, OPERATION, "id") == [(None, 1), (None, 2)]
