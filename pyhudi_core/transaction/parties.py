"""The two sides of ``table.explain_conflict``: found on the timeline, put in order, held against the conflict table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, is_time
from pyhudi_core.model.operation import OperationType
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.conflict import Concurrent, Conflict, Touched, against, find_conflict, not_compared
from pyhudi_core.transaction.conflict_strategies import STRATEGIES
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.explanation import Explanation, Party, explained
from pyhudi_core.transaction.key_overlap import KeyOverlap
from pyhudi_core.transaction.running import announced_by

_PENDING = "9"
"""Sorts after every completion time."""


@dataclass(frozen=True, slots=True)
class WholeParty:
    """A side with what its commit says or will say; ``commit`` is None while nobody else can know."""

    party: Party
    commit: CommitMetadata | None = None

    @classmethod
    def of(
        cls, requested_time: str, touched: Touched, commit: CommitMetadata, completion_time: str | None
    ) -> WholeParty:
        """The side of a write whose files are written."""
        return cls(Party(requested_time, touched.operation, touched, completion_time), commit)


Side = WholeParty | Instant | str
"""A side, an instant, its requested time, or a commit token."""


def explain(context: TableContext, mine: Side, theirs: Side) -> Explanation:
    """Judge the one of the two that completed later; ``mine`` if both are pending. Raises `InvalidOptionError` for what is not on the timeline."""
    timeline = context.folder.load()
    later, earlier = _found(context, timeline, mine), _found(context, timeline, theirs)
    if later.party.requested_time == earlier.party.requested_time:
        raise InvalidOptionError(
            "An instant cannot be in conflict with itself", table=context.table, hint="Give two different ones."
        )
    if _end(earlier.party) > _end(later.party):
        later, earlier = earlier, later
    at_one_time = _end(earlier.party) > later.party.requested_time
    conflict = _conflict(context, later, earlier) if at_one_time else None
    return explained(later.party, earlier.party, conflict, at_one_time=at_one_time)


def _end(party: Party) -> str:
    return party.completion_time or _PENDING


def _found(context: TableContext, timeline: Timeline, side: Side) -> WholeParty:
    if isinstance(side, WholeParty):
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


def _of_instant(context: TableContext, instant: Instant) -> WholeParty:
    time = instant.requested_time
    if instant.is_completed and instant.action in DATA_ACTIONS:
        commit = context.folder.read_commit(instant)
        return WholeParty.of(time, _replacing(Touched.by(commit)), commit, instant.completion_time)
    if instant.is_pending and instant.action in DATA_ACTIONS:
        touched = announced_by(context, instant)
        return WholeParty(Party(time, touched.operation, touched))
    operation = OperationType.of(instant.action)
    nothing = Touched(frozenset(), frozenset(), frozenset(), operation)
    return WholeParty(Party(time, operation, nothing, instant.completion_time))


def _replacing(touched: Touched) -> Touched:
    """With the partitions that it replaced; a commit names only those that were not empty."""
    if touched.operation is OperationType.INSERT_OVERWRITE_TABLE:
        return replace(touched, replaced=None)
    if touched.operation is OperationType.INSERT_OVERWRITE:
        return replace(touched, replaced=touched.inserted | (touched.replaced or frozenset()))
    return touched if touched.operation is OperationType.DELETE_PARTITION else replace(touched, replaced=frozenset())


def _conflict(context: TableContext, later: WholeParty, earlier: WholeParty) -> Conflict | None:
    strategy = STRATEGIES[context.options.conflict.strategy]
    touched, instant = later.party.touched, _as_instant(earlier.party)
    conflict = next(against(touched, instant, earlier.party.touched, strategy), None)
    if conflict is not None or context.options.conflict.allow_duplicate_keys:
        return conflict
    if earlier.commit is None:
        both = touched.inserted & earlier.party.touched.inserted
        pending = CommitMetadata(earlier.party.operation, tuple(WriteStat("", "", p, inserts=1) for p in both))
        return find_conflict(touched, Concurrent(((instant, pending),)), strategy=strategy)
    stats = later.commit.stats if later.commit else ()
    overlap = KeyOverlap(context.storage, later.party.requested_time, stats)
    same_keys = overlap.compare if later.commit else not_compared
    concurrent = Concurrent(((instant, earlier.commit),))
    return find_conflict(touched, concurrent, strategy=strategy, same_keys=same_keys)


def _as_instant(party: Party) -> Instant:
    state = State.COMPLETED if party.completion_time else State.INFLIGHT
    return Instant(party.requested_time, Action.COMMIT, state, party.completion_time)
