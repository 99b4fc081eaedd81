"""Small tables with Iceberg metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from support.iceberg import iceberg_rows, in_order

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])


def data(*rows: tuple[int, Any, float], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def made(folder: Path, **options: Any) -> hudi.HudiTable:
    kind = options.pop("table_type", "copy_on_write")
    named = {name.replace("__", "."): value for name, value in options.items()}
    table = hudi.create_table(
        str(folder / "t"), SCHEMA, record_key="id", partition_by="day", table_type=kind, options=named
    )
    table.insert(data((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    return table


def same(table: hudi.HudiTable) -> None:
    """What pyiceberg reads is the read-optimized state."""
    assert iceberg_rows(table.location) == in_order(table.scan(mode="read_optimized", meta=False).to_arrow())
