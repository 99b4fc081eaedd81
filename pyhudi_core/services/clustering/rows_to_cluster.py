"""Read the slices of a clustering: each row with the number of its new file, and with its position on the curve if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi_core.engine.base import TaskInfo, slotted, with_slots
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.model.meta_fields import FILE_NAME, RECORD_KEY
from pyhudi_core.services.clustering.clustering_plan import LINEAR, RowOrder
from pyhudi_core.services.clustering.new_groups import Ints, Piece
from pyhudi_core.services.clustering.row_curve import CurveBounds, places, sample
from pyhudi_core.write.handles.base import HandleSettings, OpenRuntime

PLACE = "_pyhudi_place"
"""The column (int64) for the position of a row on the curve."""


@dataclass(frozen=True, slots=True)
class SliceReading:
    """Task function: reads slices (`Piece`), and adds to each row the number of its new file and its position on the curve."""

    open_runtime: OpenRuntime
    settings: HandleSettings
    merging: Merging
    order: RowOrder
    tasks: int = 1
    bounds: tuple[CurveBounds, ...] = ()

    @property
    def output(self) -> pa.Schema:
        schema = slotted(self.settings.schema)
        return schema if self.order.layout == LINEAR else schema.append(pa.field(PLACE, pa.int64()))

    @property
    def sampled(self) -> pa.Schema:
        """The schema of the batches that `SampleTask` yields."""
        return pa.schema([*(self.settings.schema.field(name) for name in self.order.columns), ("weight", pa.int64())])

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.rows_of(task.payload)

    def rows_of(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of slices, one slice after the other; batches of `output`."""
        storage, schema = self.open_runtime().storage, self.settings.schema
        place = schema.get_field_index(FILE_NAME)
        wanted = schema.remove(place)
        for piece in pieces:
            for batch in merged_batches(storage, piece.slice, self.merging, wanted, schema):
                rows = batch.select(wanted.names).cast(wanted)
                # Every row gets the name of its new file, so the old name is neither read nor sorted.
                columns = [*rows.columns[:place], pa.nulls(len(rows), schema.field(place).type), *rows.columns[place:]]
                yield self._placed(pa.RecordBatch.from_arrays(columns, schema=schema), piece)

    def _placed(self, rows: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        numbers: Ints = np.full(len(rows), piece.number, np.int64)
        if piece.by_hash is not None:
            numbers = piece.by_hash.of_keys(rows.column(RECORD_KEY), piece.slice.path)
        found = with_slots(rows, numbers % self.tasks, numbers)
        if self.order.layout == LINEAR:
            return found
        at = places(rows, self.order.columns, self.bounds, self.order.layout)
        return pa.RecordBatch.from_arrays([*found.columns, at], schema=self.output)


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Task function: yields a sample of the sort columns of each slice."""

    reading: SliceReading

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        storage, schema, columns = reading.open_runtime().storage, reading.settings.schema, list(reading.order.columns)
        wanted = pa.schema([schema.field(name) for name in columns])
        for piece in task.payload:
            found = merged_batches(storage, piece, reading.merging, wanted, schema)
            rows = pa.Table.from_batches([batch.select(columns).cast(wanted) for batch in found], wanted)
            yield from sample(rows, columns).cast(reading.sampled).to_batches()
