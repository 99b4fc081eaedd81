"""Upserts of small batches: hand in, wait for the answer, and commit for all when nobody else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import takewhile
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.batches import handed_in
from pyhudi_core.batches.handed_in import BATCHES_KEY, Answer, HandedIn
from pyhudi_core.conflicts.requirement import TableState
from pyhudi_core.errors import (
    CommitRequirementError,
    CommitStateUnknownError,
    DataError,
    HudiError,
    InvalidOptionError,
    LockTimeoutError,
    at_table,
)
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.in_process import InProcessLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.waiting import Patience
from pyhudi_core.merge.law import says_deleted
from pyhudi_core.merge.record_merger import find_merger
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.transaction.layout import BATCHES
from pyhudi_core.transaction.locking import give_back
from pyhudi_core.transaction.status import CommitStatus
from pyhudi_core.write.batch import Nothing, Rows, UserRows
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.replacing import is_global, naming
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.states import Unchanged

OpenWrite = Callable[[], AbstractContextManager[Write]]
"""Opens the write of one commit."""

_LEAD = "lock"
_LEASE_S, _RENEW_S = 30, 3
_ABANDONED_MINUTES = 0.25
_WAIT_MS = (4, 60)
_ASKS = 8
"""While somebody leads, one look in so many asks for the lead: the leader may have died."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A requirement: no commit that is there answers one of these batches."""

    TYPE: ClassVar[str] = "batches-not-answered"

    tokens: tuple[str, ...]

    def describe(self) -> str:
        """Return what it asks for."""
        return f"no commit answers one of {len(self.tokens)} batches"

    def failure(self, state: TableState) -> str | None:
        """Say why it does not hold."""
        for instant, commit in state.commits_after(handed_in.completed_before(self.tokens), BATCHES_KEY):
            known = handed_in.answers_in(commit).keys() & set(self.tokens)
            if known:
                return f"{instant.action} {instant.requested_time} answers {min(known)}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"type": self.TYPE, **asdict(self)}


def upsert(write: Write, open_write: OpenWrite, data: object) -> Commit:
    """Upsert rows, in one commit with the batches of other writers that wait at the same time. A batch of more than 4 MiB, or with rows that
    say that they are deleted, makes a commit alone.

    Args:
        write: checks the rows, and commits those that go alone.
        open_write: opens the writes that commit for all.

    Raises as an upsert, for the rows of this batch alone, and `CommitStateUnknownError` with the token if no leader finishes within the wait for the
    lock: the batch may be committed later.
    """
    context = write.context
    with at_table(context.table):
        state, seen = write.prepare(UserRows(data))
        if isinstance(state, Unchanged):
            return write.commit()
        rows = _small(context, state.batch)
        if rows is None:
            return write.until_committed(Nothing())
        batch = handed_in.batch_of(context, rows, seen, context.options.lock.wait_ms)
        try:
            handed_in.hand_in(context, batch)
            answer = _answered(open_write, context, batch)
        except CommitStateUnknownError:
            raise
        except HudiError as error:  # the file is not taken back: another writer may have read it already
            raise _unknown(context, batch, f"was handed in when this happened: {error.message}") from error
        except BaseException:
            # After Ctrl-C in a notebook the process lives on, so nobody would see that the batch is outdated.
            context.root.delete(batch.path)
            raise
        return _result(answer, batch.token)


def status(open_write: OpenWrite, context: TableContext, token: str) -> CommitStatus:
    """Say what became of a batch. It is undecided as long as its file waits. A batch for which nobody waits any more is dropped now.

    Raises `InvalidOptionError` for another text.
    """
    if not handed_in.is_token(token):
        hint = "Use commit.token."
        raise InvalidOptionError(f"{token[:80]!r} is not the token of a batch", table=context.table, hint=hint)
    names = [name for name in handed_in.waiting(context) if token in name]
    # The file is looked for before the commit: it goes only after the commit is there.
    found = handed_in.answers(context, [token]).get(token)
    nobody_waits = found is None and bool(names) and not handed_in.read(context, names)[0]
    if nobody_waits and _led(open_write, context, handed_in.waiting(context)):
        names, found = [], handed_in.answers(context, [token]).get(token)
    if found is not None:
        return CommitStatus.NOT_COMMITTED if isinstance(found.outcome, HudiError) else CommitStatus.COMMITTED
    return CommitStatus.UNDECIDED if names else CommitStatus.NOT_COMMITTED


