"""The global indexes that read files: find a key in the files of all partitions (specification, "Indexes", GLOBAL_SIMPLE and GLOBAL_BLOOM).

Rows are shuffled by a hash of their key, so that all rows of a key, in any partitions, are in one task. Each task with rows looks into all files; key
ranges and bloom filters exclude most of them. The cost grows with the table; the cost of a record index does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi_core.engine.base import TASK, Dataset, TaskInfo
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import NOT_FOUND, TAGS, Tagged
from pyhudi_core.index.elsewhere import OneRowAKey
from pyhudi_core.index.key_files import FileLookUp, IndexedFiles, LogsOf, no_logs
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class TableFilesIndex:
    """Finds keys in the files of the table.

    Args:
        slices: the newest slices of all partitions.
        open_storage: opens the table's storage inside a task.
        tasks: the number of tasks.
        one_row: reduces rows with one key to one row.
        look_up: does the look-up in files.
        logs: the logs of a slice that may contain keys which its base file does not contain.
    """

    slices: Callable[[], Sequence[FileSlice]]
    open_storage: Callable[[], Storage]
    tasks: int
    one_row: OneRowAKey
    look_up: FileLookUp
    logs: LogsOf = no_logs

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows, as `Index.tag`. Every row is looked up, because its key may be in any partition."""
        found = self.slices()
        searched = _Searched(
            tuple(piece.partition for piece in found),
            tuple(piece.file_id for piece in found),
            tuple(IndexedFiles.of(piece, self.logs) for piece in found),
        )
        slotted = pa.schema([*rows.schema, (TASK, pa.int32())])
        tagged = pa.schema([*rows.schema, *TAGS])
        shuffled = rows.map(_Slot(self.tasks), slotted).shuffle(TASK, self.tasks)
        find = _Find(self.open_storage, tagged, self.one_row, self.look_up)
        return Tagged(shuffled.map(find, tagged, [searched] * self.tasks))


@dataclass(frozen=True, slots=True)
class _Searched:
    """The file groups of a table: partition, file id and files of each."""

    partitions: tuple[str, ...]
    file_ids: tuple[str, ...]
    files: tuple[IndexedFiles, ...]


@dataclass(frozen=True, slots=True)
class _Slot:
    """Task function: chooses the task of each row by its key."""

    tasks: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            slots = (hash_keys(batch.column(RECORD_KEY)) % self.tasks).astype(np.int32)
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(slots)], names=[*batch.schema.names, TASK])


@dataclass(frozen=True, slots=True)
class _Find:
    """Task function: adds `TAGS`. The payload is `_Searched`."""

    open_storage: Callable[[], Storage]
    schema: pa.Schema
    one_row: OneRowAKey
    look_up: FileLookUp

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        rows = self.one_row.of(pa.Table.from_batches(given).drop_columns([TASK]))
        searched: _Searched = task.payload
        found, positions = self.look_up.find(self.open_storage(), searched.files, rows.column(RECORD_KEY))
        places = pa.array(found, mask=found == NOT_FOUND)
        tags = [pa.array(texts, pa.string()).take(places) for texts in (searched.partitions, searched.file_ids)]
        tags.append(pa.array(positions, pa.int64(), mask=positions == NOT_FOUND))
        yield from pa.Table.from_arrays([*rows.columns, *tags], schema=self.schema).combine_chunks().to_batches()
