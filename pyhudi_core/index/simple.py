"""The simple index: find the file group of a key by reading the key columns of a partition's base files.

Specification, "Indexes" (SIMPLE). Rows are brought together by partition (and by a hash of the key, for parallelism), so that each file's
keys are read once a slot; files whose key range cannot hold any of a slot's keys are passed over by their footers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.engine.grouping import runs
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.storage.base import Storage

NOT_FOUND = -1


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A base file to look into, and the number that its keys get."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """Finds groups for the rows of a dataset.

    Args:
        files: by partition; rows of other partitions keep `NOT_FOUND`.
        open_storage: opens the table's storage inside a task.
        tasks: how many tasks to use.
        columns: names of the columns to use for group number (int32, added), task (int32) and sort value (int64).
    """

    files: Mapping[str, tuple[IndexedFile, ...]]
    open_storage: Callable[[], Storage]
    tasks: int
    columns: tuple[str, str, str]

    def find(self, rows: Dataset) -> Dataset:
        """The rows with the group column added."""
        group, task, sort = self.columns
        slotted = pa.schema([*rows.schema, (task, pa.int32()), (sort, pa.int64())])
        found = pa.schema([*rows.schema, (group, pa.int32())])
        return rows.map(self._slot, slotted).shuffle(task, self.tasks, sort).map(self._find, found)

    def _slot(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = {partition: number for number, partition in enumerate(sorted(self.files))}
        spread = max(1, -(-self.tasks // max(1, len(numbers))))
        for batch in batches:
            codes = batch.column(PARTITION_PATH).dictionary_encode()
            known = [numbers.get(value, -1) for value in codes.dictionary.to_pylist()]
            sort = np.array(known, np.int64)[codes.indices.to_numpy()]
            hashes = hash_keys(batch.column(RECORD_KEY)).astype(np.int64)
            slots = np.where(sort < 0, hashes, sort * spread + hashes % spread) % self.tasks
            columns = [*batch.columns, pa.array(slots.astype(np.int32)), pa.array(sort)]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *self.columns[1:]])

    def _find(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_storage()
        partitions = sorted(self.files)
        for number, run in runs(batches, self.columns[2]):
            rows = run.drop_columns(list(self.columns[1:]))
            if number < 0:
                groups = np.full(len(rows), NOT_FOUND, np.int32)
            else:
                groups = look_up(storage, self.files[partitions[number]], rows.column(RECORD_KEY))
            yield from rows.append_column(self.columns[0], pa.array(groups)).combine_chunks().to_batches()


def look_up(storage: Storage, files: tuple[IndexedFile, ...], keys: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """The number of the file that holds each key, or `NOT_FOUND`."""
    encoded = keys.combine_chunks().dictionary_encode()
    unique = encoded.dictionary
    low, high = pc.min_max(unique).as_py().values()
    found = np.full(len(unique), NOT_FOUND, np.int32)
    for file in files:
        with storage.open_input(file.path) as source:
            reader = BaseFileReader(source, file.path, columns=[RECORD_KEY])
            footer = reader.footer()
            lowest, highest = footer.sure_min_key, footer.sure_max_key
            if (highest is not None and highest < low) or (lowest is not None and lowest > high):
                continue
            for batch in reader.iter_batches():
                places = pc.index_in(batch.column(0), value_set=unique).drop_null().to_numpy()
                found[places] = file.number
    return found[encoded.indices.to_numpy()]
