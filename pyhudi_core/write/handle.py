"""A write in steps: write, read the staged rows, check whether it would commit, commit through a gate, or roll back.

The methods of a table use this handle for all steps at once (`Write.until_committed`). The handle holds the running write, and takes it through the
steps of ``write/write.py``. Leaving the handle without a commit rolls back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from pyhudi_core.conflicts.explain import SideAndCommit
from pyhudi_core.conflicts.explanation import ConflictExplanation
from pyhudi_core.conflicts.requirement import CommitRequirement, checked_requirements
from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    HudiError,
    InvalidOptionError,
    LockServerError,
    SnapshotExpiredError,
)
from pyhudi_core.model.alteration import ColumnChanges
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import OPERATIONS, OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import TableSeen, Transaction
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.group import Member
from pyhudi_core.write import checks, refusals
from pyhudi_core.write.altering import refuse_rows
from pyhudi_core.write.attempt import Basis, validation_of
from pyhudi_core.write.batch import Columns, Given, Nothing, Partitions, UserRows, engine_of
from pyhudi_core.write.result import Commit, CommitStats, CommitVerdict
from pyhudi_core.write.states import Committed, Draft, ExtraOfKeys, Unchanged, WriteSpec, WriteState, load
from pyhudi_core.write.write import (
    WriteRun,
    close,
    followed,
    locked,
    prepare,
    release,
    release_lock,
    renewed,
    rows_total,
    undo,
    write,
)

_log = logging.getLogger(__name__)


class HandleReader(Protocol):
    """Makes the scans of a handle. The reader is passed in, because reading is not below writing."""

    def staged(self, context: TableContext, write: Any, columns: Sequence[str] | None, where: object) -> Any:
        """Return the rows of a write that is `Staged` or `Unchanged`."""
        ...

    def pinned(
        self,
        context: TableContext,
        timeline: Timeline,
        columns: Sequence[str] | None,
        where: object,
        *,
        meta: bool = True,
        companions: Sequence[Timeline] = (),
    ) -> Any:
        """Return the table as of a timeline; the scan is a `Read`. ``companions``: timelines of the metadata tables that were read with it."""
        ...


@set_module("pyhudi")
@printable
class Write:
    """One write to one table. Made by ``table.begin``."""

    def __init__(self, request: WriteSpec, reader: HandleReader | None = None) -> None:
        extra = checks.checked_extra(request.extra)
        requirements = checked_requirements(request.requirements) if request.requirements != () else ()
        refusals.of_arguments(request.case)
        self._run = WriteRun.of(replace(request, extra=extra, requirements=requirements))
        self._reader = reader

    @property
    def _state(self) -> WriteState:
        return self._run.state

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
                undo(self._run, error)
        except HudiError as failure:
            if error is None:
                raise
            if isinstance(error, LockServerError) and isinstance(failure, LockServerError):
                error.add_note("What was written could not be removed without the lock; a later write removes it.")
            else:
                _log.warning("could not roll back the failed write; the next writer will: %s", failure)
        finally:
            close(self._run)

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
    def transaction(self) -> Transaction | None:
        """The pending instant; None before `write`, and if there is nothing to change."""
        return self._state.pending()

    @property
    def stats(self) -> CommitStats:
        """Return the counts of the staged files so far."""
        return CommitStats.of(self.metadata)

    @property
    def metadata(self) -> CommitMetadata:
        """The commit as it would be published now."""
        return self._state.ready().metadata

    @property
    def snapshot(self) -> Snapshot:
        """Return the state from which the write started."""
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
        """Return the engine that wrote the rows; None before `write`, and if there are no rows."""
        return engine_of(self._state.batch)

    def conflict_side(self) -> SideAndCommit:
        """Return the changes of this write, for ``table.explain_conflict``."""
        state = self._state
        return state.staged().conflict_side(state.commit.completion_time if isinstance(state, Committed) else None)

    def write(self, data: object) -> Self:
        """Check the data, then write its files; readers do not see them yet. A handle takes one batch; None means no rows, with ``allow_empty``.

        Large data of a `pyarrow.RecordBatchReader` is stored in files until the handle ends. Use the handle in a ``with`` block, which removes these
        files.

        Raises `DataError` before anything is written if the data does not fit the table. Raises `CommitConflictError` if an index was made or
        dropped meanwhile, or a clustering is pending: `again` then writes the batch on the later state.
        """
        return self._bring(Nothing() if data is None and self._state.request.allow_empty else UserRows(data))

    def prepare(self, given: Given) -> tuple[Draft | Unchanged, Timeline]:
        """Take only the first step: check the input of the write, and keep it. Also returns the timeline that was read. Raises as `write`."""
        self._run.state, seen = prepare(self._run, given)
        return self._run.state, seen.timeline

    def note(
        self,
        extra: Mapping[str, str] | None = None,
        requirements: Sequence[CommitRequirement] = (),
        *,
        extra_of_keys: ExtraOfKeys | None = None,
        allow_empty: bool = False,
        follows: bool = True,
        together: bool = False,
    ) -> None:
        """Before `write`, add entries of this package, requirements, and the permission for an empty commit to the arguments of ``table.begin``.
        Without ``follows``, the table services run only when `follow` is called. ``together``: the write is committed with writes to other tables
        (`CommitTogether`).
        """
        state = self._state
        request = state.request
        request = replace(
            request,
            extra={**request.extra, **(extra or {})},
            requirements=(*request.requirements, *checked_requirements(requirements)),
            extra_of_keys=extra_of_keys or request.extra_of_keys,
            allow_empty=request.allow_empty or allow_empty,
            follows=request.follows and follows,
            together=request.together or together,
        )
        self._run.state = replace(state, request=request)

    def drop(self, partitions: Sequence[str], missing_ok: bool = False) -> Self:
        """Remove complete partitions (paths). Raises `PartitionNotFoundError` for a partition that does not exist, unless ``missing_ok``."""
        return self._bring(Partitions(partitions, missing_ok))

    def _bring(self, given: Given) -> Self:
        write(self._run, given, commits=False)
        return self

    def scan(self, columns: Sequence[str] | None = None, where: object = None, *, meta: bool = True) -> Any:
        """Read the table for this write, before `write`: all reads see the state of the first read. ``meta=False`` omits the meta columns.

        The commit is refused if another commit has changed the same file groups since then; with ``isolation="serializable"`` also if it has changed
        a partition that was read.
        """
        return self._found(columns, where, meta=meta)

    def _found(self, columns: Sequence[str] | None, where: object, *, meta: bool, seen: TableSeen | None = None) -> Any:
        """Read the table as `scan`. ``seen``: the table, if the caller has just read it; it is read again after a wait for the lock."""
        assert self._reader is not None
        draft = self._state.draft()
        if draft.basis is None:
            self._run.state = draft = locked(draft)
        known = seen if draft.basis is None and draft.lock is None else None
        basis = draft.basis or Basis(draft.context.folder.load() if known is None else known.timeline)
        beside = () if known is None else known.companions
        found = self._reader.pinned(draft.context, basis.timeline, columns, where, meta=meta, companions=beside)
        self._run.state = replace(draft, basis=replace(basis, reads=(*basis.reads, found)))
        return found

    def _open_once(self) -> None:
        """Keep small files in memory after their first read, because the found rows are merged with the files in which they were found."""
        draft = self._state.draft()
        once = replace(draft.context, storage=draft.context.storage.opening_once())
        self._run.state = replace(draft, request=replace(draft.request, context=once))

    def staged(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """Return a scan of the rows that this write changed or added, as they will be after the commit; only this handle sees them. Deleted rows are
        not included.
        """
        assert self._reader is not None
        return self._reader.staged(self._state.context, self._state.ready(), columns, where)

    def would_commit(self) -> CommitVerdict:
        """Check against the present timeline, and run the pre-commit validators, without the lock and without publishing anything."""
        end = self._state.ready()
        if isinstance(end, Unchanged):
            return CommitVerdict(False, f"there is nothing to change: {end.reason}")
        try:
            end.check.outside(end.context.folder.load())
            validation = validation_of(end.attempt)
            if validation is not None:
                validation.run()
        except HudiError as error:
            why = error.explanation if isinstance(error, CommitConflictError) else None
            return CommitVerdict(False, str(error), why if isinstance(why, ConflictExplanation) else None, error)
        began = end.requested.requested_time
        return CommitVerdict(True, f"nothing that completed since {began} began conflicts with it")

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish the written files. Raises `CommitError`; `pyhudi_core.transaction.commit` explains the state of the table after each error.

        If there is nothing to change, there is no commit: the result is false and gives the reason, and ``gate`` is not called.
        """
        self._refuse_committed()
        state = self._state
        bare = isinstance(state, Draft) and state.batch is None and state.request.allow_empty
        if not bare:
            state.ready()  # refuses a commit of a batch that was rolled back
        write(self._run, Nothing() if bare else None, gate=gate)
        return self._commit()

    @property
    def longest_ms(self) -> int:
        """Return the duration of the longest lost attempt."""
        return self._run.retries.longest_ms

    def wait_after(self, conflict: CommitConflictError, *, claims: bool = True) -> None:
        """Wait until another attempt makes sense. Raises the conflict if no attempt makes sense, or after too many attempts.

        ``claims``: whether the write may claim its changes.
        """
        self._run.retries.wait(conflict, claims=claims)

    @property
    def rows(self) -> int:
        """Return how many rows the write brings."""
        return rows_total(self._state.batch)

    @property
    def is_prepared(self) -> bool:
        """Return whether the rows are checked, and no file is written yet."""
        return isinstance(self._state, Draft) and self._state.batch is not None

    @property
    def holds_lock(self) -> bool:
        """Return whether the write holds the table's lock until its attempt ends."""
        return self._state.lock is not None

    def hold_lock(self) -> None:
        """Wait for the table's lock, and hold it until the next attempt ends. Does nothing for a write without rows that wait to be written."""
        if isinstance(self._state, Draft) and self.is_prepared:
            self._run.state = locked(self._state, always=True)

    def commit_in_group(self, member: Member | None, gate: Gate | None = None) -> None:
        """Publish the written files as the part of a decision over several tables; `follow` comes after it. Raises as `commit`."""
        check = self._state.staged().check
        check.attempt = replace(check.attempt, member=member)
        write(self._run, gate=gate, follows=False)

    def follow(self) -> Commit:
        """Run the table services that follow a commit, if they have not run yet: after `commit_in_group`, or after ``note(follows=False)``."""
        state = self._state
        assert isinstance(state, Committed)
        self._run.state = followed(state)
        return self._commit()

    def until_committed(
        self,
        given: Given | Callable[[], object],
        gate: Gate | None = None,
        look: Callable[[], object] | None = None,
        lost: Callable[[CommitConflictError], object] | None = None,
    ) -> Commit:
        """Write and commit. If another commit came first, plan again from the new state, as often as the table's options say.

        Arguments and errors are those of `commit_with_retries`; ``given`` may also be the input of the write.
        """
        while True:
            with self._run.retries.attempt(self.give_up, lost):
                if self._run.retries.attempts:
                    self._renew()
                brings = None
                if self._state.batch is None:  # otherwise a lost attempt has kept the batch
                    brings = None if callable(given) else given
                    if callable(given):
                        given()
                write(self._run, brings, look, gate)
                return self._commit()

    def again(self, conflict: CommitConflictError) -> None:
        """After a conflict, wait, then plan and write again from the table's present state; the batch is not evaluated again.

        Raises the conflict if another attempt would not help, if the state from which the data was read is gone, or after too many attempts.
        """
        self.give_up(conflict)
        self._run.retries.wait(conflict)
        self.write_again()

    def give_up(self, conflict: CommitConflictError) -> None:
        """Roll back after a conflict. Raises the conflict if the data was read from the table: another attempt would write outdated rows."""
        self._refuse_committed()
        if not self.context.protections.replan:  # only tests switch this off, to show why a lost write is planned again
            pending = self._state.pending()
            if pending is not None:
                pending.start = self.context.folder.load()
            return
        self.rollback()
        if self._state.basis is not None:
            raise conflict

    def write_again(self) -> None:
        """Write the batch from the table's present state, if the write was only prepared, or was rolled back."""
        if isinstance(self._state, Draft):
            self._renew()
            write(self._run, commits=False)
            if isinstance(self._state, Unchanged):
                release_lock(self._run)  # nobody waits for the lock of a table that does not change

    def start_over(self) -> None:
        """Roll back, and forget the batch and the reads."""
        self._refuse_committed()
        self.rollback()
        release(self._run)
        self._run.state = renewed(Draft(request=replace(self._state.request, seen=None)))

    def rollback(self) -> None:
        """Remove the written files; the table is as before. Does nothing after a commit."""
        undo(self._run)

    def _renew(self) -> None:
        """Read the table's properties again before a further attempt."""
        if isinstance(self._state, Draft):
            self._run.state = renewed(self._state)

    def _commit(self) -> Commit:
        state = self._state
        assert isinstance(state, Committed)
        return state.commit

    def _refuse_committed(self) -> None:
        if isinstance(self._state, Committed):
            raise checks.committed_already(self._state.request.table, self._state.commit.instant)


