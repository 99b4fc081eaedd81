"""The first content of a metadata table: all files of an existing table, and the ranges of their columns.

Only files that a completed commit names are listed. Statistics come from Parquet footers. Logs and base files of other formats have no statistics,
so readers do not skip them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.skeletons import open_base
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.formats.base_file import ColumnRange, is_parquet
from pyhudi_core.formats.base_file.parquet_statistics import range_table
from pyhudi_core.metadata_table.changes import CommitChanges
from pyhudi_core.metadata_table.column_statistics import UNTYPED, StatisticsForm, with_unknown
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.model.internal_schema import Evolution, names_at
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import ObjectInfo, Storage

_BYTES = (pa.string(), pa.binary())


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that has no metadata table yet.

    Attributes:
        storage: the table's storage.
        listing: the listing of its folders.
        visibility: the files that completed commits name.
        schema: its columns, without meta columns.
        executor: reads footers.
        evolution: the names of columns in older files, if columns have numbers.
    """

    storage: Storage
    listing: FileListing
    visibility: Visibility
    schema: pa.Schema
    executor: Executor
    evolution: Evolution | None = None

    def files(self) -> list[WriteStat]:
        """Return all files of the table, as if one commit had written them. No file is read; before the first commit, no folder is listed."""
        if not self.visibility.commits and not self.visibility.timeline.has_history:
            return []
        partitions = self.listing.partitions()
        self.listing.prepare(partitions)
        found = [(path, info) for path in partitions for info in self.listing.files(path)]
        return [stat for path, info in found if (stat := self._stat(path, info)) is not None]

    def changes(self, form: StatisticsForm = UNTYPED) -> CommitChanges:
        """Return the files as one change, with the ranges of their columns, for statistics of this form. Raises `CorruptBaseFileError`."""
        columns = form.indexed_columns(self.schema)
        stats = {stat.path: stat for stat in self.files()}
        parquet = [path for path in stats if _has_ranges(path)]
        known = self.executor.map(lambda path: self._ranges(path, columns), parquet)
        rows = dict(zip(parquet, (count for count, _ in known), strict=True))
        listed = tuple(replace(stat, rows=rows.get(path, stat.rows)) for path, stat in stats.items())
        fields = [field for field in with_meta_fields(self.schema) if field.name in columns]
        ranges = range_table(parquet, [found for _, found in known], pa.schema(fields))
        known_ranges = with_unknown(
            pa.Table.from_batches([ranges]), [stat.path for stat in listed if _is_log(stat.path)]
        )
        return CommitChanges(listed, known_ranges, 0, columns, form=form)

    def _stat(self, partition: str, info: ObjectInfo) -> WriteStat | None:
        name = parse_data_file(split(info.path)[1])
        if name is None or not self.visibility.admits(name.requested_time, info.path):
            return None
        return WriteStat(name.file_id, info.path, partition, size=info.size)

    def _ranges(self, path: str, columns: Sequence[str]) -> tuple[int, Mapping[str, ColumnRange]]:
        """Return the number of rows of a base file, and the ranges of its columns."""
        called = self._called(path, columns)
        with open_base(self.storage, path) as reader:
            groups = reader.row_group_statistics(sorted(set(called.values())))
            counts = reader.row_group_rows
            kinds = {field.name: field.type for field in reader.schema}
        ranges = {
            name: _as_type(_together([group.get(old) for group in groups], counts, kinds[old]), kinds[old], kind)
            for name, old, kind in ((name, old, self._type(name)) for name, old in called.items())
            if old in kinds
        }
        return sum(counts), ranges

    def _called(self, path: str, columns: Sequence[str]) -> dict[str, str]:
        """Return the names of columns in a file, without columns that the file lacks."""
        name = parse_data_file(split(path)[1])
        names = None if name is None else names_at(self.evolution, name.requested_time)
        found = ((column, column if names is None else names.of(column)) for column in columns)
        return {column: old for column, old in found if old is not None}

    def _type(self, column: str) -> pa.DataType:
        return self.schema.field(column).type if column in self.schema.names else pa.string()


def _has_ranges(path: str) -> bool:
    name = parse_data_file(split(path)[1])
    return isinstance(name, BaseFileName) and is_parquet(path)


def _is_log(path: str) -> bool:
    return isinstance(parse_data_file(split(path)[1]), LogFileName)


def _together(groups: Sequence[ColumnRange | None], rows: Sequence[int], kind: pa.DataType) -> ColumnRange:
    """Return the range of several row groups. A bound is unknown if one row group with values has no bound.

    For floating-point columns it is unknown whether they contain NaN.
    """
    if any(group is None or group.null_count is None for group in groups):
        return ColumnRange(None, None, None)
    known = [group for group in groups if group is not None]
    nulls = sum(group.null_count or 0 for group in known)
    filled = [group for group, count in zip(known, rows, strict=True) if group.null_count != count]
    low = _extreme([group.min for group in filled], min)
    high = None if pa.types.is_floating(kind) else _extreme([group.max for group in filled], max)
    return ColumnRange(low, high, nulls)


def _as_type(found: ColumnRange, before: pa.DataType, after: pa.DataType) -> ColumnRange:
    """Return the range of a column whose type was changed since.

    The bounds are known if both types are integers; numbers as texts have another order.
    """
    types = pa.types
    same = before == after or (types.is_integer(before) and types.is_integer(after))
    comparable = (
        same or (before in _BYTES and after in _BYTES) or (types.is_timestamp(before) and types.is_timestamp(after))
    )
    return found if comparable else ColumnRange(None, None, found.null_count)


def _extreme(bounds: Sequence[object], choose: Callable[..., object]) -> object:
    return None if not bounds or any(bound is None for bound in bounds) else choose(bounds)
