"""Tables with a payload class of Hudi or a merger of the user, written from DataFrames: executors merge as this process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sums_merger import Sums
from support.spark_frames import frame
from support.tables import FAST, reopen

import pyhudi_core as hudi
from pyhudi_core.merge import register_merger, unregister_merger

PARTIAL = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
SUM = "0d4f5a52-0f0e-4f7b-8d0e-7a6d3c1b9e21"
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
STORED = [(1, 5, "a", 1.0), (2, 5, "b", 2.0), (3, 5, "c", 3.0), (4, 5, "d", 4.0)]


@pytest.fixture
def sums(spark: Any) -> Iterator[str]:
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("sums_merger.py")))
    register_merger(SUM, Sums(), schema=SCHEMA, record_key=["id"], ordering=["ts"], waive=("idempotent",), triples=20)
    yield SUM
    unregister_merger(SUM)


def rows(given: list[tuple[int, int, str | None, float | None]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def made(location: str, kind: str, options: dict[str, object]) -> hudi.HudiTable:
    return hudi.create_table(
        location, SCHEMA, record_key="id", ordering="ts", table_type=kind, storage_options=FAST, options=options
    )


def left(table: hudi.HudiTable, spark: Any) -> list[tuple[object, ...]]:
    """The rows, which both ways of reading give alike."""
    here = sorted(tuple(row.values()) for row in table.scan(meta=False).to_arrow().to_pylist())
    assert sorted(tuple(row) for row in table.scan(meta=False).to_spark(spark).collect()) == here
    return here


@pytest.mark.row("J3", "J4", "M4")
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_executors_merge_by_the_payload_class_of_the_table(spark: Any, location: str, way: str, kind: str) -> None:
    table = made(location, kind, {"hoodie.compaction.payload.class": PARTIAL})
    table.upsert(frame(spark, rows(STORED)))
    newer = rows([(1, 6, None, 10.0), (2, 4, "late", None), (3, 7, "e", None), (5, 1, "new", 5.0)])
    table.upsert(frame(spark, newer))
    expected = [(1, 6, "a", 10.0), (2, 5, "b", 2.0), (3, 7, "e", 3.0), (4, 5, "d", 4.0), (5, 1, "new", 5.0)]
    assert left(table, spark) == expected
    assert reopen(table).check().ok


@pytest.mark.row("J3", "M4")
def test_executors_ask_the_merger_of_the_user(spark: Any, location: str, way: str, sums: str) -> None:
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": sums}
    table = made(location, "merge_on_read", options)
    table.upsert(frame(spark, rows(STORED)))
    table.upsert(frame(spark, rows([(1, 6, "x", 10.0), (1, 7, "y", 100.0), (8, 1, "z", 1.0), (8, 2, "z", 1.0)])))
    expected = [(1, 7, "y", 111.0), *STORED[1:], (8, 2, "z", 2.0)]
    assert left(table, spark) == expected
    table.compaction.run(spark=spark)
    assert left(table, spark) == expected
