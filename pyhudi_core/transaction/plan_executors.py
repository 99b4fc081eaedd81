"""Execute the plan of a table service. One process at a time executes the plan. A process that was considered dead can no longer complete the plan.

A plan has the same requested time whichever process executes the plan. So the requested file and the inflight file do not name the executing process.
A process that wants to execute the plan first registers as the **executor** of the plan. A decision under the lock creates a numbered file below
``.hoodie/.aux/.pyhudi/executions/<requested time>``. If the inflight file is missing, the same decision creates the inflight file. From the
registration on, the executor keeps the heartbeat of the requested time young. No other process registers while the heartbeat is young. If the
heartbeat has expired or was removed, the next executor registers with a higher number.

Only the executor with the highest number may complete the plan: `refuse_overtaken` reads the highest number under the lock, just before the
completion is decided. Registrations are decided by swaps of the commit record, as commits are. So there are two cases. Either the older execution
completes before the newer registration, and the newer process finds the plan completed. Or the older execution is refused.

Two executions of one plan may write at the same time, if one of the processes was only paused. The files of the two executions differ by the salt in
the write token (`salt_of`), and each process removes only its own files. A new executor registers first, and then removes the files of dead
executors.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyhudi_core.errors import CommitAbortedError, ObjectNotFoundError
from pyhudi_core.model.bounded_json import PROTOCOL_BYTES, parse_json
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, late_tasks, layout, markers, metadata_removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import (
    OutcomeUnknown,
    StagedIntent,
    Terms,
    decide,
    finish_decided,
    publish_decided,
)
from pyhudi_core.transaction.freshness import published
from pyhudi_core.transaction.left_by_executors import LeftByExecutors
from pyhudi_core.transaction.record import Intent, Publication, record_store

_DIGITS = 6
_NUMBER = re.compile(f"[0-9]{{{_DIGITS}}}")
_SALT_DIGITS = 7

PLANNED = frozenset(
    {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.CLEAN, Action.INDEXING, Action.RESTORE}
)
"""Actions whose requested file is a plan, which any process executes later."""


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """A process that registered to execute a plan. Only the executor with the highest number may complete the plan."""

    number: int
    nonce: str
    process: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why this process does not execute a plan, as part of a sentence."""

    why_not: str


@dataclass(frozen=True, slots=True)
class Groundwork:
    """Changes that a decision publishes before the inflight file of the same decision.

    The metadata table is unlisted, and one missing file in the protocol's storage is created.
    """

    path: str
    body: bytes


def salt_of(nonce: str) -> int:
    """Return the number in the write tokens of an execution's files."""
    return int(nonce[:_SALT_DIGITS], 16)


def newest_executor(context: TableContext, requested_time: str) -> PlanExecutor | None:
    """Return the executor with the highest number; None if nobody has registered."""
    folder = layout.executions(requested_time)
    names = [info.path[len(folder) + 1 :] for info in context.root.list(f"{folder}/")]
    newest = max((name for name in names if _NUMBER.fullmatch(name)), default=None)
    if newest is None:
        return None
    try:
        found = parse_json(context.root.get(f"{folder}/{newest}"), PROTOCOL_BYTES)
        return PlanExecutor(int(newest), str(found["nonce"]), str(found["process"]))
    except ObjectNotFoundError:
        return None  # the execution has ended between the two calls
    except (ValueError, KeyError, TypeError):
        return PlanExecutor(int(newest), "", "")


