"""Find the base files that a commit adds and removes, as entries of Iceberg's manifests; and all base files of a state.

Only base files are included: for a merge-on-read table, this is the read-optimized state. Rows in logs are Avro or Parquet inside log blocks, which
no Iceberg reader can read. Positional deletes would hide old versions of rows without showing the new versions; the table never had such a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import CorruptBaseFileError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.file_groups.row_counts import rows_of_files
from pyhudi_core.file_groups.slice import BaseFile
from pyhudi_core.formats.base_file import BaseFileReader, read_footer
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.iceberg.bounds import encoded
from pyhudi_core.iceberg.columns import IcebergColumns
from pyhudi_core.iceberg.manifests import ADDED, Entry
from pyhudi_core.iceberg.partition_spec import PartitionSpec
from pyhudi_core.iceberg.table_metadata import refuse_partitions
from pyhudi_core.iceberg.tree import Key
from pyhudi_core.metadata_table.names import COLUMN_STATS
from pyhudi_core.metadata_table.statistics import trusted_stats
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import ColumnStats
from pyhudi_core.snapshot.snapshot import Snapshot

Statistics = Mapping[str, Mapping[str, ColumnStats]]
"""Statistics by file path, then by column."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A base file: its path, rows and bytes."""

    partition: str
    name: BaseFileName
    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Made:
    """The inputs of an entry: the snapshot's id and sequence number, columns, partition fields, statistics, and the table's location."""

    snapshot_id: int
    sequence: int
    columns: IcebergColumns
    spec: PartitionSpec
    statistics: Statistics
    root: str

    def entry(self, file: NamedFile) -> tuple[Key, Entry]:
        """Return the key and the entry of an added file."""
        stats = self.statistics.get(file.path, {})
        values = self.spec.values(file.partition, stats)
        data_file = {
            "content": 0,
            "file_path": f"{self.root}/{file.path}",
            "file_format": "PARQUET",
            "partition": values or {},
            "record_count": file.rows,
            "file_size_in_bytes": file.size,
            **_metrics(self.columns.ids(), stats, file.rows),
        }
        entry = {
            "status": ADDED,
            "snapshot_id": self.snapshot_id,
            "sequence_number": self.sequence,
            "file_sequence_number": self.sequence,
            "data_file": data_file,
        }
        return (int(values is not None), file.partition, file.name.file_id), entry


def _metrics(ids: Mapping[str, tuple[int, str]], stats: Mapping[str, ColumnStats], rows: int) -> Mapping[str, object]:
    """Return the metrics of a file: counts and bounds by column id. A file without statistics has no metrics, and readers never skip it."""
    nulls: list[dict[str, object]] = []
    low: list[dict[str, object]] = []
    high: list[dict[str, object]] = []
    counts: list[dict[str, object]] = []
    for name, known in stats.items():
        number, kind = ids.get(name, (0, ""))
        if not number:
            continue
        if known.null_count is not None:
            counts.append({"key": number, "value": rows})
            nulls.append({"key": number, "value": known.null_count})
        if known.min is not None and (bound := encoded(known.min, kind)) is not None:
            low.append({"key": number, "value": bound})
        if known.max is not None and not known.truncated and (bound := encoded(known.max, kind)) is not None:
            high.append({"key": number, "value": bound})
    found = {"value_counts": counts, "null_value_counts": nulls, "lower_bounds": low, "upper_bounds": high}
    return {name: sorted(pairs, key=lambda pair: str(pair["key"])) for name, pairs in found.items() if pairs}


def added_by(commit: CommitMetadata, table: str) -> list[NamedFile]:
    """Return the base files that a commit wrote. Raises `UnsupportedTableError` for formats other than Parquet."""
    found = (_new_file(stat) for stat in commit.stats)
    return [refuse_other_format(one, table) for one in found if one is not None]


def _new_file(stat: WriteStat) -> NamedFile | None:
    name = parse_data_file(split(stat.path)[1])
    if not isinstance(name, BaseFileName):
        return None
    return NamedFile(stat.partition, name, stat.path, stat.rows, stat.size)


def refuse_other_format(file: NamedFile, table: str) -> NamedFile:
    """Return the file. Raises `UnsupportedTableError` unless it is a Parquet file."""
    if not file.path.endswith(".parquet"):
        raise UnsupportedTableError(
            "Iceberg metadata is made for Parquet base files alone",
            table=table,
            path=file.path,
            hint="Nothing was written; read this table with Hudi.",
        )
    return file


