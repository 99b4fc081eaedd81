"""Send each row to its bucket: known keys to their group, new ones by a hash of the key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.simple import NOT_FOUND
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.write.assignment import PartitionRoute, Plan, balance
from pyhudi_core.write.rows import GROUP, SORT, TASK

_PART_BITS = 20
_NOWHERE = -1


def bucket_of(sort: int) -> int:
    """The bucket's number in a sort value."""
    return sort >> _PART_BITS


def route(rows: Dataset, plan: Plan, cores: int) -> Dataset:
    """Shuffle rows to their buckets; each task gets its buckets one after the other."""
    tasks = max(1, min(len(plan.buckets), cores))
    placed = balance(plan.buckets, tasks)
    kept = [field for field in rows.schema if field.name != GROUP]
    schema = pa.schema([*kept, (TASK, pa.int32()), (SORT, pa.int64())])
    parts = np.array([bucket.parts for bucket in plan.buckets] or [1], np.int64)
    task_of = np.array([placed[number] for number in range(len(plan.buckets))] or [0], np.int32)
    return rows.map(_Route(plan.routes, parts, task_of, schema), schema).shuffle(TASK, tasks, SORT)


@dataclass(frozen=True, slots=True)
class _Route:
    """Task function: prepared rows, with or without the group column, to rows with task and sort value."""

    routes: dict[str, PartitionRoute]
    parts: npt.NDArray[np.int64]
    task_of: npt.NDArray[np.int32]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashing = self.parts.max() > 1 or any(len(route.inserts) > 1 for route in self.routes.values())
        for whole in batches:
            batch = whole
            if batch.num_rows == 0:
                continue
            hashes = hash_keys(batch.column(RECORD_KEY)) if hashing else np.zeros(len(batch), np.uint32)
            buckets = self._buckets(batch, hashes)
            going = buckets != _NOWHERE
            if not going.all():
                batch, hashes, buckets = batch.filter(pa.array(going)), hashes[going], buckets[going]
            part = (hashes >> 12).astype(np.int64) % self.parts[buckets]
            sort = pa.array((buckets << _PART_BITS) | part)
            kept = [batch.column(name) for name in self.schema.names[:-2]]
            yield pa.RecordBatch.from_arrays([*kept, pa.array(self.task_of[buckets]), sort], schema=self.schema)

    def _buckets(self, batch: pa.RecordBatch, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        codes = batch.column(PARTITION_PATH).dictionary_encode()
        indices = codes.indices.to_numpy()
        chosen = np.full(len(batch), _NOWHERE, np.int64)
        for code, partition in enumerate(codes.dictionary.to_pylist()):
            inserts = self.routes[partition].inserts
            if not inserts:
                continue
            here = np.flatnonzero(indices == code)
            numbers = np.array([number for number, _ in inserts], np.int64)
            if len(inserts) == 1:
                chosen[here] = numbers[0]
                continue
            edges = np.cumsum([weight for _, weight in inserts])
            chosen[here] = numbers[np.searchsorted(edges[:-1] / edges[-1], hashes[here] / 2**32, side="right")]
        if GROUP in batch.schema.names:
            groups = batch.column(GROUP).to_numpy()
            chosen = np.where(groups >= 0, groups.astype(np.int64), np.where(groups == NOT_FOUND, chosen, _NOWHERE))
        return chosen
