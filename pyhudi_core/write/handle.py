"""A write in steps: write, look at what is staged, ask whether it would commit, commit through a gate, or roll back.

The verbs of a table (``write/operations.py``) are this handle used in one go. The handle only holds the present state (``write/states.py``) and the
retries (``write/retrying.py``); what a call does, and whether it is allowed, is said there. Leaving the handle without a commit rolls back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import restores_as_conflicts
from pyhudi_core.conflicts.explain import SideAndCommit
from pyhudi_core.conflicts.explanation import ConflictExplanation
from pyhudi_core.conflicts.requirement import checked_requirements
from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError, HudiError, LockServerError
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.model.alteration import ColumnChanges
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import REPLACING, OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.locking import after_failure
from pyhudi_core.write import altering, checks, metadata_update, moving_updates, staging, states
from pyhudi_core.write.attempt import Basis, validation_of
from pyhudi_core.write.batch import WriteBatch
from pyhudi_core.write.indexing import is_bucketed
from pyhudi_core.write.non_blocking import refuse_unfit
from pyhudi_core.write.result import Commit, CommitStats, CommitVerdict
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import Begun, Committed, Draft, Unchanged, WriteSpec, WriteState
from pyhudi_core.write.streams import Streams

_log = logging.getLogger(__name__)


class HandleReader(Protocol):
    """Makes the scans of a handle. It is given, because reading is not below writing."""

    def staged(self, context: TableContext, write: Any, columns: Sequence[str] | None, where: object) -> Any:
        """The rows of a write that is `Staged` or `Unchanged`."""
        ...

    def pinned(
        self,
        context: TableContext,
        timeline: Timeline,
        columns: Sequence[str] | None,
        where: object,
        *,
        meta: bool = True,
    ) -> Any:
        """The table as of a timeline; the scan is a `Read`."""
        ...


@set_module("pyhudi")
@printable
class Write:
    """One write to one table. Made by ``table.begin``."""

    def __init__(self, request: WriteSpec, reader: HandleReader | None = None) -> None:
        extra = checks.checked_extra(request.extra)
        requirements = checked_requirements(request.requirements)
        if request.allow_empty:
            checks.refuse_empty(request.operation, request.table)
        self._state: WriteState = Draft(request=replace(request, extra=extra, requirements=requirements))
        self._reader = reader
        self._streams = Streams(request.context)
        self.retries = Retries(request.context)

    def __repr__(self) -> str:
        state = f"in state {type(self._state).__name__}, instant {self.instant or 'not begun'}"
        return f"{type(self).__name__} to {self._state.request.table}: {self._state.request.operation}, {state}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pending = self._state.pending()
        try:
            if isinstance(error, CommitStateUnknownError) and pending is not None:
                # When the heartbeat has expired, the next writer finishes the commit or rolls it back.
                pending.heartbeat.handle.cancel()
            else:
                self._undo(error)
        except HudiError as failure:
            if error is None:
                raise
            if isinstance(error, LockServerError) and isinstance(failure, LockServerError):
                error.add_note("What was written could not be removed without the lock; a later write removes it.")
            else:
                _log.warning("could not roll back the failed write; the next writer will: %s", failure)
        finally:
            self._give_lock_back()
            self.retries.end()
            self._forget_batch()
            self._streams.remove()

    @property
    def instant(self) -> str | None:
        """The requested time; None before `write`."""
        pending = self._state.pending()
        return pending.requested_time if pending else None

    @property
    def token(self) -> str | None:
        """Names this attempt for ``commit_status``; None before `write`."""
        pending = self._state.pending()
        return pending.token if pending else None

    @property
    def stats(self) -> CommitStats:
        """What is staged so far."""
        return CommitStats.of(self.metadata)

    @property
    def metadata(self) -> CommitMetadata:
        """The commit as it would be published now."""
        return self._state.ready().metadata

    @property
    def snapshot(self) -> Snapshot:
        """The state that the write started from."""
        return self._state.ready().snapshot

    @property
    def schema(self) -> pa.Schema:
        """The table's schema after this write."""
        return self._state.ready().schema

    @property
    def context(self) -> TableContext:
        """The table and its runtime."""
        return self._state.request.context

    @property
    def engine(self) -> Engine | None:
        """Where the rows were written; None before `write`, and if there are none."""
        return self._state.batch.engine if self._state.batch is not None else None

    def conflict_side(self) -> SideAndCommit:
        """What this write has changed, for ``table.explain_conflict``."""
        state = self._state
        return state.staged().conflict_side(state.commit.completion_time if isinstance(state, Committed) else None)

    def write(self, data: object) -> Self:
        """Check the data, then write its files; nothing of it is visible yet. A handle takes one batch; None for no rows, with ``allow_empty``.

        Many rows of a `pyarrow.RecordBatchReader` go into files until the handle ends. Use it in a ``with`` block, which removes them.

        Raises `DataError` before anything is written if the data does not fit the table, and `CommitConflictError` if an index came or went, or a
        clustering is pending, at the same time: `again` writes the batch on the state after that.
        """
        draft = self._state.draft()
        request = draft.request
        checks.refuse_unfit(request.operation, request.table, drops=False)
        snapshot = self._loaded(draft)
        checks.refuse_index(request.context, request.operation, snapshot)
        if data is None and request.allow_empty:
            self._state = replace(draft, batch=WriteBatch())
            return self._attempt(snapshot.timeline)
        if isinstance(data, pa.RecordBatchReader) and request.spark is None:
            states.take_rows(draft, data.schema.empty_table(), snapshot)  # refuses wrong columns before a row is read
            data = self._streams.kept(data)
        self._state = draft = states.take_rows(draft, data, snapshot)
        empties = request.allow_empty or request.operation is OperationType.INSERT_OVERWRITE_TABLE
        if draft.filled().total or empties:
            return self._attempt(snapshot.timeline)
        self._state = states.nothing_to_change(draft, snapshot)
        return self

    def write_found(self, engine: Engine, find: Callable[[Snapshot], WriteBatch]) -> Self:
        """Write the rows that ``find`` returns for the state from which the attempt starts. Each attempt finds them again."""
        draft = self._state.draft()
        snapshot = self._loaded(draft)
        self._state = replace(draft, batch=WriteBatch(engine=engine, find=find))
        return self._attempt(snapshot.timeline)

    def drop(self, partitions: Sequence[str], missing_ok: bool = False) -> Self:
        """Remove whole partitions (paths). Raises `PartitionNotFoundError` for one that does not exist, unless ``missing_ok``."""
        draft = self._state.draft()
        context, table = draft.context, draft.request.table
        checks.refuse_unfit(draft.request.operation, table, drops=True)
        paths = checks.checked_partitions(partitions, context.config, table)
        snapshot = self._loaded(draft)
        known = checks.known_partitions(snapshot, paths, table, missing_ok=missing_ok)
        self._state = draft = replace(draft, batch=WriteBatch(partitions=known))
        if known:
            return self._attempt(snapshot.timeline)
        self._state = states.nothing_to_change(draft, snapshot)
        return self

    def alter(self, changes: ColumnChanges) -> Self:
        """Change the columns of the table; each attempt finds them again. Raises `SchemaMismatchError` before anything is written."""
        draft = self._state.draft()
        snapshot = self._loaded(draft)
        altering.refuse_plans(draft.context, snapshot.timeline)
        new = altering.new_columns(draft.context, changes, snapshot)
        if new.altered.unchanged:
            self._state = states.nothing_to_change(replace(draft, batch=WriteBatch(altered=new)), snapshot)
            return self
        find = partial(_altered, draft.context, changes)
        if new.new_statistics:
            draft = states.in_context(draft, metadata_update.removing)
        self._state = replace(draft, batch=WriteBatch(find=find))
        return self._attempt(snapshot.timeline)

    def scan(self, columns: Sequence[str] | None = None, where: object = None, *, meta: bool = True) -> Any:
        """Read the table for this write, before `write`: all reads see the state of the first one. ``meta=False`` leaves the meta columns out.

        The commit is refused if another one has changed the same file groups since then; with ``isolation="serializable"`` also if it has
        changed any partition that was read.
        """
        assert self._reader is not None
        draft = self._state.draft()
        if draft.basis is None:
            self._state = draft = states.locked(draft)
        basis = draft.basis or Basis(draft.context.folder.load())
        found = self._reader.pinned(draft.context, basis.timeline, columns, where, meta=meta)
        self._state = replace(draft, basis=replace(basis, reads=(*basis.reads, found)))
        return found

    def staged(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """A scan of the rows that this write changed or added, as they will be; nothing else sees them yet. Deleted rows do not show."""
        assert self._reader is not None
        return self._reader.staged(self._state.context, self._state.ready(), columns, where)

    def would_commit(self) -> CommitVerdict:
        """Check against the timeline as it is now, and ask the pre-commit validators, without the lock and without publishing anything."""
        end = self._state.ready()
        if isinstance(end, Unchanged):
            return CommitVerdict(False, f"there is nothing to change: {end.reason}")
        try:
            end.check.outside(end.context.folder.load())
            validation_of(end.attempt).run()
        except HudiError as error:
            why = error.explanation if isinstance(error, CommitConflictError) else None
            return CommitVerdict(False, str(error), why if isinstance(why, ConflictExplanation) else None, error)
        began = end.requested.requested_time
        return CommitVerdict(True, f"nothing that completed since {began} began conflicts with it")

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish what was written. Raises `CommitError`; see `pyhudi_core.transaction.commit` for what holds then.

        Where nothing is to be changed there is no commit: the result is false and says why, and ``gate`` is not asked.
        """
        self._refuse_committed()
        state = self._state
        if isinstance(state, Draft) and state.batch is None and state.request.allow_empty:
            self.write(None)
        self._state = done = states.commit(self._state.ready(), self.retries, gate)
        self._give_lock_back()
        self.retries.end()
        return done.commit

    def again(self, conflict: CommitConflictError) -> None:
        """After a conflict: wait, then plan and write again from the table's present state; the batch is not evaluated again.

        Raises the conflict if that would not help, if the data was read from a state that is gone, or if there were enough attempts.
        """
        self.give_up(conflict)
        self.retries.wait(conflict)
        self.write_again()

    def give_up(self, conflict: CommitConflictError) -> None:
        """Roll back after a conflict. Raises the conflict if the data was read from the table: another attempt would write what is outdated."""
        self._refuse_committed()
        if not self.context.protections.replan:  # only tests, which show what planning again is for
            pending = self._state.pending()
            if pending is not None:
                pending.start = self.context.folder.load()
            return
        self.rollback()
        if self._state.basis is not None:
            raise conflict

    def write_again(self) -> None:
        """Write the batch from the table's present state, if it was rolled back."""
        if isinstance(self._state, Draft):
            self._state = states.renewed(self._state)
            self._attempt(None)

    def start_over(self) -> None:
        """Roll back, and forget the batch and what was read."""
        self._refuse_committed()
        self.rollback()
        self._give_lock_back()
        self._forget_batch()
        self._streams.remove()
        self._state = states.renewed(Draft(request=self._state.request))

    def rollback(self) -> None:
        """Remove what was written; the table is as if nothing had happened. Does nothing after a commit."""
        self._undo(None)

    def _undo(self, error: BaseException | None) -> None:
        """`rollback`, after an error or without one."""
        state = self._state
        pending = state.pending()
        if pending is None or isinstance(state, Committed):
            return
        self._state = Draft(request=state.request, batch=state.batch, basis=state.basis, lock=state.lock)
        states.undo(after_failure(state.context, error), pending, asked=not isinstance(state, Begun))
        self._give_lock_back()

    def _loaded(self, draft: Draft) -> Snapshot:
        snapshot = states.load(draft.context, publish=True)
        checks.refuse_unwritable(draft.context, snapshot)
        checks.refuse_operation(draft.context, draft.request.operation)
        if draft.request.partial:
            checks.refuse_partial(draft.context)
        moving_updates.refuse_unfit(draft.context, partial=draft.request.partial)
        refuse_unfit(draft.context, bucketed=is_bucketed(snapshot), partial=draft.request.partial)
        if draft.request.operation in REPLACING and has_consistent_hashing(draft.context):
            checks.refuse_replaced_ranges(draft.context, draft.request.operation)
        return snapshot

    def _attempt(self, seen: Timeline | None) -> Self:
        """Go from a draft to an attempt. After an error the state says how far it came, so that it can be undone."""
        draft = self._state
        assert isinstance(draft, Draft)
        draft.filled()
        self._state = draft = states.locked(draft)
        self.retries.began()
        self._state = begun = states.begin(draft, seen)
        with restores_as_conflicts(draft.context, begun.transaction.start, begun.transaction.requested_time):
            self._state = staging.stage(begun)
        return self

    def _refuse_committed(self) -> None:
        if isinstance(self._state, Committed):
            raise checks.committed_already(self._state.request.table, self._state.commit.instant)

    def _give_lock_back(self) -> None:
        lock, self._state = self._state.lock, replace(self._state, lock=None)
        if lock is not None:
            lock.release()

    def _forget_batch(self) -> None:
        batch = self._state.batch
        if batch is not None and batch.prepared is not None:
            batch.prepared.rows.release()


def _altered(context: TableContext, changes: ColumnChanges, snapshot: Snapshot) -> WriteBatch:
    return WriteBatch(altered=altering.new_columns(context, changes, snapshot))
