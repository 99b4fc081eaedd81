"""Ranges of columns from the footer of a Parquet file (Parquet format, "Metadata" and "Statistics").

This package parses the footer itself, because pyarrow's objects for column chunks crash the process if the footer is damaged (seen with release 26).
pyarrow's readers of rows and of the schema do not crash: they raise errors. Only top-level columns of plain types have ranges.

Invariants
- a range is returned only if the format orders the values of the type as this package does;
- no value of the column is below ``min`` or above ``max``, except NaN;
- anything that is not a footer raises ValueError, in time bounded by the number of bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Field numbers of parquet.thrift.
_ROW_GROUPS, _COLUMN_ORDERS = 4, 7
_COLUMNS, _GROUP_ROWS = 1, 3
_META_DATA = 3
_TYPE, _PATH, _STATISTICS = 1, 3, 12
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6
# Physical types.
_BOOLEAN, _INT32, _INT64, _FLOAT, _FLOAT64, _BYTE_ARRAY, _FIXED = 0, 1, 2, 4, 5, 6, 7

_NUMBERS = {_BOOLEAN: struct.Struct("<?"), _INT32: struct.Struct("<i"), _INT64: struct.Struct("<q")}
_FLOATS = {_FLOAT: struct.Struct("<f"), _FLOAT64: struct.Struct("<d")}


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The statistics of one column of one row group.

    ``min`` and ``max`` are Python values. The column need not contain them. They are None if they are unknown, or if all values are null. NaN is
    outside every range. ``null_count`` is None if it is unknown.
    """

    min: Any
    max: Any
    null_count: int | None


_UNKNOWN = ColumnRange(None, None, None)


