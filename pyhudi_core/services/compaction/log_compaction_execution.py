"""Execute a planned log compaction: write the new logs, and commit them as a deltacommit (specification, "Log Compaction").

The process has registered as the plan's executor (``transaction/plan_executors.py``). The new log of a file group replaces the logs of the plan, and
for readers it has the plan's requested time. So no log may exist that is older than the plan and not part of it: the new log would hide its rows. For
writers that began before the plan and end after it there are two cases:

- if the write completes first, this commit omits its file groups;
- if this commit completes first, the write is planned again (``conflicts/conflict.py``, `older_than_log_compaction`).

Writers that begin later append logs that are newer than the new log. They are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.engine.base import TaskFunction, TaskInfo
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.compaction.logs_to_compact import UNMERGED_KEY
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, OpenRuntime
from pyhudi_core.write.handles.log_compact import LogCompactor
from pyhudi_core.write.pipeline import block_format
from pyhudi_core.write.tasks import Written, files_batch


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

    def _task(self, open_runtime: OpenRuntime, settings: HandleSettings, merging: Merging) -> TaskFunction:
        form = block_format(self.transaction.context.options.files, self.snapshot.schema, merging.ordering)
        return LogCompactionTask(open_runtime, settings, LogCompactor(merging, form))

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


@dataclass(frozen=True, slots=True)
class LogCompactionTask:
    """Task function: merges the logs of the slices of its payload, and yields rows of `WRITTEN`."""

    open_runtime: OpenRuntime
    settings: HandleSettings
    compactor: LogCompactor

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number)
        for piece in task.payload:
            file = self.compactor.compact(context, piece)
            if file is not None:
                yield from files_batch([file], self.settings.schema)


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
