"""The size of a table: rows, bytes, file groups. Computed from listings and commits; no row is read.

A size belongs to one state, identified by its newest commit. A later size is computed from an earlier one and from the files that the commits between
them wrote and replaced. So its cost depends on these commits and not on the table: the entry of each file names the commit of the previous file. If
this chain is broken (a restored table, groups with logs, very many commits), all files are listed instead.

Rows of a file are counted by the commit that wrote it (`file_groups.row_counts`). If neither a commit nor a few footers have the number of rows, or
if a slice has logs, the number is unknown: None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.row_counts import archived_commits, rows_of_files
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.partition_path import full_partition, partition_path
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint, completion_bound
from pyhudi_core.read.expired import naming_clean
from pyhudi_core.read.retention import refuse_cleaned
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import lost_completions

BETWEEN = 200
"""The maximum number of commits that are added to a known size; for more commits, a listing is cheaper."""
Group = tuple[str, str]
Partition = str | tuple[str | None, ...]
"""A partition by its path, such as ``day=2026-01-31``, or by the values of its columns."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Size:
    """The newest slices of a table or a partition.

    Attributes:
        rows: number of rows; None if it is unknown without reading rows, because of logs.
        bytes: size of base files and logs.
        file_groups: number of file groups.
        small_files: base files below ``hoodie.parquet.small.file.limit``; inserts fill them first.
    """

    rows: int | None = 0
    bytes: int = 0
    file_groups: int = 0
    small_files: int = 0

    def __add__(self, other: Size) -> Size:
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        groups, small = self.file_groups + other.file_groups, self.small_files + other.small_files
        return Size(rows, self.bytes + other.bytes, groups, small)

    def __neg__(self) -> Size:
        return Size(None if self.rows is None else -self.rows, -self.bytes, -self.file_groups, -self.small_files)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class TableSize:
    """The size of the state of one commit, given by its requested time and its completion time; both are empty before the first commit.

    ``other_bytes``: size of stored data files that are not part of this state, mostly older versions of its files, which a clean deletes. None if
    these files were not counted, because the size was computed from the known size of another state.
    """

    instant: str
    completion_time: str
    size: Size = Size()
    other_bytes: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        size = self.size
        rows = "unknown" if size.rows is None else f"{size.rows:,}"
        others = f"; {self.other_bytes:,} bytes more of other versions, until a clean" if self.other_bytes else ""
        return f"{rows} rows, {size.bytes:,} bytes in {size.file_groups:,} file groups, as of {self.completion_time}{others}"


def table_size(context: TableContext, as_of: TimePoint | None = None, known: TableSize | None = None) -> TableSize:
    """Return the size of a state. Raises `SnapshotExpiredError` if files of an older state are missing."""
    timeline = lost_completions.load(context)
    until = _until(context, timeline, as_of)
    newest = _newest(context, timeline, until)
    if newest is None:
        return TableSize("", "")
    later = None if known is None else _Steps(context, timeline, until).after(known)
    others = None
    if later is None:
        state = _state(context, timeline, until)
        later = sum(_sizes(context, state, None).values(), Size())
        others = _bytes_listed(state.view.listing) - later.bytes
    return TableSize(newest.requested_time, newest.completion_time or "", later, others)


def _bytes_listed(listing: FileListing) -> int:
    """Return the size of all data files in bytes, whether they are part of a state or not."""
    infos = (info for partition in listing.partitions() for info in listing.files(partition))
    return sum(info.size for info in infos if parse_data_file(split(info.path)[1]) is not None)


def partition_sizes(
    context: TableContext, partitions: Iterable[Partition] | None = None, as_of: TimePoint | None = None
) -> dict[Partition, Size]:
    """Return the size of each given partition, under the given name, or of all partitions with files. Raises `SnapshotExpiredError`."""
    timeline = lost_completions.load(context)
    state = _state(context, timeline, _until(context, timeline, as_of))
    if partitions is None:
        return {path: size for path, size in _sizes(context, state, None).items()}  # noqa: C416 - the keys get a wider type
    paths = {name: name if isinstance(name, str) else _path_of(context, name) for name in partitions}
    sizes = _sizes(context, state, sorted(set(paths.values())))
    return {name: sizes[path] for name, path in paths.items()}


def _path_of(context: TableContext, values: tuple[str | None, ...]) -> str:
    config = context.config
    named = partition_path(
        config.partition_fields, values, config.hive_style_partitioning, config.url_encode_partitioning
    )
    return full_partition(named, config)


def _until(context: TableContext, timeline: Timeline, as_of: TimePoint | None) -> str:
    newest = timeline.commits[-1].completion_time or "" if len(timeline.commits) else ""
    if as_of is None:
        return newest
    bound = completion_bound(as_of, timeline, lambda time: context.folder.archived(timeline, time), utc=context.utc)
    return min(bound, newest) if newest else bound


def _newest(context: TableContext, timeline: Timeline, until: str) -> Instant | None:
    """Return the newest commit that had completed."""
    for instant in reversed(timeline.commits.instants):
        if (instant.completion_time or "") <= until:
            return instant
    archived = context.folder.history.completed_between("", until) if timeline.has_history and until else []
    return max(archived, key=lambda instant: instant.completion_time or "", default=None)


def _state(context: TableContext, timeline: Timeline, until: str) -> Snapshot:
    commits = timeline.commits
    is_newest = not len(commits) or until >= (commits[-1].completion_time or "")
    state = build(
        context.storage,
        context.folder,
        context.config,
        timeline,
        None if is_newest else until,
        executor=context.runtime.executor,
    )
    with naming_clean(context.folder):
        refuse_cleaned(state, context.table)
    return state