def column_ranges(metadata: dict[int, Any], schema: pa.Schema, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
    """Return for each row group the ranges of the columns with usable statistics.

    Args:
        metadata: the footer, by the numbers of its fields.
        schema: the file's columns, as pyarrow reads them.
        columns: requested top-level columns; columns that the file lacks are ignored.

    Raises:
        ValueError: a field of the footer does not have the type that the format defines for it.
    """
    ordered, known = _COLUMN_ORDERS in metadata, frozenset(schema.names)
    readers = {
        name.encode(): (name, reader)
        for name in dict.fromkeys(columns)
        if name in known and (reader := _value_reader(schema.field(name).type)) is not None
    }
    return [_group_ranges(group, readers, ordered) for group in _structs(metadata.get(_ROW_GROUPS, []))]


Reader = Callable[[int, bytes], Any]


def _group_ranges(
    group: dict[int, Any], readers: dict[bytes, tuple[str, Reader]], ordered: bool
) -> dict[str, ColumnRange]:
    found = {}
    for chunk in _structs(group.get(_COLUMNS, [])):
        meta = _struct(chunk.get(_META_DATA, {}))
        path = meta.get(_PATH)
        leaf = path[0] if isinstance(path, list) and len(path) == 1 else None
        if not isinstance(leaf, bytes) or leaf not in readers:
            continue
        name, reader = readers[leaf]
        range_ = _range(meta, reader, ordered)
        if range_ is not None:
            found[name] = range_
    return found


def _range(meta: dict[int, Any], reader: Reader, ordered: bool) -> ColumnRange | None:
    statistics = _struct(meta.get(_STATISTICS, {}))
    physical = meta.get(_TYPE)
    null_count = statistics.get(_NULL_COUNT)
    if not isinstance(null_count, int) or null_count < 0:
        null_count = None
    low, high = statistics.get(_MIN), statistics.get(_MAX)
    if not ordered or not isinstance(low, bytes) or not isinstance(high, bytes):
        # The bounds in the deprecated fields are in the order of signed bytes. This order is correct only for numbers.
        signed = physical in _NUMBERS or physical in _FLOATS
        low, high = (statistics.get(_OLD_MIN), statistics.get(_OLD_MAX)) if signed else (None, None)
    bounds = None
    if isinstance(low, bytes) and isinstance(high, bytes) and isinstance(physical, int):
        bounds = _bounds(reader, physical, low, high)
    if bounds is None:
        return None if null_count is None else ColumnRange(None, None, null_count)
    return ColumnRange(*bounds, null_count)


def _bounds(reader: Reader, physical: int, low: bytes, high: bytes) -> tuple[Any, Any] | None:
    try:
        bounds = reader(physical, low), reader(physical, high)
    except (ValueError, OverflowError, KeyError, struct.error):
        # Valid bounds may have no Python value: a text cut inside a character, a time after the year 9999.
        return None
    if any(isinstance(bound, float) and math.isnan(bound) for bound in bounds):
        return None
    return bounds


def _value_reader(kind: pa.DataType) -> Reader | None:
    """Return the function that reads a bound of a column of this type; None for types without a usable order."""
    types = pa.types
    if types.is_boolean(kind) or types.is_signed_integer(kind):
        return lambda physical, raw: _NUMBERS[physical].unpack(raw)[0]
    if types.is_floating(kind) and not types.is_float16(kind):
        return lambda physical, raw: _FLOATS[physical].unpack(raw)[0]
    if types.is_string(kind) or types.is_large_string(kind):
        return lambda physical, raw: _bytes(physical, raw).decode()
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _bytes
    if types.is_decimal(kind):
        return lambda physical, raw: Decimal(f"{_integer(physical, raw)}E{-kind.scale}")
    if types.is_date32(kind) or types.is_time(kind) or (types.is_timestamp(kind) and kind.unit != "ns"):
        return lambda physical, raw: pa.scalar(_NUMBERS[physical].unpack(raw)[0], kind).as_py()
    return None


def _bytes(physical: int, raw: bytes) -> bytes:
    if physical not in (_BYTE_ARRAY, _FIXED):
        raise ValueError("the column does not hold bytes")
    return raw


def _integer(physical: int, raw: bytes) -> int:
    if physical in (_INT32, _INT64):
        return int(_NUMBERS[physical].unpack(raw)[0])
    return int.from_bytes(_bytes(physical, raw), "big", signed=True)


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ValueError("a field of the footer has another type")
    return value


def _structs(value: Any) -> list[dict[int, Any]]:
    if not isinstance(value, list):
        raise ValueError("a field of the footer has another type")
    return [_struct(item) for item in value]


def written_ranges(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, ColumnRange]:
    """Return one range for each top-level column of a plain type in a file that was just written. A range covers all row groups.

    Pass only metadata that Arrow's writer has returned: objects for a damaged footer crash the process. A bound is unknown if Python cannot hold it.
    """
    plain = dict.fromkeys((field.name for field in schema if not pa.types.is_nested(field.type)), _widest([]))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if not groups:
        return plain
    found: dict[str, ColumnRange] = {}
    for number in range(metadata.num_columns):
        chunks = [group.column(number) for group in groups]
        name = chunks[0].path_in_schema
        if name in plain:
            found[name] = _widest([_written_range(chunk) for chunk in chunks])
    return found


def stored_ranges(metadata: dict[int, Any], schema: pa.Schema) -> dict[str, ColumnRange]:
    """Return the same ranges as `written_ranges`, for a footer whose row groups were copied from other files. pyarrow's objects may crash the process
    for such a footer.

    Args:
        metadata: the footer, by the numbers of its fields.
        schema: the columns of the file.

    Raises:
        ValueError: a field of the footer does not have the type that the format defines for it.
    """
    names = [field.name for field in schema if not pa.types.is_nested(field.type)]
    rows = [group.get(_GROUP_ROWS) for group in _structs(metadata.get(_ROW_GROUPS, []))]
    known = [{**dict.fromkeys(names, _UNKNOWN), **group} for group in column_ranges(metadata, schema, names)]
    return {
        name: _widest(
            [(group[name], group[name].null_count == count) for group, count in zip(known, rows, strict=True)]
        )
        for name in names
    }


def ranges_of_rows(rows: pa.Table, schema: pa.Schema) -> dict[str, ColumnRange]:
    """Return one range for each top-level column of a plain type in rows in memory. `written_ranges` does the same for rows in Parquet. NaN is the
    greatest value."""
    return {field.name: _range_of(rows.column(field.name)) for field in schema if not pa.types.is_nested(field.type)}


def _range_of(values: pa.ChunkedArray) -> ColumnRange:
    nulls, largest = int(values.null_count), None
    if pa.types.is_floating(values.type):
        nan = pc.is_nan(values)
        if pc.any(nan).as_py():
            values, largest = values.filter(pc.invert(nan)), math.nan
    try:
        low, high = pc.min_max(values).as_py().values()
    except (ValueError, OverflowError, pa.ArrowException):
        low, high = None, None
    if low is None or high is None:
        return ColumnRange(None, largest, nulls)
    return ColumnRange(low, high if largest is None else largest, nulls)


def _written_range(chunk: pq.ColumnChunkMetaData) -> tuple[ColumnRange, bool]:
    """Return the range of a column chunk, and whether all its values are nulls."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return ColumnRange(None, None, None), False
    nulls = int(statistics.null_count)
    try:
        low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    except (ValueError, OverflowError, pa.ArrowException):
        low, high = None, None
    return ColumnRange(low, high, nulls), nulls == chunk.num_values


def _widest(ranges: list[tuple[ColumnRange, bool]]) -> ColumnRange:
    """Return the combined range of several chunks: a bound is unknown if it is unknown for a chunk with values."""
    if len(ranges) == 1:
        known = ranges[0][0]
        return known if known.min is not None and known.max is not None else ColumnRange(None, None, known.null_count)
    counts = [known.null_count for known, _ in ranges]
    nulls = None if None in counts else sum(count for count in counts if count is not None)
    with_values = [known for known, only_nulls in ranges if not only_nulls]
    if not with_values or any(known.min is None or known.max is None for known in with_values):
        return ColumnRange(None, None, nulls)
    return ColumnRange(min(known.min for known in with_values), max(known.max for known in with_values), nulls)


def range_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a `range_table`: ``path``, and for each column of a plain type a struct of ``min``, ``max`` and ``nulls``."""
    plain = [field for field in schema if not pa.types.is_nested(field.type)]
    return pa.schema([("path", pa.string()), *((field.name, _range_type(field.type)) for field in plain)])


def range_table(paths: Sequence[str], ranges: Sequence[Mapping[str, ColumnRange]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the ranges of files with columns of ``schema``. A column that a file does not have is null, and an unknown bound is null."""
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
