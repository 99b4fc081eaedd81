"""Leave out slices by what the metadata table says about their columns, without opening a file.

Specification, "Metadata Table": column statistics of every file, and of whole partitions. A slice can be left out if no file of it can hold a
matching row; with logs a row may be put together from several files (partial updates), so the ranges of a slice's files are joined first.
What is unknown about one file is unknown about its slice.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.reader import ColumnRangeOfFile, MetadataTable
from pyhudi_core.predicates import ColumnStats, Condition
from pyhudi_core.snapshot.snapshot import Snapshot

Ranges = Mapping[str, Mapping[str, ColumnStats]]


def by_partition_stats(snapshot: Snapshot, predicate: Condition, partitions: Sequence[str]) -> list[str]:
    """The partitions that can hold a matching row."""
    columns = _columns(snapshot, predicate, names.PARTITION_STATS)
    if not columns or snapshot.metadata is None:
        return list(partitions)
    found = _by_file(snapshot.metadata.partition_stats(columns, partitions), snapshot.schema)
    return [
        path for path in partitions if predicate.could_match(found.get(names.partition_name(path), found.get(path, {})))
    ]


def by_column_stats(snapshot: Snapshot, predicate: Condition, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices that can hold a matching row."""
    columns = _columns(snapshot, predicate, names.COLUMN_STATS)
    if not columns or snapshot.metadata is None or not slices:
        return list(slices)
    partitions = sorted({piece.partition for piece in slices})
    found = _by_file(snapshot.metadata.column_stats(columns, partitions), snapshot.schema)
    return [piece for piece in slices if predicate.could_match(_of_slice(piece, found, columns))]


def _columns(snapshot: Snapshot, predicate: Condition, index: str) -> list[str]:
    """The columns of the condition that the index may know; none if it is of no use."""
    metadata: MetadataTable | None = snapshot.metadata
    if metadata is None or not metadata.has(index) or snapshot.bound is not None or not predicate.columns:
        return []
    return sorted(predicate.columns & set(snapshot.schema.names))


def _of_slice(piece: FileSlice, found: Ranges, columns: Iterable[str]) -> dict[str, ColumnStats]:
    files = [] if piece.base_file is None else [str(piece.base_file.name)]
    files += [str(log.name) for log in piece.logs]
    known: dict[str, ColumnStats] = {}
    for column in columns:
        parts = [found.get(file, {}).get(column) for file in files]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            known[column] = _joined(whole)
    return known


def _joined(parts: Sequence[ColumnStats]) -> ColumnStats:
    if len(parts) == 1:
        return parts[0]
    ranges = [part for part in parts if not part.all_null]
    nulls = sum(part.null_count or 0 for part in parts)
    rows = sum(part.rows or 0 for part in parts)
    if not ranges:
        return ColumnStats(None, None, rows, rows)
    if any(part.min is None or part.max is None for part in ranges):
        return ColumnStats(None, None, nulls, rows)
    low, high = min(part.min for part in ranges), max(part.max for part in ranges)
    return ColumnStats(low, high, nulls, rows, any(part.truncated for part in ranges))


def _by_file(ranges: Iterable[ColumnRangeOfFile], schema: pa.Schema) -> Ranges:
    found: dict[str, dict[str, ColumnStats]] = defaultdict(dict)
    for item in ranges:
        if item.column in schema.names:
            stats = _stats(item, schema.field(item.column).type)
            if stats is not None:
                found[item.file][item.column] = stats
    return found


def _stats(item: ColumnRangeOfFile, kind: pa.DataType) -> ColumnStats | None:
    """Statistics with values of the column's type; None if they are of no use."""
    if item.rows and item.nulls >= item.rows:
        # Bounds of columns that are all null are made up.
        return ColumnStats(None, None, item.nulls, item.rows)
    low, high = _typed(item.min, kind), _typed(item.max, kind)
    if low is None or high is None:
        return None
    # Writers may cut long texts off, here as in Parquet's statistics.
    return ColumnStats(low, high, item.nulls, item.rows, truncated=isinstance(low, str))


def _typed(value: object, kind: pa.DataType) -> Any:
    """A value of the metadata table as one of the column's type; None if it cannot be."""
    types = pa.types
    if value is None:
        return None
    if types.is_timestamp(kind):
        if isinstance(value, dt.datetime):
            return value if kind.tz else value.replace(tzinfo=None)
        return pa.scalar(value, pa.int64()).cast(kind).as_py() if isinstance(value, int) else None
    if types.is_date32(kind) and type(value) is int:
        return pa.scalar(value, pa.int32()).cast(kind).as_py()
    fits = (
        (types.is_boolean(kind) and isinstance(value, bool))
        or (types.is_integer(kind) and type(value) is int)
        or (types.is_floating(kind) and isinstance(value, float))
        or (types.is_string(kind) and isinstance(value, str))
        or (types.is_date32(kind) and type(value) is dt.date)
        or (types.is_decimal(kind) and isinstance(value, Decimal))
    )
    return value if fits else None
