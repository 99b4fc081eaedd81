"""Compute the changes of a commit to the metadata table: the records of each partition, from the written files.

Specification, "Metadata Table". Every commit must update each listed partition of the metadata table, so `records_of` refuses an unknown kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi_core.metadata_table import bloom_filters, column_statistics, names
from pyhudi_core.metadata_table.column_statistics import UNTYPED, StatisticsForm
from pyhudi_core.metadata_table.records import Records, file_lists, locations, partition_list, removals
from pyhudi_core.model.commit import WriteStat

KEPT = frozenset({names.FILES, names.COLUMN_STATS, names.PARTITION_STATS, names.RECORD_INDEX, names.BLOOM_FILTERS})
"""The partitions that this release can update, in addition to the partitions in `defined_indexes`."""


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Record keys that were added to file groups, each key with its file group; and keys that are no longer in any file group."""

    keys: pa.Array
    partitions: pa.Array
    file_ids: pa.Array
    gone: pa.Array


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The changes that a commit made to the data table.

    Attributes:
        stats: the files of the commit.
        ranges: the ranges of the columns of these files (`Written.ranges`).
        instant_ms: the requested time of the commit, in milliseconds since 1970 in the time zone of the timeline.
        columns: the columns with statistics.
        form: the form of the statistics.
        keys: the changes of record keys; None if the table has no record index.
        removed: names of files that were deleted, by partition path (cleaning).
    """

    stats: tuple[WriteStat, ...]
    ranges: pa.Table
    instant_ms: int
    columns: Sequence[str]
    keys: KeyPlaces | None = None
    removed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    form: StatisticsForm = UNTYPED
    _known: list[Sequence[column_statistics.FileBounds]] = field(default_factory=list, init=False, compare=False)

    def bounds(self) -> tuple[Sequence[column_statistics.FileBounds], list[WriteStat]]:
        """Return the bounds of columns of the files with ranges, and these files. Two partitions of the metadata table use them."""
        by_path = {stat.path: stat for stat in self.stats}
        stats = [by_path[path] for path in self.ranges.column("path").to_pylist()]
        if not self._known:
            rows = [stat.rows for stat in stats]
            self._known.append(column_statistics.bounds_of(self.ranges, rows, self.columns, self.form))
        return self._known[0], stats


def records_of(changes: CommitChanges, partition: str) -> Records:
    """Return the records of one partition of the metadata table. Raises ValueError for a partition that this release cannot update."""
    return _MAKERS[partition](changes) if partition in _MAKERS else _unknown(partition)


def _files(changes: CommitChanges) -> Records:
    files: dict[str, dict[str, int]] = {}
    for stat in changes.stats:
        for path, size in zip(stat.change_logs, stat.change_log_sizes, strict=True):
            files.setdefault(stat.partition, {})[path.rpartition("/")[2]] = size
        files.setdefault(stat.partition, {})[stat.path.rpartition("/")[2]] = stat.size
    lists = file_lists(files, changes.removed)
    # Files are removed only from partitions that are listed already.
    return lists if changes.removed and not files else Records.together([partition_list(sorted(files)), lists])


def _bloom_filters(changes: CommitChanges) -> Records:
    """Return the records of removed files. The records of written files come from tasks that read their footers."""
    return bloom_filters.tombstones(changes.removed)


def _column_stats(changes: CommitChanges) -> Records:
    if changes.removed and not changes.stats:
        return removals(column_statistics.column_stats_keys(changes.removed, changes.columns))
    bounds, stats = changes.bounds()
    return column_statistics.column_stats(bounds, [stat.path for stat in stats], [stat.partition for stat in stats])


def _partition_stats(changes: CommitChanges) -> Records:
    bounds, stats = changes.bounds()
    return column_statistics.partition_stats(bounds, [stat.partition for stat in stats])


def _locations(changes: CommitChanges) -> Records:
    keys = changes.keys
    assert keys is not None, "the record index needs the keys that a commit changed"
    placed = locations(keys.keys, keys.partitions, keys.file_ids, changes.instant_ms)
    return replace(placed, gone=keys.gone.cast(pa.string()))


def _unknown(partition: str) -> Records:
    raise ValueError(f"this release does not keep {partition}")


_MAKERS: Mapping[str, Callable[[CommitChanges], Records]] = {
    names.FILES: _files,
    names.COLUMN_STATS: _column_stats,
    names.PARTITION_STATS: _partition_stats,
    names.RECORD_INDEX: _locations,
    names.BLOOM_FILTERS: _bloom_filters,
}
