"""Check whether a new plan is still valid when it is put on the timeline: one check under the lock for the plans of all services.

Each service describes in an `Outdating` what makes its plans outdated; `refuse_outdated` looks for it among the changes since the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction


def changed_groups(_: Instant, commit: CommitMetadata) -> frozenset[Group]:
    """Return the file groups that a commit changed."""
    return Touched.by(commit).file_groups


@dataclass(frozen=True, slots=True)
class Outdating:
    """The changes by other processes that make a plan outdated.

    Attributes:
        groups: the file groups of the plan, which no other process may take. If there are any, a restore outdates the plan, too.
        taken_by: returns the file groups that the plan can no longer use after a completed commit.
        by_instant: takes the earlier state of an instant (None: it did not exist) and its current state; returns the verdict if the instant matters,
            else None.
        also: checks a timeline for other reasons; raises the error.
    """

    groups: frozenset[Group] = frozenset()
    taken_by: Callable[[Instant, CommitMetadata], frozenset[Group]] = changed_groups
    by_instant: Callable[[Instant | None, Instant], Verdict | None] | None = None
    also: Callable[[Timeline], None] | None = None


def refuse_outdated(transaction: Transaction, outdating: Outdating, found: Timeline) -> None:
    """Check under the lock that the same plan would be made now, at the same requested time; otherwise raise `CommitConflictError`."""
    if outdating.groups:
        _refuse_taken(transaction, outdating, found)
    if outdating.by_instant is not None:
        before = {(instant.requested_time, instant.action): instant for instant in transaction.start}
        for instant in found:
            verdict = outdating.by_instant(before.get((instant.requested_time, instant.action)), instant)
            if verdict is not None:
                raise _conflict(transaction, instant, verdict)
    if outdating.also is not None:
        outdating.also(found)


def _refuse_taken(transaction: Transaction, outdating: Outdating, found: Timeline) -> None:
    seen = concurrent.since(transaction.context, transaction.start, found, transaction.requested_time)
    for instant, commit in seen.completed:
        _refuse(transaction, instant, outdating.groups & outdating.taken_by(instant, commit))
    for instant, groups in seen.plans:
        _refuse(transaction, instant, outdating.groups & groups, ConflictKind.PENDING_CLUSTERING)
    for instant in seen.others:
        if instant.action is Action.RESTORE:
            raise _conflict(transaction, instant, Verdict.ABORT)


def _refuse(
    transaction: Transaction, instant: Instant, groups: frozenset[Group], kind: ConflictKind = ConflictKind.FILE_GROUP
) -> None:
    if groups:
        places = tuple(sorted({partition for partition, _ in groups}))
        conflict = Conflict(kind, instant, tuple(sorted(groups)), places, OperationType.of(instant.action))
        raise conflict_error(transaction.context, conflict, transaction.requested_time)


def _conflict(transaction: Transaction, instant: Instant, verdict: Verdict) -> CommitConflictError:
    operation = OperationType.of(instant.action)
    conflict = Conflict(ConflictKind.OPERATION, instant, operation=operation, verdict=verdict)
    return conflict_error(transaction.context, conflict, transaction.requested_time)
