"""What a write replaces and touches by its operation, and what it keeps in its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from pyhudi_core.file_groups.row_counts import rows_of_slices
from pyhudi_core.model.commit import ROWS_REPLACED_KEY, SCHEMA_KEY, CommitMetadata, OperationType
from pyhudi_core.model.schema import to_avro
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.prepare import Prepared

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
