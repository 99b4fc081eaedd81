"""The write: one function with its nine steps, which every write of the package passes, followed by the steps in their order.

``docs/how-a-write-works.md`` follows the function line by line. The states of a write are in ``write/states.py``; the handle that users hold
(``write/handle.py``) calls the function, for all steps at once or for a part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import restores_as_conflicts
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.engine.local import as_table, streamed
from pyhudi_core.engine.pandas_frames import is_pandas
from pyhudi_core.errors import (
    CommitConflictError,
    CorruptionError,
    HudiError,
    ObjectNotFoundError,
    UnsupportedTableError,
    at_table,
)
from pyhudi_core.index.choice import IndexType
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.numbering import column_paths
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.at_once import Ahead, both
from pyhudi_core.transaction import markers
from pyhudi_core.transaction.begin import TableSeen, Transaction, begin_write, withdraw
from pyhudi_core.transaction.commit import Finished, Gate
from pyhudi_core.transaction.locking import after_failure, hold
from pyhudi_core.transaction.rollback import repair_by_policy, undo_write
from pyhudi_core.write import altering, cases, checks, key_form, non_blocking, refusals
from pyhudi_core.write.attempt import (
    Attempt,
    CommitCheck,
    check_before_lock,
    decide_attempt,
    extra_of,
    replaced_by,
    touched_by,
)
from pyhudi_core.write.batch import (
    Batch,
    Columns,
    Given,
    Nothing,
    Partitions,
    Rows,
    UserRows,
    batch_at,
    columns_of,
    engine_of,
    paths_of,
    removes_metadata,
    rows_of,
    touched_too,
    why_unchanged,
    with_known_keys,
)
from pyhudi_core.write.column_numbers import ColumnsThen, history_files, numbers_after
from pyhudi_core.write.first_metadata.asked_metadata_table import make_if_due
from pyhudi_core.write.indexing import index_notes
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.pipeline import TaggedRows, WriteJob
from pyhudi_core.write.plan import Plan
from pyhudi_core.write.prepare import Prepared, prepare_keys, prepare_rows
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import (
    Begun,
    Committed,
    Draft,
    Staged,
    Unchanged,
    WriteSpec,
    WriteState,
    hashed_ahead,
    load,
    look,
)
from pyhudi_core.write.streams import Streams
from pyhudi_core.write.tasks import KEY_CHANGES, Written

_FEW = 100_000
"""A write of at most this number of rows is short."""


@dataclass(slots=True)
class WriteRun:
    """A write under way.

    Attributes:
        state: the state of the write. Each step replaces the state at once, so that after an error it says what must be undone.
        retries: the attempts of the write.
        streams: files with rows of streams; None if there are none.
    """

    state: WriteState
    retries: Retries
    streams: Streams | None = None

    @classmethod
    def of(cls, request: WriteSpec) -> WriteRun:
        """Return a write that has not begun."""
        return cls(Draft(request=request), Retries(request.context))


def write(
    run: WriteRun,
    given: Given | None = None,
    examine: Callable[[], object] | None = None,
    gate: Gate | None = None,
    *,
    commits: bool = True,
    follows: bool = True,
) -> None:
    """Take a write through its nine steps, from its present state. Every write passes here.

    Args:
        given: the input of the write; None for a further attempt with the batch that the write has.
        examine: called before the seventh step; raises an error to refuse the staged rows.
        gate: called just before the commit is decided.
        commits: False stops before the seventh step.
        follows: whether table services run after the commit.

    Raises `DataError` before anything is written, and `CommitError`; after an error call `undo`, which removes all files of the attempt.
    """
    seen: TableSeen | None = None
    if given is not None:
        run.state, seen = prepare(run, given)  # 1. check the rows, give each its key and partition
    if isinstance(run.state, Draft):
        run.state = locked(run.state)
        run.retries.began()
        run.state, seen = repair(run.state, seen)  # 2. finish what dead writers left
        run.state = begun = begin(run.state, seen)  # 3. reserve a time, announce the instant
        with started(begun) as start:
            written = None
            if start.job is not None:  # there are rows
                tagged = start.job.tag()  # 4. find the file group of each key
                plan = start.job.plan(tagged)  # 5. choose a file group for each row
                written = writing(start, start.job)(tagged, plan)  # 6. merge the rows and write the files
            run.state = stage(start, written)
    if not commits:
        return
    if examine is not None:
        examine()
    end = run.state.ready()
    if isinstance(end, Staged):
        check_before_lock(end.check, run.retries)  # 7. look for conflicts, ask the validators
        finished = decide_attempt(end.check, gate)  # 8. check again under the lock, decide, publish
        run.state = committed(end, finished, run.retries)
        finished.clean_up()  # 9. remove what only this process needed
    else:
        run.state = uncommitted(end, run.retries)
    close(run)
    if follows and run.state.request.follows:
        run.state = followed(run.state)


def prepare(run: WriteRun, given: Given) -> tuple[Draft | Unchanged, TableSeen]:
    """Check the input of a write, and keep it for all attempts. Also returns the table as it was read.

    Raises `DataError` and `ConfigError`, and `CommitConflictError` if an index was made or dropped, or a clustering is pending: a later attempt may
    succeed.
    """
    draft = run.state.draft()
    request = draft.request
    case = replace(request.case, gives=_GIVES.get(type(given), ""))
    refusals.of_arguments(case)
    if isinstance(given, Partitions):
        given = replace(given, paths=checks.checked_partitions(given.paths, draft.context.config, request.table))
    seen = request.seen or look(draft.context)
    snapshot = load(draft.context, seen.timeline, seen.companions, publish=True, hashed=seen.hashed)
    refusals.before_rows(cases.in_state(case, draft.context, snapshot))
    if isinstance(given, UserRows):
        draft = _with_rows(draft, _kept_stream(run, given.data, snapshot), snapshot)
        empties = request.allow_empty or request.operation is OperationType.INSERT_OVERWRITE_TABLE
        is_empty = not (empties or rows_total(draft.batch))
    elif isinstance(given, Partitions):
        paths = checks.known_partitions(snapshot, tuple(given.paths), request.table, missing_ok=given.missing_ok)
        draft = replace(draft, batch=Partitions(paths))
        is_empty = not paths
    elif isinstance(given, Columns):
        batch = batch_at(given, draft.context, snapshot)
        new = columns_of(batch)
        draft = replace(draft, batch=batch)
        is_empty = new is not None and new.unchanged
    else:
        draft = replace(draft, batch=given)
        is_empty = False
    return nothing_to_change(draft, snapshot) if is_empty else draft, replace(seen, timeline=snapshot.timeline)


_GIVES: Mapping[type[Given], Literal["rows", "partitions"]] = {
    UserRows: "rows",
    Nothing: "rows",
    Partitions: "partitions",
}
"""For each kind of input, its name in the law of refusals."""


def _kept_stream(run: WriteRun, data: object, snapshot: Snapshot) -> object:
    """Return the data; store many rows of a stream (`streamed`) in files. Wrong columns raise an error before the first row is read."""
    draft, data = run.state.draft(), streamed(data)
    if not isinstance(data, pa.RecordBatchReader) or draft.request.spark is not None:
        return data
    _with_rows(draft, pa.Table.from_batches([], data.schema), snapshot)
    run.streams = Streams(draft.request.context)
    return run.streams.kept(data)


def _with_rows(draft: Draft, data: object, snapshot: Snapshot) -> Draft:
    """Check rows and give each its key and partition. Raises `DataError`."""
    request, context = draft.request, draft.context
    engine = engine_for(data, context.runtime.executor, request.spark, context.table)
    deletes = request.operation is OperationType.DELETE
    with at_table(context.table):
        prefixed = context.config.may_prefix_keys and key_form.has_prefixed_keys(context, snapshot)
        if not isinstance(data, pa.Table) and is_pandas(type(data)) and request.spark is None:
            data = as_table(data, snapshot.schema)
        rows, config, schema = engine.dataset(data), context.config, snapshot.schema
        refusals.before_rows(replace(request.case, given=rows.schema))
        if deletes:
            stored = draft.basis is not None
            prepared = prepare_keys(rows, config, schema, context.table, prefixed=prefixed, stored=stored)
        else:
            prepared = prepare_rows(
                rows,
                config,
                schema,
                context.table,
                allow_lossy=context.options.rows.allow_lossy_widening,
                partial=request.partial,
                prefixed=prefixed,
                updates=request.operation is OperationType.UPSERT,
                leaves=request.leaves,
                new_keys=context.runtime.ids.uuid() if request.leaves and config.generates_keys else "",
            )
        try:
            _refuse_after_rows(request, schema, prepared.schema)
        except BaseException:
            prepared.rows.release()
            raise
    removes = not deletes and metadata_update.replaces_statistics(config, schema, prepared.schema)
    return replace(draft, batch=Rows(prepared, engine, ColumnsThen.of(snapshot), removes))


def _refuse_after_rows(request: WriteSpec, before: pa.Schema, after: pa.Schema) -> None:
    """Raise the error of the law of refusals, or of a validator, for the columns after the write."""
    refusals.after_rows(replace(request.case, before=before, after=after))
    for validators in (request.context.protocol.pre_commit, request.pre_commit):
        if validators is not None:
            validators.refuse_unfit(after)


def rows_total(batch: Batch | None) -> int:
    """Say how many rows a batch has."""
    prepared = rows_of(batch)
    return 0 if prepared is None else prepared.total


def locked(draft: Draft, *, always: bool = False) -> Draft:
    """Wait for the table's lock and keep it: ``always``, or if the concurrency of the write is pessimistic and it is committed alone."""
    request = draft.request
    is_pessimistic = request.context.options.conflict.concurrency == "pessimistic" and not request.together
    if draft.lock is not None or not (is_pessimistic or always):
        return draft
    return replace(draft, lock=hold(request.context, f"the whole of a write ({request.operation})"))


