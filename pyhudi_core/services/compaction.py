"""Compaction: the log files of merge-on-read tables become base files (specification, "Compaction").

``plan`` says what would be compacted, ``schedule`` puts the plan on the timeline, and ``execute`` carries it out; any process may, Hudi's too. The
plan is Hudi's record, and the completed instant is a ``commit`` of the operation COMPACT. While a compaction is planned or runs, writers go on: their
log files belong to the file slice after it. Rows keep their commit times, so a compaction changes the result of no query; read-optimized queries show
the rows that they left out before.

A plan is executed by one process at a time. A second one stops at once and says who executes it; `take_over` finishes what dead processes began.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.compaction_execution import CompactionRun
from pyhudi_core.services.compaction_plan import CompactionPlan, decode
from pyhudi_core.services.compaction_planning import plan_compaction, refuse_outdated
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import execution
from pyhudi_core.transaction.begin import Transaction, reserve
from pyhudi_core.transaction.commit import Finished
from pyhudi_core.transaction.execution import Refusal
from pyhudi_core.transaction.requested_plans import give_back, put_plan
from pyhudi_core.write.checks import checked_extra


@dataclass(frozen=True, slots=True)
class CompactionResult(ServiceResult):
    """What was compacted: ``instants`` are the completed compactions.

    Attributes:
        file_groups: how many base files were written.
        log_files, log_bytes: what they replace.
        rows: in the new base files.
        bytes_written: of the new base files.
        token: of the commit, for ``table.commit_status``; empty if there were none or several.
    """

    service: ClassVar[str] = "compaction"
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    rows: int = 0
    bytes_written: int = 0
    token: str = ""

    @classmethod
    def of(cls, finished: Finished, commit: CommitMetadata, token: str) -> CompactionResult:
        """The result of one execution."""
        stats = commit.stats
        return cls(
            (finished.instant,),
            "",
            len(stats),
            sum(stat.merged_logs for stat in stats),
            sum(stat.merged_bytes for stat in stats),
            sum(stat.rows for stat in stats),
            sum(stat.size for stat in stats),
            token,
        )

    def and_then(self, later: CompactionResult) -> CompactionResult:
        """Both together."""
        if not later or not self:
            return later or self
        return CompactionResult(
            self.instants + later.instants,
            later.why_not,
            self.file_groups + later.file_groups,
            self.log_files + later.log_files,
            self.log_bytes + later.log_bytes,
            self.rows + later.rows,
            self.bytes_written + later.bytes_written,
        )

    @property
    def figures(self) -> Figures:
        """Instants, file groups, log files, rows and bytes."""
        return {
            "instants": len(self.instants),
            "file_groups": self.file_groups,
            "log_files": self.log_files,
            "log_bytes": self.log_bytes,
            "rows": self.rows,
            "bytes_written": self.bytes_written,
        }


class Compaction(TableService[CompactionResult]):
    """Compaction of one merge-on-read table."""

    name = "compaction"
    summary = "rewrite the log files of merge-on-read tables as base files"
    action = Action.COMPACTION

    def plan(self, *, triggered: bool = False) -> CompactionPlan:
        """What `schedule` would plan now. With ``triggered``, nothing before the trigger of the options says that it is due."""
        return self._planned(self.context.folder.load(), triggered=triggered)

    def schedule(self, *, triggered: bool = False) -> Instant | None:
        """Put a plan on the timeline; None if there is nothing to compact. Raises `CommitConflictError` if a writer came first: plan again."""
        context = self.context
        timeline = context.folder.load()
        if not self._planned(timeline, triggered=triggered):
            return None
        transaction = reserve(context, Action.COMPACTION, timeline)
        try:
            plan = self._planned(transaction.start, triggered=triggered)
        except BaseException:
            give_back(transaction)
            raise
        if not plan:
            give_back(transaction)
            return None
        body = plan.encode(transaction.sync_marker)
        return put_plan(transaction, body, lambda found: refuse_outdated(transaction, plan, found))

    def take_over(self) -> CompactionResult:
        """Execute to their end the compactions that a dead process began."""
        begun = [i for i in self._pending() if i.state is State.INFLIGHT and execution.is_free(self.context, i)]
        return self._execute_all(begun, "no dead process has left a compaction", None)

    def after_commit(self, engine: Engine | None) -> None:
        """With ``hoodie.compact.inline``: execute the plans that nobody executes, and compact if that is due."""
        if not self.context.options.compaction.inline:
            return
        self._execute_all([i for i in self._pending() if execution.is_free(self.context, i)], "", engine)
        scheduled = self.schedule(triggered=True)
        if scheduled is not None:
            self._execute_all([scheduled], "", engine)

    def _execute(self, requested_time: str | None, how: Execution) -> CompactionResult:
        chosen, why_not = self._chosen(requested_time)
        if chosen is None:
            return self._nothing(why_not)
        how = replace(how, extra_metadata=checked_extra(how.extra_metadata))
        slices = self._slices(chosen)
        if slices is None:
            return self._nothing(f"the compaction {chosen.requested_time} has ended")
        begun = execution.begin_execution(self.context, chosen, by_name=requested_time is not None)
        if isinstance(begun, Refusal):
            return self._nothing(begun.why_not)
        return self._run_plan(begun, slices, how)

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CompactionPlan:
        """What to compact in the state of a timeline."""
        return plan_compaction(self.context, timeline, triggered=triggered)

    def _run_plan(self, transaction: Transaction, slices: tuple[FileSlice, ...], how: Execution) -> CompactionResult:
        """Write and commit, as the plan's executor."""
        done = CompactionRun(transaction, slices, how).run()
        return CompactionResult.of(done.published.finished, done.metadata, transaction.token)

    def _chosen(self, requested_time: str | None) -> tuple[Instant | None, str]:
        """The plan to execute; or None, and why."""
        pending = self._pending()
        if requested_time is not None:
            found = next((i for i in pending if i.requested_time == requested_time), None)
            return found, f"the compaction {requested_time} is not pending"
        free = [i for i in pending if execution.is_free(self.context, i)]
        if free or not pending:
            return (free[0] if free else None), "no compaction is planned"
        return None, f"other processes execute the {len(pending)} planned compactions"

    def _execute_all(self, plans: list[Instant], why_not: str, engine: Engine | None) -> CompactionResult:
        done = self._nothing(why_not)
        how = Execution(engine or engine_for(None, self.context.runtime.executor, None))
        for plan in plans:
            done = done.and_then(self._execute(plan.requested_time, how))
        return done

    def _pending(self) -> list[Instant]:
        """Planned compactions, the oldest first."""
        return [i for i in self.context.folder.load().pending if i.action is Action.COMPACTION]

    def _slices(self, plan: Instant) -> tuple[FileSlice, ...] | None:
        """What the plan names; None if it is not there any more."""
        path = self.context.folder.file(Instant(plan.requested_time, plan.action, State.REQUESTED))
        try:
            return decode(self.context.storage.get(path), path)
        except ObjectNotFoundError:
            return None

    def _nothing(self, why_not: str) -> CompactionResult:
        return CompactionResult(why_not=why_not)