def _small(context: TableContext, batch: object) -> pa.Table | None:
    """Return the checked rows of a batch that can be handed in; None for one that goes alone, because it is large or deletes rows."""
    if not isinstance(batch, Rows) or not batch.engine.in_process or batch.prepared.source is not None:
        return None
    rows, merger = batch.prepared.rows.collect(), find_merger(context.config)
    if says_deleted(rows).any() or (merger is not None and merger.deletes(rows).any()):
        return None
    return rows.select(batch.prepared.schema.names) if rows.nbytes <= handed_in.LARGEST_BYTES else None


def _answered(open_write: OpenWrite, context: TableContext, batch: HandedIn) -> Answer:
    """Wait until a batch has its answer; commit for all who wait when nobody else does."""
    clock, bound_s = context.runtime.clock, context.options.lock.wait_ms / 1000
    patience, began, looks = Patience(clock, context.runtime.ids, *_WAIT_MS), clock.monotonic(), 0
    while True:
        names = handed_in.waiting(context)
        if batch.name not in names:
            answer = handed_in.answers(context, [batch.token]).get(batch.token)
            if answer is None:
                raise _unknown(
                    context, batch, "has gone without an answer: its file was removed, or the table was restored"
                )
            return answer
        looks += 1
        if (looks % _ASKS == 1 or not _is_led(context)) and _led(open_write, context, names):
            began = clock.monotonic()
        elif clock.monotonic() - began > bound_s:
            raise _unknown(context, batch, "still waits for the writer that commits for all")
        else:
            patience.wait(bound_s)


def _led(open_write: OpenWrite, context: TableContext, names: Sequence[str]) -> bool:
    """Answer all batches that wait, unless another writer does; returns whether it was done."""
    try:
        session = _lead_lock(context).acquire(0, "commit the batches that wait")
    except LockTimeoutError:
        return False
    try:
        _commit_all(open_write, context, names)
    finally:
        give_back(context, session)
    return True


def _unknown(context: TableContext, batch: HandedIn, what: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"The batch {what}",
        token=batch.token,
        table=context.table,
        path=batch.path,
        hint="table.commit_status(error.token) says whether it was committed; as soon as that is decided, write the rows again if they were not.",
    )


def _result(found: Answer, token: str) -> Commit:
    """Return what the writer of a batch gets: the commit, with the counts of the batch. Raises the error of a batch that was refused."""
    if isinstance(found.outcome, HudiError):
        raise found.outcome
    operation, completed = found.commit.operation or str(OperationType.UPSERT), found.instant.completion_time or ""
    if not found.commit.stats:
        return Commit.nothing(operation, "all rows are older than those of the table", completed)
    came, inserted, updated = found.outcome
    stats = replace(
        CommitStats.of(found.commit),
        rows_inserted=inserted,
        rows_updated=updated,
        rows_deleted=0,
        rows_combined=came - inserted - updated,
    )
    return Commit(found.instant.requested_time, completed, token, operation, 0, stats, 0.0, 0.0)


