"""Find out why a needed file is missing: a clean deleted it, or the newest state is damaged (specification, "Cleaning").

The search reads the cleans of the active timeline, the newest first. A pending clean may have deleted files of its plan already. No clean deletes a
file of the newest state. So if a file of the newest state is gone, the table is damaged.
"""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import CorruptionError, LimitExceededError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder

_UNDOING = frozenset({Action.RESTORE, Action.ROLLBACK})


def lost_file(folder: TimelineFolder, path: str | None) -> CorruptionError | None:
    """Return the error for a missing file of the newest state; None if a newer file may have replaced it, or if no active commit names it.

    The timeline is read again. ``path`` is relative to the table.
    """
    partition, text = split(path or "")
    name = parse_data_file(text)
    if path is None or name is None or cleaned_by(folder, path) is not None:
        return None
    writer = _writer(folder, path, partition, name)
    if writer is None:
        return None
    return CorruptionError(
        "A file of the table's newest state is missing, and no clean deleted it",
        table=folder.storage.location,
        path=path,
        instant=writer.requested_time,
        hint="Run `pyhudi check`. Restore the file from a copy of the table, or go back to a state before this instant with table.restore(...).",
    )


def _writer(folder: TimelineFolder, path: str, partition: str, name: BaseFileName | LogFileName) -> Instant | None:
    """Return the active commit that wrote a file; None if there is none, if a later commit replaced the file, or if commits are being undone."""
    timeline = folder.load()
    if any(not one.is_completed and one.action in _UNDOING for one in timeline.instants):
        return None
    group = (partition, name.file_id)
    later: list[str] = []
    for instant in sorted(timeline.commits, key=lambda one: one.completion_time or "", reverse=True):
        commit = folder.read_commit(instant)
        if any(stat.path == path for stat in commit.stats):
            border = name.requested_time if isinstance(name, BaseFileName) else instant.completion_time or ""
            return None if any(begun > border for begun in later) else instant
        if name.file_id in commit.replaced.get(partition, ()):
            return None
        later += _bases(commit, group)
    return None


def _bases(commit: CommitMetadata, group: tuple[str, str]) -> list[str]:
    """Return the requested times of the base files that a commit wrote to a file group."""
    names = [parse_data_file(split(stat.path)[1]) for stat in commit.stats if (stat.partition, stat.file_id) == group]
    return [name.requested_time for name in names if isinstance(name, BaseFileName)]


def cleaned_by(folder: TimelineFolder, path: str) -> Instant | None:
    """Return the newest clean of the active timeline that deleted this file, or is deleting it; the path is relative to the table."""
    partition, name = split(path)
    for instant in reversed(folder.load().instants):
        if instant.action is Action.CLEAN and name in _deleted(folder, instant, partition):
            return instant
    return None


def newest_policy(folder: TimelineFolder) -> str | None:
    """Return the policy of the newest clean of the active timeline; empty if its file cannot be read, None if there is no clean."""
    cleans = (instant for instant in reversed(folder.load().instants) if instant.action is Action.CLEAN)
    newest = next(cleans, None)
    return None if newest is None else policy_of(folder, newest)


def policy_of(folder: TimelineFolder, clean: Instant) -> str:
    """Return the policy by which a clean chose its files; empty if its file does not name it."""
    record = _record(folder, clean)
    parts = [record, *(record.get("partitionMetadata") or {}).values()]
    return next((part["policy"] for part in parts if part.get("policy")), "")


def _deleted(folder: TimelineFolder, clean: Instant, partition: str) -> frozenset[str]:
    """Return the names of the files that a clean deletes in a partition; none if its file cannot be read."""
    record = _record(folder, clean)
    if clean.is_completed:
        entry = (record.get("partitionMetadata") or {}).get(partition) or {}
        return frozenset(name.rpartition("/")[2] for name in entry.get("successDeleteFiles") or ())
    infos = (record.get("filePathsToBeDeletedPerPartition") or {}).get(partition) or ()
    return frozenset((info.get("filePath") or "").rpartition("/")[2] for info in infos)


def _record(folder: TimelineFolder, clean: Instant) -> dict[str, Any]:
    """Return the record of a clean: its result, or its plan; empty if its file cannot be read."""
    done = clean.is_completed
    path = folder.file(clean if done else Instant(clean.requested_time, Action.CLEAN, State.REQUESTED))
    try:
        data = folder.storage.get(path)
        return decode_record(data, "HoodieCleanMetadata" if done else "HoodieCleanerPlan", path=path) if data else {}
    except (ObjectNotFoundError, CorruptionError, LimitExceededError):
        return {}
