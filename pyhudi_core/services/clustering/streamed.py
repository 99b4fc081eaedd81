"""Write new file groups in this process, one unit after the other, in bounded memory.

Unsorted rows are written in the order in which they are read; sorted rows pass through a sort that spills.

A unit is a set of slices that must be read together: the slices of one new file, of a group whose sorted rows determine where its files end, or of a
group of buckets. Memory holds the sort, the logs of one slice, and one row group of each open file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TaskInfo, runs, without_slots
from pyhudi_core.engine.local import row_order
from pyhudi_core.services.clustering.new_groups import Piece
from pyhudi_core.services.clustering.rows_to_cluster import SliceReading
from pyhudi_core.storage.base import Storage
from pyhudi_core.write.handles.base import HandleContext
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.tasks import files_batch


@dataclass(frozen=True, slots=True)
class Unit:
    """Slices that are read together, and their new files (partition, file id) by number. ``cut``: the sorted rows are cut into files; otherwise each
    row has the number of its file.
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


# --- sort rows in bounded memory: sorted runs of rows are kept as Arrow IPC files in a scratch folder of the storage, and merged
# Rows that fit into the bound stay in memory. Otherwise memory holds one run while it is sorted, and later one batch of each run.

_BATCHES, _LEAST_BATCH = 64, 64 << 10
"""The number of batches in a full run, and the minimum bytes of a batch. A merge holds one batch of each run, and the merged batch."""


@dataclass(slots=True)
class SpilledSort:
    """One sort: `add` the rows, then read them by `rows`, once. `remove` deletes its files.

    Attributes:
        storage: has the scratch folder.
        folder: where the runs are written; the folder has no other files.
        schema: the schema of the rows.
        by: the sort columns; nulls come first and NaN last.
        most_bytes: the maximum size of the rows in one run, as Arrow counts it.
        count: the number of added rows.
    """

    storage: Storage
    folder: str
    schema: pa.Schema
    by: Sequence[str]
    most_bytes: int
    count: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _runs: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are written to the scratch folder when a run is full."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        self.count += len(batch)
        if self._bytes >= self.most_bytes:
            self._spill()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        if not self._runs:
            yield from self._sorted_run()
            return
        if self._held:
            self._spill()
        with ExitStack() as stack:
            sources = [stack.enter_context(self.storage.open_input(path)) for path in self._runs]
            yield from merged([iter(pa.ipc.open_stream(source)) for source in sources], self.schema, self.by)

    def remove(self) -> None:
        """Remove the runs."""
        self._held = []
        if self._runs:
            self.storage.delete_many(self._runs)

    def _sorted_run(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in memory, sorted, in small batches, and release them."""
        table = pa.Table.from_batches(self._held, self.schema).combine_chunks()
        width = max(1, self._bytes // max(1, len(table)))
        self._held, self._bytes = [], 0
        order = row_order(table, self.by)
        step = max(1, max(_LEAST_BATCH, self.most_bytes // _BATCHES) // width)
        for start in range(0, len(table), step):
            yield from table.take(order.slice(start, step)).combine_chunks().to_batches()

    def _spill(self) -> None:
        path = f"{self.folder}/{len(self._runs)}.arrow"
        self._runs.append(path)
        output = self.storage.open_output(path)
        try:
            with pa.ipc.new_stream(
                output.stream, self.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
            ) as writer:
                for batch in self._sorted_run():
                    writer.write_batch(batch)
        except BaseException:
            output.abort()
            raise
        output.close()


def merged(runs: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema, by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sorted runs in one order. Each step sorts one batch of every run together. Rows up to the smallest last row of these batches
    come next, because no run has smaller rows left.
    """
    empty = schema.empty_table()
    heads = [empty] * len(runs)
    left = [True] * len(runs)
    while True:
        for number, run in enumerate(runs):
            while left[number] and not len(heads[number]):
                batch = next(run, None)
                left[number] = batch is not None
                heads[number] = empty if batch is None else pa.Table.from_batches([batch])
        filled = [number for number in range(len(runs)) if len(heads[number])]
        if not filled:
            return
        ends = np.cumsum([len(heads[number]) for number in filled])
        together = pa.concat_tables([heads[number] for number in filled]).combine_chunks()
        order = row_order(together, by)
        places = order.to_numpy()
        rank = np.empty(len(places), np.int64)
        rank[places] = np.arange(len(places))
        cut = int(rank[ends - 1].min()) + 1
        yield from together.take(order.slice(0, cut)).combine_chunks().to_batches()
        taken = np.bincount(np.searchsorted(ends, places[:cut], side="right"), minlength=len(filled))
        for number, count in zip(filled, taken.tolist(), strict=True):
            heads[number] = heads[number].slice(count)
