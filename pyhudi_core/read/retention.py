"""Whether the files that a read of the past needs are still there.

Cleaning removes older slices of file groups. A state whose files are partly gone would be read with rows missing, or with even older ones that a
savepoint keeps, so reads of the past ask here first. What commits of the active timeline say is compared with the files that are listed. A group
that no commit of the active timeline names cannot have been cleaned since: only a commit that writes or replaces it gives its slices to the cleaner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, parse_data_file
from pyhudi_core.model.instant import Instant
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
    by_partition: dict[str, set[str]] = defaultdict(set)
    for partition, file_id in _groups(state, changed_by) - state.visibility.replaced:
        by_partition[partition].add(file_id)
    bases = _newest_bases(state)
    for partition, wanted in sorted(by_partition.items()):
        there = {piece.file_id for piece in state.view.slices(partition)}
        listed = _listed(state.view.listing, partition)
        for file_id in sorted(wanted):
            base = bases.get((partition, file_id))
            if file_id not in there or (base is not None and base not in listed):
                raise _expired(f"The table's state at {state.bound}", table, base or partition or None)


def refuse_cleaned_change(
    listing: FileListing, table: str, commit: CommitMetadata, group: Group, before: FileSlice | None
) -> None:
    """Raise `SnapshotExpiredError` if files are gone that a file group had before a commit or that the commit gave it."""
    partition, file_id = group
    stats = [stat for stat in commit.stats if (stat.partition, stat.file_id) == group and stat.path]
    listed = _listed(listing, partition)
    gone = [stat.path for stat in stats if stat.path not in listed]
    existed = file_id in commit.replaced.get(partition, ()) or any(s.prev_commit != "null" for s in stats)
    names = {path.rpartition("/")[2] for path in listed}
    gone += [s.prev_base_file for s in stats if s.prev_base_file and s.prev_base_file.rpartition("/")[2] not in names]
    if gone or (existed and before is None):
        raise _expired("What a commit changed", table, gone[0] if gone else partition or None)


def _groups(state: Snapshot, changed_by: frozenset[str] | None) -> set[Group]:
    """The groups that the state had, as far as commits up to it or after it tell."""
    commits = state.visibility.commits
    if changed_by is not None:
        return _written(state, (i for i in commits if i.requested_time in changed_by))
    seen = {instant.requested_time for instant in commits}
    later = [instant for instant in state.timeline.commits if instant.requested_time not in seen]
    groups, born = _written(state, commits), set[Group]()
    for instant in later:
        commit = state.visibility.read_commit(instant)
        found = {(stat.partition, stat.file_id) for stat in commit.stats if _existed(state, stat, seen)}
        found |= {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
        groups |= found - born
        born |= {(stat.partition, stat.file_id) for stat in commit.stats} - groups
    return groups


def _written(state: Snapshot, commits: Iterable[Instant]) -> set[Group]:
    stats = (stat for instant in commits for stat in state.visibility.read_commit(instant).stats)
    return {(stat.partition, stat.file_id) for stat in stats if stat.path}


def _existed(state: Snapshot, stat: WriteStat, seen: set[str]) -> bool:
    """Whether the commit that wrote the group before is one of the state, on the active timeline or archived."""
    before = stat.prev_commit
    return before != "null" and (before in seen or state.visibility.is_archived(before))


def _newest_bases(state: Snapshot) -> dict[Group, str]:
    """The path of each group's newest base file that a commit of the state names."""
    stats = (stat for instant in state.visibility.commits for stat in state.visibility.read_commit(instant).stats)
    named = ((stat, parse_data_file(stat.path.rpartition("/")[2])) for stat in stats)
    return {(stat.partition, stat.file_id): stat.path for stat, name in named if isinstance(name, BaseFileName)}


def _listed(listing: FileListing, partition: str) -> set[str]:
    return {info.path for info in listing.files(partition)}


def _expired(what: str, table: str, path: str | None) -> SnapshotExpiredError:
    return SnapshotExpiredError(
        f"{what} is gone: its files were cleaned",
        table=table,
        path=path,
        hint="Read the newest state; to keep older ones let cleans keep more commits (hoodie.clean.commits.retained) or make a savepoint.",
    )
