"""Check that the files for a read of an older state still exist.

Cleaning removes older slices of file groups. A read of a state with missing files would omit rows, or return even older rows that a savepoint keeps.
So every read of an older state is checked here first. Commits that completed after the state, archived ones included, are compared with the listed
files. If no such commit names a group, the group cannot have been cleaned: only a commit that writes or replaces a group makes its older slices
removable.

A commit that rewrites a base file names the previous base file. A deltacommit names no previous file, and neither does a commit that only replaces a
group. An existing older file of the group proves nothing, because a savepoint or a hold may have kept it. So for a merge-on-read table with cleans,
and for such a group, the archived commits of the state itself are read, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from operator import itemgetter

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import READ_AS, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, join, parse_data_file
from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import TableType
from pyhudi_core.read.expired import to_keep_changes, to_keep_files
from pyhudi_core.snapshot.snapshot import Snapshot

Group = tuple[str, str]
"""Partition and file id."""


def refuse_cleaned(
    state: Snapshot, table: str, changed_by: frozenset[str] | None = None, only: Set[Group] | None = None
) -> None:
    """Raise `SnapshotExpiredError` if a file group of an older state has lost files.

    With ``changed_by``, only groups that these instants wrote are checked; with ``only``, only the given groups.
    """
    newest = state.timeline.commits
    if state.bound is None or not len(newest) or (newest[-1].completion_time or "") <= state.bound:
        return
    commits = _commits(state)
    known = _groups(state, commits, changed_by)
    if commits.has_more and any(known[group] is None for group in (known if only is None else known.keys() & only)):
        commits = _commits(state, complete=True)
        known = _groups(state, commits, changed_by)
    logs = _logs(commits)
    by_partition: dict[str, set[str]] = defaultdict(set)
    checked = known.keys() - state.visibility.replaced
    for partition, file_id in checked if only is None else checked & only:
        by_partition[partition].add(file_id)
    for partition, wanted in sorted(by_partition.items()):
        there = {piece.file_id for piece in state.view.slices(partition)}
        listed = {path.rpartition("/")[2] for path in _listed(state.view.listing, partition)}
        for file_id in sorted(wanted):
            base = known[partition, file_id]
            if file_id not in there or (base and base not in listed):
                raise _expired(
                    f"The table's state at {state.bound}", table, join(partition, base) if base else partition
                )
            # A clean deletes files one after the other, and only the commits show that a log is missing.
            for path in logs.get((partition, file_id), ()):
                if path.rpartition("/")[2] not in listed and _is_on(state, path, base):
                    raise _expired(f"The table's state at {state.bound}", table, path)


def refuse_forgotten(state: Snapshot, table: str) -> None:
    """Raise `SnapshotExpiredError` for a state before every known commit, if the table's oldest commits were archived.

    A table whose first commit is still on the timeline had no rows before it.
    """
    if state.bound is None or state.completion_time or not state.visibility.has_history():
        return
    first = next(iter(state.timeline.commits), None)
    raise SnapshotExpiredError(
        f"No known commit had completed at {state.bound}, and the table's first commits are no longer on its timeline",
        table=table,
        hint="Give a later time" + (f"; the timeline begins with the commit {first.completion_time}" if first else ""),
    )


def refuse_cleaned_change(
    listing: FileListing, table: str, commit: CommitMetadata, group: Group, before: FileSlice | None
) -> None:
    """Raise `SnapshotExpiredError` if a file is missing that a file group had before a commit or that the commit wrote."""
    partition, file_id = group
    stats = [stat for stat in commit.stats if (stat.partition, stat.file_id) == group and stat.path]
    listed = _listed(listing, partition)
    gone = [stat.path for stat in stats if stat.path not in listed]
    # The entry of a log names its own commit as the previous one. But if a log exists, the base file of its slice exists, too, if there ever was one.
    existed = file_id in commit.replaced.get(partition, ()) or any(
        _is_base(s) and s.prev_commit != "null" for s in stats
    )
    names = {path.rpartition("/")[2] for path in listed}
    before_it = (s.prev_base_file.rpartition("/")[2] for s in stats if s.prev_base_file)
    gone += [join(partition, name) for name in before_it if name not in names]
    if gone or (existed and before is None):
        raise _expired("What a commit changed", table, gone[0] if gone else partition or None, to_keep_changes)


@dataclass(frozen=True, slots=True)
class _Commits:
    """The commits around a state: the completed ones (with their requested times), and the later ones; both in the order of completion."""

    until: tuple[tuple[str, CommitMetadata], ...]
    later: tuple[CommitMetadata, ...]
    has_more: bool = False


def _commits(state: Snapshot, *, complete: bool = False) -> _Commits:
    """Read the commits. Archived commits are read only if a clean has run, or if they may have written a replaced group.

    ``complete``: after a clean, also read the archived commits of the state itself. If they were omitted, ``has_more`` is true.
    """
    read, bound, history = state.visibility.read_commit, state.bound or "", state.visibility.history
    seen = {instant.requested_time for instant in state.visibility.commits}
    until = tuple((i.requested_time, read(i)) for i in state.visibility.commits)
    later = tuple(read(i) for i in state.timeline.commits if i.requested_time not in seen)
    if not state.timeline.has_history or history is None:
        return _Commits(until, later)
    cleaned = any(i.action is Action.CLEAN for i in state.timeline) or history.holds(Action.CLEAN, bound)
    if not cleaned and not any(commit.replaced for commit in later):
        return _Commits(until, later)
    completions = {i.requested_time: i.completion_time or i.requested_time for i in state.visibility.commits}
    oldest = min(completions.values(), default="")
    # A savepoint keeps its commit active, and later ones may be archived.
    between = cleaned and oldest < history.newest_completion(bound)
    of_state = cleaned and (complete or between or state.config.table_type is TableType.MERGE_ON_READ)
    before = [(completions[time], time, commit) for time, commit in until]
    after: list[CommitMetadata] = []
    for row in history.rows_completed_after("" if of_state else bound):
        if row.metadata and row.requested_time not in seen:
            commit = CommitMetadata.from_avro(decode_record(row.metadata, READ_AS))
            completed = row.completion_time or row.requested_time
            if completed > bound:
                after.append(commit)
            else:
                before.append((completed, row.requested_time, commit))
    ordered = sorted(before, key=itemgetter(0))
    return _Commits(tuple((time, commit) for _, time, commit in ordered), (*after, *later), cleaned and not of_state)


def _groups(state: Snapshot, commits: _Commits, changed_by: frozenset[str] | None) -> dict[Group, str | None]:
    """Return the groups of the state that commits before or after it name, each with the name of its base file if known."""
    groups: dict[Group, str | None] = {}
    for _, commit in commits.until:
        for stat in (stat for stat in commit.stats if stat.path):
            name = stat.path.rpartition("/")[2] if _is_base(stat) else groups.get((stat.partition, stat.file_id))
            groups[stat.partition, stat.file_id] = name
        for group in _replaced(commit):
            groups.pop(group, None)
    named, born = set(groups), set[Group]()
    before: dict[Group, str] = {}
    for commit in commits.later:
        for stat in commit.stats:
            group = (stat.partition, stat.file_id)
            if group in groups or group in born:
                continue
            if _existed(state, stat):
                groups[group] = (stat.prev_base_file or "").rpartition("/")[2] or None
                before[group] = stat.prev_commit
            else:
                born.add(group)
        for group in _replaced(commit):
            if group not in born:
                groups.setdefault(group, None)
    if changed_by is None:
        return groups
    changed = {group for time, commit in commits.until if time in changed_by for group in _written(commit)}
    changed |= {group for group in groups.keys() - named if before.get(group, "") in {"", *changed_by}}
    return {group: groups[group] for group in changed & groups.keys()}


def _replaced(commit: CommitMetadata) -> Iterator[Group]:
    return ((partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids)


def _written(commit: CommitMetadata) -> Iterator[Group]:
    return ((stat.partition, stat.file_id) for stat in commit.stats if stat.path)


def _logs(commits: _Commits) -> dict[Group, list[str]]:
    """Return the log files that the state's commits wrote, by file group."""
    found: dict[Group, list[str]] = defaultdict(list)
    for _, commit in commits.until:
        for stat in commit.stats:
            if stat.path and not _is_base(stat):
                found[stat.partition, stat.file_id].append(stat.path)
    return found


def _is_on(state: Snapshot, path: str, base: str | None) -> bool:
    """Say whether a log file belongs to the slice of a base file, given by name; or to the slice without a base file."""
    log, below = parse_data_file(path.rpartition("/")[2]), parse_data_file(base or "")
    return log is not None and (
        below is None or state.visibility.completed_at(log.requested_time) >= below.requested_time
    )


def _existed(state: Snapshot, stat: WriteStat) -> bool:
    """Say whether the commit that previously wrote the group belongs to the state, active or archived."""
    before = stat.prev_commit
    return before != "null" and (state.visibility.is_active(before) or state.visibility.is_archived(before))


def _is_base(stat: WriteStat) -> bool:
    return isinstance(parse_data_file(stat.path.rpartition("/")[2]), BaseFileName)


def _listed(listing: FileListing, partition: str) -> set[str]:
    return {info.path for info in listing.files(partition)}


def _expired(what: str, table: str, path: str | None, keep: Callable[[], str] = to_keep_files) -> SnapshotExpiredError:
    return SnapshotExpiredError(
        f"{what} cannot be read any more: its files were cleaned",
        table=table,
        path=path,
        hint=f"Read the newest state. {keep()}",
    )