def every_file(context: TableContext, snapshot: Snapshot) -> list[NamedFile]:
    """Return the newest base file of each file group of a state. If no commit has the number of rows of a file, its footer is read."""
    view = snapshot.view
    partitions = view.partitions()
    refuse_partitions(partitions, context.table)
    view.prepare(partitions)
    slices = [piece for partition in partitions for piece in view.base_slices(partition) if piece.base is not None]
    stats = {piece.base.path: piece.stat for piece in slices if piece.base is not None}
    bases = [piece.base for piece in slices if piece.base is not None]
    rows = _rows(context, [base for base in bases if stats[base.path] is None])
    rows |= {path: stat.rows for path, stat in stats.items() if stat is not None}
    made = (NamedFile(base.partition, base.name, base.path, rows[base.path], base.size) for base in bases)
    return [refuse_other_format(one, context.table) for one in made]


def _rows(context: TableContext, files: Sequence[BaseFile]) -> dict[str, int]:
    found = rows_of_files(context, files)
    missing = [file.path for file in files if file.path not in found]

    def count(path: str) -> int:
        with context.storage.open_input(path) as source:
            return read_footer(source, path).rows

    return found | dict(zip(missing, context.runtime.executor.map(count, missing), strict=True))


def statistics_of(
    context: TableContext, snapshot: Snapshot, files: Sequence[NamedFile], spec: PartitionSpec
) -> Statistics:
    """Return the statistics of these files: from the metadata table, and, for partition columns, from the footers of files that have none there, or
    cut texts.
    """
    names = [one.column for one in spec.fields]
    found = {path: dict(known) for path, known in _of_metadata_table(snapshot, files).items()}
    proved = {path: {name for name in known if not known[name].truncated} for path, known in found.items()}
    unknown = [file for file in files if not proved.get(file.path, set()).issuperset(names)]
    read = context.runtime.executor.map(lambda file: _of_footer(context, file, names), unknown)
    for file, known in zip(unknown, read, strict=True):
        before = found.get(file.path, {})
        found[file.path] = {
            **before,
            **{name: one for name, one in known.items() if name not in proved.get(file.path, ())},
        }
    return found


def _of_footer(context: TableContext, file: NamedFile, names: Sequence[str]) -> dict[str, ColumnStats]:
    """Return the statistics of these columns of a file; empty for a file that is damaged, or that a clean has deleted since its commit."""
    try:
        with context.storage.open_input(file.path) as source:
            groups = BaseFileReader(source, file.path, ()).row_group_statistics(names)
    except (CorruptBaseFileError, ObjectNotFoundError):
        return {}
    parts = {name: [group.get(name) for group in groups] for name in names}
    return {
        name: _joined(known, file.rows)
        for name, ranges in parts.items()
        if (known := [*filter(None, ranges)]) == ranges
    }


def _joined(ranges: Sequence[ColumnRange], rows: int) -> ColumnStats:
    """Return the statistics of all row groups of a column."""
    counts = [one.null_count for one in ranges]
    nulls = None if None in counts else sum(filter(None, counts))
    low, high = ([getattr(one, bound) for one in ranges] for bound in ("min", "max"))
    if not ranges or None in low or None in high:
        return ColumnStats(None, None, nulls, rows)
    return ColumnStats(min(low), max(high), nulls, rows)


def _of_metadata_table(snapshot: Snapshot, files: Iterable[NamedFile]) -> Statistics:
    metadata = snapshot.metadata
    if metadata is None or not metadata.has(COLUMN_STATS):
        return {}
    named = {(file.partition, split(file.path)[1]): file.path for file in files}
    kinds = {one.name: one.type for one in snapshot.schema}
    ranges = metadata.unless_dropped(lambda: metadata.column_stats_of(list(kinds), named)) if named else None
    found: dict[str, dict[str, ColumnStats]] = {}
    for item in ranges or ():
        stats = trusted_stats(item, kinds[item.column]) if item.column in kinds else None
        path = named.get((item.partition, item.file))
        if stats is not None and path is not None:
            found.setdefault(path, {})[item.column] = stats
    return found