def commit_with_retries(
    write: Write,
    first: Callable[[], object],
    gate: Gate | None = None,
    look: Callable[[], object] | None = None,
    lost: Callable[[CommitConflictError], object] | None = None,
) -> Commit:
    """Write and commit. If another commit came first, plan again from the new state, as often as the table's options say.

    Args:
        write: a handle that has written nothing yet.
        first: writes the batch into it, for example ``lambda: write.write(rows)``. It is called once; later attempts reuse the batch.
        gate: asked just before the commit is decided, see `Write.commit`.
        look: called after each attempt, before its commit; raises an error to refuse the staged rows.
        lost: called with the conflict before each further attempt.

    Raises `CommitConflictError` if another attempt would not help, or after too many attempts. Also raises the errors of the callables.
    """
    return write.until_committed(first, gate, look, lost)


def write_found(
    write: Write,
    columns: Sequence[str] | None,
    where: object,
    make: Callable[[Any], object],
    *,
    meta: bool = False,
    anew: bool = False,
) -> Commit:
    """Find rows by a condition in one state of the table, make new rows from them, and write the new rows. After a conflict the rows are searched
    again.

    Args:
        columns: the columns of the scan; None for all, with the meta columns if ``meta``.
        make: takes the scan, and returns the rows to write.
        anew: whether to read the table again, because the caller has done other work since the handle was opened.

    Raises `PredicateError` if the condition selects other rows in the time zone of this process's Spark session.
    """
    spark = write._state.request.spark
    refusals.before_rows(write._state.request.case)  # before the table is searched
    while True:
        with write._run.retries.attempt(lambda _: write.start_over()), _reads_again(write.context):
            write._open_once()
            found = write._found(columns, where, meta=meta, seen=None if anew else write._state.request.seen)
            if spark is None:
                found.refuse_other_zone()
            return write.write(make(found)).commit()


