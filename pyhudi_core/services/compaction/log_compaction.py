"""Log compaction: the log files of a file group become one log file, without a new base file (specification, "Log Compaction").

``plan`` returns the file groups with many logs, ``schedule`` puts the plan on the timeline as a ``logcompaction``, and ``execute`` completes it as a
``deltacommit`` of the operation LOG_COMPACT. A log compaction rewrites no base file, so it is cheap if there are few updates and large base files.
Rows keep their commit times, so it changes no query result. The old logs stay until a compaction and a clean.

A plan is executed by one process at a time; `take_over` finishes the executions of dead processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.compaction.compaction import CompactionResult
from pyhudi_core.services.compaction.compaction_execution import CompactionRun, Rewrite
from pyhudi_core.services.compaction.compaction_plan import CompactionPlan, decode
from pyhudi_core.services.compaction.logs_to_compact import UNMERGED_KEY, plan_log_compaction
from pyhudi_core.services.compaction.slices_to_compact import outdating
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedService
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.handles.log_compact import LogCompactor
from pyhudi_core.write.pipeline import block_format
from pyhudi_core.write.tasks import Written


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


# --- execute a planned log compaction: write the new logs, and commit them as a deltacommit (specification, "Log Compaction")
# The process has registered as the plan's executor (``transaction/plan_executors.py``). The new log of a file group replaces the logs of the
# plan, and for readers it has the plan's requested time. So no log may exist that is older than the plan and not part of it: the new log would
# hide its rows. For writers that began before the plan and end after it there are two cases:
# - if the write completes first, this commit omits its file groups; - if this commit completes first, the write is planned again
# (``conflicts/conflict.py``, `older_than_log_compaction`).
# Writers that begin later append logs that are newer than the new log. They are not affected.


class LogCompactionRun(CompactionRun):
    """One execution of a log compaction: ``work`` are the slices of the plan."""

    __slots__ = ()

    @property
    def _noun(self) -> str:
        return "log compaction"

    def _gone(self) -> frozenset[Group]:
        """Return the file groups with a log that the plan does not name, or with another base file than the plan names."""
        found = self.transaction.context.folder.load()
        return frozenset[Group]().union(*(groups for _, groups in _changes(self.transaction, found)))

    def _rewrite(self, merging: Merging) -> Rewrite:
        form = block_format(self.transaction.context.options.files, self.snapshot.schema, merging.ordering)
        return LogCompactor(merging, form).compact

    def _metadata(self, written: Written, left: Written, gone: frozenset[Group]) -> CommitMetadata:
        extra = {**self._extra(), **_unmerged(self.work, written, gone)}
        return CommitMetadata(str(OperationType.LOG_COMPACT), left.stats, extra)

    def _guard(self, groups: frozenset[Group]) -> Callable[[Timeline], None]:
        return partial(_refuse_changed, self.transaction, groups)


def _unmerged(work: Sequence[FileSlice], written: Written, changed: frozenset[Group]) -> dict[str, str]:
    """Return the note of a commit about file groups for which no log was written, because their logs hold partial updates.

    Later plans omit these file groups.
    """
    done = {(stat.partition, stat.file_id) for stat in written.stats}
    left = sorted(piece.file_id for piece in work if piece.group not in done and piece.group not in changed)
    return {UNMERGED_KEY: ",".join(left)} if left else {}


def _changes(transaction: Transaction, found: Timeline) -> Iterator[tuple[Instant, frozenset[Group]]]:
    """Yield the commits since the plan, each with its file groups that this plan can no longer log-compact."""
    time = transaction.requested_time
    for instant, commit in concurrent.since(transaction.context, transaction.start, found, time).completed:
        touched = Touched.by(commit)
        newer = touched.appended if instant.requested_time > time else frozenset()
        yield instant, touched.file_groups - newer


def _refuse_changed(transaction: Transaction, groups: frozenset[Group], found: Timeline) -> None:
    """Raise `CommitError` if another process has taken the execution over, or if one of the groups has changed since the commit was prepared."""
    plan_executors.refuse_overtaken(transaction)
    for instant, changed in _changes(transaction, found):
        shared = groups & changed
        if shared:
            places = tuple(sorted({partition for partition, _ in shared}))
            conflict = Conflict(ConflictKind.FILE_GROUP, instant, tuple(sorted(shared)), places, OperationType.UNKNOWN)
            raise conflict_error(transaction.context, conflict, transaction.requested_time)
