"""How large a table is: rows, bytes, file groups. Told by listings and by what commits say; no row is read.

A size is that of one state, named by the newest commit in it. A later one follows from an earlier one by what the commits in between wrote and
replaced, so that its cost is theirs and not the table's: every stat of a file names the commit that wrote the file before. Where that chain does
not hold (a restored table, groups with logs, very many commits in between) all files are listed instead.

Rows of a file are counted by the commit that wrote it, on the active timeline or the archived one. Only where neither says so, footers are
read, `FOOTERS` of them at most; beyond that, and where a slice has logs, the number of rows is not known: None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pyhudi_core.file_groups.slice import BaseFile, FileSlice
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.partition_path import full_partition, partition_path
from pyhudi_core.read.bounds import TimePoint, completion_bound
from pyhudi_core.read.retention import refuse_cleaned
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext

FOOTERS = 200
"""So many footers are read at most where no commit says how many rows a file has."""
BETWEEN = 200
"""From a known size, so many later commits are added up at most; beyond that a listing is cheaper."""
Group = tuple[str, str]
Partition = str | tuple[str | None, ...]
"""A partition by its path, such as ``day=2026-01-31``, or by the values of its columns."""


@dataclass(frozen=True, slots=True)
class Size:
    """The newest slices of a table or a partition.

    Attributes:
        rows: None if it is not known without reading rows, because of logs.
        bytes: of base files and logs.
        file_groups: how many there are.
        small_files: base files below ``hoodie.parquet.small.file.limit``; inserts fill them up first.
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


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of the state that this commit made, by its requested time and its completion time; both empty before the first commit."""

    instant: str
    completion_time: str
    size: Size = Size()

    def __str__(self) -> str:
        size = self.size
        rows = "unknown" if size.rows is None else f"{size.rows:,}"
        return f"{rows} rows, {size.bytes:,} bytes in {size.file_groups:,} file groups, as of {self.completion_time}"


def table_size(context: TableContext, as_of: TimePoint | None = None, known: TableSize | None = None) -> TableSize:
    """The size of a state. Raises `SnapshotExpiredError` if it is an older one whose files are gone."""
    timeline = context.folder.load()
    until = _until(context, timeline, as_of)
    newest = _newest(context, timeline, until)
    if newest is None:
        return TableSize("", "")
    later = None if known is None else _Steps(context, timeline, until).after(known)
    if later is None:
        sizes = _sizes(context, _state(context, timeline, until), None)
        later = sum(sizes.values(), Size())
    return TableSize(newest.requested_time, newest.completion_time or "", later)


def partition_sizes(
    context: TableContext, partitions: Iterable[Partition] | None = None, as_of: TimePoint | None = None
) -> dict[Partition, Size]:
    """The size of each partition, as it was named: of these, or of all that have files. Raises `SnapshotExpiredError`."""
    timeline = context.folder.load()
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
    """The newest commit that had completed."""
    for instant in reversed(timeline.commits.instants):
        if (instant.completion_time or "") <= until:
            return instant
    archived = context.folder.history.completed_between("", until) if timeline.has_history and until else []
    return max(archived, key=lambda instant: instant.completion_time or "", default=None)


def _state(context: TableContext, timeline: Timeline, until: str) -> Snapshot:
    commits = timeline.commits
    is_newest = not len(commits) or until >= (commits[-1].completion_time or "")
    state = build(context.storage, context.folder, context.config, timeline, None if is_newest else until)
    refuse_cleaned(state, context.table)
    return state


def _sizes(context: TableContext, state: Snapshot, partitions: Sequence[str] | None) -> dict[str, Size]:
    slices = state.view.all_slices(partitions)
    rows = _rows_of(context, [piece.base for piece in slices if piece.stat is None and piece.base_file is not None])
    sizes: dict[str, Size] = {path: Size() for path in partitions or ()}
    for piece in slices:
        known = sizes.get(piece.partition, Size())
        sizes[piece.partition] = known + _size_of(context, piece, rows)
    return sizes


def _size_of(context: TableContext, piece: FileSlice, rows: dict[str, int]) -> Size:
    logs = sum(log.size for log in piece.logs)
    base = piece.base_file
    if base is None:
        return Size(None, logs, 1)
    count = piece.stat.rows if piece.stat is not None else rows.get(base.path)
    is_small = base.size < context.options.small_file_limit
    return Size(None if piece.logs else count, base.size + logs, 1, int(is_small))


def _rows_of(context: TableContext, files: Sequence[BaseFile]) -> dict[str, int]:
    """The rows of files that archived commits wrote, by their paths; a few of them by their footers."""
    commits = _archived(context, {file.name.requested_time for file in files})
    counted = {stat.path: stat.rows for commit in commits.values() for stat in commit.stats}
    found = {file.path: counted[file.path] for file in files if file.path in counted}
    missing = [file.path for file in files if file.path not in counted]
    if missing and len(missing) <= FOOTERS:
        found.update(
            zip(missing, context.runtime.executor.map(lambda path: _rows_in(context, path), missing), strict=True)
        )
    return found


def _rows_in(context: TableContext, path: str) -> int:
    with context.storage.open_input(path) as source:
        return BaseFileReader(source, path, ()).rows


def _archived(context: TableContext, requested_times: set[str]) -> dict[str, CommitMetadata]:
    """What archived commits say, by their requested times; those that are not there do not show."""
    if not requested_times:
        return {}
    found = {}
    for time, row in context.folder.history.contents(requested_times).items():
        record = CommitMetadata(None).record_name(Action(row.action))
        found[time] = (
            CommitMetadata.from_avro(decode_record(row.metadata, record)) if row.metadata else CommitMetadata(None)
        )
    return found


@dataclass(slots=True)
class _Steps:
    """From a known size to a later one, by the commits in between. ``groups`` has what they wrote so far; None: replaced."""

    context: TableContext
    timeline: Timeline
    until: str
    groups: dict[Group, WriteStat | None] = field(default_factory=dict)
    _before: dict[str, dict[Group, WriteStat]] = field(default_factory=dict)

    def after(self, known: TableSize) -> Size | None:
        """The size, or None if it cannot be told in this way."""
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
        """Whether the commit that it counts up to is still one of the table's: not rolled back, restored, or of another table."""
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
        """What the commits say that wrote the files which these commits took the place of."""
        times = {stat.prev_commit for commit in commits for stat in commit.stats if stat.prev_commit != "null"}
        active = {
            instant.requested_time: instant for instant in self.timeline.commits if instant.requested_time in times
        }
        found = {time: self.context.folder.read_commit(instant) for time, instant in active.items()}
        if self.timeline.has_history:
            found |= _archived(self.context, times - active.keys())
        for time, commit in found.items():
            self._before[time] = {(stat.partition, stat.file_id): stat for stat in commit.stats}

    def _change(self, commit: CommitMetadata, before: str) -> Size | None:
        """What one commit added, less what it replaced; ``before`` is the completion time of the one before it."""
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
                return None  # a log: how many rows there are now, only a merge knows
            old = self._old(stat)
            if old is None:
                return None
            total = total + self._size(stat) + -old
            self.groups[stat.partition, stat.file_id] = stat
        return total

    def _size(self, stat: WriteStat) -> Size:
        return Size(stat.rows, stat.size, 1, int(stat.size < self.context.options.small_file_limit))

    def _old(self, stat: WriteStat) -> Size | None:
        """What the file's group held before."""
        group = (stat.partition, stat.file_id)
        if group in self.groups:
            known = self.groups[group]
            return Size() if known is None else self._size(known)
        if stat.prev_commit == "null":
            return Size()
        found = self._before.get(stat.prev_commit, {}).get(group)
        return None if found is None else self._size(found)

    def _replaced(self, partition: str, file_ids: Iterable[str], before: str) -> Iterator[Size | None]:
        """What groups held that a commit took away; fewer sizes than groups if one is not found."""
        rest = set()
        for file_id in set(file_ids):
            known = self.groups.get((partition, file_id))
            if known is not None:
                yield self._size(known)
            else:
                rest.add(file_id)
        if rest:
            bound = build(self.context.storage, self.context.folder, self.context.config, self.timeline, before)
            slices = [piece for piece in bound.view.slices(partition) if piece.file_id in rest]
            bases = [piece.base for piece in slices if piece.stat is None and piece.base_file is not None]
            rows = _rows_of(self.context, bases)
            for piece in slices:
                size = _size_of(self.context, piece, rows)
                yield None if size.rows is None else size
