"""One execution of a plan by this process, which has registered as its executor (``transaction/plan_executors.py``).

`PlanRun` is the frame of every execution: after an error it leaves no files, and other processes can execute the plan. `RewriteRun` is the frame of
services that write base files of the data table (compaction). They write their files once. If another commit comes first and the files are still
valid, they commit the same files again. The commit goes through ``write/attempt.py`` as every commit does, with the metadata table's part in the same
decision.
"""

from __future__ import annotations

import heapq
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pyhudi_core.conflicts.conflict import Group
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    HudiError,
    ObjectNotFoundError,
    UnsupportedTableError,
    at_table,
)
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.internal_schema import names_at
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.rewriting import refusal_of
from pyhudi_core.services.service import Execution
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Finished
from pyhudi_core.transaction.locking import after_failure
from pyhudi_core.write.attempt import Attempt, CommitCheck, publish
from pyhudi_core.write.handles.base import HandleSettings
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import load
from pyhudi_core.write.tasks import Written

_log = logging.getLogger(__name__)
W = TypeVar("W")
T = TypeVar("T")


@dataclass(slots=True)
class PlanRun(ABC, Generic[W, T]):
    """One execution.

    Attributes:
        transaction: the transaction. Its context may be read again during the execution.
        work: the content of the plan.
        how: engine, gate and extra metadata.
    """

    transaction: Transaction
    work: W
    how: Execution

    def run(self) -> T:
        """Write and commit. After an error this execution leaves no files, and other processes can execute the plan.

        Raises as `transaction.commit.finish`, and the errors of reading the planned files.
        """
        try:
            with at_table(self.transaction.context.table):
                return self._carry_out()
        except CommitStateUnknownError:
            self.transaction.heartbeat.handle.cancel()  # the commit may be decided, so no file of it is removed
            raise
        except BaseException as error:
            self._give_up(error)
            if isinstance(error, ObjectNotFoundError):
                plan_executors.refuse_removed(self.transaction, error.path)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Remove the written files. A second error here is only logged, because the first one has the reason; the next execution removes the rest."""
        context = after_failure(self.transaction.context, error)
        try:
            plan_executors.give_up(replace(self.transaction, context=context))
        except HudiError as failure:
            _log.warning(
                "could not remove what the execution of %s wrote: %s", self.transaction.requested_time, failure
            )

    def _refuse_overtaken(self, _found: Timeline) -> None:
        """Raise `CommitAbortedError`, under the lock, if another process has taken the execution over."""
        plan_executors.refuse_overtaken(self.transaction)

    @abstractmethod
    def _carry_out(self) -> T:
        """Write the files and commit them."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The published commit of an execution."""

    finished: Finished
    metadata: CommitMetadata


