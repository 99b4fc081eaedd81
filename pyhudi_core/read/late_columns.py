"""Read a base file in two parts: first the columns of the condition (the deciding columns), which select the rows, and then the other columns of
these rows. A condition often selects few or no rows of a row group. Then the other columns are decoded up to the last selected row, or not at all.

Invariant: the rows, their order and their values are those of a read of all columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.internal_schema import FileNames, in_file
from pyhudi_core.model.schema_cast import conform

_NUMBER = "\0 number of the row in its row group"
_FEW_ROWS = 1_000
_BATCH, _SHORT_BATCH = 131_072, 32_768
"""The batch sizes.

Batches are short if few rows are selected, so that less is decoded after the last selected row. Even shorter batches would cost more than they save.
"""


_HELD_BYTES = 64 << 20
"""How many bytes of deciding columns are held before the other columns of their rows are read."""


@dataclass(slots=True)
class _Window:
    """The current batch of the other columns; None after the last. ``start``: the number of its first row."""

    batches: Iterator[pa.RecordBatch]
    start: int = 0
    batch: pa.RecordBatch | None = field(init=False)

    def __post_init__(self) -> None:
        self.batch = next(self.batches, None)

    def next(self) -> None:
        """Go to the next batch."""
        self.start += len(self.batch or ())
        self.batch = next(self.batches, None)


@dataclass(frozen=True, slots=True)
class TwoParts:
    """One open base file, read separately for the deciding and the other columns. Both schemas have the table's names; ``names`` are the file's."""

    path: str
    first: BaseFileReader
    deciding: pa.Schema
    second: BaseFileReader
    others: pa.Schema
    names: FileNames | None

    def rows_of(
        self, row_group: int, keep: Callable[[pa.RecordBatch], pa.RecordBatch], *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the selected rows of a row group. ``keep`` selects rows of a batch of the deciding columns; it must preserve one more column.

        Raises `CorruptBaseFileError` if the columns have different numbers of rows.
        """
        others: _Window | None = None
        kept, held, at = [], 0, 0
        for batch in self.first.iter_batches([row_group], use_threads=use_threads):
            part = conform(batch, self.deciding, self.names)
            rows = keep(part.append_column(_NUMBER, pa.array(np.arange(at, at + len(batch)))))
            at += len(batch)
            if len(rows):
                kept.append(rows)
                held += rows.nbytes
            if held > _HELD_BYTES:
                others = others or _Window(self.second.iter_batches([row_group], use_threads=use_threads))
                yield from self._rows(kept, others, at)
                kept, held = [], 0
        if kept:
            size = _SHORT_BATCH if sum(map(len, kept)) <= _FEW_ROWS else _BATCH
            others = others or _Window(self.second.iter_batches([row_group], use_threads=use_threads, batch_rows=size))
            yield from self._rows(kept, others, at)

    def _rows(self, kept: list[pa.RecordBatch], others: _Window, expected: int) -> Iterator[pa.RecordBatch]:
        for rows in kept:
            numbers, done = rows.column(_NUMBER).to_numpy(), 0
            while done < len(numbers):
                if others.batch is None:
                    raise self._uneven(others.start, expected)
                end = done + int(np.searchsorted(numbers[done:], others.start + len(others.batch)))
                if end > done:
                    yield from self._beside(
                        rows.slice(done, end - done), others.batch, numbers[done:end] - others.start
                    )
                done = end
                if done < len(numbers):
                    others.next()

    def _beside(
        self, rows: pa.RecordBatch, window: pa.RecordBatch, numbers: np.typing.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        known = rows.select(self.deciding.names)
        taken = window if len(numbers) == len(window) else window.take(pa.array(numbers))
        schema = pa.schema([*self.deciding, *self.others])
        for part in self.second.spread(taken):  # texts of rows that are not selected are never made
            columns = conform(part, self.others, self.names).columns
            yield pa.RecordBatch.from_arrays([*known.slice(0, len(part)).columns, *columns], schema=schema)
            known = known.slice(len(part))

    def _uneven(self, rows: int, expected: int) -> CorruptBaseFileError:
        return CorruptBaseFileError(
            f"Columns of a row group have different numbers of rows: {rows:,} and {expected:,}",
            path=self.path,
            hint="Restore the file from a copy, or roll back to a savepoint before it was written",
        )


def two_parts(
    reader: BaseFileReader,
    path: str,
    schema: pa.Schema,
    deciding: Collection[str],
    given: Collection[str],
    names: FileNames | None,
) -> TwoParts | None:
    """Return a reader of the columns of ``schema`` in two parts; None if the file has no deciding columns, no other columns, or cannot be read this
    way.

    ``given`` are columns that are not read from the file.
    """
    first = pa.schema([item for item in schema if item.name in deciding])
    rest = pa.schema([item for item in schema if item.name not in deciding])
    columns, others = (in_file(names, [n for n in part.names if n not in given]) for part in (first, rest))
    present = set(reader.schema.names)
    if present.isdisjoint(columns) or present.isdisjoint(others):
        return None
    chosen, left = reader.select(columns), reader.select(others, numbered=True)
    if chosen is None or left is None:
        return None
    return TwoParts(path, chosen, first, left, rest, names)
