"""Execute a planned compaction: write the new base files, and commit them (specification, "Compaction").

The process has registered as the plan's executor (``transaction/plan_executors.py``). Tasks rewrite one slice after the other. The plan names the
base file and the logs of each slice, so concurrent writers do not change the result. The commit goes through ``write/attempt.py`` as every commit
does, with the metadata table's part in the same decision. It completes the instant of the plan as a ``commit``.

File groups that were replaced meanwhile (by an overwrite or a clustering) are omitted, because a base file in them could become visible again when
the replacement is archived. If a file group is replaced while the files are written, the commit is made again without this file group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.engine.base import TaskFunction, TaskInfo
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.plan_run import RewriteRun, replaced_since, shared_out
from pyhudi_core.services.progress import Steps
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.attempt import Attempt, extra_of
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, OpenRuntime, WrittenFile, runtime_opener
from pyhudi_core.write.handles.compact import compact
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.tasks import WRITTEN, Written, files_batch

Rewrite = Callable[[HandleContext, FileSlice], WrittenFile | None]
"""Writes the new file of a slice in a task; returns None if the slice needs no new file. It is sent to the tasks."""


@dataclass(slots=True)
class CompactionRun(RewriteRun[Sequence[FileSlice]]):
    """One execution of a compaction: ``work`` are the slices of the plan."""

    @property
    def _noun(self) -> str:
        return "compaction"

    def _gone(self) -> frozenset[Group]:
        """Return the file groups that the plan no longer fits. For compaction these are the replaced ones."""
        return frozenset(replaced_since(self.transaction, self.transaction.context.folder.load()))

    def _rewrite(self, merging: Merging) -> Rewrite:
        """Return the function that writes the new file of a slice in a task."""
        return partial(compact, merging=merging)

    def _metadata(self, written: Written, left: Written, gone: frozenset[Group]) -> CommitMetadata:
        """Return the commit of the remaining files (``left``) among the written ones."""
        return CommitMetadata(str(OperationType.COMPACT), left.stats, self._extra())

    def _extra(self) -> dict[str, str]:
        return extra_of(self.transaction, self.how.extra_metadata, self.snapshot, {}, self.snapshot.schema)

    def _guard(self, groups: frozenset[Group]) -> Callable[[Timeline], None]:
        return partial(_refuse_changed, self.transaction, groups)

    def _write(self) -> Written:
        """Write the slices whose file groups the plan still fits, the largest ones first."""
        context, engine, config = self.transaction.context, self.how.engine, self.snapshot.config
        gone = self._gone()
        named = map(self.snapshot.visibility.with_writers, self.work)
        slices = sorted((piece for piece in named if piece.group not in gone), key=lambda piece: piece.group)
        settings = self._settings()
        if not slices:
            return Written.nothing(settings.schema)
        merging = Merging(config, self.snapshot.evolution, context.options.compaction.merge_memory)
        open_runtime = runtime_opener(engine, context.storage, context.runtime)
        task: TaskFunction = CompactionTask(open_runtime, settings, self._rewrite(merging))
        steps = Steps(self.how.progress, "rewrite file groups", len(slices))
        steps.begin()
        task = steps.counted(task, engine)
        output = engine.run(task, WRITTEN, shared_out(slices, lambda piece: piece.size, engine.cores))
        try:
            written = Written.collect(output, settings.schema, key_changes=False)
            steps.end()
            return written
        finally:
            output.release()

    def _attempt(self, written: Written) -> Attempt:
        """Return the commit of the files whose file groups the plan still fits."""
        transaction, schema, gone = self.transaction, self.snapshot.schema, self._gone()
        left = without_groups(written, gone)
        metadata = self._metadata(written, left, gone)
        kept = self._kept_metadata()
        companions = metadata_update.stage(transaction, kept, self.current, left, {}, schema, self.how.engine)
        guard = self._guard(frozenset((s.partition, s.file_id) for s in left.stats))
        touched = Touched.by(metadata)
        return Attempt(transaction, self.snapshot, metadata, touched, schema, companions=companions, guard=guard)


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Task function: rewrites the slices of its payload one after the other, and yields rows of `WRITTEN`."""

    open_runtime: OpenRuntime
    settings: HandleSettings
    rewrite: Rewrite

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number)
        for piece in task.payload:
            file = self.rewrite(context, piece)
            if file is not None:
                yield from files_batch([file], self.settings.schema)


def without_groups(written: Written, gone: frozenset[Group]) -> Written:
    """Return the written files, without the files of these groups."""
    stats = tuple(stat for stat in written.stats if (stat.partition, stat.file_id) not in gone)
    if len(stats) == len(written.stats):
        return written
    kept = pa.array([stat.path for stat in stats], pa.string())
    ranges = written.ranges
    return Written(stats, ranges.filter(pc.is_in(ranges.column(ranges.column_names[0]), value_set=kept)))


def _refuse_changed(transaction: Transaction, groups: frozenset[Group], found: Timeline) -> None:
    """Raise `CommitError` if another process has taken the execution over, or if one of the groups was replaced."""
    plan_executors.refuse_overtaken(transaction)
    replaced = replaced_since(transaction, found)
    gone = sorted(groups & replaced.keys())
    if gone:
        instant = replaced[gone[0]]
        its = tuple(group for group in gone if replaced[group] == instant)
        places = tuple(sorted({partition for partition, _ in its}))
        conflict = Conflict(ConflictKind.FILE_GROUP, instant, its, places, OperationType.UNKNOWN)
        raise conflict_error(transaction.context, conflict, transaction.requested_time)
