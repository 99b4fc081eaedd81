"""Prune slices by the metadata table's statistics, without opening a file.

Specification, "Metadata Table": column statistics of every file, and of complete partitions. A slice is pruned if none of its files can hold a
matching row. With logs, a row may combine values of several files (partial updates), so the ranges of a slice's files are combined first. If a
column's range is unknown for one file, it is unknown for the slice.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.merge.payloads import PAYLOADS
from pyhudi_core.merge.record_merger import merger_name
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.expression_index import DEFAULT_FORMAT, JAVA_FORMAT, strftime_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, read_definitions
from pyhudi_core.metadata_table.reader import ColumnRangeOfFile, MetadataTable
from pyhudi_core.metadata_table.statistics import trusted_stats, typed_stats
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import MergeMode
from pyhudi_core.predicates import ColumnStats, Condition
from pyhudi_core.predicates.arrow import type_of
from pyhudi_core.predicates.tree import ColumnName, FunctionCall, Literal, text_of
from pyhudi_core.snapshot.snapshot import Snapshot

Place = tuple[str, str]
"""Partition and file name; without a file name for statistics of the complete partition."""
Ranges = Mapping[Place, Mapping[str, ColumnStats]]
"""Statistics by column or call."""


def list_statistics(snapshot: Snapshot, predicate: Condition) -> None:
    """On a network storage, list the folders of the list of files and of the needed statistics with concurrent requests."""
    needed = _needed(snapshot, predicate)
    if needed and snapshot.metadata is not None:
        snapshot.metadata.slices.prepare([names.FILES, *needed])


def read_statistics(snapshot: Snapshot, predicate: Condition) -> None:
    """On a network storage, read the statistics of partitions and files that the condition probably needs with concurrent requests."""
    needed = _needed(snapshot, predicate)
    if needed and snapshot.metadata is not None:
        snapshot.metadata.slices.fetch(needed)


def _needed(snapshot: Snapshot, predicate: Condition) -> list[str]:
    """Return the statistics that a condition probably needs. A condition on partition columns alone needs none."""
    metadata = _usable(snapshot, predicate)
    if metadata is None or not (predicate.columns or frozenset()) - {*snapshot.config.partition_fields}:
        return []
    return [name for name in (names.PARTITION_STATS, names.COLUMN_STATS) if metadata.has(name)]


def by_partition_stats(snapshot: Snapshot, predicate: Condition, partitions: Sequence[str], *, utc: bool) -> list[str]:
    """Return the partitions that can hold a matching row. ``utc``: sessions in UTC wrote the expression indexes."""
    metadata = _usable(snapshot, predicate)
    if metadata is None or not metadata.has(names.PARTITION_STATS) or _makes_values(snapshot):
        return list(partitions)
    rows = _rows_of(snapshot, metadata, partitions)

    def find(columns: Sequence[str], index: str) -> list[ColumnRangeOfFile]:
        found = metadata.partition_stats(columns, partitions, index)
        return [item for item in found if 0 < rows.get(item.partition, 0) == _counted(item, index)]

    found = _ranges(snapshot, metadata, predicate, names.PARTITION_STATS, find, utc=utc)
    return [path for path in partitions if predicate.could_match(found.get((path, ""), {}))]


def by_column_stats(
    snapshot: Snapshot, predicate: Condition, slices: Sequence[FileSlice], *, utc: bool
) -> list[FileSlice]:
    """Return the slices that can hold a matching row. ``utc`` as above."""
    metadata = _usable(snapshot, predicate)
    if metadata is None or not slices:
        return list(slices)
    partitions = sorted({piece.partition for piece in slices})

    def find(columns: Sequence[str], index: str) -> list[ColumnRangeOfFile]:
        return metadata.column_stats(columns, partitions, index)

    found = _ranges(snapshot, metadata, predicate, names.COLUMN_STATS, find, utc=utc)
    known = sorted({name for stats in found.values() for name in stats})
    new_values = _makes_values(snapshot)
    return [
        piece
        for piece in slices
        if (piece.logs and new_values) or predicate.could_match(_of_slice(piece, found, known))
    ]


def by_bloom_filters(snapshot: Snapshot, keys: pa.Array, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """Return the slices that can hold one of the record keys; logs can hold any key."""
    metadata = snapshot.metadata
    if metadata is None or not metadata.has(names.BLOOM_FILTERS) or snapshot.bound is not None:
        return list(slices)
    bases = [(piece.partition, str(piece.base.name)) for piece in slices if piece.base is not None and not piece.logs]
    filters = metadata.bloom_filters(bases)
    return [
        piece
        for piece in slices
        if piece.logs
        or piece.base is None
        or _might_contain(filters.get((piece.partition, str(piece.base.name))), keys)
    ]


def _might_contain(bloom: BloomFilter | None, keys: pa.Array) -> bool:
    return bloom is None or bool(bloom.might_contain(keys).any())


def _usable(snapshot: Snapshot, predicate: Condition) -> MetadataTable | None:
    """Return the metadata table if it has statistics for the condition's columns at the snapshot's time.

    Statistics are matched with files only by name.
    """
    renamed = snapshot.evolution is not None and snapshot.evolution.renames
    return snapshot.metadata if snapshot.bound is None and predicate.columns and not renamed else None


def _makes_values(snapshot: Snapshot) -> bool:
    """Say whether merging may produce values that no file has: a custom merger may add numbers."""
    config = snapshot.config
    return config.merge_mode is MergeMode.CUSTOM and merger_name(config) not in PAYLOADS


def _rows_of(snapshot: Snapshot, metadata: MetadataTable, partitions: Sequence[str]) -> dict[str, int]:
    """Return the number of rows that each partition's statistics describe.

    Every file has record keys. The statistics of another column must describe the same files: a column that was added or indexed later has no
    statistics for the rows of older files.
    """
    columns = (RECORD_KEY, *snapshot.config.record_key_fields)
    rows: dict[str, int] = defaultdict(int)
    for item in metadata.partition_stats(columns, partitions):
        rows[item.partition] = max(rows[item.partition], item.rows)
    return rows


def _counted(item: ColumnRangeOfFile, index: str) -> int:
    """Return the number of rows behind statistics: column statistics include nulls in the value count, expression statistics do not."""
    beside = index not in (names.PARTITION_STATS, names.COLUMN_STATS)
    return item.rows + ((item.nulls or 0) if beside else 0)


def _ranges(
    snapshot: Snapshot,
    metadata: MetadataTable,
    predicate: Condition,
    index: str,
    find: Callable[[Sequence[str], str], list[ColumnRangeOfFile]],
    *,
    utc: bool,
) -> Ranges:
    """Return the ranges that the column index and the expression indexes have for a condition's columns and calls."""
    found: dict[Place, dict[str, ColumnStats]] = defaultdict(dict)
    schema, columns = snapshot.schema, predicate.columns or frozenset()
    definitions: tuple[IndexDefinition, ...] = ()
    if any(name.startswith(names.EXPRESSION_INDEX_PREFIX) for name in metadata.partitions):
        definitions = read_definitions(metadata.slices.storage, snapshot.config.index_defs_path)
    for call in indexed_calls(predicate.calls, columns, definitions, schema, utc=utc):
        if metadata.has(call.index):
            for item in find([call.column], call.index):
                stats = typed_stats(item, call.kind, _counted(item, call.index))
                known = None if stats is None else call.known(stats)
                if known is not None:
                    found[item.partition, item.file][call.name] = known
    # The folder determines the value of partition columns, whatever the file has.
    wanted = sorted(columns & set(schema.names) - set(snapshot.config.partition_fields))
    for item in find(wanted, index) if wanted and metadata.has(index) else ():
        kind = schema.field(item.column).type if item.column in schema.names else None
        stats = None if kind is None else trusted_stats(item, kind)
        if stats is not None:
            found[item.partition, item.file][item.column] = stats
    return found


