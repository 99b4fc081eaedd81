"""The indexes that read files: simple and bloom, in the row's own partition (specification, "Indexes").

Rows are shuffled by partition, and by a hash of the key for parallelism. So the keys of a file are read once for each slot. `key_files` does the
look-up in a file. A task has only the files of its own slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo, runs, slotted, with_slots, without_slots
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import NOT_FOUND, TAGS, Tagged
from pyhudi_core.index.key_files import FileLookUp, IndexedFiles, LogsOf, no_logs
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """A partition to search: file ids, and the files of each."""

    path: str
    file_ids: tuple[str, ...]
    files: tuple[IndexedFiles, ...]

    @classmethod
    def of(cls, partition: str, slices: tuple[FileSlice, ...], logs: LogsOf = no_logs) -> IndexedPartition:
        """Return the partition of the newest slices."""
        files = (IndexedFiles.of(piece, logs) for piece in slices)
        return cls(partition, tuple(piece.file_id for piece in slices), tuple(files))


@dataclass(frozen=True, slots=True)
class FilesIndex:
    """Finds keys in the files of the row's own partition.

    Args:
        slices: returns the newest slices of a partition; called only for the partitions of the batch.
        open_storage: opens the table's storage inside a task.
        tasks: the number of tasks.
        look_up: does the look-up in files.
        logs: returns the logs of a slice that may contain keys that are not in its base file.
        shares: the maximum number of tasks for the rows of one partition. Each of them opens the files of the partition. 0 means `tasks`.
    """

    slices: Callable[[str], tuple[FileSlice, ...]]
    open_storage: Callable[[], Storage]
    tasks: int
    look_up: FileLookUp = FileLookUp()
    logs: LogsOf = no_logs
    shares: int = 0

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows, as `Index.tag`. A partition with one file group needs no look-up, unless the answer must be exact."""
        whole: dict[str, str] = {}
        searched: list[IndexedPartition] = []
        for partition in sorted(partitions):
            found = self.slices(partition)
            if len(found) == 1 and partition not in exact:
                whole[partition] = found[0].file_id
            elif found:
                searched.append(IndexedPartition.of(partition, found, self.logs))
        return Tagged(self._search(rows, searched) if searched else rows, whole)

    def _search(self, rows: Dataset, searched: list[IndexedPartition]) -> Dataset:
        spread = min(self.shares or self.tasks, max(1, -(-self.tasks // len(searched))))
        tasks = min(self.tasks, spread * len(searched))
        numbers = {partition.path: number for number, partition in enumerate(searched)}
        tagged = pa.schema([*rows.schema, *TAGS])
        payloads: list[dict[int, IndexedPartition]] = [{} for _ in range(tasks)]
        for number, partition in enumerate(searched):
            for share in range(spread):
                payloads[(number * spread + share) % tasks][number] = partition
        slot = _Slot(numbers, tasks, spread)
        shuffled = rows.map(slot, slotted(rows.schema)).shuffle(TASK, tasks, SORT)
        return shuffled.map(_Find(self.open_storage, tagged, self.look_up), tagged, payloads)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Task function: chooses the task of each row. Rows of partitions without files are spread evenly, with the sort value -1."""

    numbers: Mapping[str, int]
    tasks: int
    spread: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column(PARTITION_PATH).dictionary_encode()
            known = [self.numbers.get(value, NOT_FOUND) for value in codes.dictionary.to_pylist()]
            sort = np.array(known, np.int64)[codes.indices.to_numpy()]
            hashes = hash_keys(batch.column(RECORD_KEY)).astype(np.int64)
            tasks = np.where(sort == NOT_FOUND, hashes, sort * self.spread + hashes % self.spread) % self.tasks
            yield with_slots(batch, tasks, sort)


@dataclass(frozen=True, slots=True)
class _Find:
    """Task function: adds `TAGS`. The payload has the task's partitions by their numbers."""

    open_storage: Callable[[], Storage]
    schema: pa.Schema
    look_up: FileLookUp

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_storage()
        for number, run in runs(batches, SORT):
            rows = without_slots(run)
            if number == NOT_FOUND:
                tags = [pa.nulls(len(rows), field.type) for field in TAGS]
            else:
                tags = self._tags(storage, task.payload[number], rows.column(RECORD_KEY))
            yield from pa.Table.from_arrays([*rows.columns, *tags], schema=self.schema).combine_chunks().to_batches()

    def _tags(self, storage: Storage, partition: IndexedPartition, keys: pa.ChunkedArray) -> list[pa.Array]:
        found, positions = self.look_up.find(storage, partition.files, keys)
        places = pa.array(found, mask=found == NOT_FOUND)
        own = pa.array([partition.path]).take(pa.array(np.zeros(len(found), np.int32), mask=found == NOT_FOUND))
        file_ids = pa.array(partition.file_ids, pa.string()).take(places)
        return [own, file_ids, pa.array(positions, pa.int64(), mask=positions == NOT_FOUND)]
