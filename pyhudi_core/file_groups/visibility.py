"""Which instants, files and file groups a reader at one completion time may see. Pure but for reading commits on demand.

Rules (specification, "Reader Expectations" 2 and 3, and the facts about real writers):
- an instant is visible if it completed at or before the bound; one that is not on the active timeline any more counts as completed when
  it is older than the first active write and the table has a history. Under a bound, and for times among the active ones, the history itself is
  asked for the completion time;
- a file of an active instant is visible only if the completed commit names it, so what a dead task or a zombie leaves never shows;
- a file group named by a visible replacecommit is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.history import History


@dataclass(slots=True)
class Visibility:
    """One reader's view of a timeline. ``bound`` is a completion time, or None for everything completed; ``by_name`` is off in tests only."""

    timeline: Timeline
    bound: str | None
    read_commit: Callable[[Instant], CommitMetadata]
    has_history: Callable[[], bool]
    _visible: dict[str, Instant]
    _first_write: str | None
    _stats: dict[str, dict[str, WriteStat]]
    _replaced: frozenset[tuple[str, str]] | None = None
    _history: bool | None = None
    by_name: bool = True
    history: History | None = None
    _archived: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        bound: str | None,
        read_commit: Callable[[Instant], CommitMetadata],
        has_history: Callable[[], bool],
        *,
        by_name: bool = True,
        history: History | None = None,
    ) -> Visibility:
        visible = {
            instant.requested_time: instant
            for instant in timeline.commits
            if bound is None or (instant.completion_time or instant.requested_time) <= bound
        }
        first = timeline.first_write
        return cls(timeline, bound, read_commit, has_history, visible, first, {}, by_name=by_name, history=history)

    @property
    def commits(self) -> tuple[Instant, ...]:
        """The visible instants of the active timeline, in the order of completion."""
        return tuple(self._visible.values())

    def is_archived(self, requested_time: str) -> bool:
        """Whether a time that is not on the active timeline belongs to an archived instant that had completed at the bound."""
        if requested_time not in self._archived:
            self._archived[requested_time] = self._is_archived(requested_time)
        return self._archived[requested_time]

    @property
    def completed_until(self) -> str:
        """The bound; without one the greatest completion time that the timeline shows."""
        if self.bound is not None:
            return self.bound
        return max((instant.completion_time or "" for instant in self.timeline), default="")

    def newest_completion(self) -> str:
        """The completion time of the newest visible commit, archived ones included; empty before the first."""
        active = max((i.completion_time or "" for i in self._visible.values()), default="")
        if self.bound is None or self.history is None or not self.timeline.has_history:
            return active
        return max(active, self.history.newest_completion(self.bound))

    def _is_archived(self, requested_time: str) -> bool:
        if self._first_write is not None and requested_time >= self._first_write:
            # Archived although later than an active write: one of a process that slept, or one that a savepoint keeps.
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
        """Whether a time belongs to a visible instant of the active timeline."""
        return requested_time in self._visible

    def admits(self, requested_time: str, path: str) -> bool:
        """Whether a reader sees a data file that this instant wrote under this path."""
        if requested_time in self._visible:
            return not self.by_name or self.stat(requested_time, path) is not None
        return self.is_archived(requested_time)

    def completed_at(self, requested_time: str) -> str:
        """The completion time of an instant that a reader sees; of an archived one from the history, else its requested time."""
        instant = self._visible.get(requested_time)
        if instant is None and self.history is not None:
            instant = self.history.find(requested_time)
        return requested_time if instant is None else instant.completion_time or requested_time

    def stat(self, requested_time: str, path: str) -> WriteStat | None:
        """What the visible instant's commit says about the file, if it names it."""
        instant = self._visible.get(requested_time)
        if instant is None:
            return None
        stats = self._stats.get(requested_time)
        if stats is None:
            stats = {stat.path: stat for stat in self.read_commit(instant).stats}
            self._stats[requested_time] = stats
        return stats.get(path)

    def schema_of(self, requested_time: str) -> str | None:
        """Avro JSON of the schema in a visible instant's commit."""
        instant = self._visible.get(requested_time)
        return self.read_commit(instant).schema if instant is not None else None

    @property
    def replaced(self) -> frozenset[tuple[str, str]]:
        """(partition, file id) of every group that a visible replacecommit took away."""
        if self._replaced is None:
            self._replaced = frozenset(
                (partition, file_id)
                for instant in self._visible.values()
                if instant.action is Action.REPLACECOMMIT
                for partition, file_ids in self.read_commit(instant).replaced.items()
                for file_id in file_ids
            )
        return self._replaced
