"""Code that compaction and clustering share: which tables this release can rewrite, and how many bytes one plan takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.service import Refused
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.refusals import Case

T = TypeVar("T")


def refusal_of(context: TableContext, snapshot: Snapshot, operation: OperationType) -> Refused | None:
    """Return why this release cannot rewrite the table's base files; None if it can."""
    return refused_case(cases.of_service(context, operation, snapshot))


def refused_case(case: Case) -> Refused | None:
    """Return the first rule that refuses a service, in the form of a plan's refusal; None if no rule does."""
    found = next(refusals.refusals_of((*refusals.BEFORE_ROWS, *refusals.AT_BEGIN), case), None)
    return None if found is None else Refused(found[1], mendable=found[0].mendable)


def within(taken: Iterable[T], most_bytes: int, size: Callable[[T], int]) -> list[T]:
    """Return, in order, the parts of a plan that fit into this number of bytes (0: no limit). After a part that does not fit, smaller parts may
    follow.
    """
    found: list[T] = []
    spent = 0
    for part in taken:
        if not most_bytes or spent + size(part) <= most_bytes:
            found.append(part)
            spent += size(part)
    return found
