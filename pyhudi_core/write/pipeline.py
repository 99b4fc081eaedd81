"""From prepared rows to written files: plan, look up keys, route, write.

The second half of every operation that has rows. Nothing here touches the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, Engine, TaskInfo
from pyhudi_core.errors import DuplicateKeyError, EarlyConflictError
from pyhudi_core.index.simple import NOT_FOUND, IndexedFile, SimpleIndex
from pyhudi_core.merge.ordering import orders_by_event_time
from pyhudi_core.model.commit import OperationType, WriteStat
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import to_avro
from pyhudi_core.options import WriteOptions
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.early_conflict import early_check, stopped
from pyhudi_core.write.assignment import Plan, Planner, Sizing
from pyhudi_core.write.file_output import FileSettings
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.routing import route
from pyhudi_core.write.rows import GROUP, SORT, TASK
from pyhudi_core.write.task_world import WorldOpener, world_opener
from pyhudi_core.write.tasks import STATS, WriteTask, decode_stats

_ELSEWHERE = -2  # an insert's key that the table has already: refused, or dropped

_CREATING = frozenset({OperationType.BULK_INSERT, OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})
_CHECKING = frozenset({OperationType.INSERT, OperationType.BULK_INSERT})


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One attempt at writing prepared rows on top of a snapshot."""

    operation: OperationType
    engine: Engine
    prepared: Prepared
    snapshot: Snapshot
    transaction: Transaction

    @property
    def options(self) -> WriteOptions:
        return self.transaction.context.options

    def run(self) -> tuple[WriteStat, ...]:
        """Write the files; returns what was written. Raises `DuplicateKeyError` for inserts of existing keys."""
        plan = self._plan()
        opener = world_opener(self.engine, self.transaction.context.storage, self.transaction.context.runtime)
        rows = self.prepared.rows
        kept: Dataset | None = None
        try:
            if plan.lookup:
                rows = self._look_up(rows, plan, opener)
                if self.operation in _CHECKING and self.options.insert_drop_duplicates:
                    rows = rows.map(_only_new, rows.schema)
                elif self.operation in _CHECKING:
                    rows = kept = rows.persist()
                    self._refuse_existing(rows)
            routed = route(rows, plan, self.engine.cores)
            return decode_stats(routed.map(self._task(plan, opener), STATS).collect())
        except EarlyConflictError as error:
            context, own = self.transaction.context, self.transaction.requested_time
            raise stopped(context, own, self.operation, error, self._rewritten_bytes(plan)) from None
        finally:
            if kept is not None:
                kept.release()

    def _plan(self) -> Plan:
        options = self.options
        sizing = Sizing(options.max_file_size, options.small_file_limit, options.record_size_estimate)
        ids = self.transaction.context.runtime.ids
        planner = Planner(sizing, lambda: f"{ids.uuid()}-0")
        for partition, volume in self.prepared.volumes.items():
            slices = self.snapshot.view.slices(partition)
            if self.operation is OperationType.DELETE:
                planner.remove(partition, volume, slices)
            elif self.operation in _CREATING:
                check = slices if self.operation is OperationType.BULK_INSERT else ()
                planner.create(partition, volume, new_partition=not slices, find=check)
            else:
                planner.merge(partition, volume, slices, find=self.operation in _CHECKING)
        return planner.plan()

    def _rewritten_bytes(self, plan: Plan) -> float:
        """About how many bytes of base files the plan rewrites: where keys are looked up, no more groups than there are rows."""
        volumes = self.prepared.volumes
        total = 0.0
        for partition, chosen in plan.routes.items():
            sizes = [plan.buckets[number].base for number in chosen.groups.values()]
            share = min(1.0, volumes[partition].rows / len(sizes)) if sizes else 0.0
            total += share * sum(piece.base.size for piece in sizes if piece is not None)
        return total

    def _look_up(self, rows: Dataset, plan: Plan, opener: WorldOpener) -> Dataset:
        checking = self.operation in _CHECKING
        files = {
            partition: tuple(
                IndexedFile(piece.base.path, _ELSEWHERE if checking else plan.routes[partition].groups[piece.file_id])
                for piece in slices
            )
            for partition, slices in plan.lookup.items()
        }
        index = SimpleIndex(files, partial(_storage, opener), self.engine.cores, (GROUP, TASK, SORT))
        return index.find(rows)

    def _refuse_existing(self, rows: Dataset) -> None:
        """Inserts: no key may be there already."""
        counted = rows.map(_count_found, pa.schema([("found", pa.int64())])).collect()
        found = pc.sum(counted.column("found")).as_py() or 0
        if found:
            raise DuplicateKeyError(
                f"{found} rows of the batch have a record key that the table has already",
                table=self.transaction.context.table,
                hint="Nothing was published. Upsert them, or set hoodie.datasource.write.insert.drop.duplicates=true.",
            )

    def _task(self, plan: Plan, opener: WorldOpener) -> WriteTask:
        config = self.snapshot.config
        deletes = self.operation is OperationType.DELETE
        combine = self.options.combine_before_upsert
        unique = self.operation in _CHECKING and not self.options.combine_before_insert
        if self.operation is OperationType.UPSERT and not combine:
            unique = True
        ordering = config.ordering_fields if orders_by_event_time(config) and not deletes else ()
        return WriteTask(opener, self._settings(), plan.buckets, ordering, deletes, unique, self.options.max_file_size)

    def _settings(self) -> FileSettings:
        options = self.options
        schema = self.prepared.schema
        return FileSettings(
            requested_time=self.transaction.requested_time,
            schema=with_meta_fields(schema),
            avro_schema=to_avro(schema, self.snapshot.config.name, meta_fields=True),
            codec=options.compression,
            row_group_rows=options.row_group_rows,
            row_group_bytes=options.row_group_bytes,
            bloom_entries=options.bloom_entries,
            bloom_fpp=options.bloom_fpp,
            bloom_max_entries=options.bloom_max_entries,
            salt=self.transaction.context.protections.salt,
            early=early_check(self.transaction.context, self.transaction.start, self.transaction.requested_time),
        )


def _storage(opener: WorldOpener) -> Storage:
    return opener().storage


def _count_found(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = int((batch.column(GROUP).to_numpy() != NOT_FOUND).sum())
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], names=["found"])


def _only_new(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.equal(batch.column(GROUP), NOT_FOUND))


def replaced_groups(
    snapshot: Snapshot, partitions: Mapping[str, object] | tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The file ids of every visible group of the given partitions."""
    found = {partition: tuple(p.file_id for p in snapshot.view.slices(partition)) for partition in partitions}
    return {partition: ids for partition, ids in found.items() if ids}
