"""Whether the files that a read of the past needs are still there.

Cleaning removes older slices of file groups. A state whose files are partly gone would be read with rows missing, or with even older ones that a
savepoint keeps, so reads of the past ask here first. What commits say that completed after the state, archived ones included, is compared with the
files that are listed. A group that none of them names cannot have been cleaned since: only a commit that writes or replaces it gives its slices to
the cleaner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, join, parse_data_file
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.snapshot.snapshot import Snapshot

Group = tuple[str, str]
"""Partition and file id."""


def refuse_cleaned(state: Snapshot, table: str, changed_by: frozenset[str] | None = None) -> None:
    """Raise `SnapshotExpiredError` if a file group of an older state has lost files.

    With ``changed_by`` only groups that these instants wrote count.
    """
    newest = state.timeline.commits
    if state.bound is None or not len(newest) or (newest[-1].completion_time or "") <= state.bound:
        return
    known = _groups(state, changed_by)
    by_partition: dict[str, set[str]] = defaultdict(set)
    for partition, file_id in known.keys() - state.visibility.replaced:
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


def refuse_forgotten(state: Snapshot, table: str) -> None:
    """Raise `SnapshotExpiredError` for a state before every commit that is known, of a table whose oldest commits were archived.

    A table that still has its first commit on the timeline had no rows before it.
    """
    if state.bound is None or state.completion_time or not state.visibility.has_history():
        return
    first = next(iter(state.timeline.commits), None)
    raise SnapshotExpiredError(
        f"No commit is known that had completed at {state.bound}, and the table's first commits have left its timeline",
        table=table,
        hint="Give a later time" + (f"; the timeline begins with the commit {first.completion_time}" if first else ""),
    )


def refuse_cleaned_change(
    listing: FileListing, table: str, commit: CommitMetadata, group: Group, before: FileSlice | None
) -> None:
    """Raise `SnapshotExpiredError` if files are gone that a file group had before a commit or that the commit gave it."""
    partition, file_id = group
    stats = [stat for stat in commit.stats if (stat.partition, stat.file_id) == group and stat.path]
    listed = _listed(listing, partition)
    gone = [stat.path for stat in stats if stat.path not in listed]
    # A log's stat names its own commit as the one before; but a log that is there has the base file of its slice beside it, if there ever was one.
    existed = file_id in commit.replaced.get(partition, ()) or any(
        _is_base(s) and s.prev_commit != "null" for s in stats
    )
    names = {path.rpartition("/")[2] for path in listed}
    gone += [s.prev_base_file for s in stats if s.prev_base_file and s.prev_base_file.rpartition("/")[2] not in names]
    if gone or (existed and before is None):
        raise _expired("What a commit changed", table, gone[0] if gone else partition or None)


def _groups(state: Snapshot, changed_by: frozenset[str] | None) -> dict[Group, str | None]:
    """The groups that the state had, as far as commits up to it or after it tell, and the name of each one's base file where they tell it."""
    commits = state.visibility.commits
    stats = (stat for instant in commits for stat in state.visibility.read_commit(instant).stats if stat.path)
    written = {(stat.partition, stat.file_id): stat.path.rpartition("/")[2] for stat in stats if _is_base(stat)}
    groups: dict[Group, str | None] = {**dict.fromkeys(_written(state, commits)), **written}
    active, born = set(groups), set[Group]()
    before: dict[Group, str] = {}
    for commit in _later(state):
        for stat in commit.stats:
            group = (stat.partition, stat.file_id)
            if group in groups or group in born:
                continue
            if _existed(state, stat):
                groups[group] = (stat.prev_base_file or "").rpartition("/")[2] or None
                before[group] = stat.prev_commit
            else:
                born.add(group)
        for group in ((partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids):
            if group not in born:
                groups.setdefault(group, None)
    if changed_by is None:
        return groups
    changed = _written(state, (i for i in commits if i.requested_time in changed_by))
    changed |= {group for group in groups.keys() - active if before.get(group, "") in {"", *changed_by}}
    return {group: groups[group] for group in changed}


def _later(state: Snapshot) -> Iterator[CommitMetadata]:
    """The commits that completed after the state, oldest first. Archived ones are older than those of the active timeline; they are read only if
    there was a clean, or a group was replaced that one of them may have made.
    """
    seen = {instant.requested_time for instant in state.visibility.commits}
    later = [i for i in state.timeline.commits if i.requested_time not in seen]
    active = [state.visibility.read_commit(instant) for instant in later]
    history = state.visibility.history
    bound = state.bound or ""
    if state.timeline.has_history and history is not None:
        cleaned = any(instant.action is Action.CLEAN for instant in state.timeline)
        if cleaned or history.holds(Action.CLEAN, bound) or any(commit.replaced for commit in active):
            for row in history.rows_completed_after(bound):
                record = CommitMetadata(None).record_name(Action(row.action))
                if row.metadata:
                    yield CommitMetadata.from_avro(decode_record(row.metadata, record))
    yield from active


def _written(state: Snapshot, commits: Iterable[Instant]) -> set[Group]:
    stats = (stat for instant in commits for stat in state.visibility.read_commit(instant).stats)
    return {(stat.partition, stat.file_id) for stat in stats if stat.path}


def _existed(state: Snapshot, stat: WriteStat) -> bool:
    """Whether the commit that wrote the group before is one of the state, on the active timeline or archived."""
    before = stat.prev_commit
    return before != "null" and (state.visibility.is_active(before) or state.visibility.is_archived(before))


def _is_base(stat: WriteStat) -> bool:
    return isinstance(parse_data_file(stat.path.rpartition("/")[2]), BaseFileName)


def _listed(listing: FileListing, partition: str) -> set[str]:
    return {info.path for info in listing.files(partition)}


def _expired(what: str, table: str, path: str | None) -> SnapshotExpiredError:
    return SnapshotExpiredError(
        f"{what} is gone: its files were cleaned",
        table=table,
        path=path,
        hint="Read the newest state; to keep older ones let cleans keep more commits (hoodie.clean.commits.retained) or make a savepoint.",
    )
