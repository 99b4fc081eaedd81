"""Write rows directly from their source: if the index does not look up rows, rows go to their tasks unchanged, and become Arrow there.

Normally rows are prepared, kept, and then routed by a function. An engine such as Spark would convert every column in each of these steps. Here the
driver knows from the counts (`Prepared.volumes`) the buckets of each partition; the engine sends rows to tasks by their partition columns and a hash
of their key, and one function prepares, checks and writes them.

If no key may occur twice, and each file group is large enough, each group has its own task (`_one_group_a_task`). Then Spark sorts nothing.

The source is read twice, for the counts and for the rows. A row of a partition that was not counted ends the write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import ORDER, SORT, TASK, Dataset, Slot, TaskInfo
from pyhudi_core.errors import DataError
from pyhudi_core.model.meta_fields import PARTITION_PATH
from pyhudi_core.write.plan import Bucket, Plan, balance
from pyhudi_core.write.prepare import CountedSource, PrepareRows
from pyhudi_core.write.tasks import PART_BITS, WRITTEN, WriteTask

_ROWS_OF_A_TASK = 50_000
"""A new file group with at least this number of rows gets its own task: it is worth the fixed cost."""
_MOST_KEYS = 1_500_000
"""The maximum number of rows whose keys may be in the memory of a task."""


def suits(plan: Plan) -> bool:
    """Say whether new rows of a partition are spread evenly over its buckets, as a source spreads rows."""
    return all(len({weight for _, weight in own}) <= 1 for own in plan.inserts.values())


def write_from_source(counted: CountedSource, plan: Plan, cores: int, task: WriteTask) -> Dataset:
    """Return the files that tasks write, as rows of `WRITTEN`."""
    task = replace(task, distinct=counted.distinct)
    if (task.unique or counted.distinct) and all(plan.inserts.get(partition) for partition in counted.partitions):
        alone = _one_each(plan, cores, distinct=counted.distinct)
        if alone is not None:
            return _one_group_a_task(counted, plan, alone, task)
    tasks = max(1, min(len(plan.buckets), cores))
    placed = balance(plan.buckets, tasks)
    slots = {
        partition: [_slot(plan.buckets[number], placed) for number, _ in own] for partition, own in plan.inserts.items()
    }
    payloads: list[dict[int, Bucket]] = [{} for _ in range(tasks)]
    for bucket in plan.buckets:
        payloads[placed[bucket.number]][bucket.number] = bucket
    places = [slots.get(partition, []) for partition in counted.partitions]
    rows = counted.source.scattered(counted.values, places, counted.key, tasks)
    return rows.map(_WriteRaw(counted.prepare, task), WRITTEN, payloads)


def _one_each(plan: Plan, cores: int, *, distinct: bool) -> list[Bucket] | None:
    """Return the buckets, largest first, if each bucket is a new file group and large enough for its own task."""
    rows = sum(bucket.expected for bucket in plan.buckets)
    few = 0 < len(plan.buckets) <= max(cores, rows // _ROWS_OF_A_TASK)
    if few and all(_is_plain(bucket, distinct=distinct) for bucket in plan.buckets):
        return sorted(plan.buckets, key=lambda bucket: (-bucket.expected, bucket.number))
    return None


def _is_plain(bucket: Bucket, *, distinct: bool) -> bool:
    """Say whether the rows of a new group are written in their given order. Its keys are kept to compare them, unless they are known to be
    distinct.
    """
    fits = distinct or bucket.expected <= _MOST_KEYS
    return bucket.base is None and not bucket.hashed and not bucket.appends and fits


def _one_group_a_task(counted: CountedSource, plan: Plan, buckets: Sequence[Bucket], task: WriteTask) -> Dataset:
    """Return the files, with a task for each file group: its rows need no sort, and no column for their destination."""
    places = {bucket.number: place for place, bucket in enumerate(buckets)}
    tasks_of = [[places[number] for number, _ in plan.inserts[partition]] for partition in counted.partitions]
    rows = counted.source.placed(counted.values, tasks_of, counted.key, len(buckets))
    return rows.map(_WriteGroup(counted.prepare, task), WRITTEN, buckets)


@dataclass(frozen=True, slots=True)
class _WriteGroup:
    """Task function. In: the rows of one new file group, in any order. Out: `WRITTEN`. Only the keys are kept until the end, to compare them,
    unless they are known to be distinct."""

    prepare: PrepareRows
    write: WriteTask

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bucket: Bucket = task.payload
        prepared = (self._prepared(batch, bucket) for batch in batches if batch.num_rows)
        yield from self.write.in_pieces(task, bucket, _pieces(prepared))

    def _prepared(self, batch: pa.RecordBatch, bucket: Bucket) -> pa.RecordBatch:
        rows = self.prepare.batch(batch, pa.nulls(len(batch), pa.int64()))
        if not pc.all(pc.equal(rows.column(PARTITION_PATH), bucket.partition)).as_py():
            raise _not_counted()
        return rows


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches combined until they are large enough for a step of a writer."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _ROWS_OF_A_TASK:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _not_counted() -> DataError:
    return DataError(
        "The data has rows of a partition that it did not have when its rows were counted",
        hint="Nothing was published. The data changes while it is read: write it again, or cache() the DataFrame first.",
    )


def _slot(bucket: Bucket, placed: Mapping[int, int]) -> Slot:
    return Slot(placed[bucket.number], bucket.number << PART_BITS, bucket.parts)


@dataclass(frozen=True, slots=True)
class _WriteRaw:
    """Task function. In: rows of the source in their tasks. Out: `WRITTEN`."""

    prepare: PrepareRows
    write: WriteTask

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.write(task, self._prepared(task, batches))

    def _prepared(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buckets: Mapping[int, Bucket] = task.payload
        for batch in batches:
            if batch.num_rows == 0:
                continue
            rows = self.prepare.batch(batch, batch.column(ORDER))
            sort = batch.column(SORT)
            numbers, places = np.unique(sort.to_numpy() >> PART_BITS, return_inverse=True)
            expected = [buckets[number].partition if number in buckets else None for number in numbers.tolist()]
            same = pc.equal(pa.array(expected, pa.string()).take(pa.array(places)), rows.column(PARTITION_PATH))
            if not pc.all(pc.fill_null(same, False)).as_py():
                raise _not_counted()
            none = pa.nulls(len(rows), pa.int32())
            columns = [*rows.columns, none, sort]
            yield pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, TASK, SORT])
