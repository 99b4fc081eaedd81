"""What compaction and clustering share: which tables this release can rewrite, and the check of a plan under the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.service import Refused
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.refusals import Case

T = TypeVar("T")


def refusal_of(context: TableContext, snapshot: Snapshot, operation: OperationType) -> Refused | None:
    """Why this release cannot rewrite the table's base files; None if it can."""
    return refused_case(cases.of_service(context, operation, snapshot))


def refused_case(case: Case) -> Refused | None:
    """The first rule that refuses a service, as its plan says it; None if none does."""
    found = next(refusals.refusals_of((*refusals.BEFORE_ROWS, *refusals.AT_BEGIN), case), None)
    return None if found is None else Refused(found[1], mendable=found[0].mendable)


def refuse_taken(
    transaction: Transaction,
    planned: frozenset[Group],
    found: Timeline,
    taken_by: Callable[[Instant, CommitMetadata], frozenset[Group]],
) -> None:
    """Under the lock: raise `CommitConflictError` if another process took a planned file group since the plan was made, or a restore ended.

    Args:
        planned: the file groups of the plan.
        taken_by: the file groups that a completed commit makes unfit for the plan.
    """
    context, time = transaction.context, transaction.requested_time
    seen = concurrent.since(context, transaction.start, found, time)
    for instant, commit in seen.completed:
        _refuse(transaction, instant, planned & taken_by(instant, commit))
    for instant, groups in seen.plans:
        _refuse(transaction, instant, planned & groups, ConflictKind.PENDING_CLUSTERING)
    for instant in seen.others:
        if instant.action is Action.RESTORE:
            conflict = Conflict(ConflictKind.OPERATION, instant, operation=OperationType.RESTORE, verdict=Verdict.ABORT)
            raise conflict_error(context, conflict, time)


def _refuse(
    transaction: Transaction, instant: Instant, groups: frozenset[Group], kind: ConflictKind = ConflictKind.FILE_GROUP
) -> None:
    if groups:
        places = tuple(sorted({partition for partition, _ in groups}))
        conflict = Conflict(kind, instant, tuple(sorted(groups)), places, OperationType.of(instant.action))
        raise conflict_error(transaction.context, conflict, transaction.requested_time)


def within(taken: Iterable[T], most_bytes: int, size: Callable[[T], int]) -> list[T]:
    """Those parts of a plan, in their order, that together have no more bytes (0: no limit). Smaller parts follow one that is left out."""
    found: list[T] = []
    spent = 0
    for part in taken:
        if not most_bytes or spent + size(part) <= most_bytes:
            found.append(part)
            spent += size(part)
    return found
