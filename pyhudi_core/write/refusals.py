"""What a write handle refuses because of how it is used: errors to raise, with what to do."""

from __future__ import annotations

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import OperationType

_ROW_BY_ROW = frozenset({OperationType.UPSERT, OperationType.INSERT, OperationType.BULK_INSERT, OperationType.DELETE})


def nothing_written(table: str) -> InvalidOptionError:
    """The handle has no batch yet."""
    return InvalidOptionError("Nothing was written in this handle yet", table=table, hint="Call write(data) first.")


def nothing_to_change(table: str, reason: str) -> InvalidOptionError:
    """What was asked needs something staged."""
    return InvalidOptionError(
        f"This handle has nothing to change: {reason}",
        table=table,
        hint="Look at would_commit(), or at what commit() returns: it is false then.",
    )


def committed_already(table: str, instant: str) -> InvalidOptionError:
    """One handle, one commit."""
    return InvalidOptionError(
        "This handle has committed already",
        table=table,
        instant=instant or None,
        hint="Begin another write for more data.",
    )


def second_batch(table: str) -> InvalidOptionError:
    """One handle, one batch."""
    return InvalidOptionError(
        "This handle has written its batch already",
        table=table,
        hint="Put all rows into one batch (a RecordBatchReader for streams), or begin another write.",
    )


def refuse_unfit(operation: OperationType, table: str, *, drops: bool) -> None:
    """An operation is either of rows or of whole partitions."""
    if drops != (operation is OperationType.DELETE_PARTITION):
        raise InvalidOptionError(
            f"A write of the kind {operation} takes {'rows' if drops else 'whole partitions'}",
            table=table,
            hint=f"Call {'write(data)' if drops else 'drop(paths)'}, or begin a write of another kind.",
        )


def allowed_empty(operation: OperationType, table: str) -> bool:
    """True; raises `InvalidOptionError` for an operation that also takes rows away that its batch does not name."""
    if operation not in _ROW_BY_ROW:
        raise InvalidOptionError(
            f"allow_empty=True does not go together with {operation}, which replaces rows that its batch does not name",
            table=table,
            hint="Begin an upsert for a commit that changes no rows.",
        )
    return True
