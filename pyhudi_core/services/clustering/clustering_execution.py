"""Execute a planned clustering: read its slices, order their rows, write new file groups, and commit them as a replacecommit.

The process has registered as the plan's executor (``transaction/plan_executors.py``). Rows keep their meta columns, so they keep the commit that
changed them; only the name of the file is new. The slices are read as readers see them, with their logs.

1. For an order along a curve, tasks read a sample of the sort columns (``services/clustering/row_curve.py``).
2. On Spark, tasks read the slices, and a shuffle brings the rows of each new file together, sorted. Each task writes its new files one after the
   other. Without Spark, groups are written in the same way if they become several sorted files and certainly fit into pyhudi.clustering.memory.bytes.
3. Without Spark, other groups are written one after the other in bounded memory (``services/clustering/streamed.py``).

A clustering of buckets sends each row to the new bucket of its hash, and publishes the new ranges of hashes with its commit
(``services/clustering/rings.py``).

If a planned file group was changed meanwhile, nothing is committed (specification, "Table Service/Writer Concurrency").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import refuse_conflicts
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo, dealt, runs, without_slots
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.parquet_statistics import range_schema
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import new_file_id
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.clustering.clustering_plan import LINEAR, ClusteringGroup, ClusteringWork, RowOrder
from pyhudi_core.services.clustering.groups_to_cluster import refuse_unsortable
from pyhudi_core.services.clustering.new_groups import new_groups
from pyhudi_core.services.clustering.rings import Rings, attachments, rings_after
from pyhudi_core.services.clustering.row_curve import CurveBounds, bounds_of
from pyhudi_core.services.clustering.rows_to_cluster import PLACE, SampleTask, SliceReading
from pyhudi_core.services.clustering.streamed import Unit, UnitTask
from pyhudi_core.services.plan_run import RewriteRun, shared_out
from pyhudi_core.services.progress import Steps
from pyhudi_core.transaction import layout
from pyhudi_core.write.attempt import Attempt, extra_of
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, OpenRuntime, runtime_opener
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.indexing import known_hashing
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.tasks import KEY_CHANGES, WRITTEN, Written, files_batch

_INFLATED = 8
"""The assumed memory per byte of a file. Groups that may need more memory than the bound are sorted in runs."""


@dataclass(slots=True)
class ClusteringRun(RewriteRun[ClusteringWork]):
    """One execution of a clustering.

    ``rings``: the new ranges of hashes, for partitions with consistent hashing; ``hashing``: how keys are hashed.
    """

    rings: Rings = field(default_factory=dict)
    hashing: Hashing | None = None
    steps: Steps = field(init=False)

    @property
    def _noun(self) -> str:
        return "clustering"

    def _write(self) -> Written:
        """Write the new file groups."""
        refuse_unsortable(self.snapshot.schema, self.work.order)
        self._refuse_changed()
        self._prepare_buckets()
        groups = self._sized()
        self.steps = Steps(self.how.progress, "write file groups", sum(group.outputs for group in groups))
        self.steps.begin()
        settings = replace(self._settings(), target=self.transaction.context.options.clustering.target_size)
        streamed = [group for group in groups if self._is_streamed(group)]
        parts = [self._written(wave, settings) for wave in self._waves([g for g in groups if g not in streamed])]
        is_curve = bool(self.work.order.columns) and self.work.order.layout != LINEAR
        parts += [self._streamed(part, settings) for part in ([[g] for g in streamed] if is_curve else [streamed])]
        stats = sorted((stat for part in parts for stat in part.stats), key=lambda stat: stat.path)
        self.steps.end()
        ranges = [part.ranges for part in parts] or [range_schema(settings.schema).empty_table()]
        return Written(tuple(stats), pa.concat_tables(ranges), moves_all=True)

    def _attempt(self, written: Written) -> Attempt:
        """Return the commit of the new file groups, which replace the planned ones."""
        transaction, schema, engine = self.transaction, self.snapshot.schema, self.how.engine
        context = transaction.context
        replaced = _by_partition(self.work)
        extra: Mapping[str, str] = extra_of(transaction, self.how.extra_metadata, self.snapshot, {}, schema)
        metadata = CommitMetadata(str(OperationType.CLUSTER), written.stats, extra, replaced)
        if metadata_update.needs_keys(context.config):
            task = KeysTask(runtime_opener(engine, context.storage, context.runtime))
            shares = shared_out(written.stats, lambda stat: stat.size, engine.cores)
            written = replace(written, key_changes=engine.run(task, KEY_CHANGES, shares))
        kept = self._kept_metadata()
        companions = metadata_update.stage(transaction, kept, self.current, written, replaced, schema, engine)
        touched, guard = Touched.by(metadata), self._refuse_overtaken
        made = Attempt(transaction, self.snapshot, metadata, touched, schema, companions=companions, guard=guard)
        return replace(made, attachments=attachments(context, self.rings))

    def _prepare_buckets(self) -> None:
        """Find the new ranges of hashes.

        Raises `UnsupportedTableError` if the plan would remove buckets, and `CommitAbortedError` if the ranges have changed since the plan was made.
        """
        context, time = self.transaction.context, self.transaction.requested_time
        if self.work.is_of_buckets:
            self.rings = rings_after(context, self.snapshot, self.work, time)
            self.hashing = known_hashing(context, self.snapshot)
        elif has_consistent_hashing(context):
            raise UnsupportedTableError(
                "The table has consistent hashing, and the plan does not say what becomes of its ranges of hashes",
                table=context.table,
                instant=time,
                hint="Remove the plan by table.clustering.cancel(instant) or `pyhudi cluster --cancel`. Nothing was changed.",
            )

    def _refuse_changed(self) -> None:
        """Raise `CommitConflictError` if a planned file group changed before this execution began. The commit checks this again."""
        transaction, nothing = self.transaction, frozenset[str]()
        context = transaction.context
        mine = Touched(self.work.file_groups, nothing, nothing, OperationType.CLUSTER)
        refuse_conflicts(context, transaction.start, context.folder.load(), transaction.requested_time, mine)

    def _sized(self) -> list[ClusteringGroup]:
        """Return the groups with the sizes of their files, which a plan does not have."""
        partitions = {group.partition for group in self.work.groups}
        slices = (piece for partition in partitions for piece in self.snapshot.view.slices(partition))
        sizes = {
            file.path: file.size for piece in slices if piece.group in self.work.file_groups for file in piece.files
        }

        def sized(piece: FileSlice) -> FileSlice:
            base = None if piece.base is None else replace(piece.base, size=sizes.get(piece.base.path, 0))
            logs = (replace(log, size=sizes.get(log.path, 0)) for log in piece.logs)
            return self.snapshot.visibility.with_writers(FileSlice(base, None, tuple(logs)))

        return [replace(group, slices=tuple(map(sized, group.slices))) for group in self.work.groups]

    def _waves(self, groups: list[ClusteringGroup]) -> Iterator[list[ClusteringGroup]]:
        """Yield groups that are shuffled together.

        A sorted group of several new files is shuffled alone, because its rows decide where a file ends.
        """
        bound = self._memory // _INFLATED if self.how.engine.in_process else None
        wave: list[ClusteringGroup] = []
        for group in sorted(groups, key=lambda group: (group.partition, group.slices[0].file_id)):
            if _is_cut_by_rows(group, self.work.order):
                yield [group]
            elif wave and bound is not None and sum(each.size for each in wave) + group.size > bound:
                yield wave
                wave = [group]
            else:
                wave.append(group)
        if wave:
            yield wave

    def _written(self, wave: list[ClusteringGroup], settings: HandleSettings) -> Written:
        """Write the new files of some groups."""
        context, engine, order = self.transaction.context, self.how.engine, self.work.order
        open_runtime = runtime_opener(engine, context.storage, context.runtime)
        alone = len(wave) == 1 and _is_cut_by_rows(wave[0], order)
        new = new_groups(wave, self.hashing, self.rings, alone=alone)
        tasks = max(1, min(len(new.files), engine.cores))
        merging = self._merging
        reading = SliceReading(open_runtime, settings, merging, order, tasks)
        shares = shared_out(new.pieces, lambda piece: piece.size, engine.cores)
        bounds = self._bounds(reading, [piece.slice for piece in new.pieces])
        rows = engine.run(replace(reading, bounds=bounds), reading.output, shares)
        by = _sort_columns(order)
        uuid = context.runtime.ids.uuid
        if alone:
            rows = rows.persist()
            sorted_rows: Dataset = rows.shuffle_by_range(wave[0].outputs, *by)
            names = [new_file_id(uuid) for _ in range(wave[0].outputs)]
            payloads: list[dict[int, tuple[str, str]]] = [{0: (wave[0].partition, name)} for name in names]
        else:
            sorted_rows = rows.shuffle(TASK, tasks, SORT, *by)
            payloads = dealt([(partition, file_id or new_file_id(uuid)) for partition, file_id in new.files], tasks)
        task = self.steps.counted(ClusterTask(open_runtime, settings), engine)
        written = sorted_rows.map(task, WRITTEN, payloads)
        try:
            return Written.collect(written, settings.schema, key_changes=False)
        finally:
            written.release()
            rows.release()

    @property
    def _merging(self) -> Merging:
        memory = self.transaction.context.options.compaction.merge_memory
        return Merging(self.snapshot.config, self.snapshot.evolution, memory)

    @property
    def _memory(self) -> int:
        return self.transaction.context.options.clustering.memory

    def _is_streamed(self, group: ClusteringGroup) -> bool:
        """Say whether a group is written in bounded memory, on one core. On Spark the shuffle bounds the memory.

        A sorted group that certainly fits into memory is sorted at once, and then written on all cores.
        """
        fits = _is_cut_by_rows(group, self.work.order) and group.size * _INFLATED <= self._memory
        return self.how.engine.in_process and not fits

    def _streamed(self, groups: list[ClusteringGroup], settings: HandleSettings) -> Written:
        """Write the new files of groups in this process, in bounded memory."""
        transaction, engine, order = self.transaction, self.how.engine, self.work.order
        context = transaction.context
        open_runtime = runtime_opener(engine, context.storage, context.runtime)
        units = [unit for number, group in enumerate(groups) for unit in self._units(group, str(number))]
        shares = shared_out(units, lambda unit: unit.size, engine.cores)
        reading = SliceReading(open_runtime, settings, self._merging, order)
        reading = replace(reading, bounds=self._bounds(reading, [piece for group in groups for piece in group.slices]))
        scratch = f"{layout.markers(transaction.requested_time)}/sort-{transaction.nonce}"
        task = UnitTask(reading, _sort_columns(order), scratch, self._memory // (2 * len(shares)))
        written = engine.run(self.steps.counted(task, engine), WRITTEN, shares)
        try:
            return Written.collect(written, settings.schema, key_changes=False)
        finally:
            written.release()

    def _units(self, group: ClusteringGroup, name: str) -> list[Unit]:
        """Return the units to read: all of a group, or the slices of one new file."""
        uuid = self.transaction.context.runtime.ids.uuid
        alone = _is_cut_by_rows(group, self.work.order)
        new = new_groups([group], self.hashing, self.rings, alone=alone)
        if alone:
            files = {number: (group.partition, new_file_id(uuid)) for number in range(group.outputs)}
            return [Unit(name, files, new.pieces, cut=True)]
        files = {number: (path, file_id or new_file_id(uuid)) for number, (path, file_id) in enumerate(new.files)}
        if group.children:
            return [Unit(name, files, new.pieces)]
        return [
            Unit(f"{name}-{number}", {number: files[number]}, tuple(p for p in new.pieces if p.number == number))
            for number in files
        ]

    def _bounds(self, reading: SliceReading, pieces: list[FileSlice]) -> tuple[CurveBounds, ...]:
        """Return the bounds of the sort columns, for an order along a curve."""
        columns, engine = self.work.order.columns, self.how.engine
        if not columns or self.work.order.layout == LINEAR:
            return ()
        shares = shared_out(pieces, lambda piece: piece.size, engine.cores)
        sampled = engine.run(SampleTask(reading), reading.sampled, shares)
        try:
            return bounds_of(sampled.collect(), columns)
        finally:
            sampled.release()


def _sort_columns(order: RowOrder) -> tuple[str, ...]:
    return (PLACE,) if order.columns and order.layout != LINEAR else order.columns


def _is_cut_by_rows(group: ClusteringGroup, order: RowOrder) -> bool:
    """Say whether the sorted rows decide where the files of a group end."""
    return group.outputs > 1 and bool(order.columns) and not group.children


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """Task function: takes sorted rows, and yields rows of `WRITTEN`. The payload maps the number of each new file to its partition and file id."""

    open_runtime: OpenRuntime
    settings: HandleSettings

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number)
        file: NewFile | None = None
        open_number = -1
        try:
            for batch in batches:
                for number, rows in runs(iter((batch,)), SORT):
                    if file is None or number != open_number:
                        if file is not None:
                            yield from files_batch([file.close()], self.settings.schema)
                        file, open_number = self._open(context, task, number), number
                    for part in self._rows(rows):
                        file.adopt(part)
            if file is not None:
                yield from files_batch([file.close()], self.settings.schema)
        except BaseException:
            if file is not None:
                file.abandon()
            raise

    def _open(self, context: HandleContext, task: TaskInfo, number: int) -> NewFile:
        partition, file_id = task.payload[number]
        return NewFile.open(context, partition, file_id, None)

    def _rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        kept = without_slots(rows).select(self.settings.schema.names)
        yield from kept.to_batches(max_chunksize=max(1, self.settings.row_group_rows // 4))


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Task function: yields the record keys of new files (write stats), as `KEY_CHANGES`."""

    open_runtime: OpenRuntime

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_runtime().storage
        for stat in task.payload:
            with storage.open_input(stat.path) as source:
                for batch in BaseFileReader(source, stat.path, [RECORD_KEY]).iter_batches():
                    yield _came(batch.column(RECORD_KEY), stat)


def _came(keys: pa.Array, stat: WriteStat) -> pa.RecordBatch:
    count = len(keys)
    columns = [keys.cast(pa.string()), pa.repeat(stat.partition, count), pa.repeat(stat.file_id, count)]
    return pa.RecordBatch.from_arrays([*columns, pa.repeat(False, count)], schema=KEY_CHANGES)


def _by_partition(work: ClusteringWork) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for partition, file_id in sorted(work.file_groups):
        found.setdefault(partition, []).append(file_id)
    return {partition: tuple(file_ids) for partition, file_ids in found.items()}
