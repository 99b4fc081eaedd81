"""Arrow tables as DataFrames, and rows of scans through Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi_core.engine.spark_types import to_spark


def _spark_like(kind: pa.DataType) -> pa.DataType:
    """Convert to Spark's types: Spark has one precision of timestamps, and no other time zone in its types."""
    return pa.timestamp("us", "UTC" if kind.tz else None) if pa.types.is_timestamp(kind) else kind


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value as PySpark accepts it: maps become dictionaries, at every depth."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind.fields}
    return value


def frame(spark: Any, table: pa.Table, partitions: int = 2) -> Any:
    """An Arrow table as a DataFrame, made of plain rows, which every release of PySpark accepts."""
    kinds = to_spark(pa.schema([(field.name, _spark_like(field.type)) for field in table.schema]))
    plain = [
        tuple(_plain(value, field.type) for value, field in zip(row.values(), table.schema, strict=True))
        for row in table.to_pylist()
    ]
    return spark.createDataFrame(plain, kinds).repartition(partitions)


def spark_rows(scan: Any, spark: Any, *columns: str) -> list[tuple[Any, ...]]:
    """A scan's rows, read through Spark."""
    return sorted((tuple(row) for row in scan.to_spark(spark).select(*columns).collect()), key=str)
