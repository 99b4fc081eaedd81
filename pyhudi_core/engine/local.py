"""The engine without Spark: Arrow tables in this process, with tasks on the given executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, Source, TaskFunction, TaskInfo, sorted_counts
from pyhudi_core.engine.local_source import LocalSource
from pyhudi_core.engine.pandas_frames import is_pandas, pandas_table
from pyhudi_core.errors import ConfigError, SchemaMismatchError
from pyhudi_core.runtime.base import Executor

_BATCH_ROWS = 65_536
_MANY_ROWS = 200_000
"""The minimum number of rows of a source. Rows of a source are prepared in the task that writes them, which does not pay for fewer rows."""
_SOURCE_ROWS = 1 << 19
"""The maximum rows of a batch of a source. Each batch should have many rows of each task."""
_HOW = {
    "Series": "give a DataFrame, such as series.to_frame()",
    "list": "Make a table of the rows first: pyarrow.Table.from_pylist(rows), or pyarrow.Table.from_batches(batches).",
    "generator": "Make a stream of the batches: pyarrow.RecordBatchReader.from_batches(schema, batches).",
    "ndarray": "Give the columns names first: pandas.DataFrame(array, columns=[...]).",
    "StructArray": "Make a batch of it: pyarrow.RecordBatch.from_struct_array(array).",
    "Scanner": "Read it: scanner.to_reader().",
    **dict.fromkeys(
        ("FileSystemDataset", "InMemoryDataset", "UnionDataset"), "Read it: dataset.scanner().to_reader()."
    ),
    "dict": "Make a table of the columns first: pyarrow.table(columns).",
    "HudiTable": "Give the rows of the table: table.scan(), or table.scan(where=...).",
    **dict.fromkeys(
        ("str", "PosixPath"),
        "Read the file first, such as pyarrow.parquet.read_table(path); or: pyhudi import LOCATION FILES.",
    ),
}
"""The conversion of other kinds of data to rows, by the name of the type."""

Part = Iterable[pa.RecordBatch]
"""The batches of a task; they can be iterated over more than once."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs tasks on the given executor."""

    executor: Executor
    cores: int = 1

    @property
    def in_process(self) -> bool:
        return True

    def dataset(self, data: object) -> Dataset:
        """Accept any object with the Arrow C stream interface, and pandas; its batches are distributed over the cores."""
        table = as_table(data)
        batches = [batch for batch in table.to_batches(max_chunksize=_BATCH_ROWS) if batch.num_rows]
        width = max(1, min(self.cores, len(batches)))
        bounds = np.linspace(0, len(batches), width + 1).astype(int)
        parts: list[Part] = [batches[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
        return LocalDataset(self.executor, table.schema, lambda: parts, given=table)

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        return LocalDataset(self.executor, pa.schema([]), lambda: [[] for _ in payloads]).map(fn, schema, payloads)


@dataclass(slots=True)
class LocalDataset:
    """Tasks of batches, computed at the first use. ``given``: the rows of the user; then nothing is computed."""

    executor: Executor
    schema: pa.Schema
    compute: Callable[[], list[Part]]
    given: pa.Table | None = None
    _kept: list[Part] | None = field(default=None)
    _keep: bool = False

    @property
    def row_bytes(self) -> int:
        return 0

    def source(self) -> Source | None:
        if self.given is None or len(self.given) < _MANY_ROWS:
            return None

        def make(parts: Sequence[Part], schema: pa.Schema) -> Dataset:
            return LocalDataset(self.executor, schema, lambda: list(parts))

        batches = [batch for batch in self.given.to_batches(max_chunksize=_SOURCE_ROWS) if batch.num_rows]
        return LocalSource(batches, self.schema, make)

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        def run(item: tuple[int, Part]) -> Part:
            number, part = item
            task = TaskInfo(number, payloads[number] if payloads else None)
            made = list(fn(task, iter(part)))
            return [batch.cast(schema) if batch.schema != schema else batch for batch in made]

        return LocalDataset(self.executor, schema, lambda: self.executor.map(run, list(enumerate(self.parts()))))

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        def exchange() -> list[Part]:
            parts = self.parts()
            many = task_rows([batch for part in parts for batch in part if batch.num_rows], by, tasks, sort_by)
            if many is not None:
                return list(many)
            table = self._table(parts)
            table = table.take(row_order(table, (by, *sort_by)))
            return _cut(table, np.searchsorted(table.column(by).to_numpy(), np.arange(tasks + 1)))

        return LocalDataset(self.executor, self.schema, exchange)

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        def exchange() -> list[Part]:
            table = self.collect()
            table = table.take(row_order(table, by))
            starts = _starts_of_runs(table.select(list(by)))
            wanted = np.linspace(0, len(table), tasks + 1).astype(int)[1:-1]
            places = np.searchsorted(starts, wanted)
            return _cut(table, np.unique([0, *np.append(starts, len(table))[places], len(table)]))

        return LocalDataset(self.executor, self.schema, exchange)

    def persist(self) -> Dataset:
        self._keep = True
        return self

    def release(self) -> None:
        self._kept = None

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        return sorted_counts(counted(self.collect(), columns).items())

    def collect(self) -> pa.Table:
        return self._table(self.parts())

    def _table(self, parts: Iterable[Part]) -> pa.Table:
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def parts(self) -> list[Part]:
        """Return the batches of each task; computes them unless they are cached."""
        if self._kept is not None:
            return self._kept
        parts = self.compute()
        if self._keep:
            self._kept = parts
        return parts


def counted(rows: pa.Table, columns: Sequence[str]) -> dict[tuple[str | None, ...], int]:
    """Return the number of rows for each combination of values of these columns."""
    groups = rows.select(columns).group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
    *values, numbers = (groups.column(name).to_pylist() for name in (*columns, "count_all"))
    return dict(zip(zip(*values, strict=True), numbers, strict=True))


def row_order(table: pa.Table, by: Sequence[str]) -> pa.Array:
    """Return the positions of the rows in sorted order, nulls first and NaN last."""
    columns: list[pa.ChunkedArray] = []
    for name in by:
        column = table.column(name)
        if column.null_count:
            columns.append(pc.is_valid(column))
        if pa.types.is_floating(column.type):
            odd = pc.fill_null(pc.is_nan(column), False)
            columns += [odd, pc.if_else(odd, pa.scalar(0, column.type), column)]
        else:
            columns.append(column)
    names = [f"{number}" for number in range(len(columns))]
    return pc.sort_indices(pa.Table.from_arrays(columns, names), sort_keys=[(name, "ascending") for name in names])


def _starts_of_runs(sorted_rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the positions where runs of rows with equal values begin."""
    count = len(sorted_rows)
    begins = np.arange(count) == 0
    for column in sorted_rows.columns:
        values = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(begins)


def _cut(table: pa.Table, edges: npt.NDArray[np.int64]) -> list[Part]:
    pieces = (table.slice(start, end - start) for start, end in zip(edges[:-1], edges[1:], strict=True))
    return [
        [batch for batch in piece.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS) if len(batch)]
        for piece in pieces
    ]


@contextmanager
def readable(kind: str = "") -> Iterator[None]:
    """Convert Arrow's errors while it reads a user's rows of a type with this name. Errors of the source and a lack of memory are not converted."""
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, TypeError) as error:
        if kind == "Series":
            raise ConfigError(f"A Series is one column, not rows: {_HOW['Series']}") from error
        raise SchemaMismatchError(
            f"The data cannot be read as Arrow: {'; '.join(map(str, error.args))}",
            hint="Look at where the data comes from; each column takes values of one type.",
        ) from error


def streamed(data: object) -> object:
    """Return a ``LazyFrame`` of Polars as a stream that Polars computes during the read; other data unchanged."""
    kind = type(data)
    if kind.__name__ != "LazyFrame" or not kind.__module__.startswith("polars."):
        return data
    frame: Any = data
    schema = pa.table(frame.head(0).collect()).schema
    # Older releases of Polars have no stream.
    parts = frame.collect_batches(chunk_size=_BATCH_ROWS) if hasattr(frame, "collect_batches") else (frame.collect(),)
    return pa.RecordBatchReader.from_batches(schema, (batch for part in parts for batch in pa.table(part).to_batches()))


def as_table(data: object, known: pa.Schema | None = None) -> pa.Table:
    """Return data with the Arrow C stream interface as one table. See `pandas_frames` for pandas DataFrames, and for ``known``, the columns of the
    table.

    Raises `ConfigError` for other data, and `SchemaMismatchError` if Arrow cannot convert the values.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    data = streamed(data)
    with readable(type(data).__name__):
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if is_pandas(type(data)):
            return pandas_table(data, known)
        if is_pandas(type(data), "Series"):
            raise ConfigError(f"A Series is one column, not rows: {_HOW['Series']}")
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    raise ConfigError(
        f"Data of type {type(data).__module__}.{type(data).__qualname__} cannot be written",
        hint=_HOW.get(type(data).__name__)
        or "Give a PySpark DataFrame, or anything with the Arrow C stream interface: a pyarrow Table, RecordBatch or "
        "RecordBatchReader, a pandas or polars DataFrame, a DuckDB relation.",
    )


_LEAST_ROWS = 200_000
"""Below this number, all rows are sorted at once, which is simpler and not slower."""
_PIECE = 64
"""The minimum average number of rows with one sort value in one batch. For smaller pieces one large sort is faster."""

_SMALL = 4_096
"""Pieces with fewer rows on average are joined, because each later step has a cost for each batch.

Larger pieces are not joined, because a join copies all rows.
"""

_TAKEN_BYTES = 48 << 20
"""The maximum bytes of rows that a task takes out of the batches at once, if they have several sort values.

Rows close to each other are read together.
"""

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A batch, its rows in the order of their codes, and the beginning of each code's rows. A code stands for a task and a sort value."""

    batch: pa.RecordBatch
    places: Places
    starts: npt.NDArray[np.int64]

    def take(self, codes: range) -> list[pa.RecordBatch]:
        """Return the rows of each of these codes."""
        bounds = self.starts[codes.start : codes.stop + 1]
        if bounds[0] == bounds[-1]:
            return [self.batch.slice(0, 0)] * len(codes)
        taken = self.batch.take(pa.array(self.places[bounds[0] : bounds[-1]]))
        return [taken.slice(start - bounds[0], end - start) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The sorted rows of one task. Each iteration reads them again from the batches, in the order of their sort codes."""

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
        """Yield the codes whose rows are taken at once: at least one code, and as many codes as fit."""
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
    """Return the rows of each task after a `Dataset.shuffle`; None if one large sort is faster.

    Args:
        batches: non-empty batches of one schema.
        by: the int32 column of the task.
        sort_by: the sort columns; here only a single column of integers without nulls is possible.
    """
    if sum(len(batch) for batch in batches) < _LEAST_ROWS or len(sort_by) != 1:
        return None
    sort = pa.chunked_array([batch.column(sort_by[0]) for batch in batches])
    if sort.null_count or not pa.types.is_integer(sort.type):
        return None
    encoded = sort.dictionary_encode()
    values = encoded.chunk(encoded.num_chunks - 1).dictionary  # the last dictionary has the values of all chunks
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
