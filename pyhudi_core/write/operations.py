"""The operations of a table, each one commit: the write handle used in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import EmptyBatchError, InvalidOptionError
from pyhudi_core.model.commit import OperationType
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.handle import Write, commit_with_retries
from pyhudi_core.write.result import Commit


def run(
    context: TableContext, operation: OperationType, data: object, extra: Mapping[str, str], spark: Any = None
) -> Commit:
    """Write a batch and commit it; plans anew when another commit comes first."""
    with Write(context, operation, extra, spark) as write:
        write.write(data)
        return commit_with_retries(write, context)


def delete_partitions(context: TableContext, partitions: Sequence[str], extra: Mapping[str, str]) -> Commit:
    """Take whole partitions away in one replacecommit."""
    if isinstance(partitions, str) or not partitions:
        raise InvalidOptionError(
            "delete_partitions takes a list of partition paths, at least one",
            table=context.table,
            hint='For example delete_partitions(["day=2026-01-31"]).',
        )
    if not context.config.is_partitioned:
        raise InvalidOptionError(
            "The table has no partitions", table=context.table, hint="Use delete(where=...) to delete rows."
        )
    with Write(context, OperationType.DELETE_PARTITION, extra) as write:
        write.drop(tuple(dict.fromkeys(partitions)))
        return commit_with_retries(write, context)


def refuse_empty(keys: pa.Table, table: str) -> None:
    """A delete whose condition finds nothing makes no commit."""
    if keys.num_rows == 0:
        raise EmptyBatchError(
            "No row matches the condition", table=table, hint="Nothing was deleted, and no commit was made."
        )


def operation_type(name: str) -> OperationType:
    """The operation that a word such as ``"upsert"`` names."""
    try:
        return OperationType[name.strip().upper()]
    except KeyError:
        known = ", ".join(item.lower() for item in OperationType)
        raise InvalidOptionError(f"{name!r} is not an operation", hint=f"Choose one of: {known}.") from None
