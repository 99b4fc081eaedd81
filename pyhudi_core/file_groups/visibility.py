"""Decide which instants, files and file groups a reader at one completion time sees. Pure, except that commits are read when needed.

Rules (specification, "Reader Expectations" 2 and 3, and the behaviour of real writers):
- an instant is visible if it completed at or before the bound. An instant that is not on the active timeline counts as completed if it is older than
  the first active write and the table has an archived timeline. If there is a bound, or if the active timeline has the same time, its completion
  time is looked up in the archived timeline;
- a file of an active instant is visible only if the completed commit names it, so files of failed tasks and writers are never seen;
- a file group that a visible replacecommit replaced is not visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import READABLE_EXTENSIONS, split
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.history import ArchivedTimeline


@dataclass(slots=True)
@printable
class Visibility:
    """One reader's view of a timeline. ``bound`` is a completion time, or None for all completed instants; only tests
    switch ``by_name`` off.

    A table that was ``raised`` from version 6 keeps logs with names of that version. Such a name has the time of the log's base file; the commit
    that names the log's path wrote the log.
    """

    timeline: Timeline
    bound: str | None
    read_commit: Callable[[Instant], CommitMetadata]
    has_history: Callable[[], bool]
    _visible: dict[str, Instant]
    _first_write: str | None
    _stats: dict[tuple[str, str], dict[str, WriteStat]]
    _replaced: frozenset[tuple[str, str]] | None = None
    _history: bool | None = None
    by_name: bool = True
    history: ArchivedTimeline | None = None
    raised: bool = False
    _archived: dict[str, bool] = field(default_factory=dict)
    _old_logs: dict[str, dict[str, WriteStat]] | None = None
    _archived_since: dict[str, frozenset[str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Visibility of a {self.timeline!r}"

    def _shown(self) -> dict[str, object]:
        return {"timeline": self.timeline, "bound": self.bound}

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        bound: str | None,
        read_commit: Callable[[Instant], CommitMetadata],
        has_history: Callable[[], bool],
        *,
        by_name: bool = True,
        history: ArchivedTimeline | None = None,
        raised: bool = False,
    ) -> Visibility:
        visible = {
            instant.requested_time: instant
            for instant in timeline.commits
            if bound is None or (instant.completion_time or instant.requested_time) <= bound
        }
        first = timeline.first_write
        return cls(
            timeline,
            bound,
            read_commit,
            has_history,
            visible,
            first,
            {},
            by_name=by_name,
            history=history,
            raised=raised,
        )

    @property
    def commits(self) -> tuple[Instant, ...]:
        """The visible instants of the active timeline, in the order of completion."""
        return tuple(self._visible.values())

    def is_archived(self, requested_time: str) -> bool:
        """Say whether a time that is not on the active timeline belongs to an archived instant that had completed at the bound."""
        if requested_time not in self._archived:
            self._archived[requested_time] = self._is_archived(requested_time)
        return self._archived[requested_time]

    @property
    def completed_until(self) -> str:
        """The bound; without one, the greatest completion time on the timeline."""
        if self.bound is not None:
            return self.bound
        return max((instant.completion_time or "" for instant in self.timeline), default="")

    def newest_completion(self) -> str:
        """Return the completion time of the newest visible commit, archived ones included; empty before the first."""
        active = max((i.completion_time or "" for i in self._visible.values()), default="")
        if self.bound is None or self.history is None or not self.timeline.has_history:
            return active
        return max(active, self.history.newest_completion(self.bound))

    def _is_archived(self, requested_time: str) -> bool:
        if self._first_write is not None and requested_time >= self._first_write:
            # Archived although later than an active write: the instant of a delayed process, or one that a savepoint
            # keeps.
            known = any(i.requested_time == requested_time and i.action in WRITE_ACTIONS for i in self.timeline)
            return not known and self.timeline.has_history and self._was_completed(requested_time)
        if self._history is None:
            self._history = self.has_history()
        return self._history and (self.bound is None or self._was_completed(requested_time))

    def _was_completed(self, requested_time: str) -> bool:
        if self.history is None:
            return False
        found = self.history.find(requested_time)
        return found is not None and (found.completion_time or requested_time) <= self.completed_until

    def is_active(self, requested_time: str) -> bool:
        """Say whether a time belongs to a visible instant of the active timeline."""
        return requested_time in self._visible

    def is_settled(self, file_name: str) -> bool:
        """Say whether a file is a base file that no process writes any more, as far as readers can see.

        Its instant has completed, or is older than the active timeline.
        """
        stem, _, extension = file_name.rpartition(".")
        if file_name.startswith(".") or extension not in READABLE_EXTENSIONS:
            return False
        time = stem.rpartition("_")[2]
        return time in self._visible or (self._first_write is not None and time < self._first_write)

    def admits(self, requested_time: str, path: str) -> bool:
        """Say whether a reader sees a data file that this instant wrote under this path."""
        if requested_time in self._visible:
            named = not self.by_name or self.stat(requested_time, path) is not None
            return named or bool(self._archived_writers(requested_time, path))
        return self.is_archived(requested_time) or self._stat_of_old_log(path) is not None

    def completed_at(self, requested_time: str) -> str:
        """Return the completion time of an instant; for an archived instant the time in the archived timeline, or otherwise its requested time."""
        instant = self._visible.get(requested_time)
        if instant is not None:
            return instant.completion_time or requested_time
        return requested_time if self.history is None else self.history.completed_at(requested_time)

    def stat(self, requested_time: str, path: str) -> WriteStat | None:
        """Return the entry of a data file or change log in its visible commit; None if no visible commit names it."""
        instant = self._visible.get(requested_time)
        found = None if instant is None else self._stat_in(instant, path)
        return self._stat_of_old_log(path) if found is None else found

    def _stat_of_old_log(self, path: str) -> WriteStat | None:
        """Return the entry of a log whose name is of version 6, in the newest visible commit that wrote it."""
        stats = self._stats_of_old_log(path)
        return stats[max(stats)] if stats else None

    def _stats_of_old_log(self, path: str) -> dict[str, WriteStat]:
        """Return the entries of a log by the requested times of the visible commits that wrote to it.

        On storages with append there can be several.
        """
        if not self.raised or not split(path)[1].startswith("."):
            return {}
        if self._old_logs is None:
            self._old_logs = {}
            for instant in self._visible.values():
                for stat in self.read_commit(instant).stats:
                    if split(stat.path)[1].startswith("."):
                        self._old_logs.setdefault(stat.path, {})[instant.requested_time] = stat
        return self._old_logs.get(path, {})

    def writers_of_old_log(self, requested_time: str, path: str) -> frozenset[str]:
        """Return the requested times of the instants whose blocks of a log count.

        The result is empty if only the instant of the time in the log's name wrote it, as from version 8 on.
        """
        if not self.raised:
            return frozenset()
        known = frozenset(self._stats_of_old_log(path))
        if requested_time in self._visible:
            return known or self._archived_writers(requested_time, path)
        return known | self._since(requested_time) if self.is_archived(requested_time) else known

    def with_writers(self, piece: FileSlice) -> FileSlice:
        """Return a slice of a plan with the writers of its logs: a plan has only names, and in a raised table they may be of version 6."""
        if not self.raised:
            return piece
        logs = (
            replace(log, older_writers=self.writers_of_old_log(log.name.requested_time, log.path)) for log in piece.logs
        )
        return replace(piece, logs=tuple(logs))

    def _since(self, requested_time: str) -> frozenset[str]:
        """Return the requested times of archived instants from this one on that had completed at the bound."""
        found = self._archived_since.get(requested_time)
        if found is None:
            _, archived = self.history.begun_since(requested_time) if self.history is not None else ("", [])
            until = self.completed_until
            found = frozenset(i.requested_time for i in archived if (i.completion_time or i.requested_time) <= until)
            self._archived_since[requested_time] = found
        return found

    def _archived_writers(self, requested_time: str, path: str) -> frozenset[str]:
        """Return the archived instants that may have written to a log that no visible commit names, and whose base file is of an active commit.

        These instants are archived before that commit if a savepoint keeps it, or kept it (``hoodie.archive.beyond.savepoint``).
        """
        is_log = self.raised and self.timeline.has_history and split(path)[1].startswith(".")
        return self._since(requested_time) if is_log else frozenset()

    def _stat_in(self, instant: Instant, path: str) -> WriteStat | None:
        requested_time = instant.requested_time
        place = (requested_time, split(path)[0])
        stats = self._stats.get(place)
        if stats is None:
            found = self.read_commit(instant).by_folder.get(place[1], ())
            stats = {named: stat for stat in found for named in (stat.path, *stat.change_logs)}
            self._stats[place] = stats
        return stats.get(path)

    def schema_of(self, requested_time: str) -> str | None:
        """Return the Avro JSON of the schema in a visible instant's commit."""
        instant = self._visible.get(requested_time)
        return self.read_commit(instant).schema if instant is not None else None

    @property
    def replaced(self) -> frozenset[tuple[str, str]]:
        """The (partition, file id) of every group that a visible replacecommit replaced."""
        if self._replaced is None:
            self._replaced = frozenset(
                (partition, file_id)
                for instant in self._visible.values()
                if instant.action is Action.REPLACECOMMIT
                for partition, file_ids in self.read_commit(instant).replaced.items()
                for file_id in file_ids
            )
        return self._replaced
