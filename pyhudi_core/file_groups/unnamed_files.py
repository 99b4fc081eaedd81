"""Find the owner of a data file that no commit names: a running writer, a dead writer, an archived commit, or none.

The doctor reports by this result, and the sweep deletes by it. This package does not read such a file while its instant is on the active timeline. If
the file is older than the active timeline, every reader treats it as a file of an archived commit, so its instant is searched in the archived
timeline.

The files must be listed before the timeline is read: a writer is on the timeline before its first file exists, and its commit is there before it is
archived. So while a writer can still commit a listed file, the file never counts as a file without an owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from enum import Enum

from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import join
from pyhudi_core.model.instant import Instant
from pyhudi_core.timeline.active import Timeline

RECOVERED_KEY = "pyhudi.recovered"
"""The key in the extra metadata of each commit that a recovery made."""

_AFTER_ALL = "9" * 17


class FileOwner(Enum):
    """The owner of a file that no commit names."""

    LIVING_WRITE = "living_write"
    DEAD_WRITE = "dead_write"
    ARCHIVED_COMMIT = "archived_commit"
    NOBODY = "nobody"
    NOBODY_BUT_SHOWN = "nobody_but_shown"
    """No owner, but readers take the file for one of an archived commit."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Owners:
    """Finds the owner of a file by the requested time in its name.

    Attributes:
        timeline: the table's timeline, read after the files were listed.
        living: requested times of writers that run or may run.
        dead: requested times of pending writes whose writers are dead.
        was_archived: whether a commit with a requested time was archived; None if that is unknown.
        completed: requested times of completed commits; the caller has checked whether one of them names the file.
    """

    timeline: Timeline
    living: Set[str]
    dead: Set[str]
    was_archived: Callable[[str], bool | None]
    completed: frozenset[str] = field(init=False)
    _first: str | None = field(init=False)
    _newest: str = field(init=False)

    def __post_init__(self) -> None:
        self.completed = frozenset(instant.requested_time for instant in self.timeline.commits)
        self._first = self.timeline.first_write
        self._newest = self.timeline.high_water_mark

    def of(self, time: str) -> FileOwner:
        """Return the owner of the files with this requested time."""
        if time in self.dead:
            return FileOwner.DEAD_WRITE
        if time in self.living or (self._newest and time > self._newest):
            return FileOwner.LIVING_WRITE
        if time in self.completed:
            return FileOwner.NOBODY
        archived = self.was_archived(time)
        if archived is None:
            return FileOwner.UNKNOWN
        if archived:
            return FileOwner.ARCHIVED_COMMIT
        shown = self.timeline.has_history and (self._first is None or time < self._first)
        return FileOwner.NOBODY_BUT_SHOWN if shown else FileOwner.NOBODY


def named_paths(commit: CommitMetadata) -> Iterator[str]:
    """Yield every file that a commit names: the written files, and other logs and change logs that it names."""
    yield from commit.paths
    for partition, stats in (commit.raw.get("partitionToWriteStats") or {}).items():
        for stat in stats or ():
            for name in (*(stat.get("logFiles") or ()), *(stat.get("cdcStats") or ())):
                yield join(partition, str(name).rpartition("/")[2])


def recovered_until(timeline: Timeline, read_commit: Callable[[Instant], CommitMetadata]) -> str:
    """Return the requested time before which a recovery may have excluded files that no commit names; empty if it excluded none.

    Only the user knows these files, so they are not deleted. It is the time of the first instant after the newest commit of a recovery.
    """
    made = (instant for instant in reversed(timeline.commits.instants) if RECOVERED_KEY in read_commit(instant).extra)
    newest = next(made, None)
    if newest is None:
        return ""
    return min((i.requested_time for i in timeline if i.requested_time > newest.requested_time), default=_AFTER_ALL)
