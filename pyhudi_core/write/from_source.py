"""Write rows straight from their source: where the index needs no look at a row, rows go to their tasks as they are, and become Arrow there.

The ordinary way prepares rows first, keeps them, and routes them by a function. An engine such as Spark would convert every column on each of these
steps. Here the driver knows from the counts (`Prepared.volumes`) which bucket each partition has; the engine brings rows to tasks by their partition
columns and a hash of their key, and one function prepares, checks and writes them.

The source is read twice, for the counts and for the rows. A row of a partition that was not counted ends the write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import ORDER, SORT, TASK, Dataset, Slot, TaskInfo
from pyhudi_core.errors import DataError
from pyhudi_core.model.meta_fields import PARTITION_PATH
from pyhudi_core.write.plan import Bucket, Plan, balance
from pyhudi_core.write.prepare import CountedSource, PrepareRows
from pyhudi_core.write.tasks import PART_BITS, WRITTEN, WriteTask


def suits(plan: Plan) -> bool:
    """Whether new rows of a partition are spread evenly over its buckets, which is how a source spreads them."""
    return all(len({weight for _, weight in own}) <= 1 for own in plan.inserts.values())


def write_from_source(counted: CountedSource, plan: Plan, cores: int, task: WriteTask) -> Dataset:
    """The files that tasks write, as rows of `WRITTEN`."""
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
                raise DataError(
                    "The data has rows of a partition that it did not have when its rows were counted",
                    hint="Nothing was published. The data changes while it is read: write it again, or cache() the DataFrame first.",
                )
            none = pa.nulls(len(rows), pa.int32())
            columns = [*rows.columns, none, sort]
            yield pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, TASK, SORT])
