"""What services that rewrite files share: which tables this release can rewrite, and how much one plan takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.cleaning.clean_rules import BY_VERSIONS
from pyhudi_core.services.service import Refused
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.refusals import Case

T = TypeVar("T")


def refusal_of(context: TableContext, snapshot: Snapshot, operation: OperationType) -> Refused | None:
    """Say why this release cannot rewrite the table's base files; None if it can."""
    return refused_case(cases.of_service(context, operation, snapshot))


def refused_case(case: Case) -> Refused | None:
    """Return the first rule that refuses a service, as its plan says it; None if none does."""
    found = next(refusals.refusals_of((*refusals.BEFORE_ROWS, *refusals.AT_BEGIN), case), None)
    return None if found is None else Refused(found[1], mendable=found[0].mendable)


def within(taken: Iterable[T], most_bytes: int, size: Callable[[T], int]) -> list[T]:
    """Return those parts of a plan, in their order, that together have no more bytes (0: no limit). Smaller parts follow one that is left out."""
    found: list[T] = []
    spent = 0
    for part in taken:
        if not most_bytes or spent + size(part) <= most_bytes:
            found.append(part)
            spent += size(part)
    return found


def taking_all(context: TableContext) -> TableContext:
    """Return the same table with options by which every group is compacted, every older slice deleted, and every file of nobody swept."""
    options = context.options
    chosen = replace(
        options,
        compaction=replace(options.compaction, strategy="unbounded", most_bytes=0),
        cleaning=replace(
            options.cleaning,
            policy=BY_VERSIONS,
            file_versions=1,
            partitions="",
            partition_regex="",
            max_files=0,
            incremental=False,
        ),
        upkeep=replace(options.upkeep, sweep_age_minutes=0),
    )
    return context.with_options(chosen)
