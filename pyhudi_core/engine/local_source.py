"""Many rows of this process as a `Source`: a task takes its rows unchanged out of the batches, one batch after the other.

So rows are prepared only in the task that writes them, and keys and partition paths are not moved in addition to their columns. Memory holds two
numbers for each row: the values of its partition columns, and its position among the rows of its task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import ORDER, SORT, TASK, Dataset, Ints, KeyColumns, Slot, SourceCounts
from pyhudi_core.model.schema_cast import refuse_invalid

Part = Iterable[pa.RecordBatch]
MakeDataset = Callable[[Sequence[Part], pa.Schema], Dataset]
"""Returns a dataset of these tasks, whose batches have this schema."""

_MOST_CODES = 1 << 20
"""The maximum number of combinations of values that are counted in an array. More combinations are sorted first."""
_SORTED_ROWS = 65_536
_PART_SHIFT = 12
"""The bits of a hash that choose a part differ from the bits that choose a task."""


@dataclass(slots=True)
class LocalSource:
    """Non-empty batches of this process. Call `counts` first, because the other methods take its values."""

    batches: Sequence[pa.RecordBatch]
    schema: pa.Schema
    make: MakeDataset
    _codes: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def keyless(self) -> bool:
        return True

    def counts(self, by: Sequence[str], key: KeyColumns) -> SourceCounts:
        """Count rows, as `Source.counts`. Raises `SchemaMismatchError` for values that are not valid, before a task writes rows."""
        for batch in self.batches:
            refuse_invalid(batch, self.schema.names)
        fields = pa.schema([self.schema.field(name) for name in by])
        codes: Ints = np.zeros(sum(map(len, self.batches)), np.int64)
        columns: list[pa.Array] = []
        rows = np.array([len(codes)], np.int64)
        for name in by:
            encoded = self._column(name).dictionary_encode(null_encoding="encode")
            values = encoded.chunk(
                encoded.num_chunks - 1
            ).dictionary  # the last dictionary has the values of all chunks
            codes *= len(values)
            codes += np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
            different, codes, rows = _numbered(codes, len(rows) * len(values))
            columns = [column.take(pa.array(different // len(values))) for column in columns]
            columns.append(values.take(pa.array(different % len(values))))
        self._codes = codes
        batch = pa.RecordBatch.from_arrays(columns, schema=fields)
        without, ambiguous = (sum(count(batch, key) for batch in self.batches) for count in (_without_key, _ambiguous))
        distinct = key.distinct(self._column(key.names[0])) if len(key.names) == 1 else not key.names
        return SourceCounts(batch, tuple(rows.tolist()), without, ambiguous, distinct)

    def scattered(
        self, values: pa.RecordBatch, slots: Sequence[Sequence[Slot]], key: KeyColumns, tasks: int
    ) -> Dataset:
        """Send rows to tasks, as `Source.scattered`."""
        width = max(map(len, slots))
        hashed = width > 1 or any(slot.parts > 1 for own in slots for slot in own)
        places = np.cumsum([0, *map(len, slots)])
        flat = [slot for own in slots for slot in own]
        number, sort, parts = (
            np.array([getattr(slot, name) for slot in flat], np.int64) for name in ("task", "sort", "parts")
        )
        sizes, starts = np.diff(places), places[:-1]
        schema = pa.schema([*self.schema, (ORDER, pa.int64()), (SORT, pa.int64()), (TASK, pa.int32())])

        def slotted() -> Iterator[pa.RecordBatch]:
            first = 0
            for batch in chain.from_iterable(map(_small, self.batches)):
                codes = self._codes[first : first + len(batch)]
                order = np.arange(first, first + len(batch), dtype=np.int64)
                first += len(batch)
                hashes = _hashes(batch, key) if hashed else np.zeros(len(batch), np.int64)
                if not sizes.all():
                    going = sizes[codes] > 0
                    batch, codes = batch.filter(pa.array(going)), codes[going]  # noqa: PLW2901
                    order, hashes = order[going], hashes[going]
                chosen = starts[codes] + hashes % sizes[codes]
                sorts = sort[chosen] + (hashes >> _PART_SHIFT) % parts[chosen]
                added = [pa.array(order), pa.array(sorts), pa.array(number[chosen].astype(np.int32))]
                yield pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)

        return self.make([list(slotted())], schema).shuffle(TASK, tasks, SORT)

    def placed(self, values: pa.RecordBatch, tasks_of: Sequence[Sequence[int]], key: KeyColumns, tasks: int) -> Dataset:
        """Send rows to tasks, as `Source.placed`; the rows of a task keep their order."""
        sizes = np.array([len(own) for own in tasks_of])
        starts = np.cumsum(sizes) - sizes
        flat = np.array([task for own in tasks_of for task in own], np.int64)
        kind = np.uint16 if tasks <= np.iinfo(np.uint16).max else np.int64  # NumPy sorts 16 bits by radix
        taken: list[_Taken] = []
        first = 0
        for batch in self.batches:
            codes = self._codes[first : first + len(batch)]
            first += len(batch)
            chosen = starts[codes]
            if sizes.max() > 1:
                chosen = chosen + _hashes(batch, key) % sizes[codes]
            task_of = flat[chosen]
            places = np.argsort(task_of.astype(kind), kind="stable").astype(np.int32)
            ends = np.cumsum(np.bincount(task_of, minlength=tasks))
            taken.append(_Taken(batch, places, np.concatenate(([0], ends))))
        return self.make([_TaskRows(taken, task) for task in range(tasks)], self.schema)

    def _column(self, name: str) -> pa.ChunkedArray:
        return pa.chunked_array([batch.column(name) for batch in self.batches], self.schema.field(name).type)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A batch, the places of its rows in the order of the tasks, and the beginning of each task among these places."""

    batch: pa.RecordBatch
    places: npt.NDArray[np.int32]
    starts: Ints