def _of_slice(piece: FileSlice, found: Ranges, known: Iterable[str]) -> dict[str, ColumnStats]:
    files = [] if piece.base is None else [str(piece.base.name)]
    files += [str(log.name) for log in piece.logs]
    ranges: dict[str, ColumnStats] = {}
    for name in known:
        parts = [found.get((piece.partition, file), {}).get(name) for file in files]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            ranges[name] = _joined(whole)
    return ranges


def _joined(parts: Sequence[ColumnStats]) -> ColumnStats:
    if len(parts) == 1:
        return parts[0]
    ranges = [part for part in parts if not part.all_null]
    counts = [part.null_count for part in parts if part.null_count is not None]
    nulls = sum(counts) if len(counts) == len(parts) else None
    rows = sum(part.rows or 0 for part in parts) if all(part.rows for part in parts) else None
    if not ranges:
        return ColumnStats(None, None, nulls, nulls)
    if any(part.min is None or part.max is None for part in ranges):
        return ColumnStats(None, None, nulls, rows)
    low, high = min(part.min for part in ranges), max(part.max for part in ranges)
    return ColumnStats(low, high, nulls, rows, any(part.truncated for part in ranges))


# --- ranges from expression indexes: of ``lower(city)``, ``year(at)``, ``from_unixtime(ts, 'yyyy-MM-dd')`` and similar calls, by file
# Specification, "Expression Index". A Spark session computed the values in its own time zone, which is not recorded. Conditions are in UTC here;
# the same call in another zone would have another value. So the ranges of functions that depend on the zone are widened by a day, which is
# correct for every zone, unless the option ``pyhudi.expression.index.timezone`` says that the writers' sessions are in UTC.

