"""The shuffle of many rows in this process, without a second copy of all of them.

One sort and one `take` over a table of many millions of rows reach into memory far apart for each row, and need all rows twice. Here each batch is
ordered by itself, so that its rows stay in the cache of the processor. The rows of a task are taken out of the batches when the task asks
for them, all rows with one sort value at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_LEAST_ROWS = 200_000
"""Fewer rows are sorted at once, which is as fast and has less to prepare."""
_PIECE = 64
"""The least average number of rows with one sort value in one batch; smaller pieces cost more than one large sort."""

_SMALL = 4_096
"""Pieces with fewer rows on average are joined: each later step costs something for each batch. Larger ones are not, because that copies all rows."""

_TAKEN_BYTES = 48 << 20
"""So many bytes of rows a task takes out of the batches at once, if more than one sort value fits: rows close to each other are read together."""

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A batch, its rows in the order of their codes, and where the rows of each code begin there. A code stands for a task and a sort value."""

    batch: pa.RecordBatch
    places: Places
    starts: npt.NDArray[np.int64]

    def take(self, codes: range) -> list[pa.RecordBatch]:
        """The rows of each of these codes."""
        bounds = self.starts[codes.start : codes.stop + 1]
        if bounds[0] == bounds[-1]:
            return [self.batch.slice(0, 0)] * len(codes)
        taken = self.batch.take(pa.array(self.places[bounds[0] : bounds[-1]]))
        return [taken.slice(start - bounds[0], end - start) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The sorted rows of one task. Each iteration reads them from the batches again, in the order of their sort codes."""

    batches: Sequence[Ordered]
    codes: range

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for codes in self._together():
            for pieces in zip(*(ordered.take(codes) for ordered in self.batches), strict=True):
                filled = [piece for piece in pieces if len(piece)]
                if len(filled) * _SMALL > sum(map(len, filled)):
                    filled = pa.Table.from_batches(filled).combine_chunks().to_batches()
                yield from filled

    def _together(self) -> Iterator[range]:
        """Codes whose rows are taken at once: one at least, and as many as fit."""
        rows = np.sum([np.diff(o.starts[self.codes.start : self.codes.stop + 1]) for o in self.batches], axis=0)
        width = sum(o.batch.nbytes for o in self.batches) / sum(len(o.batch) for o in self.batches)
        most, first, held = _TAKEN_BYTES / width, self.codes.start, 0
        for code, count in zip(self.codes, rows.tolist(), strict=True):
            if held and held + count > most:
                yield range(first, code)
                first, held = code, 0
            held += count
        yield range(first, self.codes.stop)


def task_rows(batches: Sequence[pa.RecordBatch], by: str, tasks: int, sort_by: Sequence[str]) -> list[TaskRows] | None:
    """The rows of each task, as `Dataset.shuffle` brings them together. None if one large sort suits them better.

    Args:
        batches: non-empty batches of one schema.
        by: the int32 column of the task.
        sort_by: only a single column of integers without nulls is taken here.
    """
    if sum(len(batch) for batch in batches) < _LEAST_ROWS or len(sort_by) != 1:
        return None
    sort = pa.chunked_array([batch.column(sort_by[0]) for batch in batches])
    if sort.null_count or not pa.types.is_integer(sort.type):
        return None
    encoded = sort.dictionary_encode()
    values = encoded.chunk(encoded.num_chunks - 1).dictionary  # the dictionary of the last chunk has the values of all
    if len(values) * len(batches) * _PIECE > len(sort):
        return None
    rank = np.empty(len(values), np.int64)
    rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    count = tasks * len(values)
    kind = np.uint16 if count <= np.iinfo(np.uint16).max else np.int64  # NumPy sorts 16 bits by radix
    ordered: list[Ordered] = []
    for batch, indices in zip(batches, encoded.chunks, strict=True):
        task = batch.column(by).to_numpy().astype(np.int64)
        codes = task * len(values) + rank[indices.indices.to_numpy()]
        starts = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=count))))
        ordered.append(Ordered(batch, np.argsort(codes.astype(kind), kind="stable").astype(np.int32), starts))
    return [TaskRows(ordered, range(task * len(values), (task + 1) * len(values))) for task in range(tasks)]
