"""Take instants off the timeline that had completed: savepoints that are deleted, and commits that a restore undoes."""

from __future__ import annotations

from collections.abc import Collection

from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.timeline.active import TimelineFolder


def remove_instant(folder: TimelineFolder, requested_time: str, actions: Collection[Action]) -> list[Instant]:
    """Delete the files of the instants with this requested time and one of these actions, the completed file first. Returns those that were there.

    The files are looked up as they are, so also those that readers leave out. What a crash leaves of an instant is a pending one.
    """
    found = [i for i in folder.files()[0] if i.requested_time == requested_time and i.action in actions]
    for instant in sorted(found, key=lambda instant: -instant.rank):
        folder.storage.delete(folder.file(instant))
    return found


def remove_completed(folder: TimelineFolder, instant: Instant) -> None:
    """Delete the completed file of an instant, looked up in the same way."""
    for found in folder.files()[0]:
        if found.group == instant.group and found.is_completed:
            folder.storage.delete(folder.file(found))