def renewed(draft: Draft) -> Draft:
    """Return the draft with the table's properties read again, because a partition of the metadata table may have been added or removed."""
    lock = draft.lock and replace(draft.lock, context=reopened(draft.lock.context))
    return replace(draft, lock=lock, request=replace(draft.request, context=reopened(draft.request.context)))


def repair(draft: Draft, seen: TableSeen | None) -> tuple[Draft, TableSeen | None]:
    """Make the metadata table that the options request, and finish the work of dead writers. ``seen``: the table, if it was just read.

    Returns None in place of ``seen`` if the repair changed the table.
    """
    batch = draft.filled()
    removes = removes_metadata(batch)
    refusals.at_begin(cases.at_begin(draft.context, draft.request.operation, removes=removes))
    if draft.request.makes_metadata_table and draft.context.options.metadata.asks_for_more:
        engine = engine_of(batch) or engine_for(None, draft.context.runtime.executor, draft.request.spark)
        if make_if_due(draft.context, engine):
            draft, seen = renewed(draft), None
    return draft, None if repair_by_policy(draft.context, seen) else seen


def begin(draft: Draft, seen: TableSeen | None) -> Begun:
    """Put the instant of an attempt on the timeline, and read the state from which it starts."""
    context, request, prepared = draft.context, draft.request, rows_of(draft.batch)
    if prepared is not None:
        removes = removes_metadata(draft.batch)
        refusals.at_begin(cases.at_begin(context, request.operation, prepared.schema, removes=removes))
    action = request.operation.action_on(context.config.table_type)
    ahead: list[tuple[Ahead[Snapshot], cases.OtherTables | None]] = []

    def read(transaction: Transaction) -> None:
        first = {} if prepared is None else prepared.volumes
        state = partial(Ahead.of, partial(_state_at, context, transaction))
        others = partial(cases.tables_in_new_partitions, context, transaction.start, first)
        ahead.append(both(context.root, context.runtime.executor, state, others))

    transaction = begin_write(context, action, str(request.operation), seen, beside=read)
    return Begun(
        request=request,
        batch=draft.batch,
        basis=draft.basis,
        lock=draft.lock,
        transaction=transaction,
        state=ahead[0][0],
        others=ahead[0][1],
    )


