"""Upsert small batches: put them into files, wait for the answer, and commit for all writers if no other writer does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.batches import handed_in
from pyhudi_core.batches.handed_in import Answer, HandedIn, LastShared
from pyhudi_core.conflicts.requirement import CommitRequirement, TableState
from pyhudi_core.errors import (
    ClockSkewError,
    CommitAbortedError,
    CommitError,
    CommitRequirementError,
    CommitStateUnknownError,
    DataError,
    HudiError,
    InvalidOptionError,
    LockError,
    LockTimeoutError,
    StorageError,
    StorageStateUnknownError,
    at_table,
)
from pyhudi_core.lock.base import LockProvider, LockSession, Patience, look_ahead, taken_as_seen, was_free
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.in_process import InProcessLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.merge.law import says_deleted
from pyhudi_core.merge.record_merger import find_merger
from pyhudi_core.model.instant import State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.model.shared_commits import BATCHES_KEY, Counts, answers_in
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import Ahead, all_of, both
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.layout import BATCHES
from pyhudi_core.transaction.locking import give_back
from pyhudi_core.transaction.status import CommitStatus
from pyhudi_core.write.batch import Nothing, Rows, UserRows
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.replacing import is_global, naming
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.states import Unchanged

_log = logging.getLogger(__name__)
OpenWrite = Callable[[], AbstractContextManager[Write]]
"""Opens the write of one commit."""
_Look = tuple[dict[str, int], LastShared | None]

_LEAD = "lock"
_LEASE_S, _RENEW_S = 30, 3
_ABANDONED_MINUTES = 0.25
_WAIT_MS = (8, 300)
_GROWTH = 1.25
"""The factor between two waits. With 1.4, a writer sees its answer late by a fifth of the wait on average; with 1.25, by an eighth."""
_ASKS = 8
"""While another writer leads, one look out of this number asks for the lead, because the leader may have died."""
_GATHER, _MOST_GATHER_MS = 1 / 2, 300
"""A leader waits for the next batches of the writers that the last commit has answered.

The maximum wait, as a part of the duration of the last commit, and in milliseconds.
"""
_GATHER_LOOKS = 8
_OF_LEADER = (ClockSkewError, CommitError, LockError, StorageError)
"""Errors of the leader's process or of the storage. Such an error ends the commit of all batches. For other errors each batch is committed alone."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A requirement: no existing commit answers one of these batches."""

    TYPE: ClassVar[str] = "batches-not-answered"

    tokens: tuple[str, ...]

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"no commit answers one of {len(self.tokens)} batches"

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        for instant, commit in state.commits_after(handed_in.completed_before(self.tokens), BATCHES_KEY):
            known = answers_in(commit).keys() & set(self.tokens)
            if known:
                return f"{instant.action} {instant.requested_time} answers {min(known)}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values."""
        return {"type": self.TYPE, **asdict(self)}