@dataclass(slots=True)
class RewriteRun(PlanRun[W, Rewritten]):
    """An execution that writes base files of the data table.

    Attributes:
        snapshot: the table's state when the execution began, for the schema.
        current: the state from which the metadata table is written; newer than ``snapshot`` if the metadata table may have changed.
        rounds: number of attempts to commit.

    The context of the transaction is read again for each round, because a metadata table may be made or removed while the files are written.
    """

    snapshot: Snapshot = field(init=False)
    current: Snapshot = field(init=False)
    rounds: int = 0

    @property
    @abstractmethod
    def _noun(self) -> str:
        """The name of the execution for sentences."""

    @abstractmethod
    def _write(self) -> Written:
        """Write the files."""

    @abstractmethod
    def _attempt(self, written: Written) -> Attempt:
        """Return the commit of the files, for the current state of the table."""

    def _carry_out(self) -> Rewritten:
        self.snapshot = self.current = self._fit(self.transaction.context)
        written = self._write()
        self.how.progress("commit", 0, 0)
        return self._commit(written)

    def _commit(self, written: Written) -> Rewritten:
        """Publish the commit. Repeat this with the same files if another commit came first and the files are still valid."""
        with Retries(self.transaction.context) as retries:

            def attempt() -> Rewritten:
                self._next_round()
                made = replace(self._attempt(written), engine=self.how.engine)
                self._refuse_lost_files(made.metadata)
                return Rewritten(publish(CommitCheck.of(made), retries, self.how.gate), made.metadata)

            return retries.until_done(attempt)

    def _refuse_lost_files(self, metadata: CommitMetadata) -> None:
        """Raise `CommitAbortedError` if files are gone: Hudi, which does not register executors, has started the same plan again."""
        context = self.transaction.context
        paths = [stat.path for stat in metadata.stats]
        lost = [
            path
            for path, info in zip(paths, context.runtime.executor.map(context.storage.head, paths), strict=True)
            if info is None
        ]
        if lost:
            plan_executors.refuse_overtaken(self.transaction)
            raise CommitAbortedError(
                f"Another program removed files of this {self._noun}: it executes the same plan",
                table=context.table,
                path=lost[0],
                instant=self.transaction.requested_time,
                hint="Nothing was published. Switch inline services off in Hudi's writers (hoodie.compact.inline, hoodie.clustering.inline),"
                " or let only them execute plans.",
            )

    def _next_round(self) -> None:
        """Remove the metadata table's files of a lost round, and read the table's properties again.

        The state is read again, too, if the metadata table may be another one now.
        """
        known = self.transaction.context
        if self.rounds:
            markers.remove_at_companions(known, self.transaction.requested_time)
        self.rounds += 1
        context = reopened(known)
        self.transaction = replace(self.transaction, context=context)
        if self.rounds > 1 or _written(context) != _written(known):
            self.current = self._fit(context)

    def _fit(self, context: TableContext) -> Snapshot:
        """Return the table's current state. Raises `UnsupportedTableError` if this release cannot rewrite its files."""
        snapshot = load(context)
        operation = OperationType.of(self.transaction.requested.action)
        refused, altered = refusal_of(context, snapshot, operation), self._altered_since(snapshot)
        if refused is None and altered is None:
            return snapshot
        why, hint = altered, "Execute it with the program that planned it."
        if refused is not None:
            why, hint = refused.error.message, (refused.error.hint or hint) if refused.mendable else hint
        raise UnsupportedTableError(
            f"The {self._noun} cannot be executed: {why}",
            table=context.table,
            instant=self.transaction.requested_time,
            hint=hint,
        )

    def _altered_since(self, snapshot: Snapshot) -> str | None:
        """Say why the columns have changed since the plan's time; None if they have not.

        `table.alter` is refused while a plan is pending; Hudi's ``ALTER TABLE`` is not.
        """
        renamed = names_at(snapshot.evolution, self.transaction.requested_time) is not None
        return "the columns of the table were altered after it was planned" if renamed else None

    def _kept_metadata(self) -> MetadataSlices | None:
        """Return the metadata table that the commit updates; None if there is none. Raises as `slices_to_keep`."""
        context, current = self.transaction.context, self.current
        operation = OperationType.of(self.transaction.requested.action)
        return metadata_update.slices_to_keep(context, current, current.schema, operation)

    def _settings(self) -> HandleSettings:
        """Return the settings for writing the files."""
        context = self.transaction.context
        settings = HandleSettings.of(
            self.transaction.requested_time, self.snapshot.schema, context.config, context.options.files
        )
        self.transaction.tasks_apart = not self.how.engine.in_process
        token_salt = plan_executors.salt_of(self.transaction.nonce)
        return replace(settings, token_salt=token_salt, in_charge=self.transaction.in_charge)


def _written(context: TableContext) -> tuple[str, ...]:
    return context.config.written_metadata_partitions


def replaced_since(transaction: Transaction, timeline: Timeline) -> dict[Group, Instant]:
    """Return the file groups that commits replaced since the plan was made, each with its replacing commit."""
    known = {instant.group for instant in transaction.start.commits}
    folder = transaction.context.folder
    found: dict[Group, Instant] = {}
    for instant in timeline.commits:
        if instant.action is Action.REPLACECOMMIT and instant.group not in known:
            for partition, file_ids in folder.read_commit(instant).replaced.items():
                for file_id in file_ids:
                    found.setdefault((partition, file_id), instant)
    return found


def shared_out(items: Sequence[T], size_of: Callable[[T], int], tasks: int) -> list[list[T]]:
    """Distribute items over tasks: the largest first, each to the task with the least work. There are at most as many tasks as items."""
    shares: list[list[T]] = [[] for _ in range(max(1, min(len(items), tasks)))]
    load_of = [(0, number) for number in range(len(shares))]
    for item in sorted(items, key=lambda item: -size_of(item)):
        size, number = heapq.heappop(load_of)
        shares[number].append(item)
        heapq.heappush(load_of, (size + size_of(item), number))
    return shares