def begin_execution(
    context: TableContext, plan: Instant, *, by_name: bool = False, groundwork: Groundwork | None = None
) -> Transaction | Refusal:
    """Register as the executor of a pending plan, and remove the files of a dead predecessor. After the registration, no earlier executor can
    complete the plan.

    Args:
        plan: the pending instant.
        by_name: whether the caller named this plan. Hudi executes plans without registration and heartbeat. This process takes over an execution of
            Hudi under two conditions: the caller named the plan, and the inflight file is older than a heartbeat may be.
        groundwork: changes to publish before the inflight file.

    Raises `LockError`. Raises `StorageError` if it is unknown whether the process is registered; the heartbeat of the process then expires. Raises
    `UnsupportedTableError` for a table that this release reads and does not write; then nothing was staged.
    """
    context.config.refuse_writing(context.table)
    registering = _Registering(
        context, plan.requested_time, plan.action, by_name, context.runtime.ids.uuid().replace("-", "")
    )
    registering.groundwork = groundwork
    refusal = registering.look(context.folder.load())
    if refusal is not None:
        return Refusal(refusal)
    registering.stage()
    try:
        decide(
            context, registering.intent, lambda _timeline: None, Terms(f"execute {plan.action} {plan.requested_time}")
        )
    except OutcomeUnknown as unknown:
        raise unknown.error from unknown  # if the registration was decided, the next process publishes it
    except BaseException:
        registering.withdraw()
        raise
    registering.sweep()
    if registering.refusal:
        return Refusal(registering.refusal)
    beat = heartbeat.start(context, plan.requested_time, registering.body)
    try:
        if registering.left is not None:
            registering.left.remove(context)
        requested = Instant(plan.requested_time, plan.action, State.REQUESTED)
        return Transaction(context, requested, registering.nonce, _before(context.folder.load(), plan), beat)
    except BaseException:
        beat.handle.cancel()
        raise


def is_free(context: TableContext, plan: Instant) -> bool:
    """Say whether a process may execute a pending plan that its caller did not name: no living or unknown process executes the plan.

    Changes nothing.
    """
    return (
        _Registering(context, plan.requested_time, plan.action, by_name=False, nonce="", changes=False).look(
            Timeline((plan,))
        )
        is None
    )


def refuse_overtaken(transaction: Transaction) -> None:
    """Raise `CommitAbortedError` if this transaction does not belong to the newest executor. Call this under the lock, or when a file is missing."""
    executor = newest_executor(transaction.context, transaction.requested_time)
    if executor is None:
        raise _ended_by_others(transaction)
    if executor.nonce != transaction.nonce:
        raise CommitAbortedError(
            f"Another process took over the {transaction.requested.action}"
            + (f": {executor.process}" if executor.process else ""),
            table=transaction.context.table,
            instant=transaction.requested_time,
            hint="Nothing was published; that process completes it. If this one was alive, raise hoodie.client.heartbeat.interval_in_ms.",
        )


def refuse_removed(transaction: Transaction, path: str | None) -> None:
    """Handle a missing file: raise `CommitAbortedError` if another process removed the file with the plan, or has taken the plan over."""
    refuse_overtaken(transaction)
    if path is not None and is_own(transaction, path):
        raise _ended_by_others(transaction)


def _ended_by_others(transaction: Transaction) -> CommitAbortedError:
    return CommitAbortedError(
        f"The {transaction.requested.action} is not planned any more: another process cancelled it, or has completed it",
        table=transaction.context.table,
        instant=transaction.requested_time,
        hint="Nothing was published by this execution.",
    )


def give_up(transaction: Transaction) -> None:
    """End an execution after an error, and remove the files of the execution.

    Other processes can execute the plan. They can do so at once if no other process has already taken the plan over.

    An interruption may come after the decision that completes the plan. So a decided commit is published first, and files that a commit names stay.
    The next writer finds the heartbeat of a completed plan, and removes the leftovers of the plan.
    """
    context, time = transaction.context, transaction.requested_time
    transaction.heartbeat.handle.cancel()
    _publish_completion(context, time)
    executor = newest_executor(context, time)
    owned = executor is not None and executor.nonce == transaction.nonce
    completed = _is_completed(context, transaction)
    # Without any executor the plan was removed, or has ended: no other process has a pending commit in the companion tables.
    if owned or executor is None:
        markers.remove_at_companions(context, time)
    unwanted: list[str] = []
    for there in (context, *map(context.at, context.companions)):
        named = _named(there, time)
        if completed and named is None:
            continue  # the table's commit is archived, so the timeline does not show which files it names
        own = markers.remove_leaks(there, time, named or (), partial(is_own, transaction))
        markers.remove_some(there.storage, time, own)
        unwanted += own if there is context else ()
    context.root.delete_many(info.path for info in context.root.list(layout.staged(time, transaction.nonce)))
    if owned and not completed and _beats_for(context, time, transaction.nonce):
        context.root.delete(layout.heartbeat(time))
    if transaction.tasks_apart and not completed:
        late_tasks.remove_again(context, time, unwanted, partial(is_own, transaction))


