"""The operations of a table, each one commit: the write handle used in one go, with retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.model.alteration import ColumnChanges
from pyhudi_core.model.operation import OPERATIONS, OperationType
from pyhudi_core.opened_table.table_context import PreCommit, TableContext
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.write.checks import refuse_operation
from pyhudi_core.write.handle import HandleReader, Write
from pyhudi_core.write.result import Commit
from pyhudi_core.write.retrying import retry
from pyhudi_core.write.states import WriteSpec


def run(
    context: TableContext,
    operation: OperationType,
    data: object,
    extra: Mapping[str, str],
    spark: Any = None,
    *,
    partial_rows: bool = False,
    pre_commit: PreCommit | None = None,
    gate: Gate | None = None,
) -> Commit:
    """Write a batch and commit it, with retries. ``partial_rows``: the rows may lack columns; ``gate`` as for `commit_with_retries`."""
    request = WriteSpec(context, operation, extra, spark, partial=partial_rows, pre_commit=pre_commit)
    with Write(request) as write:
        return commit_with_retries(write, partial(write.write, data), gate)


def commit_with_retries(
    write: Write,
    first: Callable[[], object],
    gate: Gate | None = None,
    look: Callable[[], object] | None = None,
    lost: Callable[[CommitConflictError], object] | None = None,
) -> Commit:
    """Write and commit. If another commit came first, plan again from the state that it left, as often as the table's options say.

    Args:
        write: a handle that has written nothing yet.
        first: writes the batch into it, for example ``lambda: write.write(rows)``. It is called once; later attempts reuse the batch.
        gate: asked just before the commit is decided, see `Write.commit`.
        look: called after each attempt, before its commit; raises to refuse what is staged.
        lost: called with each conflict after which there is another attempt, before that attempt.

    Raises `CommitConflictError` if another attempt would not help or there were enough attempts, and what the callables raise.
    """
    fillings = chain([first], repeat(write.write_again))

    def attempt() -> Commit:
        next(fillings)()
        if look is not None:
            look()
        return write.commit(gate)

    return retry(write.retries, attempt, write.give_up, lost)


def delete_found(
    context: TableContext,
    reader: HandleReader,
    where: object,
    keys_of: Callable[[Any], object],
    extra: Mapping[str, str],
    spark: Any = None,
    pre_commit: PreCommit | None = None,
) -> Commit:
    """Delete the rows that a condition finds in one state of the table. If another commit changes these rows meanwhile, they are searched again.

    ``keys_of`` takes the scan of the key and partition columns and returns the rows. Raises `PredicateError` if the condition means other rows in the
    time zone of this process's Spark session.
    """
    refuse_operation(context, OperationType.DELETE)
    columns = tuple(dict.fromkeys((*context.config.identifying_fields, *context.config.partition_fields)))
    with Write(WriteSpec(context, OperationType.DELETE, extra, spark, pre_commit=pre_commit), reader) as write:

        def attempt() -> Commit:
            found = write.scan(columns, where)
            if spark is None:
                found.refuse_other_zone()
            return write.write(keys_of(found)).commit()

        return retry(write.retries, attempt, lambda _: write.start_over())


def delete_partitions(
    context: TableContext,
    partitions: Sequence[str],
    extra: Mapping[str, str],
    *,
    missing_ok: bool = False,
    pre_commit: PreCommit | None = None,
) -> Commit:
    """Remove partitions in one replacecommit. Raises `PartitionNotFoundError` for one that does not exist, unless ``missing_ok``."""
    with Write(WriteSpec(context, OperationType.DELETE_PARTITION, extra, pre_commit=pre_commit)) as write:
        return commit_with_retries(write, partial(write.drop, partitions, missing_ok))


def alter(
    context: TableContext,
    changes: ColumnChanges,
    extra: Mapping[str, str],
    *,
    pre_commit: PreCommit | None = None,
) -> Commit:
    """Change the columns of the table in one commit without files."""
    request = WriteSpec(context, OperationType.ALTER_SCHEMA, extra, allow_empty=True, pre_commit=pre_commit)
    with Write(request) as write:
        return commit_with_retries(write, partial(write.alter, changes))


def operation_type(name: str) -> OperationType:
    """The operation that a word such as ``"upsert"`` names; ``"delete_partitions"`` is Hudi's DELETE_PARTITION."""
    found = OperationType.of(name)
    if not found.is_writer or name.strip().lower() not in (found.word, f"{found.word}s"):
        known = ", ".join(operation.word for operation in OPERATIONS if operation.is_writer)
        raise InvalidOptionError(f"{name!r} is not an operation", hint=f"Choose one of: {known}.")
    return found
