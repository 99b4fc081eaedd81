"""Write new file groups in this process, one unit after the other, in bounded memory.

Unsorted rows are written in the order in which they are read; sorted rows pass through a sort that spills (``services/clustering/spilled_sort.py``).

A unit is a set of slices that must be read together: the slices of one new file, of a group whose sorted rows decide where its files end, or of a
group of buckets. The sort, the logs of one slice, and one row group of each open file bound the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TaskInfo
from pyhudi_core.engine.grouping import runs, without_slots
from pyhudi_core.services.clustering.new_groups import Piece
from pyhudi_core.services.clustering.rows_to_cluster import SliceReading
from pyhudi_core.services.clustering.spilled_sort import SpilledSort
from pyhudi_core.write.handles.base import HandleContext
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.tasks import files_batch


@dataclass(frozen=True, slots=True)
class Unit:
    """Slices that are read together, and their new files: by number (partition, file id).

    ``cut``: the sorted rows are cut into files; otherwise each row has the number of its file.
    """

    name: str
    files: dict[int, tuple[str, str]]
    pieces: tuple[Piece, ...]
    cut: bool = False

    @property
    def size(self) -> int:
        """Bytes of the slices' files."""
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class UnitTask:
    """Task function: writes the units of its payload one after the other, and yields rows of `WRITTEN`.

    Args:
        by: the sort columns; none if the rows stay as they are.
        scratch: the folder of the sort's files.
        most_bytes: the maximum size of rows in memory, in each task.
    """

    reading: SliceReading
    by: tuple[str, ...]
    scratch: str
    most_bytes: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units: Sequence[Unit] = task.payload
        for unit in units:
            yield from self._write(unit, task)

    def _write(self, unit: Unit, task: TaskInfo) -> Iterator[pa.RecordBatch]:
        read = self.reading.rows_of(unit.pieces)
        if not self.by:
            yield from self._files(unit, task, read)
            return
        runtime = self.reading.open_runtime()
        by = self.by if unit.cut or len(unit.files) == 1 else (SORT, *self.by)
        folder = f"{self.scratch}/{unit.name}"
        sort = SpilledSort(runtime.storage.without_fsync(), folder, self.reading.output, by, self.most_bytes)
        try:
            for batch in read:
                sort.add(batch)
            rows = _cut(sort.rows(), ceil(sort.count / len(unit.files))) if unit.cut else sort.rows()
            yield from self._files(unit, task, rows)
        finally:
            sort.remove()

    def _files(self, unit: Unit, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows to their files. A sorted file is closed when a row of the next file comes."""
        settings = self.reading.settings
        context = HandleContext(settings, self.reading.open_runtime(), task.number)
        files: dict[int, NewFile] = {}
        try:
            for batch in batches:
                for number, rows in _by_file(batch, is_sorted=bool(self.by)):
                    if number not in files:
                        if self.by:
                            yield from self._closed(files)
                        files[number] = NewFile.open(context, *unit.files[number], None)
                    kept = without_slots(rows).select(settings.schema.names)
                    for part in kept.to_batches(max_chunksize=max(1, settings.row_group_rows // 4)):
                        files[number].adopt(part)
            yield from self._closed(files)
        except BaseException:
            for file in files.values():
                file.abandon()
            raise

    def _closed(self, files: dict[int, NewFile]) -> Iterator[pa.RecordBatch]:
        while files:
            number = next(iter(files))
            done = files[number].close()
            del files[number]
            yield from files_batch([done], self.reading.settings.schema)


def _by_file(batch: pa.RecordBatch, *, is_sorted: bool) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows for each file."""
    numbers = pc.unique(batch.column(SORT)).to_pylist()
    if is_sorted or len(numbers) == 1:
        yield from runs(iter((batch,)), SORT)
        return
    for number in numbers:
        yield number, pa.Table.from_batches([batch.filter(pc.equal(batch.column(SORT), number))])


def _cut(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Assign sorted rows to numbered files: ``most`` rows for each file but the last."""
    seen = 0
    for batch in batches:
        start = 0
        while start < len(batch):
            number, room = divmod(seen, most)
            part = batch.slice(start, most - room)
            place = part.schema.get_field_index(SORT)
            yield part.set_column(place, part.schema.field(place), pa.repeat(pa.scalar(number, pa.int64()), len(part)))
            seen += len(part)
            start += len(part)