def _publish_completion(context: TableContext, requested_time: str) -> None:
    """Publish the decision that completes the plan, if the decision was made."""
    record = record_store(context.root).read()
    if record is not None and any(
        instant.is_completed and instant.requested_time == requested_time
        for instant in published(context, record.intent)
    ):
        finish_decided(context, record)


def _is_completed(context: TableContext, transaction: Transaction) -> bool:
    """Say whether this process, or another one, has completed the plan."""
    requested = transaction.requested
    timeline = context.folder.load()
    found = timeline.find(requested.requested_time, requested.action)
    found = found or context.folder.archived(timeline, requested.requested_time, requested.action)
    return found is not None and found.is_completed


def _named(there: TableContext, requested_time: str) -> frozenset[str] | None:
    """Return the files that the completed commit of a table names; None if the timeline has no such commit."""
    completed = (i for i in there.folder.load() if i.requested_time == requested_time and i.is_completed)
    found = next((instant for instant in completed if instant.action in DATA_ACTIONS), None)
    return None if found is None else frozenset(stat.path for stat in there.folder.read_commit(found).stats)


def is_own(transaction: Transaction, path: str) -> bool:
    """Say whether a data file of the plan's instant was written by this execution."""
    name = parse_data_file(split(path)[1])
    return name is not None and name.write_token.split("-")[1:2] == [str(salt_of(transaction.nonce))]


def forget(context: TableContext, requested_time: str) -> None:
    """Remove the executor files and the staged bytes of a completed plan.

    Call this before the heartbeat is removed, because the next writer finds leftovers by the heartbeat.
    """
    context.root.delete_many(info.path for info in context.root.list(layout.staged(requested_time, "")))
    context.root.delete_many(info.path for info in context.root.list(f"{layout.executions(requested_time)}/"))
    context.root.remove_empty_folders(layout.executions(requested_time))


