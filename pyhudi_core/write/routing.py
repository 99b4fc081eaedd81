"""Send each row to its bucket: a tagged row to the bucket of its file group, a new one by a hash of its key.

One shuffle. The number of tasks is that of the buckets, at most one for each core. The function of the map before the shuffle knows the numbers
of the buckets only; what a bucket is goes to its own task, as the task's payload (`Routed.buckets`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import TAG_FILE_ID, TAG_PARTITION, TAGS, Group
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.write.plan import Bucket, Plan, balance

_PART_BITS = 20
_NOWHERE = -1


def bucket_of(sort: int) -> int:
    """The bucket's number in a sort value."""
    return sort >> _PART_BITS


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows in the tasks that write them, and for each task its buckets by their numbers."""

    rows: Dataset
    buckets: list[dict[int, Bucket]]


def route(rows: Dataset, plan: Plan, cores: int) -> Routed:
    """Shuffle rows to their buckets; each task gets its buckets one after the other."""
    tasks = max(1, min(len(plan.buckets), cores))
    placed = balance(plan.buckets, tasks)
    kept = [field for field in rows.schema if field.name not in TAGS.names]
    schema = pa.schema([*kept, (TASK, pa.int32()), (SORT, pa.int64())])
    parts = np.array([bucket.parts for bucket in plan.buckets] or [1], np.int64)
    task_of = np.array([placed[number] for number in range(len(plan.buckets))] or [0], np.int32)
    own: list[dict[int, Bucket]] = [{} for _ in range(tasks)]
    for bucket in plan.buckets:
        own[placed[bucket.number]][bucket.number] = bucket
    routing = _Route(plan.groups, plan.inserts, parts, task_of, schema)
    return Routed(rows.map(routing, schema).shuffle(TASK, tasks, SORT), own)


@dataclass(frozen=True, slots=True)
class _Route:
    """Task function: rows with or without tags to rows with task and sort value; a row without a bucket is dropped."""

    groups: dict[Group, int]
    inserts: dict[str, tuple[tuple[int, float], ...]]
    parts: npt.NDArray[np.int64]
    task_of: npt.NDArray[np.int32]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashing = self.parts.max() > 1 or any(len(buckets) > 1 for buckets in self.inserts.values())
        for whole in batches:
            batch = whole
            if batch.num_rows == 0:
                continue
            hashes = hash_keys(batch.column(RECORD_KEY)) if hashing else np.zeros(len(batch), np.uint32)
            buckets = self._untagged(batch, hashes)
            if TAG_FILE_ID in batch.schema.names:
                buckets = self._tagged(batch, buckets)
            going = buckets != _NOWHERE
            if not going.all():
                batch, hashes, buckets = batch.filter(pa.array(going)), hashes[going], buckets[going]
            part = (hashes >> 12).astype(np.int64) % self.parts[buckets]
            sort = pa.array((buckets << _PART_BITS) | part)
            kept = [batch.column(name) for name in self.schema.names[:-2]]
            yield pa.RecordBatch.from_arrays([*kept, pa.array(self.task_of[buckets]), sort], schema=self.schema)

    def _untagged(self, batch: pa.RecordBatch, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """The bucket of each row, as if no file group held its key."""
        codes = batch.column(PARTITION_PATH).dictionary_encode()
        indices = codes.indices.to_numpy()
        chosen = np.full(len(batch), _NOWHERE, np.int64)
        for code, partition in enumerate(codes.dictionary.to_pylist()):
            inserts = self.inserts.get(partition, ())
            if not inserts:
                continue
            here = np.flatnonzero(indices == code)
            numbers = np.array([number for number, _ in inserts], np.int64)
            if len(inserts) == 1:
                chosen[here] = numbers[0]
                continue
            edges = np.cumsum([weight for _, weight in inserts])
            chosen[here] = numbers[np.searchsorted(edges[:-1] / edges[-1], hashes[here] / 2**32, side="right")]
        return chosen

    def _tagged(self, batch: pa.RecordBatch, untagged: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bucket of its file group for each row that has one."""
        partitions = batch.column(TAG_PARTITION).dictionary_encode()
        files = batch.column(TAG_FILE_ID).dictionary_encode()
        has_tag = files.is_valid().to_numpy(zero_copy_only=False)
        if not has_tag.any():
            return untagged
        width = len(files.dictionary)
        pairs = partitions.indices.to_numpy(zero_copy_only=False)[has_tag].astype(np.int64) * width
        pairs += files.indices.to_numpy(zero_copy_only=False)[has_tag].astype(np.int64)
        different, inverse = np.unique(pairs, return_inverse=True)
        paths, file_ids = partitions.dictionary.to_pylist(), files.dictionary.to_pylist()
        numbers = [self.groups[paths[pair // width], file_ids[pair % width]] for pair in different.tolist()]
        chosen = untagged.copy()
        chosen[has_tag] = np.array(numbers, np.int64)[inverse]
        return chosen