def _state_at(context: TableContext, transaction: Transaction) -> Snapshot:
    """Return the state from which an attempt starts. On a network storage the lists of its metadata table's files are read now, too."""

    def state() -> Snapshot:
        found = load(context, transaction.start, transaction.companions)
        if found.metadata is not None and metadata_update.keeps(context.config):
            found.metadata.slices.read_ahead(context.config.written_metadata_partitions)
        return found

    snapshot, hashed = both(context.root, context.runtime.executor, state, lambda: hashed_ahead(context))
    return replace(snapshot, hashed=hashed)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of an attempt.

    Attributes:
        begun: the instant of the attempt.
        batch: the input of the attempt in this state of the table.
        snapshot: the state.
        kept: the metadata table that the commit updates; None if there is none, or the commit removes it.
        prepared: the rows, as they fit the present table.
        job: tags, plans and writes the rows; None if there are no rows.
        metadata: the metadata table's part of the commit.
    """

    begun: Begun
    batch: Batch
    snapshot: Snapshot
    kept: MetadataSlices | None
    prepared: Prepared | None
    job: WriteJob | None
    metadata: metadata_update.MetadataPart = field(default_factory=metadata_update.MetadataPart)


@contextmanager
def started(begun: Begun) -> Iterator[Start]:
    """Read the state from which an attempt starts.

    Raises a conflict, not an error for a missing file, if another process removed a file or an index since the start.
    """
    context, transaction = begun.context, begun.transaction
    with restores_as_conflicts(context, transaction.start, transaction.requested_time):
        start = _start(begun, begun.state.get())
        if start.job is None:
            yield start
            return
        try:
            with at_table(context.table), start.job:
                yield start
        except (ObjectNotFoundError, CorruptionError):
            metadata_update.refuse_changed(context)  # the index that found the keys was dropped meanwhile
            raise


def _start(begun: Begun, snapshot: Snapshot) -> Start:
    request, context = begun.request, begun.context
    assert begun.batch is not None
    batch = batch_at(begun.batch, context, snapshot)
    kept = _kept(begun, batch, snapshot)
    prepared, engine = rows_of(batch), engine_of(batch)
    if prepared is None or engine is None or not prepared.total:
        return Start(begun, batch, snapshot, kept, prepared, None)
    then = batch.columns if isinstance(batch, Rows) else None
    try:
        refusals.at_begin(cases.in_attempt(context, request.operation, snapshot, prepared, then, begun.others))
    except HudiError:
        withdraw(begun.transaction)
        raise
    if request.operation is OperationType.DELETE:
        prepared = replace(prepared, schema=snapshot.schema)  # keys alone are needed, so other columns do not matter
    notes_keys = metadata_update.needs_keys(snapshot.config) or request.extra_of_keys is not None
    job = WriteJob(request.operation, engine, prepared, snapshot, begun.transaction, notes_keys)
    return Start(begun, batch, snapshot, kept, prepared, job)


def _kept(begun: Begun, batch: Batch, snapshot: Snapshot) -> MetadataSlices | None:
    """Return the metadata table that the commit updates; None if there is none, or the commit removes it.

    If the commit cannot update it, the instant is withdrawn.
    """
    try:
        new = columns_of(batch)
        if new is not None and new.new_statistics:
            return None
        schema = _schema_after(begun, batch, snapshot)
        operation, removes = begun.request.operation, removes_metadata(begun.batch)
        return metadata_update.slices_to_keep(begun.context, snapshot, schema, operation, removes=removes)
    except (UnsupportedTableError, CommitConflictError):
        withdraw(begun.transaction)
        raise


def _schema_after(begun: Begun, batch: Batch, snapshot: Snapshot) -> pa.Schema:
    new, prepared = columns_of(batch), rows_of(batch)
    if new is not None:
        return new.schema
    deletes = begun.request.operation is OperationType.DELETE
    return snapshot.schema if deletes or prepared is None else prepared.schema


def writing(start: Start, job: WriteJob) -> Callable[[TaggedRows, Plan], Written]:
    """Return the function that writes the files. In a network storage, a short write announces the commit of the metadata table at the same time.

    A long write announces it later: while it is announced, other programs may not compact the metadata table.
    """
    context, kept = start.begun.context, start.kept
    is_short = context.root.capabilities.parallel_calls > 1 and job.engine.in_process and job.prepared.total <= _FEW
    if kept is None or not is_short:
        return job.write

    def announcing(tagged: TaggedRows, plan: Plan) -> Written:
        announce = partial(start.metadata.announce, start.begun.transaction, kept)
        return both(context.root, context.runtime.executor, lambda: job.write(tagged, plan), announce)[0]

    return announcing


def stage(start: Start, written: Written | None) -> Staged | Unchanged:
    """Return the attempt with its files, and with all other parts of its commit. If it changes nothing, the instant is withdrawn."""
    begun, batch, snapshot, prepared = start.begun, start.batch, start.snapshot, start.prepared
    request, transaction = begun.request, begun.transaction
    written = None if written is None else with_known_keys(batch, written)
    stats = written.stats if written is not None else ()
    replaced = replaced_by(request.operation, snapshot, prepared, paths_of(batch))
    empty = not stats and not replaced
    if empty and not request.allow_empty:
        withdraw(transaction)
        return nothing_to_change(replace(begun, batch=batch), snapshot)
    new = columns_of(batch)
    schema = snapshot.schema if empty or prepared is None else prepared.schema
    schema = schema if new is None else new.schema
    origins = None if new is None else new.origins
    numbers = numbers_after(snapshot, schema, transaction.requested_time, origins)
    comments = (begun.context.config.rules if new is None else new.rules).comments
    extra = extra_of(transaction, request.extra, snapshot, replaced, schema, numbers, comments)
    extra |= _found_by(start, written)
    if request.extra_of_keys is not None:
        changes = None if written is None or written.key_changes is None else written.key_changes.collect()
        extra |= request.extra_of_keys(KEY_CHANGES.empty_table() if changes is None else changes)
    metadata = CommitMetadata(str(request.operation), stats, extra, replaced)
    touched = touched_by(metadata, request.operation, prepared, paths_of(batch))
    index = written.index if written is not None else None
    keys_of_table = metadata_update.needs_keys(snapshot.config) or (index is not None and index.is_global)
    hashed = index is not None and index.type is IndexType.BUCKET and not index.consistent
    engine = engine_of(batch)
    attempt = Attempt(
        transaction,
        snapshot,
        metadata,
        touched_too(batch, replace(touched, keys_of_table=keys_of_table, hashed=hashed)),
        schema,
        begun.basis,
        request.requirements,
        metadata_update.stage(transaction, start.kept, snapshot, written, replaced, schema, engine, start.metadata),
        history_files(transaction, snapshot, numbers),
        guard=None if new is None else partial(altering.refuse_plans, begun.context),
        pre_commit=request.pre_commit,
        engine=engine,
        removes_metadata=removes_metadata(batch),
        properties=() if new is None else new.properties,
    )
    return Staged(request=request, batch=batch, basis=begun.basis, lock=begun.lock, check=CommitCheck.of(attempt))


def _found_by(start: Start, written: Written | None) -> Mapping[str, str]:
    """Return the commit's entries about the index that found the keys."""
    if written is None or written.index is None:
        return {}
    begun = start.begun
    reads = begun.basis is not None or not isinstance(start.batch, Rows)
    merges = non_blocking.merged_by_readers(begun.context.options, begun.request.operation, reads=reads)
    return index_notes(begun.context, written.index, merges=merges)


