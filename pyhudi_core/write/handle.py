"""A write in steps: write, look at what is staged, ask whether it would commit, commit through a gate, or roll back.

The operations of a table (`operations`) are this handle used in one go. A write that is left without a commit is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from pyhudi_core.engine import engine_for
from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError, HudiError, at_table
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, OperationType, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import concurrent, markers
from pyhudi_core.transaction.begin import Transaction, begin_write, withdraw
from pyhudi_core.transaction.commit import Gate, finish
from pyhudi_core.transaction.conflict import is_final
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.explanation import Explanation
from pyhudi_core.transaction.parties import WholeParty
from pyhudi_core.transaction.pessimistic import WholeWrite, hold
from pyhudi_core.transaction.requirement import CommitRequirement, checked_requirements
from pyhudi_core.transaction.rollback import repair_by_policy, roll_back, sweep_late_files
from pyhudi_core.write import checks
from pyhudi_core.write.commit_check import Attempt, CommitCheck
from pyhudi_core.write.nothing import changes_nothing_without_rows, reason_for
from pyhudi_core.write.pipeline import WriteJob
from pyhudi_core.write.prepare import Prepared, prepare, prepare_keys
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.retrying import Contest
from pyhudi_core.write.staged import Basis, CommitVerdict, HandleReader, StagedWrite
from pyhudi_core.write.touching import kept_in_commit, replaced_by, touched_by

_log = logging.getLogger(__name__)
_NEVER = Instant("0", Action.COMMIT, State.REQUESTED)  # that of a write which has nothing to change


class Write:
    """One write to one table.

    Args:
        context: the table and the outside.
        operation: what kind of write.
        extra_metadata: strings to keep in the commit.
        spark: a session to run on; None chooses by the data.
        reader: makes the handle's scans.
        basis: what the data was read from, if it was; what completed after that can be in conflict.
        contest: the attempts so far, if this is not the first handle of the write.
        requirements: what must hold under the lock for the commit to be made.
        allow_empty: a batch that changes no rows, or a commit before any `write`, is a commit all the same.
    """

    def __init__(
        self,
        context: TableContext,
        operation: OperationType,
        extra_metadata: Mapping[str, str],
        spark: Any = None,
        reader: HandleReader | None = None,
        basis: Basis | None = None,
        contest: Contest | None = None,
        requirements: Sequence[CommitRequirement] = (),
        allow_empty: bool = False,
    ) -> None:
        self._allow_empty = allow_empty and checks.allowed_empty(operation, context.table)
        self._reader = reader
        self._basis = basis
        self._contest = contest or Contest(context)
        self._own_contest = contest is None
        self._whole: WholeWrite | None = None
        self._outside = context
        self._context = context
        self._operation = operation
        self._extra = checks.checked_extra(extra_metadata)
        self._requirements = checked_requirements(requirements)
        self._spark = spark
        self._engine: Any = None
        self._prepared: Prepared | None = None
        self._partitions: tuple[str, ...] = ()
        self._transaction: Transaction | None = None
        self._snapshot: Snapshot | None = None
        self._metadata: CommitMetadata | None = None
        self._check: CommitCheck | None = None
        self._nothing = ""  # why there is nothing to change, if that is so
        self._commit: Commit | None = None
        self._untouched, self._empty = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, CommitStateUnknownError) and self._transaction is not None:
                # When the heartbeat has expired, the next writer finishes the commit or rolls it back.
                self._transaction.heartbeat.handle.cancel()
            elif self._commit is None:
                self.rollback()
        except HudiError as failure:
            if error is None:
                raise
            _log.warning("could not roll back the failed write; the next writer will: %s", failure)
        finally:
            self._let_others_in()
            if self._own_contest:
                self._contest.over()
            if self._prepared is not None:
                self._prepared.rows.release()

    @property
    def instant(self) -> str | None:
        """The requested time; None before `write`."""
        return self._transaction.requested_time if self._transaction else None

    @property
    def token(self) -> str | None:
        """Names this attempt for ``commit_status``; None before `write`."""
        return self._transaction.token if self._transaction else None

    def party(self) -> WholeParty:
        """What this write has touched, for ``table.explain_conflict``."""
        attempt = self._checking().attempt
        done = self._commit.completion_time if self._commit else None
        return WholeParty.of(self._started().requested_time, attempt.touched, attempt.metadata, done)

    @property
    def stats(self) -> CommitStats:
        """What is staged so far."""
        return CommitStats.of(self._staged_metadata())

    def write(self, data: object) -> Self:
        """Check the data, then write its files; nothing of it is visible yet. One batch a handle; None for none, with ``allow_empty``.

        Raises `DataError` before anything is written if the data does not fit the table.
        """
        self._refuse_second()
        checks.refuse_unfit(self._operation, self._context.table, drops=False)
        if data is None and self._allow_empty:
            checks.refuse_unwritable(self._context, self._load())
            self._attempt()
            return self
        self._engine = engine_for(data, self._context.runtime.executor, self._spark)
        snapshot = self._load(seen := self._context.folder.load())
        checks.refuse_unwritable(self._context, snapshot)
        deletes = self._operation is OperationType.DELETE
        allow_lossy = self._context.options.rows.allow_lossy_widening
        how = prepare_keys if deletes else partial(prepare, allow_lossy=allow_lossy)
        with at_table(self._context.table):
            dataset = self._engine.dataset(data)
            self._prepared = how(dataset, self._context.config, snapshot.schema, self._context.table)
        if self._prepared.total or self._allow_empty or not changes_nothing_without_rows(self._operation):
            self._attempt(seen)
        else:
            self._change_nothing(snapshot)
        return self

    def drop(self, partitions: Sequence[str], missing_ok: bool = False) -> Self:
        """Take whole partitions (paths) away. Raises `PartitionNotFoundError` for one that is not there, unless ``missing_ok``."""
        self._refuse_second()
        checks.refuse_unfit(self._operation, self._context.table, drops=True)
        paths = checks.checked_partitions(partitions, self._context.config, self._context.table)
        snapshot = self._load()
        checks.refuse_unwritable(self._context, snapshot)
        self._partitions = checks.known_partitions(snapshot, paths, self._context.table, missing_ok=missing_ok)
        if self._partitions:
            self._attempt()
        else:
            self._change_nothing(snapshot)
        return self

    def scan(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """Read the table for this write, before `write`: all reads see the state of the first one.

        The commit is refused if another one has changed the same file groups since then; with ``isolation="serializable"`` also if it has
        changed any partition that was read.
        """
        self._refuse_second()
        assert self._reader is not None
        if self._basis is None:
            self._hold_if_pessimistic()
            self._basis = Basis(self._context.folder.load())
        found = self._reader.pinned(self._context, self._basis.timeline, columns, where)
        self._basis = replace(self._basis, reads=(*self._basis.reads, found))
        return found

    def staged(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """A scan of the rows that this write changed or added, as they will be; nothing else sees them yet. Deleted rows do not show."""
        assert self._reader is not None
        requested = _NEVER if self._nothing else self._started().requested
        staged = StagedWrite(self.snapshot, requested, self._staged_metadata(), self.schema)
        return self._reader.staged(self._context, staged, columns, where)

    def would_commit(self) -> CommitVerdict:
        """Check against the timeline as it is now, without the lock and without publishing anything."""
        if self._nothing:
            return CommitVerdict(False, f"there is nothing to change: {self._nothing}")
        transaction = self._started()
        try:
            self._checking().outside(self._context.folder.load())
        except HudiError as error:
            why = error.explanation if isinstance(error, CommitConflictError) else None
            return CommitVerdict(False, str(error), why if isinstance(why, Explanation) else None)
        return CommitVerdict(True, f"nothing that completed since {transaction.requested_time} began conflicts with it")

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish what was written. Raises `CommitError`; see `pyhudi_core.transaction.commit` for what holds then.

        Where nothing is to be changed there is no commit: the result is false and says why, and ``gate`` is not asked.
        """
        if self._commit is not None:
            raise checks.committed_already(self._context.table, self._commit.instant)
        if self._nothing:
            time, retries = self.snapshot.completion_time, self._contest.attempts
            return self._ended(Commit.nothing(str(self._operation), self._nothing, time, retries))
        if self._allow_empty and self._untouched:
            self.write(None)
        transaction = self._started()
        metadata = self._staged_metadata()
        markers.remove_leaks(self._context, transaction.requested_time, {stat.path for stat in metadata.stats})
        notes: dict[str, str] = {}

        def encode(added: Mapping[str, str]) -> bytes:
            notes.update(added)
            final = replace(metadata, extra={**metadata.extra, **added})
            action = transaction.requested.action
            return encode_record(final.record_name(action), final.to_avro(action), sync_marker=transaction.sync_marker)

        self._yield_to_claims()
        check = self._checking()
        with at_table(self._context.table):
            check.outside(self._context.folder.load())
            finished = finish(transaction, encode, check, gate)
        whole = self._whole
        commit = Commit(
            instant=transaction.requested_time,
            completion_time=finished.instant.completion_time or "",
            token=transaction.token,
            operation=str(self._operation),
            retries=self._contest.attempts,
            stats=CommitStats.of(metadata),
            lock_wait=whole.waited if whole else finished.lock_wait,
            lock_held=whole.held() if whole else finished.lock_held,
            notes=tuple(sorted(notes.items())),
            bytes_saved=self._contest.bytes_saved,
        )
        return self._ended(commit)

    def _ended(self, commit: Commit) -> Commit:
        self._commit = commit
        self._let_others_in()
        if self._own_contest:
            self._contest.over()
        return commit

    def again(self, conflict: CommitConflictError) -> None:
        """After a conflict: wait, then plan and write anew from the table's present state; the batch is not evaluated again.

        Raises as `give_way`, and what `attempt` raises.
        """
        self.give_way(conflict)
        self.attempt()

    def give_way(self, conflict: CommitConflictError) -> None:
        """The first half of `again`: roll back and wait.

        Raises the conflict if planning anew would not help, the data was read from a state that is gone, or there were enough attempts.
        """
        if not self._context.protections.replan:  # tests of what planning anew is for
            self._started().start = self._context.folder.load()
            return
        self.rollback()
        if self._basis is not None or is_final(conflict):
            raise conflict
        self._contest.next_attempt(conflict)

    def attempt(self) -> None:
        """The second half of `again`: write the batch from the table's present state."""
        if self._transaction is None and not self._nothing:
            self._attempt()

    def rollback(self) -> None:
        """Remove what was written; the table is as if nothing had happened. Does nothing after a commit."""
        if self._transaction is None or self._commit is not None:
            return
        transaction, self._transaction = self._transaction, None
        self._metadata = self._check = None
        transaction.heartbeat.handle.cancel()
        if roll_back(self._context, transaction.requested_time) is None:
            sweep_late_files(self._context, transaction.requested)
        transaction.heartbeat.stop(self._context)
        self._let_others_in()

    @property
    def snapshot(self) -> Snapshot:
        """The state that the write started from."""
        if not self._nothing:
            self._started()
        assert self._snapshot is not None
        return self._snapshot

    @property
    def metadata(self) -> CommitMetadata:
        """The commit as it would be published now."""
        return self._staged_metadata()

    @property
    def schema(self) -> pa.Schema:
        """The table's schema after this write."""
        changes = self._prepared is not None and not (self._nothing or self._empty)
        return self._prepared.schema if changes and self._prepared else self.snapshot.schema

    def _attempt(self, seen: Timeline | None = None) -> None:
        self._untouched = False
        self._hold_if_pessimistic()
        self._contest.began()
        seen = None if repair_by_policy(self._context, seen) else seen
        self._transaction = begin_write(self._context, self._operation.action, str(self._operation), seen)
        self._snapshot = self._load(self._transaction.start)
        stats: tuple[WriteStat, ...] = ()
        if self._prepared is not None and self._prepared.total:
            self._prepared = checks.fitted(self._prepared, self._operation, self._snapshot.schema, self._context.table)
            job = WriteJob(self._operation, self._engine, self._prepared, self._snapshot, self._transaction)
            with at_table(self._context.table):
                stats = job.run().stats
        replaced = replaced_by(self._operation, self._snapshot, self._prepared, self._partitions)
        self._empty = not stats and not replaced
        if self._empty and not self._allow_empty:
            transaction, self._transaction = self._transaction, None
            withdraw(transaction)
            self._change_nothing(self._snapshot)
            return
        extra = kept_in_commit(self._transaction, self._extra, self._snapshot, replaced, self.schema)
        self._metadata = metadata = CommitMetadata(str(self._operation), stats, extra, replaced)
        touched = touched_by(metadata, self._operation, self._prepared, self._partitions)
        parts = (self._transaction, self._snapshot, metadata, touched, self.schema, self._basis, self._requirements)
        self._check = CommitCheck.of(Attempt(*parts))

    def _change_nothing(self, snapshot: Snapshot) -> None:
        """There is nothing to change in this state."""
        self._snapshot = snapshot
        self._nothing = reason_for(self._operation, self._prepared, by_condition=self._basis is not None)

    def _hold_if_pessimistic(self) -> None:
        """Take the table's lock for the whole of this write, if that is the concurrency that was asked for."""
        if self._whole is None and self._outside.options.conflict.concurrency == "pessimistic":
            self._whole = hold(self._outside, f"the whole of a write ({self._operation})")
            self._context = self._whole.context

    def _let_others_in(self) -> None:
        whole, self._whole = self._whole, None
        self._context = self._outside
        if whole is not None:
            whole.release()

    def _yield_to_claims(self) -> None:
        """Raise `CommitConflictError` if another writer, which has lost too often, goes first."""
        conflict = self._contest.in_the_way(self._checking().attempt.touched)
        if conflict is not None:
            raise concurrent.conflict_error(self._context, conflict, self._started().requested_time)

    def _load(self, timeline: Timeline | None = None) -> Snapshot:
        context = self._context
        found = context.folder.load() if timeline is None else timeline
        return build(context.storage, context.folder, context.config, found, executor=context.runtime.executor)

    def _checking(self) -> CommitCheck:
        self._started()
        assert self._check is not None
        return self._check

    def _staged_metadata(self) -> CommitMetadata:
        if self._nothing:
            return CommitMetadata(str(self._operation), (), self._extra)
        self._started()
        assert self._metadata is not None
        return self._metadata

    def _started(self) -> Transaction:
        if self._nothing:
            raise checks.nothing_to_change(self._context.table, self._nothing)
        if self._transaction is None:
            raise checks.nothing_written(self._context.table)
        return self._transaction

    def _refuse_second(self) -> None:
        if self._transaction is not None or self._prepared is not None or self._nothing:
            raise checks.second_batch(self._context.table)