def _commit_all(open_write: OpenWrite, context: TableContext, names: Sequence[str]) -> None:
    """Answer all batches that wait: one commit for those whose rows have the same columns, as far as they follow each other."""
    batches, refused = handed_in.read(context, names)
    waits = [*(batch.token for batch in batches), *refused]
    known = handed_in.answers(context, waits).keys()
    handed_in.remove(context, known, names)
    left = [batch for batch in batches if batch.token not in known]
    refused = {token: error for token, error in refused.items() if token not in known}
    while left or refused:
        schema = left[0].rows.schema if left else None
        group = list(takewhile(partial(_has, schema), left))
        left = left[len(group) :]
        try:
            _commit(open_write, group, refused, names)
            refused = {}
        except DataError as error:
            if not group:
                raise
            refused = refused | _one_by_one(open_write, group, error, names)


def _has(schema: pa.Schema, batch: HandedIn) -> bool:
    return bool(batch.rows.schema.equals(schema))


def _one_by_one(
    open_write: OpenWrite, group: Sequence[HandedIn], error: HudiError, names: Sequence[str]
) -> dict[str, HudiError]:
    """After an error of a commit of all, commit each batch alone; returns the errors of those that are refused."""
    if len(group) == 1:
        return {group[0].token: error}
    refused: dict[str, HudiError] = {}
    for batch in group:
        try:
            _commit(open_write, [batch], {}, names)
        except DataError as own:
            refused[batch.token] = own
    return refused


def _commit(
    open_write: OpenWrite, group: Sequence[HandedIn], refused: Mapping[str, HudiError], names: Sequence[str]
) -> None:
    """Make one commit that answers batches: with the rows of a group, and with the errors of others. Remove their files."""
    tokens = (*(batch.token for batch in group), *refused)
    with open_write() as write:
        write.note(requirements=[NotAnswered(tokens)], allow_empty=True)
        try:
            if group:
                _write_group(write, group, refused)
            else:
                write.note(handed_in.encoded({}, refused))
                write.until_committed(Nothing())
        except CommitRequirementError:
            return  # another leader was first; the next look finds its commit
        handed_in.remove(write.context, tokens, names)


def _write_group(write: Write, group: Sequence[HandedIn], refused: Mapping[str, HudiError]) -> None:
    rows = pa.concat_tables([batch.rows for batch in group])

    def made(found: Any) -> pa.Table:
        counts = _counts(group, naming(write)(found.to_arrow()), write)
        write.note(handed_in.encoded(counts, refused))
        return rows

    config = write.context.config
    write_found(write, config.naming_fields, _condition(rows, config.record_key_fields, write), made)


def _condition(rows: pa.Table, fields: Sequence[str], write: Write) -> pc.Expression | None:
    """Return a condition that finds the stored rows with the keys of these; None for all rows."""
    parts = []
    for name in fields if is_global(write) else (*fields, *write.context.config.partition_fields):
        kind = rows.schema.field(name).type if name in rows.column_names else pa.null()
        if pa.types.is_null(kind) or pa.types.is_floating(kind) or pa.types.is_nested(kind):
            continue  # NaN and the zeros are not found by comparing
        parts.append(pc.field(name).isin(rows[name].unique().drop_null()))
    return reduce(lambda left, right: left & right, parts) if parts else None


def _counts(group: Sequence[HandedIn], stored: pa.Array, write: Write) -> dict[str, tuple[int, int, int]]:
    """Return for each token how many rows came, and how many keys of them are inserted and updated, as if one batch came after the other."""
    names = [naming(write)(batch.rows) for batch in group]
    numbers = pa.concat_arrays([pa.repeat(pa.scalar(at, pa.int32()), len(own)) for at, own in enumerate(names)])
    pairs = pa.table({"name": pa.concat_arrays(names), "at": numbers}).group_by(["name", "at"]).aggregate([])
    new = pairs.filter(pc.invert(pc.is_in(pairs["name"], value_set=stored)))
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
    """Say whether somebody seems to lead, as far as that costs little."""
    can = context.root.capabilities
    return not can.put_if_match and not can.one_process and context.root.head(f"{BATCHES}/{_LEAD}") is not None


def _lead_lock(context: TableContext) -> LockProvider:
    """Return the lock of the lead. It only avoids double work, so it may be taken from a leader that sleeps."""
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