_DAY = dt.timedelta(days=1)
# The longest time that one text describes, by the number of its parts.
_LASTS = tuple(dt.timedelta(days=n) for n in (366, 31, 1, 1, 1, 1))
# Values at least a day away from the restart of this part of a date.
_WITHIN = {"month": (2, 11), "day": (2, 27)}


@dataclass(frozen=True, slots=True)
class IndexedCall:
    """A call in a condition, and the index that has its values.

    Attributes:
        index: the partition of the metadata table.
        column: the call's column.
        name: the value's name in the condition; for an identity the column's name.
        kind: the value's type.
        shift: the function whose values depend on an unknown time zone, with the format of its texts; None if they do not.
    """

    index: str
    column: str
    name: str
    kind: pa.DataType
    shift: tuple[str, str] | None

    def known(self, stats: ColumnStats) -> ColumnStats | None:
        """Return the statistics that are valid in UTC; None if there are none."""
        if self.shift is None or stats.min is None or stats.max is None:
            return stats
        function, form = self.shift
        if function == "year":
            return replace(stats, min=stats.min - 1, max=stats.max + 1)
        if function in _WITHIN:
            low, high = _WITHIN[function]
            inside = low <= stats.min and stats.max <= high
            return replace(stats, min=stats.min - 1, max=stats.max + 1) if inside else None
        if function == "from_unixtime":
            return _widened(stats, form)
        return None


def indexed_calls(
    calls: Iterable[FunctionCall],
    columns: frozenset[str],
    definitions: Iterable[IndexDefinition],
    schema: pa.Schema,
    *,
    utc: bool,
) -> Iterator[IndexedCall]:
    """Return the indexes that can be used for a condition with these calls and columns."""
    for item in definitions:
        if not item.is_expression or item.kind != "column_stats" or item.column not in schema.names:
            continue
        if item.function == "identity" and item.column in columns:
            yield IndexedCall(item.name, item.column, item.column, schema.field(item.column).type, None)
        for call in calls:
            if _is(call, item):
                shift = None if utc or not _depends_on_zone(call) else (call.function, _format(call))
                yield IndexedCall(item.name, item.column, text_of(call), type_of(call), shift)


def _is(call: FunctionCall, item: IndexDefinition) -> bool:
    column = call.args[0]
    if call.function != item.function or not isinstance(column, ColumnName) or column.path != (item.column,):
        return False
    if call.function != "from_unixtime":
        return len(call.args) == 1
    return _format(call) == strftime_of(item.options.get("format", DEFAULT_FORMAT))


def _depends_on_zone(call: FunctionCall) -> bool:
    kind = type_of(call.args[0])
    return call.function == "from_unixtime" or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _format(call: FunctionCall) -> str:
    given = call.args[1] if len(call.args) > 1 else None
    return str(given.value) if isinstance(given, Literal) else ""


def _widened(stats: ColumnStats, form: str) -> ColumnStats | None:
    """Widen texts of times by a day; None for formats whose texts do not sort like the times."""
    parts = [ours for _, ours in JAVA_FORMAT if ours in form]
    if sorted(parts, key=form.index) != parts or parts != [ours for _, ours in JAVA_FORMAT][: len(parts)]:
        return None
    try:
        low = dt.datetime.strptime(stats.min, form) - _DAY  # noqa: DTZ007  (the zone is unknown)
        last = dt.datetime.strptime(stats.max, form) + _LASTS[len(parts) - 1]  # noqa: DTZ007
    except (ValueError, OverflowError):
        return None
    high = last + _DAY - dt.timedelta(seconds=1)
    if low.year < 1000 or high.year > 9998:
        return None
    return ColumnStats(low.strftime(form), high.strftime(form), stats.null_count, stats.rows)