@dataclass(frozen=True, slots=True)
class OfBatch:
    """A requirement of one batch: if it fails, this batch is refused, and the others are committed."""

    TYPE: ClassVar[str] = "of-batch"

    token: str
    required: CommitRequirement

    def describe(self) -> str:
        """Return the requirement as text."""
        return self.required.describe()

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        return self.required.failure(state)

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values."""
        return {"type": self.TYPE, "token": self.token, "required": self.required.to_dict()}


def upsert(write: Write, open_write: OpenWrite, data: object, gate: Gate | None = None) -> Commit:
    """Upsert rows, in one commit with other waiting batches. A batch makes a commit alone if it has more than 4 MiB, or rows that are marked as
    deleted, or extra metadata or requirements that a file cannot store (`handed_in.travels`).

    Args:
        write: checks the rows, and commits a batch that needs its own commit. Its extra metadata and requirements are stored with the batch.
        open_write: opens a write that commits several batches.
        gate: called before the rows are put into a file, because another process may commit them.

    Raises as an upsert of this batch. Raises `CommitStateUnknownError` with the token if no leader finishes within the wait for the lock; the batch
    may be committed later.
    """
    shared = upsert_with_others(write, open_write, data, gate)
    return shared if shared is not None else write.until_committed(Nothing(), gate)


def upsert_with_others(
    write: Write,
    open_write: OpenWrite,
    data: object,
    gate: Gate | None = None,
    fits: Callable[[frozenset[str]], bool] = lambda _: True,
) -> Commit | None:
    """Upsert as `upsert`, but return None for rows that need their own commit: the write has checked them, and `Write.until_committed` commits them.
    This includes rows that the leader dropped because, by its clock, this writer no longer waits.

    ``fits``: whether rows of these partitions (paths) may share a commit.
    """
    context = write.context
    with at_table(context.table):
        state, seen = write.prepare(UserRows(data))
        if isinstance(state, Unchanged):
            return write.commit()
        rows, extra, requirements = _small(context, state.batch), state.request.extra, state.request.requirements
        if rows is None or not handed_in.travels(extra, requirements) or not fits(_partitions_of(state.batch)):
            return None
        ask_gate(gate, context, "the batch")
        batch = handed_in.batch_of(context, rows, seen, context.options.lock.wait_ms, extra, requirements)
        lock = _lead_lock(context)
        not_written: list[HudiError] = []
        try:
            root, executor = context.root, context.runtime.executor
            all_of(root, executor, partial(_hand_in, context, batch, not_written), partial(look_ahead, lock))
            answer = _answered(open_write, context, batch, lock)
        except CommitStateUnknownError:
            raise
        except HudiError as error:
            if error in not_written:
                raise
            # The file is not taken back: another writer may have read it already.
            raise _unknown(context, batch, f"was handed in when this happened: {error.message}") from error
        except BaseException:
            # After Ctrl-C in a notebook the process lives on, so other processes would not see that the batch is outdated.
            context.root.delete(batch.path)
            raise
        if isinstance(answer.outcome, CommitAbortedError):
            _log.warning(
                "A batch of %s gets its own commit: for the writer that commits for all, this writer had given up. Probably their clocks differ.",
                context.table,
            )
            return None
        return _result(answer, batch)


def _hand_in(context: TableContext, batch: HandedIn, not_written: list[HudiError]) -> None:
    """Write the file of a batch. An error after which there certainly is no file is put into the list, too."""
    try:
        handed_in.hand_in(context, batch)
    except StorageStateUnknownError:
        raise
    except StorageError as error:
        not_written.append(error)
        raise


def status(open_write: OpenWrite, context: TableContext, token: str) -> CommitStatus:
    """Return the status of a batch. It is undecided while its file waits. If its writer no longer waits, the batch is dropped now.

    Raises `InvalidOptionError` if the text is not a token of a batch.
    """
    if not handed_in.is_token(token):
        hint = "Use commit.token."
        raise InvalidOptionError(f"{token[:80]!r} is not the token of a batch", table=context.table, hint=hint)
    names = handed_in.find(context, token)
    # Look for the file before the commit, because the file is removed only after the commit exists.
    found = handed_in.answers(context, [token]).get(token)
    if found is None and names and not handed_in.read(context, dict.fromkeys(names, 0))[0]:  # nobody waits for it
        while names and _led(open_write, context, _lead_lock(context), names[0]) is not None:
            names = handed_in.find(context, token)
        found = handed_in.answers(context, [token]).get(token)
    if found is not None:
        return CommitStatus.NOT_COMMITTED if isinstance(found.outcome, HudiError) else CommitStatus.COMMITTED
    return CommitStatus.UNDECIDED if names else CommitStatus.NOT_COMMITTED


def _small(context: TableContext, batch: object) -> pa.Table | None:
    """Return the checked rows of a batch that can share a commit; None if the batch needs its own commit, because it is large or deletes rows."""
    if not isinstance(batch, Rows) or not batch.engine.in_process or batch.prepared.source is not None:
        return None
    rows, merger = batch.prepared.rows.collect(), find_merger(context.config)
    if says_deleted(rows).any() or (merger is not None and merger.deletes(rows).any()):
        return None
    is_small = len(rows) > 0 and rows.nbytes <= handed_in.LARGEST_BYTES
    return rows.select(batch.prepared.schema.names) if is_small else None


def _partitions_of(batch: object) -> frozenset[str]:
    assert isinstance(batch, Rows)
    return frozenset(batch.prepared.volumes)


def _answered(open_write: OpenWrite, context: TableContext, batch: HandedIn, lock: LockProvider) -> Answer:
    """Wait until a batch has its answer. Commit all waiting batches if no other writer does."""
    clock, bound_s = context.runtime.clock, context.options.lock.wait_ms / 1000
    patience, began, looks = Patience(clock, context.runtime.ids, *_WAIT_MS, _GROWTH), clock.monotonic(), 0
    while True:
        if looks and not handed_in.waits(context, batch):  # the batch was stored just before the first look
            answer = handed_in.answers(context, [batch.token]).get(batch.token)
            if answer is None:
                raise _unknown(
                    context, batch, "has gone without an answer: its file was removed, or the table was restored"
                )
            return answer
        looks += 1
        asks = looks % _ASKS == 1 or not _is_led(context)
        led = _led(open_write, context, lock, batch.name, batch.token) if asks else None
        if led is not None:
            if batch.token in led.failed:
                raise led.failed[batch.token]
            if batch.token in led.answered:
                return led.answered[batch.token]
        if led is not None and (led.failed or led.answered):
            began = clock.monotonic()
        elif clock.monotonic() - began > bound_s:
            raise _unknown(context, batch, "still waits for the writer that commits for all")
        else:
            patience.wait(bound_s)


def _led(open_write: OpenWrite, context: TableContext, lock: LockProvider, name: str, own: str = "") -> _Lead | None:
    """Answer all waiting batches, and return what was done. Returns None if another writer leads.

    ``name``: the file of a batch that is one of them; ``own``: its token, if it is the caller's. Table services run after the release of the lead.
    """
    session, looked = _asked_for_lead(context, lock, name)
    if session is None:
        return None
    with ExitStack() as handles:
        try:
            # A look made during the request for the lead is valid if nobody has led since then.
            seen = looked.get() if looked is not None and taken_as_seen(session) else _looked(context, name)
            lead = _Lead(context, open_write, handles, _gathered(context, name, *seen), own)
            lead.commit_all()
        finally:
            give_back(context, session)
        for write in lead.committed:
            write.follow()
    return lead


def _asked_for_lead(
    context: TableContext, lock: LockProvider, name: str
) -> tuple[LockSession | None, Ahead[_Look] | None]:
    """Return the lead, or None if another writer leads; and what `_looked` returns, if the look was made at the same time."""

    def ask() -> LockSession | None:
        try:
            return lock.acquire(0, "commit the batches that wait")
        except LockTimeoutError:
            return None

    if not was_free(lock):
        return ask(), None
    return both(context.root, context.runtime.executor, ask, lambda: Ahead.of(lambda: _looked(context, name)))


def _looked(context: TableContext, name: str) -> _Look:
    """Return the names of the waiting batches, and the last commit, which is only a hint; both are read at the same time."""
    names, last = both(
        context.root,
        context.runtime.executor,
        lambda: handed_in.waiting(context, name),
        lambda: Ahead.of(lambda: handed_in.last_shared(context)),
    )
    return names, last.value


def _gathered(context: TableContext, name: str, names: dict[str, int], last: LastShared | None) -> dict[str, int]:
    """Wait until as many batches have arrived as the last commit answered.

    Its writers probably continue, and one commit for all costs the same as for one. Without this wait the first writer would lead alone, and the
    others would wait for the next commit.
    """
    if last is None:
        return names
    clock, longest_s = context.runtime.clock, min(_GATHER * last.took_ms, _MOST_GATHER_MS) / 1000
    began = clock.monotonic()
    while last.came(names) < last.batches and clock.monotonic() - began < longest_s:
        clock.sleep(longest_s / _GATHER_LOOKS)
        names = handed_in.waiting(context, name)
    return names


def _unknown(context: TableContext, batch: HandedIn, what: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"The batch {what}",
        token=batch.token,
        table=context.table,
        path=batch.path,
        hint="table.commit_status(error.token) says whether it was committed; as soon as that is decided, write the rows again if they were not.",
    )


def _result(found: Answer, batch: HandedIn) -> Commit:
    """Return the commit with the counts of the batch. Raises the error of a refused batch."""
    if isinstance(found.outcome, HudiError):
        raise found.outcome
    operation, completed = found.commit.operation or str(OperationType.UPSERT), found.instant.completion_time or ""
    if not found.commit.stats and not batch.extra:
        return Commit.nothing(operation, "all rows are older than those of the table", completed)
    came, inserted, updated = found.outcome
    stats = replace(
        CommitStats.of(found.commit),
        rows_inserted=inserted,
        rows_updated=updated,
        rows_deleted=0,
        rows_combined=came - inserted - updated,
    )
    extra = dict(batch.extra)
    return Commit(
        found.instant.requested_time, completed, batch.token, operation, 0, stats, 0.0, 0.0, extra_metadata=extra
    )


@dataclass(slots=True)
class _Lead:
    """The work of a leader.

    Attributes:
        names: the files of the waiting batches.
        own: the token of the leader's batch, if it has one.
        committed: the writes after which services run.
        answered: the answers of its commits, by token.
        failed: errors that are not answers, by token of the batch that caused them. Such a batch still waits: its writer leads later, and then gets
            the error.
    """

    context: TableContext
    open_write: OpenWrite
    handles: ExitStack
    names: Mapping[str, int]
    own: str = ""
    committed: list[Write] = field(default_factory=list)
    answered: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    def commit_all(self) -> None:
        """Answer all batches. Consecutive batches whose rows have the same columns share a commit."""
        left, refused = handed_in.read(self.context, self.names)
        while left or refused:
            group = _group(left)
            left = left[len(group) :]
            try:
                self._commit(group, refused)
                refused = {}
            except CommitRequirementError as error:
                refused = refused | _unmet(error)
                left = [*(one for one in group if one.token not in refused), *left]
            except _OF_LEADER:
                raise
            except Exception as error:
                if not group:
                    raise
                refused = refused | self._one_by_one(group, error)

    def _one_by_one(self, group: Sequence[HandedIn], error: Exception) -> dict[str, HudiError]:
        """Commit each batch alone, after an error of the common commit. Return the errors of the refused batches."""
        refused: dict[str, HudiError] = {}
        for batch in group:
            try:
                if len(group) == 1:
                    raise error
                self._commit([batch], {})
            except (DataError, CommitRequirementError) as own:
                refused[batch.token] = own
            except _OF_LEADER:
                raise
            except Exception as own:  # noqa: BLE001  its writer is told
                if isinstance(own, HudiError) and batch.token == self.own:
                    refused[batch.token] = own
                else:  # perhaps the options of this process caused it
                    self.failed[batch.token] = own
        return refused

    def _commit(self, group: Sequence[HandedIn], refused: Mapping[str, HudiError]) -> None:
        """Make one commit with the rows of a group and the errors of refused batches. Remove their files.

        Raises as an upsert of these rows; `CommitRequirementError` if a requirement of a batch does not hold.
        """
        tokens = (*(batch.token for batch in group), *refused)
        with ExitStack() as handle:
            write = handle.enter_context(self.open_write())
            own = [OfBatch(batch.token, one) for batch in group for one in batch.requirements]
            write.note(requirements=[NotAnswered(tokens), *own], allow_empty=True, follows=False)
            try:
                if group:
                    commit = _write_group(write, group, refused)
                else:
                    write.note(handed_in.encoded({}, refused))
                    commit = write.until_committed(Nothing())
            except CommitRequirementError as error:
                if _unmet(error):
                    raise
                # Another leader was faster, or has died before it removed the files. This is rare, so it is not checked before each commit. The next
                # look takes the other batches.
                handed_in.remove(self.context, handed_in.answers(self.context, tokens).keys(), self.names)
                return
            pending = write.transaction
            assert pending is not None
            completed = replace(pending.requested, state=State.COMPLETED, completion_time=commit.completion_time)
            self.answered |= handed_in.said(self.context, completed, write.metadata)
            handed_in.remove(write.context, tokens, self.names)
            self.committed.append(write)
            self.handles.push(handle.pop_all())


def _group(left: Sequence[HandedIn]) -> list[HandedIn]:
    """Return the batches for the next commit: batches with the same columns, of which none requires that another one is absent."""
    found: list[HandedIn] = []
    brought: set[str] = set()
    for batch in left:
        alike = not found or batch.rows.schema.equals(found[0].rows.schema)
        if not alike or any(one.key in brought for one in batch.requirements):
            break
        found.append(batch)
        brought |= batch.extra.keys()
    return found


def _unmet(error: CommitRequirementError) -> dict[str, HudiError]:
    """Return the error by the token of the batch whose requirement failed; empty if the commit's own requirement failed."""
    return {error.requirement.token: error} if isinstance(error.requirement, OfBatch) else {}


