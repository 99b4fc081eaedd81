"""The states of a write.

    Draft --begin--> Begun --stage--> Staged or Unchanged --commit--> Committed
      ^                |                |
      +------undo------+----------------+

- `Draft`: nothing of the write is on disk. It has no batch yet, or the batch of an attempt that was undone.
- An attempt is `Begun` while its files are written. Then it is `Staged`, if it has changes to commit. If it has no changes, it is `Unchanged`, and
none of its files are left on disk. A draft whose batch is empty becomes `Unchanged` at once.
- `Committed`: the end. There is a commit, or the result that there was nothing to change.

Each state is a frozen value. The steps between them are in ``write/write.py``. A state refuses a call that does not fit it.

A write that changes nothing makes no commit and is no error: its result is false and says why. This depends on the rows, for every operation. These
writes change nothing: an empty batch of an upsert, an insert or a delete; unknown keys to delete; rows that lose to newer rows; inserts that are all
skipped. `insert_overwrite` without rows names no partition to replace. But `insert_overwrite_table` of no rows leaves an empty
table: that is a commit, unless the table is empty already. Columns do not change, either: a batch adds no columns unless it writes a row. A commit
without rows is made only on request (``allow_empty``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from pyhudi_core.conflicts.explain import SideAndCommit
from pyhudi_core.conflicts.requirement import CommitRequirement
from pyhudi_core.engine.base import Engine
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import PreCommit, TableContext
from pyhudi_core.snapshot.snapshot import Beside, Snapshot, build
from pyhudi_core.storage.at_once import Ahead, both
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, lost_completions
from pyhudi_core.transaction.begin import TableSeen, Transaction, metadata_timeline
from pyhudi_core.transaction.locking import WholeWrite
from pyhudi_core.write import cases, checks
from pyhudi_core.write.attempt import Attempt, Basis, CommitCheck
from pyhudi_core.write.batch import Batch
from pyhudi_core.write.refusals import Case
from pyhudi_core.write.result import Commit

After: TypeAlias = Callable[[Commit, Engine | None], Commit]
"""Called with the result of a write when it has ended, and with the engine that wrote it; returns the result that the caller gets."""

ExtraOfKeys: TypeAlias = Callable[[pa.Table], Mapping[str, str]]

_NEVER = Instant("0", Action.COMMIT, State.REQUESTED)  # of a write that has nothing to change


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """The request of a write; the same for all its attempts.

    Attributes:
        extra: texts to keep in the commit.
        spark: a session to run on; None chooses by the data.
        requirements: conditions that must hold under the lock.
        allow_empty: a commit is made even if no row changes.
        partial: the rows may lack columns, which keep their values.
        leaves: the rows have the column `TAG_LEAVES`, which marks rows that remove their key from the table.
        pre_commit: validators of only this write.
        makes_metadata_table: before the write, make the metadata table that the options request.
        extra_of_keys: makes further entries of ``extra`` from the `KEY_CHANGES` of an attempt (the added and removed keys).
        after: runs the table services after the commit. The function is passed in, because services are above writing. None: nothing.
        follows: whether ``after`` is called at the end of the write. If not, the caller calls it later.
        together: whether the write is committed with writes to other tables. Such a write never holds the lock from its start to its end, because
            two transactions may stage their tables in different orders.
        seen: the table, if it was read when it was opened for this write.
    """

    context: TableContext
    operation: OperationType
    extra: Mapping[str, str]
    spark: Any = None
    requirements: Sequence[CommitRequirement] = ()
    allow_empty: bool = False
    partial: bool = False
    leaves: bool = False
    pre_commit: PreCommit | None = None
    makes_metadata_table: bool = True
    extra_of_keys: ExtraOfKeys | None = field(default=None, repr=False)
    after: After | None = field(default=None, repr=False)
    follows: bool = True
    together: bool = False
    seen: TableSeen | None = field(default=None, repr=False)

    @property
    def table(self) -> str:
        return self.context.table

    @property
    def case(self) -> Case:
        """Return the facts of the call for the law of refusals."""
        return cases.of_call(self.context, self.operation, partial=self.partial, allow_empty=self.allow_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    """The common part of all states. ``lock``: the table's lock, if this write holds it from start to end (pessimistic concurrency)."""

    request: WriteSpec
    batch: Batch | None = None
    basis: Basis | None = None
    lock: WholeWrite | None = None

    @property
    def context(self) -> TableContext:
        """Return the table as this write sees it."""
        return self.lock.context if self.lock is not None else self.request.context

    def pending(self) -> Transaction | None:
        """Return the instant of the write, if it has one."""
        return None

    def draft(self) -> Draft:
        """Return this state if it takes a batch. A handle takes one batch."""
        raise checks.second_batch(self.request.table)

    def ready(self) -> Staged | Unchanged:
        """Return this state if the write has a result to show and to commit."""
        raise checks.nothing_written(self.request.table)

    def staged(self) -> Staged:
        """Return this state if the write has files."""
        return self.ready().staged()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(WriteState):
    """Nothing of the write is on disk."""

    def draft(self) -> Draft:
        """Return this state; it takes a batch."""
        if self.batch is not None:
            raise checks.second_batch(self.request.table)
        return self

    def filled(self) -> Batch:
        """Return the batch; raise an error if there is none."""
        if self.batch is None:
            raise checks.nothing_written(self.request.table)
        return self.batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun(WriteState):
    """An attempt whose instant is on the timeline; its files are being written, or writing has failed.

    ``state``: the draft from which it started. ``others`` as `cases.tables_in_new_partitions` has returned it.
    """

    transaction: Transaction
    state: Ahead[Snapshot]
    others: cases.OtherTables | None = None

    def pending(self) -> Transaction:
        """Return as `WriteState.pending`."""
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
        """Return as `WriteState.pending`."""
        return self.attempt.transaction

    def ready(self) -> Staged:
        """Return as `WriteState.ready`."""
        return self

    def staged(self) -> Staged:
        """Return as `WriteState.staged`."""
        return self

    def conflict_side(self, completion_time: str | None) -> SideAndCommit:
        """Return the changes of the write, for ``table.explain_conflict``."""
        return SideAndCommit.of(self.requested.requested_time, self.attempt.touched, self.metadata, completion_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged(WriteState):
    """An attempt that had nothing to change in ``snapshot``; it has no files on disk."""

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
        """Return as `WriteState.ready`."""
        return self

    def staged(self) -> Staged:
        """Return as `WriteState.staged`."""
        raise checks.nothing_to_change(self.request.table, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(WriteState):
    """The end of a write: ``commit``: its result; ``end``: the published attempt."""

    end: Staged | Unchanged
    commit: Commit

    def pending(self) -> Transaction | None:
        """Return as `WriteState.pending`."""
        return self.end.pending()

    def ready(self) -> Staged | Unchanged:
        """Return as `WriteState.ready`."""
        return self.end


def look(context: TableContext) -> TableSeen:
    """Read a table that a write is about to change, with concurrent requests."""
    seen, hashed = both(
        context.root, context.runtime.executor, lambda: begin.look(context), lambda: hashed_ahead(context)
    )
    return replace(seen, hashed=hashed)


def hashed_ahead(context: TableContext) -> bool | None:
    """Say on a network storage whether the table has consistent hashing; elsewhere None, because the later check is cheap."""
    return has_consistent_hashing(context) if context.root.capabilities.parallel_calls > 1 else None


def load(
    context: TableContext,
    timeline: Timeline | None = None,
    companions: Sequence[Timeline] = (),
    *,
    publish: bool = False,
    hashed: bool | None = None,
) -> Snapshot:
    """Return the table's state now, or as of a timeline. ``publish``: a lost completed file is published again, as the commit record says.

    ``companions``: the timelines of the metadata tables, if they were listed at the same time. ``hashed`` as in `Snapshot`.

    Raises `CorruptTimelineError` if the completed file of a commit is lost, and the commit record does not have it.
    """
    found = context.folder.load() if timeline is None else timeline
    found = (lost_completions.published_again if publish else lost_completions.restored)(context, found)
    executor, own = context.runtime.executor, metadata_timeline(context, companions)
    beside = None if own is None else Beside(own)
    made = build(context.storage, context.folder, context.config, found, executor=executor, beside=beside)
    return made if hashed is None else replace(made, hashed=hashed)
