"""The timeline of version 6 that stays in a raised table, to restore the old table and to find writes of an old release.

Its files are directly in ``.hoodie``, where no reader of version 8 looks. Until the first commit after the upgrade, the old properties would restore
the old table. Later the files are useless, and are removed. If the old timeline has a completed instant that the new timeline lacks,
a release that did not notice the upgrade wrote it: readers ignore its files. Such an instant is reported, and never removed.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.layout_one.layout import LayoutOne

FOLDER = ".hoodie"


@dataclass(frozen=True, slots=True)
class OldTimeline:
    """The files of the old timeline, as they are now.

    Attributes:
        files: their paths, except the files of `late`.
        late: completed instants that the new timeline does not have.
        pending: instants that the upgrade copied unchanged from the old timeline to the new one, to be rolled back there.
        has_newer: the table has a commit that is newer than the upgrade.
    """

    files: tuple[str, ...] = ()
    late: tuple[Instant, ...] = ()
    pending: tuple[Instant, ...] = ()
    has_newer: bool = False

    @classmethod
    def of(cls, folder: TimelineFolder, raised_at: str) -> OldTimeline:
        """Read the old timeline of a table. ``raised_at``: `TableConfig.raised_at`; a table that this package did not raise has no old timeline."""
        if not raised_at:
            return cls()
        timeline, found = folder.load(), _found(folder)
        late = _unknown(folder, timeline, found)
        times = {instant.requested_time for instant in late}
        files = tuple(path for path, i in found if i.requested_time not in times and i.requested_time < raised_at)
        pending = tuple(i for i in timeline.pending if i.requested_time < raised_at)
        newer = any(i.requested_time > raised_at for i in timeline.commits)
        return cls(files, late, pending, newer)

    @property
    def removable(self) -> tuple[str, ...]:
        """The files that are no longer needed."""
        return self.files if self.has_newer else ()

    def remove(self, storage: Storage) -> int:
        """Remove the files that are no longer needed, and return their number."""
        storage.delete_many(self.removable)
        return len(self.removable)


def left_behind(folder: TimelineFolder) -> tuple[Instant, ...]:
    """Return the completed commits that only the old timeline has. Hudi's own upgrade leaves files there that it cannot read."""
    return _unknown(folder, folder.load(), _found(folder))


def files_of(folder: TimelineFolder, instant: Instant) -> tuple[tuple[str, Instant], ...]:
    """Return the files of an instant on the old timeline, each with its state: requested, inflight, completed."""
    return tuple(sorted((one for one in _found(folder) if one[1].group == instant.group), key=lambda one: one[1].rank))


def remove_files(folder: TimelineFolder, instant: Instant) -> None:
    """Remove the files of an instant from the old timeline, because the new timeline has the instant now."""
    folder.storage.delete_many([path for path, _ in files_of(folder, instant)])


def _found(folder: TimelineFolder) -> list[tuple[str, Instant]]:
    """Return the paths of the files of the old timeline, each with its instant."""
    layout = LayoutOne()
    parsed = ((name, layout.parse(name)) for name in sorted(folder.storage.list_names(FOLDER)[0]))
    return [(f"{FOLDER}/{name}", instant) for name, instant in parsed if instant is not None]


def _unknown(folder: TimelineFolder, timeline: Timeline, found: Sequence[tuple[str, Instant]]) -> tuple[Instant, ...]:
    """Return the completed commits that were found, and that the new timeline does not have."""
    known = _known(folder, timeline, {instant.requested_time for _, instant in found})
    done = (i for _, i in found if i.is_completed and i.action in DATA_ACTIONS and i.group not in known)
    return tuple(i for i in done if i.requested_time not in folder.undone)


def _known(folder: TimelineFolder, timeline: Timeline, times: Set[str]) -> set[tuple[str, Action]]:
    """Return the completed instants of the new timeline, archived ones included, with these requested times."""
    found = {instant.group for instant in timeline.completed}
    missing = times - {time for time, _ in found}
    if missing and timeline.has_history:
        rows = folder.history.contents(missing)
        found |= {(time, Action(row.action)) for time, row in rows.items() if row.action in Action._value2member_map_}
    return found