def _write_group(write: Write, group: Sequence[HandedIn], refused: Mapping[str, HudiError]) -> Commit:
    # In one piece, so that no threads are started for a few rows.
    rows, config = pa.concat_tables([batch.rows for batch in group]).combine_chunks(), write.context.config

    def said(is_new: Callable[[pa.Array], pa.Array]) -> dict[str, str]:
        return handed_in.encoded(_counts(group, is_new, write), refused, group)

    if config.table_type is TableType.COPY_ON_WRITE and not config.generates_keys and not config.may_prefix_keys:
        # The merge of the rows with stored rows knows which keys are new.
        write.note(extra_of_keys=lambda changes: said(partial(pc.is_in, value_set=_came(changes, write))))
        return write.until_committed(UserRows(rows))

    def made(found: Any) -> pa.Table:
        stored = naming(write)(found.to_arrow())
        write.note(said(lambda names: pc.invert(pc.is_in(names, value_set=stored))))
        return rows

    return write_found(write, config.naming_fields, _condition(rows, config.record_key_fields, write), made)


def _came(changes: pa.Table, write: Write) -> pa.ChunkedArray:
    """Return the keys that are new in the table. Keys that only changed their partition are not included."""
    keys, has_left = changes["key"], changes["deleted"]
    names = keys if is_global(write) else pc.binary_join_element_wise(changes["partition"], keys, "\x00")
    came = names.filter(pc.invert(has_left))
    return came.filter(pc.invert(pc.is_in(came, value_set=names.filter(has_left))))


