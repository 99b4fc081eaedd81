"""From an attempt whose instant is on the timeline to one whose files are written, with everything that its commit will publish."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pyarrow as pa

from pyhudi_core.errors import (
    CommitConflictError,
    CorruptionError,
    ObjectNotFoundError,
    UnsupportedTableError,
    at_table,
)
from pyhudi_core.index.choice import IndexType
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import INSERTING, OperationType
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import withdraw
from pyhudi_core.write import checks
from pyhudi_core.write.altering import refuse_plans
from pyhudi_core.write.attempt import Attempt, CommitCheck, extra_of, replaced_by, touched_by
from pyhudi_core.write.batch import WriteBatch
from pyhudi_core.write.indexing import index_notes
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.non_blocking import leaves_to_merge
from pyhudi_core.write.numbers import history_files, numbers_after
from pyhudi_core.write.pipeline import WriteJob
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.states import Begun, Staged, Unchanged, load, nothing_to_change
from pyhudi_core.write.tasks import Written


def stage(begun: Begun) -> Staged | Unchanged:
    """Write the files of an attempt from the state that it began with. If there is nothing to change, the instant is taken back."""
    snapshot = load(begun.context, begun.transaction.start)
    batch = (begun.batch or WriteBatch()).of(snapshot)
    kept = _kept(begun, batch, snapshot)
    prepared, written = _written(begun, batch, snapshot)
    with ExitStack() as ending:
        if written is not None:
            ending.callback(written.release)
        return _staged(begun, batch, snapshot, kept, prepared, written)


def _staged(
    begun: Begun,
    batch: WriteBatch,
    snapshot: Snapshot,
    kept: MetadataSlices | None,
    prepared: Prepared | None,
    written: Written | None,
) -> Staged | Unchanged:
    """The attempt with its files, and with everything else that its commit will publish."""
    request, context, transaction = begun.request, begun.context, begun.transaction
    stats = written.stats if written is not None else ()
    replaced = replaced_by(request.operation, snapshot, prepared, batch.partitions)
    empty = not stats and not replaced
    if empty and not request.allow_empty:
        withdraw(transaction)
        return nothing_to_change(replace(begun, batch=batch), snapshot)
    schema = snapshot.schema if empty or prepared is None else prepared.schema
    schema = schema if batch.altered is None else batch.altered.schema
    origins = None if batch.altered is None else batch.altered.altered.origins
    numbers = numbers_after(snapshot, schema, transaction.requested_time, origins)
    extra = {**extra_of(transaction, request.extra, snapshot, replaced, schema, numbers), **_found_by(begun, written)}
    metadata = CommitMetadata(str(request.operation), stats, extra, replaced)
    touched = touched_by(metadata, request.operation, prepared, batch.partitions)
    index = written.index if written is not None else None
    keys_of_table = metadata_update.needs_keys(snapshot.config) or (index is not None and index.is_global)
    hashed = index is not None and index.type is IndexType.BUCKET and not index.consistent
    touched = batch.found.touched(replace(touched, keys_of_table=keys_of_table, hashed=hashed))
    attempt = Attempt(
        transaction,
        snapshot,
        metadata,
        touched,
        schema,
        begun.basis,
        request.requirements,
        metadata_update.stage(transaction, kept, snapshot, written, replaced, schema, batch.engine),
        history_files(transaction, snapshot, numbers),
        guard=None if batch.altered is None else partial(refuse_plans, context),
        pre_commit=request.pre_commit,
        engine=batch.engine,
    )
    return Staged(request=request, batch=batch, basis=begun.basis, lock=begun.lock, check=CommitCheck.of(attempt))


def _kept(begun: Begun, batch: WriteBatch, snapshot: Snapshot) -> MetadataSlices | None:
    """The metadata table that the commit keeps true; None if there is none, or the commit removes it. If it cannot, the instant is taken back."""
    try:
        if batch.altered is not None and batch.altered.new_statistics:
            return None
        return metadata_update.slices_to_keep(begun.context, snapshot, _schema_after(begun, batch, snapshot))
    except (UnsupportedTableError, CommitConflictError):
        withdraw(begun.transaction)
        raise


def _schema_after(begun: Begun, batch: WriteBatch, snapshot: Snapshot) -> pa.Schema:
    if batch.altered is not None:
        return batch.altered.schema
    deletes = begun.request.operation is OperationType.DELETE
    return snapshot.schema if deletes or batch.prepared is None else batch.prepared.schema


def _found_by(begun: Begun, written: Written | None) -> Mapping[str, str]:
    """What the commit says of the index that found the keys."""
    if written is None or written.index is None:
        return {}
    reads = begun.basis is not None or (begun.batch is not None and begun.batch.find is not None)
    merges = leaves_to_merge(begun.context.options, begun.request.operation, reads=reads)
    return index_notes(begun.context, written.index, merges=merges)


def _written(begun: Begun, batch: WriteBatch, snapshot: Snapshot) -> tuple[Prepared | None, Written | None]:
    """Write the rows; returns them as they fit the table now, and the files."""
    prepared, engine, operation = batch.prepared, batch.engine, begun.request.operation
    if prepared is None or engine is None or not batch.total:
        return prepared, None
    table = begun.request.table
    prepared = checks.fitted(prepared, operation, batch.columns, snapshot, table)
    if operation in INSERTING:
        checks.refuse_logs(snapshot, prepared.volumes, table)
    try:
        with at_table(table):
            keys = metadata_update.needs_keys(snapshot.config)
            written = WriteJob(operation, engine, prepared, snapshot, begun.transaction, keys).run()
            return prepared, batch.found.written(written, engine)
    except (ObjectNotFoundError, CorruptionError):
        metadata_update.refuse_changed(begun.context)  # the index that found the keys was dropped meanwhile
        raise
