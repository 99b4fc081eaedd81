"""Restores: the table goes back to the state of an earlier commit, and the commits after it are undone (specification, "Restore").

``plan`` returns what would be undone, or why the restore is refused; ``schedule`` puts the plan on the timeline, and ``execute`` executes it. Plan
and completed restore are Hudi's records. While a restore is pending, no write begins, and no plan is executed. One process executes the restore at a
time; if the process dies, `take_over` of any other process finishes the restore.

Undoing the newest commit is a restore to the commit before it (``before=``).

A restore that has begun is in effect, so every later restore finishes it first. A planned restore can be cancelled, so it is executed only on
request: by `execute`, by `run` without arguments, or by a restore to the same state. Other restores are refused while it is planned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pyhudi_core.conflicts.concurrent import pending_restores, refuse_pending_restore
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitError,
    CommitStateUnknownError,
    HudiError,
    SnapshotExpiredError,
    at_table,
)
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.savepoints.savepoint_files import Savepoint
from pyhudi_core.savepoints.savepoints import CommitPoint
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedResult, PlannedService
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.restore import restore_work
from pyhudi_core.services.restore.commits_to_undo import Target, outdating, plan_restore
from pyhudi_core.services.restore.keeping_restore import NOTE, KeepingRestorePlan, plan_keeping, restore_keeping
from pyhudi_core.services.restore.restore_execution import RestoreRun
from pyhudi_core.services.restore.restore_plan import PlannedRestore, RestorePlan, decode
from pyhudi_core.services.service import Execution, TableService
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.restored import is_undone
from pyhudi_core.transaction import layout, plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.decision import Terms, decide
from pyhudi_core.transaction.instant_removal import remove_files, remove_instant
from pyhudi_core.transaction.plan_executors import Groundwork
from pyhudi_core.transaction.rollback import repair_by_policy
from pyhudi_core.write.retrying import Retries

_log = logging.getLogger(__name__)
_NO_TARGET = "no commit to go back to was given, and no restore is pending"


@dataclass(frozen=True, slots=True)
class RestoreResult(PlannedResult):
    """The result of a restore. ``instants`` are the completed restores.

    Attributes:
        to: the requested time of the commit whose state is restored.
        commits: number of undone commits and plans.
        files: number of deleted data files, including those that an earlier executor had deleted.
        kept: with ``keep=True``, the requested time of the commit whose state stays under a savepoint.
    """

    service: ClassVar[str] = "restore"
    to: str = ""
    commits: int = 0
    files: int = 0
    kept: str = ""

    def __str__(self) -> str:
        said = PlannedResult.__str__(self)
        kept = (
            f"; the state of {self.kept} stays under a savepoint: restore(to={self.kept!r}) brings it back"
            if self.kept
            else ""
        )
        return f"{said}; the state of the commit {self.to} is back{kept}" if self and self.to else said


class Restores(PlannedService[RestorePlan, PlannedRestore, RestoreResult]):
    """Restores of one table."""

    name = "restore"
    summary = "go back to an earlier commit, and finish restores that were begun"
    action = Action.RESTORE
    noun = "restore"

    def __init__(self, context: TableContext, target: Target | None = None) -> None:
        super().__init__(context)
        self.target = target or Target()

    def plan(
        self,
        to: TimePoint | Savepoint | None = None,
        *,
        before: CommitPoint | None = None,
        triggered: bool = False,
    ) -> RestorePlan:
        """Return what `run` with this target would undo, or why it would be refused. Changes nothing.

        The target is a commit, savepoint or time, or the state before a commit.
        """
        service = self._with(to, before)
        try:
            timeline = self.context.folder.load()
            asked_for = service._asked_for(timeline) if service.target else None
            if asked_for is not None:
                timeline = Timeline(tuple(i for i in timeline if i is not asked_for), timeline.has_history)
            return service._planned(timeline, triggered=triggered)
        except HudiError as refusal:
            hint = f" {refusal.hint}" if refusal.hint else ""
            return RestorePlan(why_not=f"{refusal.message}.{hint}")

    def __call__(
        self, to: TimePoint | Savepoint | None = None, *, before: CommitPoint | None = None, keep: bool = False
    ) -> RestoreResult:
        """Restore the state of a commit or savepoint, of a time (with its zone), or before a commit. Later commits are undone, and their files are
        deleted.

        With ``keep`` no file is deleted: the rows of that state are written again as a new commit, and the current state stays under a savepoint. A
        restore to that savepoint brings it back. ``plan`` and ``plan_keeping`` only show what would be done. Raises as `schedule`.
        """
        return self.run_keeping(to, before=before) if keep else self.run(to, before=before)

    def plan_keeping(
        self, to: TimePoint | Savepoint | None = None, *, before: CommitPoint | None = None
    ) -> KeepingRestorePlan:
        """Return what a restore with ``keep=True`` would do. Changes nothing. Raises as `run_keeping`."""
        with at_table(self.context.table):
            return plan_keeping(reopened(self.context), Target(to, before))

    def run_keeping(
        self,
        to: TimePoint | Savepoint | None = None,
        *,
        before: CommitPoint | None = None,
        spark: Any = None,
        gate: Gate | None = None,
    ) -> RestoreResult:
        """Write the rows of an earlier state again as a new commit, and keep the current state under a savepoint. No commit is undone.

        Raises `InvalidOptionError` if the point is no completed commit, `SnapshotExpiredError` if files of its state are gone,
        `UnsupportedTableError` if columns of that state are gone, and `CommitRequirementError` if another commit came first.
        """
        done = restore_keeping(reopened(self.context), Target(to, before), spark, gate)
        if isinstance(done, str):
            return self._nothing(done)
        commit, saved = done
        if not commit:
            return self._nothing(commit.reason)
        made = Instant(commit.instant, Action.REPLACECOMMIT, State.COMPLETED, commit.completion_time)
        return RestoreResult((made,), "", commit.extra_metadata[NOTE], kept=saved.instant)

    def undone(self) -> Mapping[str, frozenset[str]]:
        """Return the requested times that each restore undoes, by the requested time of the restore. Restores that have not begun are omitted."""
        return self.context.folder.undone_by_restores()

    def schedule(
        self,
        to: TimePoint | Savepoint | None = None,
        *,
        before: CommitPoint | None = None,
        triggered: bool = False,
    ) -> Instant | None:
        """Put the plan of a restore on the timeline. No write begins until the plan is executed. Returns None if there is nothing to undo.

        Raises `InvalidOptionError` if the point is no completed commit of the timeline, `SnapshotExpiredError` if files of its state are gone,
        `CommitAbortedError` if another process is writing to the table, or if a commit to undo has a savepoint or is archived, and
        `CommitConflictError` if another restore is pending. After such an error nothing has changed.
        """
        service = self._with(to, before)
        if not service._planned(self.context.folder.load(), triggered=triggered):
            return None
        repair_by_policy(self.context)  # rolls back the writes of dead writers; from here on no write is pending
        return super(Restores, service).schedule(triggered=triggered)

    def run(  # type: ignore[override]
        self,
        to: TimePoint | Savepoint | None = None,
        *,
        before: CommitPoint | None = None,
        spark: Any = None,
        gate: Gate | None = None,
        progress: ServiceProgress | None = None,
    ) -> RestoreResult:
        """Restore the state of this commit (or savepoint), or the state before another commit. A restore of a dead process is finished first.

        A planned restore to the same state is executed; if a restore to another state is planned, this call is refused and changes nothing. Without
        arguments, the pending restore is executed, even if it is only planned. ``gate`` is asked before anything is undone; ``progress`` as in
        `Execution`. Raises as `schedule`.
        """
        service = self._with(to, before)
        return super(Restores, service).run(spark, gate, progress=progress)

    def unattended(self) -> list[Instant]:
        """Return only restores that have begun. A planned restore waits for its owner, who may still cancel it."""
        return [restore for restore in self.waiting() if restore.state is State.INFLIGHT]

    def cancel(self, instant: Instant | str) -> bool:
        """Cancel a planned restore that no process has begun: remove it from the timeline. Returns False if there is none."""
        time = self._time_of(instant)
        removed: list[Instant] = []

        def remove(timeline: Timeline) -> None:
            found = timeline.find(str(time), Action.RESTORE)
            if found is not None and found.state is State.REQUESTED:
                # The reservation is removed first: with it, the next process would publish the decided plan again.
                self.context.root.delete(layout.heartbeat(str(time)))
                plan_executors.forget(self.context, str(time))
                removed.extend(remove_instant(self.context.folder, str(time), {Action.RESTORE}))

        decide(self.context, remove, lambda _: None, Terms(f"cancel the restore {time}"))
        return bool(removed)

    def take_over(self) -> RestoreResult:
        """Finish the restores of dead processes, and build the metadata tables again that these restores removed.

        Also remove completed files of undone commits if a paused process has created them again.
        """
        done = PlannedService.take_over(self)
        why_not = []
        self._remove_returned()
        engine = engine_for(None, self.context.runtime.executor, None)
        for info in self.context.root.list(f"{layout.RESTORES}/"):
            time = info.path.rpartition("/")[2]
            found = self.context.folder.load().find(time, Action.RESTORE)
            if found is None or found.is_completed:
                why_not.append(_rebuild(self.context, time, engine))
        return replace(done, why_not="; ".join(filter(None, why_not))) if any(why_not) else done

    def _remove_returned(self) -> None:
        folder = self.context.folder
        if not any(i.action is Action.RESTORE for i in folder.load().pending) and folder.undone:
            returned = (file for file in folder.files()[0] if file.is_completed and is_undone(file, folder.undone))
            remove_files(folder, returned)

    def _with(self, to: TimePoint | Savepoint | None, before: CommitPoint | None) -> Restores:
        return Restores(self.context, Target(to, before)) if to is not None or before is not None else self

    def _planned(self, timeline: Timeline, *, triggered: bool) -> RestorePlan:
        if not self.target:
            pending = [i.requested_time for i in timeline.pending if i.action is Action.RESTORE]
            return RestorePlan(why_not=f"the restore {pending[0]} is pending" if pending else _NO_TARGET)
        return plan_restore(reopened(self.context), timeline, self.target)

    def _outdating(self, transaction: Transaction, plan: RestorePlan) -> Outdating:
        return outdating(transaction)

    def _decode(self, data: bytes, path: str) -> PlannedRestore:
        return decode(data, path)

    def _groundwork(self, plan: Instant, work: PlannedRestore, how: Execution) -> Groundwork:
        if plan.state is State.REQUESTED:
            ask_gate(how.gate, self.context, "to undo commits")
        found = restore_work.work_of(reopened(self.context), work)
        return Groundwork(layout.restore(plan.requested_time), found.to_json())

    def _run_plan(self, transaction: Transaction, work: PlannedRestore, how: Execution) -> RestoreResult:
        done = RestoreRun(transaction, work, how).run()
        why_not = _rebuild(self.context, transaction.requested_time, how.engine)
        files = sum(len(undone.files) for undone in done.work.undone)
        return RestoreResult((done.finished.instant,), why_not, work.to, len(done.work.undone), files)

    def _run(self, how: Execution, retries: Retries) -> RestoreResult:
        if not self.target:
            return PlannedService._run(self, how, retries)
        if not self._pending() and self._planned(self.context.folder.load(), triggered=False):
            repair_by_policy(self.context)  # the repair also publishes a plan that a dead process had decided
        done, reached = self._before_own_plan(how, retries)
        return done if reached else done.and_then(TableService._run(self, how, retries))

    def _before_own_plan(self, how: Execution, retries: Retries) -> tuple[RestoreResult, bool]:
        """Finish a begun restore, or execute the planned restore if it is the requested one. Also return whether nothing else is left to do.

        Raises `CommitConflictError` if another restore is planned, and `InvalidOptionError` if the target is not a commit. Then nothing has changed.
        """
        timeline = self.context.folder.load()
        pending = pending_restores(timeline)
        if not pending:
            return self._nothing(""), False
        asked_for = None
        if not self.has_begun():
            asked_for = self._asked_for(timeline)
            planned = timeline.filter(Action.RESTORE, State.REQUESTED)
            refuse_pending_restore(self.context, Timeline(tuple(i for i in planned if i != asked_for)))
        done = self._nothing(f"the restore {pending[0].requested_time} is pending")
        for restore in self._free(list(pending)):
            if restore.state is State.INFLIGHT or restore == asked_for:
                done = done.and_then(retries.until_done(partial(self._execute, restore.requested_time, how)))
        self.context.folder.load()
        undone = self.target.before is not None and self.target.before_time in self.context.folder.undone
        return done, undone or (asked_for is not None and bool(done))

    def has_begun(self) -> bool:
        """Say whether a pending restore already undoes the commit that is to be undone."""
        if self.target.before is None:
            return False
        begun = self.context.folder.undone_by_restores()
        return any(self.target.before_time in begun.get(restore.requested_time, ()) for restore in self._pending())

    def _asked_for(self, timeline: Timeline) -> Instant | None:
        """Return the planned restore that no process has begun, if it has this target and undoes the same commits as a restore to the target would
        now.

        Raises `InvalidOptionError` if the target is not a commit of the timeline.
        """
        point = self.target.point(self.context, timeline)
        planned = timeline.filter(Action.RESTORE, State.REQUESTED)
        work = self._read(planned[0]) if len(planned) == 1 else None
        if work is None or work.to != point.requested_time:
            return None
        later = {
            i.requested_time for i in timeline.commits if (i.completion_time or "") > (point.completion_time or "")
        }
        undone = {time for time, _ in work.undone} & {i.requested_time for i in timeline.commits}
        return planned[0] if undone == later and not (self.target.alone and len(later) > 1) else None

    def _execute(self, requested_time: str | None, how: Execution) -> RestoreResult:
        try:
            return PlannedService._execute(self, requested_time, how)
        except CommitError:
            raise
        except HudiError as error:
            raise self._half_done(error) from error

    def _half_done(self, error: HudiError) -> HudiError:
        """Return the error for a failure.

        If a restore has begun, the error says that readers already see the restored state, although this process did not finish.
        """
        try:
            found = [
                i for i in self.context.folder.load() if i.action is Action.RESTORE and i.state is not State.REQUESTED
            ]
        except HudiError:
            found = []  # the storage does not answer, so this is unknown
        else:
            if not any(i.is_pending for i in found):
                return error
            if isinstance(error, SnapshotExpiredError) and self.under_way():
                return CommitAbortedError(
                    "Another process executes the restore, and has undone a commit that this one was about to read",
                    table=self.context.table,
                    instant=found[-1].requested_time,
                    hint="This process changed nothing; wait for the other one.",
                )
        return CommitStateUnknownError(
            f"The restore has perhaps begun, and did not end: {error.message}",
            token="",
            table=self.context.table,
            instant=found[-1].requested_time if found else None,
            hint="table.restore.take_over() or `pyhudi restore LOCATION --execute` finishes it; until then nothing is written.",
        )

    def _nothing(self, why_not: str) -> RestoreResult:
        return RestoreResult(why_not=why_not)


def _rebuild(context: TableContext, requested_time: str, engine: Engine) -> str:
    """Build the metadata table again after a completed restore, and remove the restore's list. Returns why a part was not built.

    Readers list folders until then, so a failure here does not affect the restore. After a failure the list stays, and `Restores.take_over` builds
    the metadata table.
    """
    why_not = ""
    try:
        work = restore_work.read(context, requested_time)
        if work is not None and work.metadata_partitions:
            left_out = MetadataTableOf(reopened(context)).make_again(work.metadata_partitions, engine).why_not
            why_not = f"indexes were not built again: {left_out}" if left_out else ""
    except HudiError as error:
        why_not = (
            f"the metadata table could not be built again: {error.message}; table.restore.take_over() tries once more"
        )
        _log.warning("%s: after the restore %s %s", context.table, requested_time, why_not)
        return why_not
    try:
        context.root.delete(layout.restore(requested_time))
    except HudiError as error:
        _log.warning("%s: the list of the restore %s stays: %s", context.table, requested_time, error.message)
    return why_not
