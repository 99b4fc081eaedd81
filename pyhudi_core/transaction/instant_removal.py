"""Remove completed instants from the timeline: savepoints that are deleted, and commits that a restore undoes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.timeline.active import TimelineFolder


def files_of_instant(folder: TimelineFolder, requested_time: str, actions: Collection[Action]) -> list[Instant]:
    """Return the files of the instants with this requested time and one of these actions, the completed one first.

    The lookup is by file name, so the lookup also finds files that readers ignore.
    """
    found = [i for i in folder.files()[0] if i.requested_time == requested_time and i.action in actions]
    return sorted(found, key=lambda instant: -instant.rank)


def remove_files(folder: TimelineFolder, files: Iterable[Instant]) -> None:
    """Delete these files, in this order. If the completed file is the first, a crash leaves a pending instant."""
    for file in files:
        folder.storage.delete(folder.file(file))


def remove_instant(folder: TimelineFolder, requested_time: str, actions: Collection[Action]) -> list[Instant]:
    """Delete the files of the instants with this requested time and one of these actions. Returns the deleted files."""
    found = files_of_instant(folder, requested_time, actions)
    remove_files(folder, found)
    return found
