"""Log compaction: the log files of a file group become one log file, without a new base file (specification, "Log Compaction").

``plan`` returns the file groups with many logs, ``schedule`` puts the plan on the timeline as a ``logcompaction``, and ``execute`` completes it as a
``deltacommit`` of the operation LOG_COMPACT. A log compaction rewrites no base file, so it costs little if updates are few and base files large. Rows
keep their commit times, so it changes no query result. The old logs stay until a compaction and a clean.

A plan is executed by one process at a time; `take_over` finishes the executions of dead processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.instant import Action
from pyhudi_core.services.compaction.compaction import CompactionResult
from pyhudi_core.services.compaction.compaction_plan import CompactionPlan, decode
from pyhudi_core.services.compaction.log_compaction_execution import LogCompactionRun
from pyhudi_core.services.compaction.logs_to_compact import plan_log_compaction
from pyhudi_core.services.compaction.slices_to_compact import outdating
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedService
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction


@dataclass(frozen=True, slots=True)
class LogCompactionResult(CompactionResult):
    """The result of log compaction. ``instants`` are the completed log compactions.

    Attributes:
        file_groups: number of new log files.
        log_files, log_bytes: number and size of the log files that they replace for readers.
        rows, deletes: numbers of entries in the new log files.
        bytes_written: size of the new log files.
        token: the commit's token, for ``table.commit_status``; empty if there was not exactly one commit.
    """

    service: ClassVar[str] = "log_compaction"
    deletes: int = 0

    @classmethod
    def _figures_of(cls, stats: Sequence[WriteStat]) -> dict[str, Any]:
        return {**CompactionResult._figures_of(stats), "deletes": sum(stat.deletes for stat in stats)}


class LogCompaction(PlannedService[CompactionPlan, tuple[FileSlice, ...], LogCompactionResult]):
    """Log compaction of one merge-on-read table."""

    name = "log_compaction"
    summary = "merge the log files of a file group into one log file"
    turns = ("compaction.log_inline",)
    action = Action.LOGCOMPACTION
    noun = "log compaction"

    def after_commit(self, turn: Turn) -> bool:
        """With ``hoodie.log.compaction.inline``: execute the plans that no process executes, and compact logs if that is due."""
        self._inline(turn.engine)
        return False

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CompactionPlan:
        return plan_log_compaction(self.context, timeline)

    def _outdating(self, transaction: Transaction, plan: CompactionPlan) -> Outdating:
        return outdating(transaction, plan)

    def _decode(self, data: bytes, path: str) -> tuple[FileSlice, ...]:
        return decode(data, path)

    def _run_plan(self, transaction: Transaction, work: tuple[FileSlice, ...], how: Execution) -> LogCompactionResult:
        done = LogCompactionRun(transaction, work, how).run()
        return LogCompactionResult.of(done.finished, done.metadata, transaction.token)

    def _nothing(self, why_not: str) -> LogCompactionResult:
        return LogCompactionResult(why_not=why_not)