def _condition(rows: pa.Table, fields: Sequence[str], write: Write) -> pc.Expression | None:
    """Return a condition that finds the stored rows with the keys of these; None for all rows."""
    parts = []
    for name in fields if is_global(write) else (*fields, *write.context.config.partition_fields):
        kind = rows.schema.field(name).type if name in rows.column_names else pa.null()
        if pa.types.is_null(kind) or pa.types.is_floating(kind) or pa.types.is_nested(kind):
            continue  # NaN and the zeros are not found by comparing
        parts.append(pc.field(name).isin(rows[name].unique().drop_null()))
    return reduce(lambda left, right: left & right, parts) if parts else None


def _counts(group: Sequence[HandedIn], is_new: Callable[[pa.Array], pa.Array], write: Write) -> dict[str, Counts]:
    """Return for each token the numbers of rows, inserted keys and updated keys, as if the batches were committed one after the other."""
    names = [naming(write)(batch.rows) for batch in group]
    numbers = pa.concat_arrays([pa.repeat(pa.scalar(at, pa.int32()), len(own)) for at, own in enumerate(names)])
    pairs = pa.table({"name": pa.concat_arrays(names), "at": numbers}).group_by(["name", "at"]).aggregate([])
    new = pairs.filter(is_new(pairs["name"]))
    inserted = _by_number(new.group_by("name").aggregate([("at", "min")])["at_min"])
    every = _by_number(pairs["at"])
    return {
        batch.token: (len(batch.rows), inserted.get(at, 0), every.get(at, 0) - inserted.get(at, 0))
        for at, batch in enumerate(group)
    }


def _by_number(numbers: pa.ChunkedArray) -> dict[int, int]:
    counted = pc.value_counts(numbers)
    return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


def _is_led(context: TableContext) -> bool:
    """Return whether another writer seems to lead, if this is cheap to find out."""
    can = context.root.capabilities
    return not can.put_if_match and not can.one_process and context.root.head(f"{BATCHES}/{_LEAD}") is not None


def _lead_lock(context: TableContext) -> LockProvider:
    """Return the lock of the lead. It only avoids double work, so another writer may take it from a leader that sleeps."""
    can, runtime = context.root.capabilities, context.runtime
    if can.one_process or not can.put_if_absent:
        return InProcessLockProvider(f"{context.table}/{BATCHES}", runtime.ids, runtime.process.identity())
    folder, _, name = BATCHES.rpartition("/")
    if can.put_if_match:
        return StorageBasedLockProvider(
            StorageBelow(context.root, BATCHES), runtime, validity_s=_LEASE_S, renew_s=_RENEW_S
        )
    return FileSystemLockProvider(
        StorageBelow(context.root, folder), runtime.clock, runtime.ids, folder=name, expire_minutes=_ABANDONED_MINUTES
    )