def nothing_to_change(state: WriteState, snapshot: Snapshot) -> Unchanged:
    """Return the end of an attempt that has nothing to change in this state of the table."""
    assert state.batch is not None
    reason = why_unchanged(state.batch, state.request.operation, by_condition=state.basis is not None)
    return Unchanged(
        request=state.request, batch=state.batch, basis=state.basis, lock=state.lock, snapshot=snapshot, reason=reason
    )


def committed(end: Staged, finished: Finished, retries: Retries) -> Committed:
    """Return the end of a write whose commit was published."""
    transaction, lock = end.attempt.transaction, end.lock
    made = Commit(
        instant=transaction.requested_time,
        completion_time=finished.instant.completion_time or "",
        token=transaction.token,
        operation=str(end.request.operation),
        retries=retries.attempts,
        stats=CommitStats.of(end.metadata, retries.store_waits),
        lock_wait=lock.waited if lock else finished.lock_wait,
        lock_held=lock.held() if lock else finished.lock_held,
        notes=finished.notes,
        bytes_saved=retries.bytes_saved,
        extra_metadata=dict(end.request.extra),
        columns_added=_columns_added(end),
    )
    return Committed(request=end.request, batch=end.batch, basis=end.basis, lock=end.lock, end=end, commit=made)


def uncommitted(end: Unchanged, retries: Retries) -> Committed:
    """Return the end of a write that had nothing to change: there is no commit, and the gate is not called."""
    made = Commit.nothing(str(end.request.operation), end.reason, end.snapshot.completion_time, retries.attempts)
    return Committed(request=end.request, batch=end.batch, basis=end.basis, lock=end.lock, end=end, commit=made)


