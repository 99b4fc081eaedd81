"""What compaction and clustering share: which tables this release can rewrite, and the check of a plan under the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import HudiError, UnsupportedTableError
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.service import Refused
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write import metadata_update

T = TypeVar("T")


def refusal_of(context: TableContext, snapshot: Snapshot) -> Refused | None:
    """Why this release cannot rewrite the table's base files; None if it can."""
    config = context.config
    several = config.raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true"
    if config.base_file_format != "PARQUET" or several:
        return _never(context, "its base files are not all Parquet files, and this release writes no others")
    if not config.populate_meta_fields:
        return _never(context, "it has no meta columns (hoodie.populate.meta.fields=false)")
    try:
        metadata_update.refuse_unkept(context)
        metadata_update.refuse_undefined(context, snapshot.schema)
        Merging(config).law()
    except HudiError as error:
        return Refused(error)
    return None


def _never(context: TableContext, why: str) -> Refused:
    """The refusal of a kind of table."""
    hint = "Nothing was changed. Run this service with the program that made the table."
    error = UnsupportedTableError(f"The table's files cannot be rewritten: {why}", table=context.table, hint=hint)
    return Refused(error, mendable=False)


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
