"""Compare column statistics of the metadata table with the footers of the newest base files.

Readers skip a file if its statistics exclude matching rows. So bounds that are narrower than the values of the file hide rows; wider bounds only cost
time. Not compared are columns whose type in the file differs from the table's, texts that writers may have truncated, tables with renamed columns,
and statistics that this package's readers do not trust (`trusted_stats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi_core.doctor import schema
from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import CorruptionError
from pyhudi_core.file_groups.slice import BaseFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.metadata_table.names import COLUMN_STATS, FOLDER
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.statistics import trusted_stats
from pyhudi_core.predicates import ColumnStats
from pyhudi_core.snapshot.snapshot import Snapshot

_AREA = Area.METADATA_TABLE
_PLACE = f"{FOLDER}/{COLUMN_STATS}"
_SHOWN_COLUMNS = 3
_LONGEST_TEXT = 32

Known = dict[tuple[str, str], dict[str, ColumnStats]]
"""Statistics by partition and file name, and column."""


def examine(exam: Examination, table: MetadataTable, snapshot: Snapshot) -> None:
    """Compare the statistics. Raises `CorruptionError` or `StorageError` if they cannot be read."""
    renamed = snapshot.evolution is not None and snapshot.evolution.renames
    if not table.has(COLUMN_STATS) or renamed:
        return
    held = table.slices.pieces(COLUMN_STATS)
    size = sum((piece.base.size if piece.base else 0) + sum(log.size for log in piece.logs) for piece in held)
    if size > exam.limits.metadata_table_bytes:
        exam.not_examined(_AREA, f"Statistics of columns have {size:,} bytes and were not compared", _PLACE)
        return
    known = schema.partitions(exam, snapshot, _AREA)
    pieces = [piece for partition in known for piece in schema.slices(exam, snapshot, partition, _AREA)]
    bases = [piece.base for piece in pieces if piece.base is not None]
    bases.sort(key=lambda base: base.name.requested_time, reverse=True)
    chosen = bases[: exam.limits.footers]
    statistics = _statistics(table, snapshot, sorted({base.partition for base in chosen}))
    compared = exam.runtime.executor.map(lambda base: _compare(exam, snapshot, base, statistics), chosen)
    exam.counts["columns compared with statistics"] = sum(compared)
    exam.add_summary(_AREA, f"{exam.examined[_AREA]}, statistics of {sum(compared):,} columns of files")


def _statistics(table: MetadataTable, snapshot: Snapshot, partitions: Sequence[str]) -> Known:
    found: Known = {}
    for item in table.column_stats(snapshot.schema.names, partitions):
        stats = trusted_stats(item, snapshot.schema.field(item.column).type)
        if stats is not None:
            found.setdefault((item.partition, item.file), {})[item.column] = stats
    return found


def _compare(exam: Examination, snapshot: Snapshot, base: BaseFile, statistics: Known) -> int:
    """Compare one file; return the number of compared columns."""
    said = statistics.get((base.partition, str(base.name)), {})
    wrong: list[str] = []
    footers: dict[str, _Footer] = {}
    try:
        with exam.recording_failures(_AREA, base.path), exam.storage.open_input(base.path) as source:
            reader = BaseFileReader(source, base.path)
            same = [name for name in said if _has_its_type(reader, snapshot, name)]
            footers = _joined(reader.row_group_statistics(same))
    except CorruptionError:
        return 0  # the examination of the schema reports it
    for name, footer in footers.items():
        what = footer.hidden_by(said[name])
        if what:
            wrong.append(f"{name!r} ({what})")
    if wrong:
        more = " among them" if len(wrong) > _SHOWN_COLUMNS else ""
        what = (
            f"Statistics of {len(wrong)} columns are narrower than the file: {', '.join(wrong[:_SHOWN_COLUMNS])}{more}"
        )
        exam.add(FindingKind.METADATA_STATISTICS_DIFFER, what, base.path, base.name.requested_time)
    return len(footers)


def _has_its_type(reader: BaseFileReader, snapshot: Snapshot, name: str) -> bool:
    return name in reader.schema.names and reader.schema.field(name).type == snapshot.schema.field(name).type


@dataclass(frozen=True, slots=True)
class _Footer:
    """The footer of a file for one column: bounds if every row group has them, and nulls if all are counted."""

    bounds: tuple[object, object] | None
    nulls: int | None

    def hidden_by(self, said: ColumnStats) -> str:
        """Return the rows of the file that a reader with these statistics would miss, in words; empty if none."""
        if self.nulls and said.null_count == 0:
            return f"the file has {self.nulls:,} nulls, the statistics none"
        if self.bounds is None:
            return ""
        low, high = self.bounds
        if said.all_null:
            return f"the file has values from {_short(low)}, the statistics only nulls"
        if _is_long(low) or _is_long(high) or said.min is None or said.max is None:
            return ""
        if low < said.min or high > said.max:
            bounds = f"{_short(said.min)} to {_short(said.max)}"
            return f"the file has {_short(low)} to {_short(high)}, the statistics {bounds}"
        return ""


def _joined(groups: list[dict[str, ColumnRange]]) -> dict[str, _Footer]:
    names = set.intersection(*map(set, groups)) if groups else set()
    found = {}
    for name in names:
        parts = [group[name] for group in groups]
        counts = [part.null_count for part in parts if part.null_count is not None]
        known = [part for part in parts if part.min is not None and part.max is not None]
        bounds = (min(part.min for part in known), max(part.max for part in known)) if known else None
        found[name] = _Footer(bounds, sum(counts) if len(counts) == len(parts) else None)
    return found


def _is_long(value: object) -> bool:
    return isinstance(value, str | bytes) and len(value) > _LONGEST_TEXT


def _short(value: object) -> str:
    return repr(value)[:60]