def alter_table(write: Write, changes: ColumnChanges) -> Commit:
    """Change columns and rules. If a rule is added, all rows are first checked against it; after a conflict they are read again.

    Raises `DataError` if a row violates a new rule; nothing is changed then.
    """
    if not changes.rules.add.refusing:
        return write.until_committed(Columns(changes))
    refusals.before_rows(write._state.request.case)
    while True:
        with write._run.retries.attempt(lambda _: write.start_over()), _reads_again(write.context):
            snapshot = load(write.context)
            refuse_rows(write.context, changes, snapshot, write.scan)
            return write._bring(Columns(changes)).commit()


@contextmanager
def _reads_again(context: TableContext) -> Iterator[None]:
    """Raise a conflict in place of the error for a state that was cleaned while its rows were read, so that another attempt reads the newest state.

    A clean keeps the files of writes that are on the timeline, but a write that reads rows in order to change them announces itself later.
    """
    try:
        yield
    except SnapshotExpiredError as gone:
        if gone.table != context.table:  # the rows of another table, which the caller gave
            raise
        raise CommitConflictError(
            "A clean removed the state of the table from which this write read its rows",
            table=gone.table,
            path=gone.path,
            hint=gone.hint,
        ) from gone


def operation_type(name: str) -> OperationType:
    """Return the operation that a word such as ``"upsert"`` names; ``"delete_partitions"`` is Hudi's DELETE_PARTITION."""
    found = OperationType.of(name)
    if not found.is_writer or name.strip().lower() not in (found.word, f"{found.word}s"):
        known = ", ".join(operation.word for operation in OPERATIONS if operation.is_writer)
        raise InvalidOptionError(f"{name!r} is not an operation", hint=f"Choose one of: {known}.")
    return found
