"""The operations of a table, each one commit: the write handle used in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import CommitConflictError, EmptyBatchError, InvalidOptionError
from pyhudi_core.model.commit import OperationType
from pyhudi_core.model.partition_path import full_partition
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.handle import Write, back_off, commit_with_retries
from pyhudi_core.write.result import Commit


def run(
    context: TableContext, operation: OperationType, data: object, extra: Mapping[str, str], spark: Any = None
) -> Commit:
    """Write a batch and commit it; plans anew when another commit comes first."""
    with Write(context, operation, extra, spark) as write:
        write.write(data)
        return commit_with_retries(write, context)


Found = tuple[object, Timeline]


def delete_found(
    context: TableContext, find: Callable[[], Found], extra: Mapping[str, str], spark: Any = None
) -> Commit:
    """Delete the keys that a read finds, as of the state that it read: a change of these rows meanwhile makes it look again.

    ``find`` returns the keys and the timeline that they were read from.
    """
    attempt = 0
    while True:
        keys, seen = find()
        try:
            with Write(context, OperationType.DELETE, extra, spark, since=seen) as write:
                return replace(write.write(keys).commit(), retries=attempt)
        except CommitConflictError as conflict:
            attempt = back_off(context, attempt, conflict)


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
        write.drop(tuple(dict.fromkeys(_partition(name, context) for name in partitions)))
        return commit_with_retries(write, context)


def _partition(name: str, context: TableContext) -> str:
    """The folder of a partition that is to go."""
    if not name or name.split("/", maxsplit=1)[0] == ".hoodie":
        raise InvalidOptionError(
            f"{name!r} is not the path of a partition",
            table=context.table,
            hint="Give paths below the table, such as day=2026-01-31.",
        )
    return full_partition(name, context.config)


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
