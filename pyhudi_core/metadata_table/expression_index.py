"""Records of an expression index: bounds of a function of a column, by file and by partition (specification, "Expression Index").

The function is computed from the column of each base file that a commit writes, and from the rows of each log. Times are computed in UTC, so a
function that depends on the time zone is supported only if all sessions are known to be in UTC. Statistics of a partition are only widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.skeletons import open_base
from pyhudi_core.file_groups.slice import LogFile
from pyhudi_core.merge.log_scan import LogScan
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.column_statistics import (
    UNTYPED,
    BoundsKind,
    ColumnBounds,
    StatisticsForm,
    Subject,
    column_stats_keys,
    statistics_records,
)
from pyhudi_core.metadata_table.file_entries import KEY_FIELD, GroupEntries
from pyhudi_core.metadata_table.records import KEY, Records, RecordType, removals
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.internal_schema import in_file
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import conform
from pyhudi_core.predicates.letter_case import lowered
from pyhudi_core.storage.base import Storage

JAVA_FORMAT = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and the last second of the years 1 to 9999. Texts of other years are not sorted as their times."""


def strftime_of(java: str) -> str:
    """Return a Java time format as one of strftime."""
    for part, ours in JAVA_FORMAT:
        java = java.replace(part, ours)
    return java


def _is_known_format(java: str) -> bool:
    rest = java
    for part, _ in JAVA_FORMAT:
        rest = rest.replace(part, "")
    return not any(character.isalpha() or character in "%'[]{}#" for character in rest)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _is_exact(kind: pa.DataType) -> bool:
    """Say whether bounds of the type are exact: bounds exclude NaN, and long bytes are truncated."""
    return UNTYPED.kind_of(kind) is not None and not (pa.types.is_floating(kind) or pa.types.is_binary(kind))


