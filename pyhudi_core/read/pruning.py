"""Leave out slices by what the metadata table says about their columns, without opening a file.

Specification, "Metadata Table": column statistics of every file, and of whole partitions. A slice can be left out if no file of it can hold a
matching row; with logs a row may be put together from several files (partial updates), so the ranges of a slice's files are joined first.
What is unknown about one file is unknown about its slice.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.reader import ColumnRangeOfFile, MetadataTable
from pyhudi_core.predicates import ColumnStats, Condition
from pyhudi_core.read.expression_ranges import indexed_calls
from pyhudi_core.snapshot.snapshot import Snapshot

_CUT_OFF_BYTES = 64
Ranges = Mapping[str, Mapping[str, ColumnStats]]
"""Statistics by file (or partition), and by column or call."""


def by_partition_stats(snapshot: Snapshot, predicate: Condition, partitions: Sequence[str], *, utc: bool) -> list[str]:
    """The partitions that can hold a matching row. ``utc``: expression indexes were written by sessions in UTC."""
    metadata = _usable(snapshot, predicate)
    if metadata is None:
        return list(partitions)

    def find(columns: Sequence[str], index: str) -> list[ColumnRangeOfFile]:
        return metadata.partition_stats(columns, partitions, index)

    found = _ranges(snapshot, metadata, predicate, names.PARTITION_STATS, find, utc=utc)
    return [
        path for path in partitions if predicate.could_match(found.get(names.partition_name(path), found.get(path, {})))
    ]


def by_column_stats(
    snapshot: Snapshot, predicate: Condition, slices: Sequence[FileSlice], *, utc: bool
) -> list[FileSlice]:
    """The slices that can hold a matching row. ``utc`` as above."""
    metadata = _usable(snapshot, predicate)
    if metadata is None or not slices:
        return list(slices)
    partitions = sorted({piece.partition for piece in slices})

    def find(columns: Sequence[str], index: str) -> list[ColumnRangeOfFile]:
        return metadata.column_stats(columns, partitions, index)

    found = _ranges(snapshot, metadata, predicate, names.COLUMN_STATS, find, utc=utc)
    known = sorted({name for stats in found.values() for name in stats})
    return [piece for piece in slices if predicate.could_match(_of_slice(piece, found, known))]


def by_bloom_filters(snapshot: Snapshot, keys: pa.Array, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices that can hold one of some record keys; logs may hold any."""
    metadata = snapshot.metadata
    if metadata is None or not metadata.has(names.BLOOM_FILTERS) or snapshot.bound is not None:
        return list(slices)
    bases = [
        (piece.partition, str(piece.base.name)) for piece in slices if piece.base_file is not None and not piece.logs
    ]
    filters = metadata.bloom_filters(bases)
    return [piece for piece in slices if piece.logs or _might_contain(filters.get(str(piece.base.name)), keys)]


def _might_contain(bloom: BloomFilter | None, keys: pa.Array) -> bool:
    return bloom is None or bool(bloom.might_contain(keys).any())


def _usable(snapshot: Snapshot, predicate: Condition) -> MetadataTable | None:
    """The metadata table, if it can say anything about the columns of a condition, at the snapshot's time."""
    return snapshot.metadata if snapshot.bound is None and predicate.columns else None


def _ranges(
    snapshot: Snapshot,
    metadata: MetadataTable,
    predicate: Condition,
    index: str,
    find: Callable[[Sequence[str], str], list[ColumnRangeOfFile]],
    *,
    utc: bool,
) -> Ranges:
    """What the index of columns and the expression indexes know of a condition's columns and calls."""
    found: dict[str, dict[str, ColumnStats]] = defaultdict(dict)
    schema, columns = snapshot.schema, predicate.columns or frozenset()
    definitions = read_definitions(metadata.slices.storage, snapshot.config.index_defs_path) if predicate.calls else ()
    for call in indexed_calls(predicate.calls, columns, definitions, schema, utc=utc):
        if metadata.has(call.index):
            for item in find([call.column], call.index):
                stats = _stats(item, call.kind)
                known = None if stats is None else call.known(stats)
                if known is not None:
                    found[item.file][call.name] = known
    wanted = sorted(columns & set(schema.names))
    for item in find(wanted, index) if wanted and metadata.has(index) else ():
        stats = _stats(item, schema.field(item.column).type) if item.column in schema.names else None
        if stats is not None:
            found[item.file][item.column] = stats
    return found


def _of_slice(piece: FileSlice, found: Ranges, known: Iterable[str]) -> dict[str, ColumnStats]:
    files = [] if piece.base_file is None else [str(piece.base_file.name)]
    files += [str(log.name) for log in piece.logs]
    ranges: dict[str, ColumnStats] = {}
    for name in known:
        parts = [found.get(file, {}).get(name) for file in files]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            ranges[name] = _joined(whole)
    return ranges


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


def _stats(item: ColumnRangeOfFile, kind: pa.DataType) -> ColumnStats | None:
    """Statistics with values of the column's type; None if they are of no use."""
    if item.rows and item.nulls >= item.rows:
        # Bounds of columns that are all null are made up.
        return ColumnStats(None, None, item.nulls, item.rows)
    low, high = _typed(item.min, kind), _typed(item.max, kind)
    if low is None or high is None:
        return None
    if any(isinstance(bound, str) and max(bound, default="") >= "\ud800" for bound in (low, high)):
        # Java may have compared UTF-16 units, which differs from here beyond this character only.
        return None
    # Some writers cut long texts off, here as in Parquet's statistics; never shorter ones than this.
    cut_off = isinstance(high, str) and len(high.encode()) >= _CUT_OFF_BYTES
    return ColumnStats(low, high, item.nulls, item.rows, truncated=cut_off)


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
