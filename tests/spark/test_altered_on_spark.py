"""Tables whose columns were changed are read on Spark; writes of executors are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.spark_frames import frame
from support.tables import make, orders

from pyhudi_core.errors import UnsupportedTableError


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_spark_reads_columns_by_number_and_does_not_write_them(spark: Any, location: str, kind: str) -> None:
    table = make(location, table_type=kind)
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1)))
    table.alter(rename={"price": "cost"}, add={"price": pa.int64()})
    row = pa.Table.from_pylist([{"id": 1, "day": "a", "cost": 9.0, "ts": 2, "price": 7}], table.schema)
    with pytest.raises(UnsupportedTableError, match="on Spark"):
        table.upsert(frame(spark, row))
    table.upsert(row)
    found = table.scan(columns=["id", "cost", "price"]).to_spark(spark).collect()
    assert sorted(tuple(row) for row in found) == [(1, 9.0, 7), (2, 2.0, None)]
