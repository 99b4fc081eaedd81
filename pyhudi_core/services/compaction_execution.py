"""Execute a planned compaction: write the new base files, and commit them (specification, "Compaction").

The process has registered as the plan's executor (``transaction/execution.py``). Tasks rewrite one slice after the other. The plan says which base
file and which logs are a slice, so the result does not depend on what writers do meanwhile. The commit goes through ``write/attempt.py`` as every
commit does, with the metadata table's part in the same decision. It completes the instant of the plan as a ``commit``.

File groups that were replaced meanwhile (by an overwrite or a clustering) are left out, because a base file in them could come back once the
replacement is archived. If that happens while the files are written, the commit is made again without them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts.concurrent import conflict_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.engine.base import TaskInfo
from pyhudi_core.errors import CommitStateUnknownError, UnsupportedTableError, at_table
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.bloom import BloomSizing
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.schema import to_avro
from pyhudi_core.services.compaction_planning import unfit_because
from pyhudi_core.services.service import Execution
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import execution, markers
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.home import reopened
from pyhudi_core.write import metadata_update
from pyhudi_core.write.attempt import Attempt, CommitCheck, Published, extra_of, publish
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, OpenRuntime, runtime_opener
from pyhudi_core.write.handles.compact import compact
from pyhudi_core.write.retrying import Retries, retry
from pyhudi_core.write.states import load
from pyhudi_core.write.tasks import WRITTEN, Written, files_batch


@dataclass(frozen=True, slots=True)
class Compacted:
    """The published commit of a compaction."""

    published: Published
    metadata: CommitMetadata


@dataclass(slots=True)
class CompactionRun:
    """One execution of a plan by this process, which has registered for it.

    Attributes:
        transaction: its context is read anew for each round, because a metadata table may come or go while the files are written.
        slices: the plan.
        snapshot: the table's state when the execution began, for the schema.
        current: the state from which the metadata table is written; newer than ``snapshot`` if that may have changed.
        rounds: how often the commit was tried.
    """

    transaction: Transaction
    slices: Sequence[FileSlice]
    how: Execution
    snapshot: Snapshot = field(init=False)
    current: Snapshot = field(init=False)
    rounds: int = 0

    def run(self) -> Compacted:
        """Write and commit. After an error nothing of this execution is left, and the plan is free for others.

        Raises as `write.attempt.publish`, and what reading the slices raises.
        """
        transaction = self.transaction
        context = transaction.context
        try:
            with at_table(context.table):
                self.snapshot = self.current = self._fit(context)
                gone = _replaced(transaction, context.folder.load())
                written = self._write([piece for piece in self.slices if piece.group not in gone])
                return self._commit(written)
        except CommitStateUnknownError:
            transaction.heartbeat.handle.cancel()  # it may be decided, so nothing of it is removed
            raise
        except BaseException:
            execution.give_up(self.transaction)
            raise

    def _fit(self, context: TableContext) -> Snapshot:
        """The table's state now. Raises `UnsupportedTableError` if this release cannot compact it."""
        snapshot = load(context)
        unfit = unfit_because(context, snapshot)
        if unfit is None:
            return snapshot
        raise UnsupportedTableError(
            f"The compaction cannot be executed: {unfit}",
            table=context.table,
            instant=self.transaction.requested_time,
            hint="Execute it with the program that planned it.",
        )

    def _write(self, slices: Sequence[FileSlice]) -> Written:
        """Rewrite the slices, the largest ones first."""
        context, engine, config = self.transaction.context, self.how.engine, self.snapshot.config
        settings = self._settings()
        if not slices:
            return Written.nothing(settings.schema)
        merging = Merging(config, self.snapshot.evolution)
        task = CompactionTask(runtime_opener(engine, context.storage, context.runtime), settings, merging)
        output = engine.run(task, WRITTEN, _shared_out(slices, engine.cores))
        try:
            return Written.collect(output, settings.schema, key_changes=False)
        finally:
            output.release()

    def _settings(self) -> HandleSettings:
        context, schema = self.transaction.context, self.snapshot.schema
        files = context.options.files
        return HandleSettings(
            requested_time=self.transaction.requested_time,
            schema=with_meta_fields(schema),
            avro_schema=to_avro(schema, context.config.name, meta_fields=True),
            codec=files.compression,
            row_group_rows=files.row_group_rows,
            row_group_bytes=files.row_group_bytes,
            bloom=BloomSizing(files.bloom_entries, files.bloom_fpp, files.bloom_max_entries),
            target=files.max_size,
            token_salt=execution.salt_of(self.transaction.nonce),
        )

    def _commit(self, written: Written) -> Compacted:
        """Publish; again with the same files if another commit came first and they are still right."""
        context = self.transaction.context
        with Retries(context) as retries:

            def attempt() -> Compacted:
                retries.began()
                made = self._attempt(written)
                return Compacted(publish(CommitCheck.of(made), retries, self.how.gate), made.metadata)

            return retry(retries, attempt)

    def _attempt(self, written: Written) -> Attempt:
        """The commit of the files whose groups are not replaced now."""
        if self.rounds:
            markers.remove_at_companions(self.transaction.context, self.transaction.requested_time)
        self.rounds += 1
        self._renew()
        transaction, schema = self.transaction, self.snapshot.schema
        left = _without(written, _replaced(transaction, transaction.context.folder.load()))
        extra: Mapping[str, str] = extra_of(transaction, self.how.extra_metadata, self.snapshot, {}, schema)
        metadata = CommitMetadata(str(OperationType.COMPACT), left.stats, extra)
        kept = metadata_update.slices_to_keep(transaction.context, self.current, self.current.schema)
        companions = metadata_update.stage(transaction, kept, self.current, left, {}, schema, self.how.engine)
        guard = partial(_refuse_changed, transaction, frozenset((s.partition, s.file_id) for s in left.stats))
        touched = Touched.by(metadata)
        return Attempt(transaction, self.snapshot, metadata, touched, schema, companions=companions, guard=guard)

    def _renew(self) -> None:
        """Read the table's properties anew, and its state if the metadata table may be another one now."""
        known = self.transaction.context
        context = reopened(known)
        self.transaction = replace(self.transaction, context=context)
        if self.rounds > 1 or context.config.metadata_partitions != known.config.metadata_partitions:
            self.current = self._fit(context)


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Task function: rewrites the slices of its payload one after the other, and yields rows of `WRITTEN`."""

    open_runtime: OpenRuntime
    settings: HandleSettings
    merging: Merging

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number)
        for piece in task.payload:
            yield from files_batch([compact(context, piece, self.merging)], self.settings.schema)


def _shared_out(slices: Sequence[FileSlice], cores: int) -> list[list[FileSlice]]:
    """The slices for each task: the largest first, each to the task with the fewest bytes."""
    tasks: list[list[FileSlice]] = [[] for _ in range(max(1, min(len(slices), cores)))]
    load_of = [(0, number) for number in range(len(tasks))]
    for piece in sorted(slices, key=lambda piece: (-piece.size, piece.group)):
        size, number = heapq.heappop(load_of)
        tasks[number].append(piece)
        heapq.heappush(load_of, (size + piece.size, number))
    return tasks


def _without(written: Written, gone: frozenset[Group]) -> Written:
    """The files that are not of these groups."""
    stats = tuple(stat for stat in written.stats if (stat.partition, stat.file_id) not in gone)
    if len(stats) == len(written.stats):
        return written
    kept = pa.array([stat.path for stat in stats], pa.string())
    ranges = written.ranges
    return Written(stats, ranges.filter(pc.is_in(ranges.column(ranges.column_names[0]), value_set=kept)))


def _replaced(transaction: Transaction, timeline: Timeline) -> frozenset[Group]:
    """The file groups that commits replaced since the plan was made."""
    known = {instant.group for instant in transaction.start.commits}
    folder = transaction.context.folder
    found = (i for i in timeline.commits if i.action is Action.REPLACECOMMIT and i.group not in known)
    return frozenset(
        (partition, file_id)
        for instant in found
        for partition, file_ids in folder.read_commit(instant).replaced.items()
        for file_id in file_ids
    )


def _refuse_changed(transaction: Transaction, groups: frozenset[Group], found: Timeline) -> None:
    """Raise `CommitError` if another process has taken the execution over, or one of the groups was replaced."""
    execution.refuse_overtaken(transaction)
    gone = groups & _replaced(transaction, found)
    if gone:
        newest = next(i for i in reversed(found.commits.instants) if i.action is Action.REPLACECOMMIT)
        places = tuple(sorted({partition for partition, _ in gone}))
        conflict = Conflict(ConflictKind.FILE_GROUP, newest, tuple(sorted(gone)), places, OperationType.UNKNOWN)
        raise conflict_error(transaction.context, conflict, transaction.requested_time)