def _columns_added(end: Staged) -> tuple[str, ...]:
    """Return the columns, and fields of structs, that the rows added. An alteration names its columns itself."""
    if isinstance(end.batch, Columns):
        return ()
    before = dict(column_paths(end.snapshot.schema))
    return tuple(path for path, _ in column_paths(end.schema) if path not in before)


def followed(state: Committed) -> Committed:
    """Return the end of a write, after the table services."""
    after = state.request.after
    return state if after is None else replace(state, commit=after(state.commit, engine_of(state.batch)))


def close(run: WriteRun) -> None:
    """Release the resources of the write: the lock, its claim, the rows. Safe to call twice."""
    run.retries.end()
    release(run)


def release(run: WriteRun) -> None:
    """Release the lock and the rows. Safe to call twice."""
    release_lock(run)
    prepared = rows_of(run.state.batch)
    if prepared is not None:
        prepared.rows.release()
    if run.streams is not None:
        run.streams.remove()


def release_lock(run: WriteRun) -> None:
    """Release the table's lock, if this write holds it from start to end."""
    lock, run.state = run.state.lock, replace(run.state, lock=None)
    if lock is not None:
        lock.release()


def undo(run: WriteRun, error: BaseException | None = None) -> None:
    """Remove all files of an attempt, as if it had never begun; after an error or without one. Does nothing after a commit."""
    state = run.state
    pending = state.pending()
    if pending is None or isinstance(state, Committed):
        release_lock(run)
        return
    run.state = Draft(request=state.request, batch=state.batch, basis=state.basis, lock=state.lock)
    _remove(after_failure(state.context, error), pending, asked=not isinstance(state, Begun))
    release_lock(run)


def _remove(context: TableContext, transaction: Transaction, *, asked: bool) -> None:
    """Remove the files of an attempt. ``asked``: the storage may have received the decision of the commit.

    If it has not, the files are deleted before the rollback is written, because on a full disk the rollback needs their space.
    """
    transaction.heartbeat.handle.cancel()
    if not asked:
        markers.remove_leaks(context, transaction.requested_time)
    undo_write(context, transaction.requested)
    transaction.heartbeat.stop(context)