@dataclass(frozen=True, slots=True)
class _TaskRows:
    """The rows of one task; each iteration takes them out of the batches again."""

    batches: Sequence[_Taken]
    task: int

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for taken in self.batches:
            start, end = taken.starts[self.task], taken.starts[self.task + 1]
            if start == 0 and end == len(taken.batch):
                yield taken.batch
            elif start < end:
                yield pc.take(taken.batch, pa.array(taken.places[start:end]), boundscheck=False)


def _small(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the batch in pieces that can be sorted in the processor's cache."""
    return [batch.slice(start, _SORTED_ROWS) for start in range(0, len(batch), _SORTED_ROWS)]


def _numbered(codes: Ints, most: int) -> tuple[Ints, Ints, Ints]:
    """Return three things: the different codes, sorted; for each row the position of its code among the sorted codes; and the number of rows of each
    code.

    Codes are below ``most``.
    """
    if most > _MOST_CODES:
        different, places, rows = np.unique(codes, return_inverse=True, return_counts=True)
        return different, places, rows
    counts = np.bincount(codes, minlength=most)
    different = np.flatnonzero(counts)
    place_of = np.zeros(most, np.int64)
    place_of[different] = np.arange(len(different))
    return different, codes if len(different) == most else place_of[codes], counts[different]


def _without_key(batch: pa.RecordBatch, key: KeyColumns) -> int:
    """Return the number of rows without a key."""
    if not key.names:
        return 0
    missing = reduce(pc.and_, (_missing(batch.column(name)) for name in key.names))
    return int(pc.sum(missing).as_py() or 0)


def _ambiguous(batch: pa.RecordBatch, key: KeyColumns) -> int:
    """Return the number of ambiguous values in key columns."""
    texts = [
        batch.column(name) for name in key.names if key.ambiguous and pa.types.is_string(batch.schema.field(name).type)
    ]
    return sum(pc.sum(pc.match_substring_regex(text, key.ambiguous)).as_py() or 0 for text in texts)


def _missing(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return column.is_null()
    return pc.fill_null(pc.equal(pc.binary_length(column), 0), True)


def _hashes(batch: pa.RecordBatch, key: KeyColumns) -> Ints:
    return key.hashes(batch).astype(np.int64)