def _texts_of(seconds: pa.Array, form: str) -> pa.Array:
    return pc.strftime(seconds.cast(pa.int64()).cast(pa.timestamp("s", "UTC")), format=form)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of an expression index: its column types, also in words; its values; and their stored type (None: the column's type)."""

    takes: Callable[[pa.DataType], bool]
    taken: str
    values: Callable[[pa.Array, str], pa.Array]
    result: pa.DataType | None


FUNCTIONS: Mapping[str, Function] = {
    "identity": Function(
        _is_exact, "columns of every simple type but floating-point numbers and bytes", lambda column, _: column, None
    ),
    "year": Function(_is_day, "dates and timestamps", lambda column, _: pc.year(column), pa.int32()),
    "month": Function(_is_day, "dates and timestamps", lambda column, _: pc.month(column), pa.int32()),
    "day": Function(_is_day, "dates and timestamps", lambda column, _: pc.day(column), pa.int32()),
    "hour": Function(_is_time, "timestamps", lambda column, _: pc.hour(column), pa.int32()),
    "lower": Function(pa.types.is_string, "text", lambda column, _: lowered(column), pa.string()),
    "from_unixtime": Function(pa.types.is_integer, "whole numbers", _texts_of, pa.string()),
}


def why_not(function: str, column: pa.DataType, options: Mapping[str, str], *, utc: bool) -> str:
    """Return why this release supports no index on a function of such a column; empty if it does. ``utc``: the readers' sessions are in UTC."""
    known = FUNCTIONS.get(function)
    if known is None:
        return f"is of the function {function!r}, which this release does not write; it writes {', '.join(FUNCTIONS)}"
    if not known.takes(column):
        return f"is of {function} of a column of type {column}, which this release does not write; {function} takes {known.taken}"
    if function == "from_unixtime" and not _is_known_format(options.get("format", DEFAULT_FORMAT)):
        return f"has the time format {options.get('format')!r}, of which this release does not know all parts"
    depends = function == "from_unixtime" or (function != "identity" and _is_time(column) and column.tz is not None)
    if depends and not utc:
        return (
            f"is of {function}, whose values depend on the time zone of the sessions that read and write it;"
            " set pyhudi.expression.index.timezone=UTC if all of them are in UTC"
        )
    return ""


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """An expression index of column statistics.

    Attributes:
        partition: its partition of the metadata table.
        column: the column.
        function: one of `FUNCTIONS`.
        form: the text format of ``from_unixtime``, for strftime.
        merging: how the table's logs are read.
        table_schema: the columns of the table, without meta columns.
        statistics: how bounds are stored.
    """

    partition: str
    column: str
    function: str
    form: str
    merging: Merging
    table_schema: pa.Schema
    statistics: StatisticsForm = UNTYPED

    @property
    def kind(self) -> BoundsKind:
        """Return how the bounds are stored."""
        found = self.statistics.kind_of(FUNCTIONS[self.function].result or self.table_schema.field(self.column).type)
        assert found is not None, f"{self.function} of {self.column} has no bounds"
        return found

    @property
    def schema(self) -> pa.Schema:
        """Return the schema, as `FileIndex.schema`: statistics of a file or of a partition, as its type says."""
        kept = self.kind.type
        counts = [(name, pa.int64()) for name in ("nulls", "values", "size")]
        return pa.schema(
            [KEY_FIELD, ("type", pa.int32()), ("name", pa.string()), ("min", kept), ("max", kept), *counts]
        )

    @property
    def of_slices(self) -> bool:
        """Say whether entries describe slices, as `FileIndex.of_slices`."""
        return False

    @property
    def hashed(self) -> None:
        """Return the function, as `FileIndex.hashed`."""

    def entries(self, storage: Storage, change: GroupEntries) -> Iterator[pa.RecordBatch]:
        """Yield the entries, as `FileIndex.entries`: for each new file, one of the file and one of its partition.

        A log with only deletes has no entry.
        """
        for path in change.new:
            name = split(path)[1]
            parsed = parse_data_file(name)
            log = LogFile(change.partition, parsed, 0) if isinstance(parsed, LogFileName) else None
            parts = list(self._of_base(storage, path) if log is None else self._of_log(storage, log))
            if log is not None and not sum(map(len, parts)):
                continue
            with storage.open_input(path) as source:
                size = source.size()
            yield self._entry(change.partition, name, parts, size)

    def records(self, entries: pa.Table) -> Records:
        """Return the records of entries, as `FileIndex.records`."""
        whole = entries.combine_chunks()
        of_files = whole.filter(pc.equal(whole.column("type"), int(RecordType.COLUMN_STATS)))
        of_partitions = whole.filter(pc.equal(whole.column("type"), int(RecordType.PARTITION_STATS)))
        sums = [("min", "min"), ("max", "max"), *((name, "sum") for name in ("nulls", "values", "size"))]
        found = of_partitions.group_by([KEY, "name"], use_threads=False).aggregate(sums)
        merged = found.rename_columns({f"{name}_{function}": name for name, function in sums})
        records = Records.together(
            [self._records(RecordType.COLUMN_STATS, of_files), self._records(RecordType.PARTITION_STATS, merged)]
        )
        return records.take(pc.sort_indices(records.keys))

    def _records(self, kind: RecordType, rows: pa.Table) -> Records:
        of = {name: _one(rows.column(name)) for name in rows.column_names}
        bounds = ColumnBounds(self.kind, of["min"], of["max"], of["nulls"], of["values"])
        # Hudi doubles the size for the bytes before compression.
        sizes = of["size"], pc.multiply(of["size"], 2)
        return statistics_records(kind, Subject(self.column, of[KEY], of["name"]), [bounds], sizes)

    def _entry(self, partition: str, name: str, parts: Sequence[pa.Array], size: int) -> pa.RecordBatch:
        column = pa.chunked_array(parts, self.table_schema.field(self.column).type)
        filled = column.drop_null()
        low, high = self._bounds(filled)
        of_file = names.column_stats_key(self.column, partition, name)
        of_partition = names.expression_partition_key(self.column, partition)
        rows = [[of_file, of_partition], [int(RecordType.COLUMN_STATS), int(RecordType.PARTITION_STATS)]]
        rows += [[name, names.partition_name(partition)]]
        columns = [pa.array(row, field.type) for row, field in zip(rows, self.schema, strict=False)]
        columns += [pa.repeat(low, 2), pa.repeat(high, 2)]
        columns += [pa.repeat(pa.scalar(n, pa.int64()), 2) for n in (len(column) - len(filled), len(filled), size)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _bounds(self, filled: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
        """Return the least and the greatest value of the function; null if there is no value."""
        kind = self.kind
        if self.function == "from_unixtime" and not _in_known_years(filled):
            return pa.scalar(kind.lowest, kind.type), pa.scalar(kind.highest, kind.type)
        values = [FUNCTIONS[self.function].values(chunk, self.form).cast(kind.type) for chunk in filled.chunks]
        found = pc.min_max(pa.chunked_array(values, kind.type))
        return found["min"], found["max"]

    def _of_base(self, storage: Storage, path: str) -> Iterator[pa.Array]:
        """Yield the column of a base file, in parts."""
        found = parse_data_file(split(path)[1])
        named = None if found is None else self.merging.names_at(found.requested_time)
        wanted = pa.schema([self.table_schema.field(self.column)])
        with open_base(storage, path, in_file(named, wanted.names)) as reader:
            for batch in reader.iter_batches():
                yield conform(batch, wanted, named).column(0)

    def _of_log(self, storage: Storage, log: LogFile) -> Iterator[pa.Array]:
        """Yield the column of the rows in a log."""
        merging, schema = self.merging, with_meta_fields(self.table_schema)
        columns = merging.columns(pa.schema([schema.field(self.column)]), schema)
        scan = LogScan(storage, (log,), log.writers.__contains__)
        entries = scan.entries(merging.log_columns(columns))
        if entries is not None:
            yield from entries.rows.column(self.column).filter(pa.array(~entries.deleted)).chunks


def removed(column: str, files: Mapping[str, Sequence[str]]) -> Records:
    """Return the change that removes the statistics of deleted files; ``files``: names by partition path."""
    return removals(column_stats_keys(files, [column]))


def _in_known_years(seconds: pa.ChunkedArray) -> bool:
    found = pc.min_max(seconds).as_py()
    low, high = found["min"], found["max"]
    return low is None or (low >= _FIRST_SECOND and high <= _LAST_SECOND)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