def _sizes(context: TableContext, state: Snapshot, partitions: Sequence[str] | None) -> dict[str, Size]:
    slices = state.view.all_slices(partitions)
    rows = rows_of_files(context, [piece.base for piece in slices if piece.stat is None and piece.base is not None])
    sizes: dict[str, Size] = {path: Size() for path in partitions or ()}
    for piece in slices:
        known = sizes.get(piece.partition, Size())
        sizes[piece.partition] = known + _size_of(context, piece, rows)
    return sizes


def _size_of(context: TableContext, piece: FileSlice, rows: dict[str, int]) -> Size:
    logs = sum(log.size for log in piece.logs)
    base = piece.base
    if base is None:
        return Size(None, logs, 1)
    count = piece.stat.rows if piece.stat is not None else rows.get(base.path)
    is_small = base.size < context.options.files.small_limit
    return Size(None if piece.logs else count, base.size + logs, 1, int(is_small))


@dataclass(slots=True)
class _Steps:
    """The steps from a known size to a later one, by the commits between them.

    ``groups`` has the size of each group written so far; None: replaced.
    """

    context: TableContext
    timeline: Timeline
    until: str
    groups: dict[Group, WriteStat | None] = field(default_factory=dict)
    _before: dict[str, dict[Group, WriteStat]] = field(default_factory=dict)

    def after(self, known: TableSize) -> Size | None:
        """Return the size, or None if these steps cannot give it."""
        if known.size.rows is None or known.completion_time > self.until or not self._holds(known):
            return None
        commits = self._between(known.completion_time)
        if commits is None:
            return None
        read = self.context.folder.read_commit
        steps = [(commit.completion_time or "", read(commit)) for commit in commits]
        self._read_before([metadata for _, metadata in steps])
        size = known.size
        last = known.completion_time
        for completed, metadata in steps:
            change = self._change(metadata, last)
            if change is None:
                return None
            size, last = size + change, completed
        return size

    def _holds(self, known: TableSize) -> bool:
        """Say whether the commit of the known size still belongs to the table: not rolled back, not restored, not of another table."""
        if not known.instant:
            return False
        found = self.timeline.commits.find(known.instant) or self.context.folder.archived(self.timeline, known.instant)
        return found is not None and found.completion_time == known.completion_time

    def _between(self, after: str) -> list[Instant] | None:
        commits = {
            i.requested_time: i for i in self.timeline.commits if after < (i.completion_time or "") <= self.until
        }
        if self.timeline.has_history:
            archived = self.context.folder.history.completed_between(after, self.until)
            commits = {i.requested_time: i for i in archived} | commits
        ordered = sorted(commits.values(), key=lambda instant: instant.completion_time or "")
        return ordered if len(ordered) <= BETWEEN else None

    def _read_before(self, commits: Sequence[CommitMetadata]) -> None:
        """Read the commits that wrote the replaced files of these commits."""
        times = {stat.prev_commit for commit in commits for stat in commit.stats if stat.prev_commit != "null"}
        active = {
            instant.requested_time: instant for instant in self.timeline.commits if instant.requested_time in times
        }
        found = {time: self.context.folder.read_commit(instant) for time, instant in active.items()}
        if self.timeline.has_history:
            found |= archived_commits(self.context, times - active.keys())
        for time, commit in found.items():
            self._before[time] = {(stat.partition, stat.file_id): stat for stat in commit.stats}

    def _change(self, commit: CommitMetadata, before: str) -> Size | None:
        """Return the size that one commit added, minus the size that it replaced; ``before`` is the completion time of the previous commit."""
        total = Size()
        for partition, file_ids in commit.replaced.items():
            gone = list(self._replaced(partition, file_ids, before))
            for file_id in file_ids:
                self.groups[partition, file_id] = None
            if len(gone) < len(set(file_ids)) or any(size is None for size in gone):
                return None
            total = sum((-size for size in gone if size is not None), total)
        for stat in commit.stats:
            if not stat.path:
                continue
            if not isinstance(parse_data_file(split(stat.path)[1]), BaseFileName):
                return None  # a log: only a merge shows the number of rows
            old = self._old(stat)
            if old is None:
                return None
            total = total + self._size(stat) + -old
            self.groups[stat.partition, stat.file_id] = stat
        return total

    def _size(self, stat: WriteStat) -> Size:
        return Size(stat.rows, stat.size, 1, int(stat.size < self.context.options.files.small_limit))

    def _old(self, stat: WriteStat) -> Size | None:
        """Return the previous size of the file's group."""
        group = (stat.partition, stat.file_id)
        if group in self.groups:
            known = self.groups[group]
            return Size() if known is None else self._size(known)
        if stat.prev_commit == "null":
            return Size()
        found = self._before.get(stat.prev_commit, {}).get(group)
        return None if found is None else self._size(found)

    def _replaced(self, partition: str, file_ids: Iterable[str], before: str) -> Iterator[Size | None]:
        """Return the sizes of replaced groups of a commit; fewer sizes than groups if one is not found."""
        rest = set()
        for file_id in set(file_ids):
            known = self.groups.get((partition, file_id))
            if known is not None:
                yield self._size(known)
            else:
                rest.add(file_id)
        if rest:
            context = self.context
            bound = build(
                context.storage,
                context.folder,
                context.config,
                self.timeline,
                before,
                executor=context.runtime.executor,
            )
            slices = [piece for piece in bound.view.slices(partition) if piece.file_id in rest]
            bases = [piece.base for piece in slices if piece.stat is None and piece.base is not None]
            rows = rows_of_files(self.context, bases)
            for piece in slices:
                size = _size_of(self.context, piece, rows)
                yield None if size.rows is None else size