@dataclass(slots=True)
class _Registering:
    """One attempt to register for a plan.

    Attributes:
        changes: whether this process may write an object, to read the time of the storage's clock.
        refusal: why this process did not register.
        follows: whether another process has already begun to execute the plan.
        left: the files of earlier executors; None if there was no earlier executor.
        groundwork: changes that the decision publishes before the inflight file: the metadata table is unlisted, and one missing file is created.
        inflight_body: the content of the inflight file. Hudi 1.0 reads the plan of a clean from the inflight file, and removes a clean whose inflight
            file is empty.
    """

    context: TableContext
    time: str
    action: Action
    by_name: bool
    nonce: str
    changes: bool = True
    refusal: str = ""
    follows: bool = False
    left: LeftByExecutors | None = None
    inflight_body: bytes = b""
    groundwork: Groundwork | None = None

    @property
    def body(self) -> bytes:
        return heartbeat.body(self.context, self.nonce)

    @property
    def staged(self) -> str:
        return f"{layout.staged(self.time, self.nonce)}.executor"

    @property
    def staged_inflight(self) -> str:
        return f"{layout.staged(self.time, self.nonce)}.inflight"

    @property
    def staged_groundwork(self) -> str:
        return f"{layout.staged(self.time, self.nonce)}.groundwork"

    def stage(self) -> None:
        """List the files that earlier executors left, if the plan is inflight. Then stage the registration, so that any process can publish it."""
        if self.follows:
            self.left = LeftByExecutors.of(self.context, self.time)
        if self.groundwork is not None:
            self.context.root.put(self.staged_groundwork, self.groundwork.body)
        if self.action is Action.CLEAN:
            requested = self.context.folder.file(Instant(self.time, self.action, State.REQUESTED))
            with suppress(ObjectNotFoundError):  # the clean has ended, and the decision will find that
                self.inflight_body = self.context.storage.get(requested)
        self.context.root.put(self.staged, self.body)
        self.context.root.put(self.staged_inflight, self.inflight_body)

    def sweep(self) -> None:
        """Remove the staged bytes."""
        more = [self.staged_groundwork] if self.groundwork is not None else []
        self.context.root.delete_many([self.staged, self.staged_inflight, *more])

    def withdraw(self) -> None:
        """End the registration after an error.

        If the error came after the decision, the registration is published first, so that the plan can be given back to other processes.
        """
        publish_decided(self.context, self.time)
        executor = newest_executor(self.context, self.time)
        self.sweep()
        if executor is not None and executor.nonce == self.nonce and _beats_for(self.context, self.time, self.nonce):
            self.context.root.delete(layout.heartbeat(self.time))

    def look(self, timeline: Timeline) -> str | None:
        """Return the reason why this process may not execute the plan now; None if this process may execute the plan."""
        found = timeline.find(self.time, self.action)
        if found is None:
            return f"no {self.action} {self.time} is on the timeline"
        if found.is_completed:
            return f"the {self.action} {self.time} is completed"
        restore = next((i for i in timeline.pending if i.action is Action.RESTORE), None)
        if restore is not None and self.action is not Action.RESTORE:
            return f"the restore {restore.requested_time} is pending"
        executor = newest_executor(self.context, self.time)
        self.follows = found.state is State.INFLIGHT
        if executor is not None and executor.nonce == self.nonce:
            return None
        beats = self.context.root.head(layout.heartbeat(self.time)) is not None
        dead = beats and heartbeat.is_dead(self.context, found, ask_storage=self.changes)
        if executor is not None and beats and not dead:
            who = executor.process or "another process"
            return f"{who} executes the {self.action} {self.time}"
        if executor is None and found.state is State.INFLIGHT and not dead:
            return self._foreign(found, beats)
        return None

    def _foreign(self, inflight: Instant, beats: bool) -> str | None:
        """Return the reason why this process leaves an execution to Hudi; None if this process takes the execution over.

        Hudi executes without a registration, so nothing shows whether Hudi's process is alive.
        """
        info = self.context.storage.head(self.context.folder.file(inflight))
        age_ms = self.context.runtime.clock.now_ms() - info.modified_ms if info is not None else 0
        if self.by_name and not beats and age_ms > self.context.options.heartbeat.expires_after_ms:
            return None
        return (
            f"the {self.action} {self.time} was begun by a program that does not register (Hudi); "
            f"if that program has ended, name the instant to execute it here"
        )

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the decision to register; None if another process executes the plan, or if the registration is already decided."""
        context = self.context
        self.refusal = self.look(timeline) or ""
        executor = newest_executor(context, self.time)
        if self.refusal or (executor is not None and executor.nonce == self.nonce):
            return None
        if self.follows and self.left is None:  # another process began an execution, and ended it, after `stage`
            self.left = LeftByExecutors.of(self.context, self.time)
        # The heartbeat is written first, so that an executor is never visible without a heartbeat.
        context.root.put(layout.heartbeat(self.time), self.body)
        number = 1 if executor is None else executor.number + 1
        path = f"{layout.executions(self.time)}/{number:0{_DIGITS}d}"
        publications = [*self._grounds(), Publication(path, self.staged)]
        bodies = {path: self.body}
        if not self.follows:
            inflight = context.folder.file(Instant(self.time, self.action, State.INFLIGHT))
            publications.append(Publication(context.from_root(inflight), self.staged_inflight))
            bodies[publications[-1].path] = self.inflight_body
        requested = context.folder.file(Instant(self.time, self.action, State.REQUESTED))
        intent = Intent(
            self.time,
            "",
            str(self.action),
            context.from_root(requested),
            f"{self.time}-{self.nonce}",
            tuple(publications),
        )
        return StagedIntent(intent, bodies)

    def _grounds(self) -> list[Publication]:
        """Return the publications of the groundwork that is not done yet."""
        ground = self.groundwork
        if ground is None:
            return []
        found = properties_file.read(self.context.storage)
        listed = any(found.get(key) for key in (metadata_removal.LISTED, metadata_removal.INFLIGHT))
        work = [] if self.context.root.head(ground.path) else [Publication(ground.path, self.staged_groundwork)]
        return [*([metadata_removal.removal()] if listed else []), *work]


def _beats_for(context: TableContext, requested_time: str, nonce: str) -> bool:
    """Say whether the heartbeat file belongs to the execution with this nonce."""
    return nonce.encode() in heartbeat.read(context, requested_time)


def _before(timeline: Timeline, plan: Instant) -> Timeline:
    """Return the timeline on which the plan is based: the instants that completed before the plan's requested time, and the pending instants."""
    kept = (i for i in timeline if not i.is_completed or (i.completion_time or i.requested_time) < plan.requested_time)
    return Timeline(tuple(kept), timeline.has_history)
