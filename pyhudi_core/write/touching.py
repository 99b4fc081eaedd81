"""What a write replaces and touches by its operation, whether its rows still fit the table, and what it may keep in its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError, PartitionNotFoundError, SchemaMismatchError
from pyhudi_core.file_groups.row_counts import rows_of_slices
from pyhudi_core.model.commit import ROWS_REPLACED_KEY, SCHEMA_KEY, CommitMetadata, OperationType
from pyhudi_core.model.schema import reconcile, to_avro
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.prepare import Prepared

_NAMED = 5
_OWN_KEYS = (SCHEMA_KEY, TOKEN_KEY, ROWS_REPLACED_KEY)
_OVERWRITING = frozenset({OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})


def replaced_by(
    operation: OperationType, snapshot: Snapshot, prepared: Prepared | None, partitions: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The file ids that the operation takes away, by partition; ``partitions`` are those that a delete_partitions names."""
    if operation is OperationType.INSERT_OVERWRITE_TABLE:
        return _groups_of(snapshot, snapshot.view.partitions())
    if operation in _OVERWRITING and prepared is not None:
        return _groups_of(snapshot, prepared.volumes)
    return _groups_of(snapshot, partitions)


def _groups_of(snapshot: Snapshot, partitions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The file ids of every visible group of the partitions."""
    found = {partition: tuple(piece.file_id for piece in snapshot.view.slices(partition)) for partition in partitions}
    return {partition: file_ids for partition, file_ids in found.items() if file_ids}


def touched_by(
    metadata: CommitMetadata, operation: OperationType, prepared: Prepared | None, partitions: tuple[str, ...]
) -> Touched:
    """What the write touched, with the partitions that it replaces even where they are empty."""
    touched = Touched.by(metadata)
    if operation is OperationType.INSERT_OVERWRITE_TABLE:
        return replace(touched, replaced=None)
    if operation is OperationType.DELETE_PARTITION:
        return replace(touched, replaced=frozenset(partitions))
    if operation in _OVERWRITING and prepared is not None:
        return replace(touched, replaced=frozenset(prepared.volumes))
    return replace(touched, replaced=frozenset())


def fitted(prepared: Prepared, operation: OperationType, now: pa.Schema, table: str) -> Prepared:
    """Deletes keep the table's columns as they are now; rows that were prepared for other columns cannot be written any more."""
    if operation is OperationType.DELETE:
        return replace(prepared, schema=now)
    if reconcile(now, prepared.schema) != prepared.schema:
        raise SchemaMismatchError(
            "Another writer changed the table's columns meanwhile",
            table=table,
            hint="Nothing was published; write again with these columns.",
        )
    return prepared


def known_partitions(
    snapshot: Snapshot, partitions: tuple[str, ...], table: str, *, missing_ok: bool
) -> tuple[str, ...]:
    """The partitions that have rows. Raises `PartitionNotFoundError` if that is not all of them, unless it is ``missing_ok``."""
    snapshot.view.prepare(partitions)
    known = tuple(partition for partition in partitions if snapshot.view.slices(partition))
    missing = [partition for partition in partitions if partition not in known]
    if missing and not missing_ok:
        with_rows = [path for path in snapshot.view.partitions() if snapshot.view.slices(path)]
        similar = get_close_matches(missing[0], with_rows, n=3)
        hint = f"There is {' and '.join(map(repr, similar))}. " if similar else ""
        raise PartitionNotFoundError(
            f"The table has no partition {', '.join(map(repr, missing[:_NAMED]))}"
            + (" and others" * (len(missing) > _NAMED)),
            table=table,
            hint=f"{hint}Nothing was changed; missing_ok=True passes over partitions that are not there.",
        )
    return known


def kept_in_commit(
    transaction: Transaction,
    extra: Mapping[str, str],
    snapshot: Snapshot,
    replaced: Mapping[str, tuple[str, ...]],
    schema: pa.Schema,
) -> dict[str, str]:
    """The extra metadata of the commit: the caller's, and its own."""
    context = transaction.context
    rows = _rows_replaced(context, snapshot, replaced) if replaced else None
    counted = {} if rows is None else {ROWS_REPLACED_KEY: str(rows)}
    own = {TOKEN_KEY: transaction.token, SCHEMA_KEY: to_avro(schema, context.config.name)}
    return {**extra, **counted, **own}


def _rows_replaced(context: TableContext, snapshot: Snapshot, replaced: Mapping[str, tuple[str, ...]]) -> int | None:
    """The rows of the groups that the write takes away (file ids by partition); None if that is not known."""
    wanted = {partition: frozenset(file_ids) for partition, file_ids in replaced.items()}
    slices = (piece for partition in wanted for piece in snapshot.view.slices(partition))
    return rows_of_slices(context, [piece for piece in slices if piece.file_id in wanted[piece.partition]])


def _is_text(value: object) -> bool:
    """Whether it is a string that UTF-8 can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def checked_extra(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's extra metadata. Raises `InvalidOptionError` if it holds anything but strings, or a key of the commit's own."""
    if not isinstance(extra, Mapping):
        raise InvalidOptionError(
            f"extra_metadata= takes a mapping, not {type(extra).__name__}",
            hint='For example extra_metadata={"source": "shop"}.',
        )
    wrong = [key for key, value in extra.items() if not (_is_text(key) and _is_text(value))]
    reserved = [key for key in extra if key in _OWN_KEYS]
    if wrong or reserved:
        raise InvalidOptionError(
            f"extra_metadata cannot hold {', '.join(map(repr, wrong + reserved))}",
            hint=f"Keys and values are strings, and {', '.join(map(repr, _OWN_KEYS))} belong to the commit itself.",
        )
    return dict(extra)
