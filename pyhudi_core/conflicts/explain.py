"""Explain conflicts (``table.explain_conflict``): find two operations on the timeline, order them by completion, and find their line in the conflict
table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi_core.conflicts.concurrent import announced_by
from pyhudi_core.conflicts.conflict import (
    Concurrent,
    Conflict,
    Touched,
    against,
    find_conflict,
    not_compared,
    strategy_of,
)
from pyhudi_core.conflicts.explanation import ConflictExplanation, Side, explained
from pyhudi_core.conflicts.key_overlap import KeyOverlap
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, is_time
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline

_PENDING = "9"
"""A text that sorts after every completion time."""


@dataclass(frozen=True, slots=True)
class SideAndCommit:
    """A side with its commit metadata, or with the metadata of its staged commit; ``commit`` is None if other processes cannot know it yet."""

    side: Side
    commit: CommitMetadata | None = None

    @classmethod
    def of(
        cls, requested_time: str, touched: Touched, commit: CommitMetadata, completion_time: str | None
    ) -> SideAndCommit:
        """Return the side of a write whose files are written."""
        return cls(Side(requested_time, touched.operation, touched, completion_time), commit)


SideOrInstant = SideAndCommit | Instant | str
"""A side, an instant, its requested time, or a commit token."""


def explain(context: TableContext, mine: SideOrInstant, theirs: SideOrInstant) -> ConflictExplanation:
    """Return the verdict on the operation that completed later, or on ``mine`` if both are pending.

    Raises `InvalidOptionError` if an operation is not on the timeline.
    """
    timeline = context.folder.load()
    later, earlier = _found(context, timeline, mine), _found(context, timeline, theirs)
    if later.side.requested_time == earlier.side.requested_time:
        raise InvalidOptionError(
            "An instant cannot be in conflict with itself", table=context.table, hint="Give two different ones."
        )
    if _end(earlier.side) > _end(later.side):
        later, earlier = earlier, later
    at_one_time = _end(earlier.side) > later.side.requested_time
    conflict = _conflict(context, later, earlier) if at_one_time else None
    return explained(later.side, earlier.side, conflict, at_one_time=at_one_time)


def _end(side: Side) -> str:
    return side.completion_time or _PENDING


def _found(context: TableContext, timeline: Timeline, side: SideOrInstant) -> SideAndCommit:
    if isinstance(side, SideAndCommit):
        return side
    time = side.requested_time if isinstance(side, Instant) else side.partition("-")[0]
    action = side.action if isinstance(side, Instant) else None
    found = timeline.find(time, action) if is_time(time) else None
    found = found or (context.folder.archived(timeline, time, action) if is_time(time) else None)
    if found is None:
        raise InvalidOptionError(
            f"{side!s} is not on the table's timeline",
            table=context.table,
            hint="Give an instant, its requested time or a commit token; what was rolled back is gone.",
        )
    return _of_instant(context, found)


def _of_instant(context: TableContext, instant: Instant) -> SideAndCommit:
    time = instant.requested_time
    if instant.is_completed and instant.action in DATA_ACTIONS:
        commit = context.folder.read_commit(instant)
        return SideAndCommit.of(time, _replacing(Touched.by(commit)), commit, instant.completion_time)
    if instant.is_pending and instant.action in DATA_ACTIONS:
        touched = announced_by(context, instant)
        return SideAndCommit(Side(time, touched.operation, touched))
    operation = OperationType.of(instant.action)
    nothing = Touched(frozenset(), frozenset(), frozenset(), operation)
    return SideAndCommit(Side(time, operation, nothing, instant.completion_time))


def _replacing(touched: Touched) -> Touched:
    """Add the completely replaced partitions, because a commit names only partitions that were not empty."""
    if touched.operation is OperationType.INSERT_OVERWRITE_TABLE:
        return replace(touched, replaced=None)
    if touched.operation is OperationType.INSERT_OVERWRITE:
        return replace(touched, replaced=touched.inserted | (touched.replaced or frozenset()))
    return touched if touched.operation is OperationType.DELETE_PARTITION else replace(touched, replaced=frozenset())


def _conflict(context: TableContext, later: SideAndCommit, earlier: SideAndCommit) -> Conflict | None:
    touched, instant = later.side.touched, _as_instant(earlier.side)
    strategy = strategy_of(context.options.conflict.strategy, touched)
    conflict = next(against(touched, instant, earlier.side.touched, strategy), None)
    if conflict is not None or context.options.conflict.allow_duplicate_keys:
        return conflict
    if earlier.commit is None:
        both = touched.inserted & earlier.side.touched.inserted
        pending = CommitMetadata(earlier.side.operation, tuple(WriteStat("", "", p, inserts=1) for p in both))
        return find_conflict(touched, Concurrent(((instant, pending),)), strategy=strategy)
    stats = later.commit.stats if later.commit else ()
    overlap = KeyOverlap(context.storage, later.side.requested_time, stats, config=context.config)
    same_keys = overlap.compare if later.commit else not_compared
    concurrent = Concurrent(((instant, earlier.commit),))
    return find_conflict(touched, concurrent, strategy=strategy, same_keys=same_keys)


def _as_instant(side: Side) -> Instant:
    state = State.COMPLETED if side.completion_time else State.INFLIGHT
    return Instant(side.requested_time, Action.COMMIT, state, side.completion_time)
