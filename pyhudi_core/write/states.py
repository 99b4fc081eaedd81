"""The states of a write, and the steps between them.

    Draft --begin--> Begun --stage--> Staged or Unchanged --commit--> Committed
      ^                |                |
      +------undo------+----------------+

- `Draft`: nothing of the write is on disk. It has no batch yet, or it has the batch of an attempt that was undone.
- An attempt is `Begun` while its files are written. Then it is `Staged`, if it has something to commit. If it has nothing, it is `Unchanged`, and
  nothing of it is left on disk. A draft whose batch is empty becomes `Unchanged` at once.
- `Committed`: the end. There is a commit, or the answer that there was nothing to change.

Each state is a frozen value. Each step is a function: `stage` in ``write/staging.py``, the others below. A state refuses a call that does not fit it.

A write that changes nothing makes no commit and is no error: its result is false and says why. This follows from the rows, for every operation. An
empty batch of an upsert, an insert or a delete changes nothing; nor do keys that are not in the table, rows that lose against newer ones, and inserts
that are all left out. `insert_overwrite` of no rows names no partition to replace. But `insert_overwrite_table` of no rows leaves an empty table:
that is a commit, unless the table is empty already. Columns do not change either: a batch of which no row is written adds none. A commit without
rows is made only if it is asked for by name (``allow_empty``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.conflicts.explain import SideAndCommit
from pyhudi_core.conflicts.requirement import CommitRequirement
from pyhudi_core.engine import engine_for
from pyhudi_core.engine.local import as_table
from pyhudi_core.engine.pandas_frames import is_pandas
from pyhudi_core.errors import at_table
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.numbering import column_paths
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import PreCommit, TableContext
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import lost_completions, markers
from pyhudi_core.transaction.begin import Transaction, begin_write
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.locking import WholeWrite, hold
from pyhudi_core.transaction.rollback import repair_by_policy, roll_back, sweep_late_files
from pyhudi_core.write import checks, key_form, metadata_update
from pyhudi_core.write.asked_metadata_table import make_if_due
from pyhudi_core.write.attempt import Attempt, Basis, CommitCheck, publish
from pyhudi_core.write.batch import WriteBatch
from pyhudi_core.write.non_blocking import refuse_unfit_table
from pyhudi_core.write.numbers import ColumnsThen
from pyhudi_core.write.prepare import prepare, prepare_keys
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.retrying import Retries

_NEVER = Instant("0", Action.COMMIT, State.REQUESTED)  # of a write that has nothing to change


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What a write was asked to do; the same for all its attempts.

    Attributes:
        extra: strings to keep in the commit.
        spark: a session to run on; None chooses by the data.
        requirements: what must hold under the lock.
        allow_empty: a commit is made even if no row changes.
        partial: the rows may lack columns, which keep their values.
        pre_commit: validators of this write alone.
    """

    context: TableContext
    operation: OperationType
    extra: Mapping[str, str]
    spark: Any = None
    requirements: Sequence[CommitRequirement] = ()
    allow_empty: bool = False
    partial: bool = False
    pre_commit: PreCommit | None = None

    @property
    def table(self) -> str:
        return self.context.table


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    """What all states have. ``lock`` is the table's lock, if this write holds it from its start to its end (pessimistic concurrency)."""

    request: WriteSpec
    batch: WriteBatch | None = None
    basis: Basis | None = None
    lock: WholeWrite | None = None

    @property
    def context(self) -> TableContext:
        """The table as this write sees it."""
        return self.lock.context if self.lock is not None else self.request.context

    def pending(self) -> Transaction | None:
        """The instant of the write, if it has one."""
        return None

    def draft(self) -> Draft:
        """This state, if it takes a batch. A handle takes one."""
        raise checks.second_batch(self.request.table)

    def ready(self) -> Staged | Unchanged:
        """This state, if there is something to show of the write, and to commit."""
        raise checks.nothing_written(self.request.table)

    def staged(self) -> Staged:
        """This state, if there are files of the write."""
        return self.ready().staged()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(WriteState):
    """Nothing of the write is on disk."""

    def draft(self) -> Draft:
        """As `WriteState.draft`."""
        if self.batch is not None:
            raise checks.second_batch(self.request.table)
        return self

    def filled(self) -> WriteBatch:
        """The batch; refused if there is none."""
        if self.batch is None:
            raise checks.nothing_written(self.request.table)
        return self.batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun(WriteState):
    """An attempt whose instant is on the timeline; its files are being written, or that failed."""

    transaction: Transaction

    def pending(self) -> Transaction:
        """As `WriteState.pending`."""
        return self.transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(WriteState):
    """An attempt whose files are all written."""

    check: CommitCheck

    @property
    def attempt(self) -> Attempt:
        return self.check.attempt

    @property
    def snapshot(self) -> Snapshot:
        return self.attempt.snapshot

    @property
    def requested(self) -> Instant:
        return self.attempt.transaction.requested

    @property
    def metadata(self) -> CommitMetadata:
        return self.attempt.metadata

    @property
    def schema(self) -> pa.Schema:
        return self.attempt.schema

    def pending(self) -> Transaction:
        """As `WriteState.pending`."""
        return self.attempt.transaction

    def ready(self) -> Staged:
        """As `WriteState.ready`."""
        return self

    def staged(self) -> Staged:
        """As `WriteState.staged`."""
        return self

    def conflict_side(self, completion_time: str | None) -> SideAndCommit:
        """What the write has changed, for ``table.explain_conflict``."""
        return SideAndCommit.of(self.requested.requested_time, self.attempt.touched, self.metadata, completion_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged(WriteState):
    """An attempt that had nothing to change in ``snapshot``; nothing of it is on disk."""

    snapshot: Snapshot
    reason: str

    @property
    def requested(self) -> Instant:
        return _NEVER

    @property
    def metadata(self) -> CommitMetadata:
        return CommitMetadata(str(self.request.operation), (), dict(self.request.extra))

    @property
    def schema(self) -> pa.Schema:
        return self.snapshot.schema

    def ready(self) -> Unchanged:
        """As `WriteState.ready`."""
        return self

    def staged(self) -> Staged:
        """As `WriteState.staged`."""
        raise checks.nothing_to_change(self.request.table, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(WriteState):
    """The end of a write: ``commit`` is what it returned, ``end`` the attempt that was published."""

    end: Staged | Unchanged
    commit: Commit

    def pending(self) -> Transaction | None:
        """As `WriteState.pending`."""
        return self.end.pending()

    def ready(self) -> Staged | Unchanged:
        """As `WriteState.ready`."""
        return self.end


def locked(draft: Draft) -> Draft:
    """Wait for the table's lock and keep it, if the write's concurrency is pessimistic."""
    request = draft.request
    if draft.lock is not None or request.context.options.conflict.concurrency != "pessimistic":
        return draft
    return replace(draft, lock=hold(request.context, f"the whole of a write ({request.operation})"))


def load(context: TableContext, timeline: Timeline | None = None, *, publish: bool = False) -> Snapshot:
    """The table's state now, or as of a timeline. ``publish``: a lost completed file is published again, as the commit record says.

    Raises `CorruptTimelineError` if the completed file of a commit is lost, and the record does not have it.
    """
    found = context.folder.load() if timeline is None else timeline
    found = (lost_completions.published_again if publish else lost_completions.restored)(context, found)
    return build(context.storage, context.folder, context.config, found, executor=context.runtime.executor)


def renewed(draft: Draft) -> Draft:
    """The draft for another attempt, with the table's properties read again: a partition of the metadata table may have come or gone."""
    return in_context(draft, reopened)


def take_rows(draft: Draft, data: object, snapshot: Snapshot) -> Draft:
    """Check rows and give each its key and partition. Raises `DataError`."""
    request, context = draft.request, draft.context
    engine = engine_for(data, context.runtime.executor, request.spark)
    allow_lossy = context.options.rows.allow_lossy_widening
    deletes = request.operation is OperationType.DELETE
    with at_table(context.table):
        prefixed = key_form.has_prefixed_keys(context, snapshot)
        how = partial(prepare_keys, prefixed=prefixed, stored=draft.basis is not None)
        if not deletes:
            updates = request.operation is OperationType.UPSERT
            how = partial(prepare, allow_lossy=allow_lossy, partial=request.partial, prefixed=prefixed, updates=updates)
        if is_pandas(type(data)) and request.spark is None:
            data = as_table(data, snapshot.schema)
        prepared = how(engine.dataset(data), context.config, snapshot.schema, context.table)
        if not deletes:
            checks.refuse_evolution(snapshot.schema, prepared, context.options.rows.schema_evolution, context.table)
            checks.refuse_unfit_merger(context, prepared)
        for validators in (context.protocol.pre_commit, request.pre_commit):
            if validators is not None:
                validators.refuse_unfit(snapshot.schema if deletes else prepared.schema)
    filled = replace(draft, batch=WriteBatch(prepared, engine, columns=ColumnsThen.of(snapshot)))
    if not deletes and metadata_update.replaces_statistics(context.config, snapshot.schema, prepared.schema):
        return in_context(filled, metadata_update.removing)
    return filled


def in_context(draft: Draft, changed: Callable[[TableContext], TableContext]) -> Draft:
    """The draft with another context."""
    lock = draft.lock and replace(draft.lock, context=changed(draft.lock.context))
    return replace(draft, lock=lock, request=replace(draft.request, context=changed(draft.request.context)))


def begin(draft: Draft, seen: Timeline | None = None) -> Begun:
    """Finish what dead writers left, then put the instant of an attempt on the timeline. ``seen``: the timeline, if it was just listed."""
    batch, context, operation = draft.filled(), draft.context, draft.request.operation
    metadata_update.refuse_unkept(context)
    refuse_unfit_table(context)
    if make_if_due(context, batch.engine or engine_for(None, context.runtime.executor, draft.request.spark)):
        draft = renewed(draft)
        context = draft.context
    seen = None if repair_by_policy(context, seen) else seen
    if batch.prepared is not None:
        metadata_update.refuse_undefined(context, batch.prepared.schema)
    transaction = begin_write(context, operation.action_on(context.config.table_type), str(operation), seen)
    return Begun(request=draft.request, batch=batch, basis=draft.basis, lock=draft.lock, transaction=transaction)


def nothing_to_change(state: WriteState, snapshot: Snapshot) -> Unchanged:
    """The end of an attempt that has nothing to change in this state of the table."""
    batch = state.batch or WriteBatch()
    reason = batch.why_unchanged(state.request.operation, by_condition=state.basis is not None)
    return Unchanged(
        request=state.request, batch=state.batch, basis=state.basis, lock=state.lock, snapshot=snapshot, reason=reason
    )


def commit(end: Staged | Unchanged, retries: Retries, gate: Gate | None) -> Committed:
    """Publish an attempt. If it changes nothing, there is no commit, and the gate is not asked."""
    if isinstance(end, Unchanged):
        time = end.snapshot.completion_time
        made = Commit.nothing(str(end.request.operation), end.reason, time, retries.attempts)
    else:
        published = publish(end.check, retries, gate)
        finished, transaction, lock = published.finished, end.attempt.transaction, end.lock
        made = Commit(
            instant=transaction.requested_time,
            completion_time=finished.instant.completion_time or "",
            token=transaction.token,
            operation=str(end.request.operation),
            retries=retries.attempts,
            stats=CommitStats.of(end.metadata),
            lock_wait=lock.waited if lock else finished.lock_wait,
            lock_held=lock.held() if lock else finished.lock_held,
            notes=published.notes,
            bytes_saved=retries.bytes_saved,
            extra_metadata=dict(end.request.extra),
            columns_added=_columns_added(end),
        )
    return Committed(request=end.request, batch=end.batch, basis=end.basis, lock=end.lock, end=end, commit=made)


def _columns_added(end: Staged) -> tuple[str, ...]:
    """The columns, and fields of structs, that the rows brought. An alteration names its columns itself."""
    if end.batch is not None and end.batch.altered is None:
        before = dict(column_paths(end.snapshot.schema))
        return tuple(path for path, _ in column_paths(end.schema) if path not in before)
    return ()


def undo(context: TableContext, transaction: Transaction, *, asked: bool = True) -> None:
    """Remove all that an attempt has put on disk, as if it had never begun.

    ``asked``: its commit may have been asked for. If it was not, its files go before the rollback is written: on a full disk they hold the room.
    """
    transaction.heartbeat.handle.cancel()
    if not asked:
        markers.remove_leaks(context, transaction.requested_time)
    if roll_back(context, transaction.requested_time) is None:
        sweep_late_files(context, transaction.requested)
    transaction.heartbeat.stop(context)
