"""Compaction: the log files of merge-on-read tables become base files (specification, "Compaction").

``plan`` returns what would be compacted, ``schedule`` puts the plan on the timeline, and ``execute`` executes it. Any process may execute the plan,
also Hudi. The plan is Hudi's record, and the completed instant is a ``commit`` of the operation COMPACT. Writers continue while a compaction is
planned or runs: their log files belong to the next file slice. Rows keep their commit times, so a compaction changes no query result, except that
read-optimized queries then show the rows of the logs. (A compaction also removes deletes. Decision 0039 says which older rows a write rejects, so
that they do not reappear after the compaction, and which it accepts.)

A plan is executed by one process at a time. A second process stops at once and names the executing process. `take_over` finishes the executions of
dead processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.compaction.compaction_plan import CompactionPlan, decode
from pyhudi_core.services.compaction.compaction_rules import MANY_LOGS
from pyhudi_core.services.compaction.slices_to_compact import outdating, plan_compaction
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedResult, PlannedService
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Finished


@dataclass(frozen=True, slots=True)
class CompactionResult(PlannedResult):
    """The result of compaction. ``instants`` are the completed compactions.

    Attributes:
        file_groups: number of new base files.
        log_files, log_bytes: number and size of the log files that they replace.
        rows: number of rows in the new base files.
        bytes_written: size of the new base files.
        token: the commit's token, for ``table.commit_status``; empty if there was not exactly one commit.
    """

    service: ClassVar[str] = "compaction"
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    rows: int = 0
    bytes_written: int = 0
    token: str = ""

    @classmethod
    def of(cls, finished: Finished, commit: CommitMetadata, token: str) -> Self:
        """Return the result of one execution."""
        return cls(instants=(finished.instant,), token=token, **cls._figures_of(commit.stats))

    @classmethod
    def _figures_of(cls, stats: Sequence[WriteStat]) -> dict[str, Any]:
        return {
            "file_groups": len(stats),
            "log_files": sum(stat.merged_logs for stat in stats),
            "log_bytes": sum(stat.merged_bytes for stat in stats),
            "rows": sum(stat.rows for stat in stats),
            "bytes_written": sum(stat.size for stat in stats),
        }


class Compaction(PlannedService[CompactionPlan, tuple[FileSlice, ...], CompactionResult]):
    """Compaction of one merge-on-read table."""

    name = "compaction"
    summary = "rewrite the log files of merge-on-read tables as base files"
    turns = ("compaction.by_commits",)
    action = Action.COMPACTION
    noun = "compaction"

    def after_commit(self, turn: Turn) -> bool:
        """With ``hoodie.compact.inline``: execute the plans that no process executes, and compact if that is due.

        Without this option: do the same with the strategy ``many_logs``, if the commit wrote to a slice with many logs. To check this, only the
        commit is read.
        """
        options = self.context.options
        if options.compaction.inline:
            self._inline(turn.engine)
            return False
        if max((stat.slice_logs for stat in turn.files), default=0) < MANY_LOGS + turn.waits(MANY_LOGS):
            return False
        few = replace(options.compaction, strategy="many_logs", trigger="NUM_COMMITS", max_delta_commits=1)
        return bool(type(self)(self.context.with_options(replace(options, compaction=few)))._inline(turn.engine))

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CompactionPlan:
        return plan_compaction(self.context, timeline, triggered=triggered)

    def _outdating(self, transaction: Transaction, plan: CompactionPlan) -> Outdating:
        return outdating(transaction, plan)

    def _decode(self, data: bytes, path: str) -> tuple[FileSlice, ...]:
        return decode(data, path)

    def _run_plan(self, transaction: Transaction, work: tuple[FileSlice, ...], how: Execution) -> CompactionResult:
        done = CompactionRun(transaction, work, how).run()
        return CompactionResult.of(done.finished, done.metadata, transaction.token)

    def _nothing(self, why_not: str) -> CompactionResult:
        return CompactionResult(why_not=why_not)
