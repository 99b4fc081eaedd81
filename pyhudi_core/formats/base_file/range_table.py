"""Ranges of columns of several files, as an Arrow table: a row for each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange


def range_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a `range_table`: ``path``, and for each column of a plain type a struct of ``min``, ``max`` and ``nulls``."""
    plain = [field for field in schema if not pa.types.is_nested(field.type)]
    return pa.schema([("path", pa.string()), *((field.name, _range_type(field.type)) for field in plain)])


def range_table(paths: Sequence[str], ranges: Sequence[Mapping[str, ColumnRange]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the ranges of files with columns of ``schema``. A column that a file does not have is null; so is a bound that is not known."""
    fields = range_schema(schema)
    columns = [pa.array(paths, pa.string())]
    for field in list(fields)[1:]:
        found = [known.get(field.name) for known in ranges]
        parts = [
            pa.array([None if known is None else getattr(known, name) for known in found], field.type[number].type)
            for number, name in enumerate(("min", "max", "null_count"))
        ]
        absent = pa.array([known is None for known in found], pa.bool_())
        columns.append(pa.StructArray.from_arrays(parts, fields=list(field.type), mask=absent))
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _range_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("min", kind), ("max", kind), ("nulls", pa.int64())])
