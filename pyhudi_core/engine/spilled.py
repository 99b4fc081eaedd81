"""The engine for rows that are files in a storage: tasks of this process, as in `engine.local`, but files hold the rows, not memory.

A task's rows are read from a file batch by batch, and functions that follow each other run as one stream. A persisted part is an Arrow IPC file in a
scratch folder, unless it is small, and a shuffle writes runs of rows: in the shuffle memory has one run for each core; after the shuffle it has the
rows of one task with one sort value. So memory is bounded by `SpilledRows.run_bytes` and by the memory of the functions.

The caller that gives the rows also removes the scratch folder, after the write: nothing is deleted here, and a repeated write makes new files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from pyhudi_core.engine.base import Dataset, Ints, Source, TaskFunction, TaskInfo, sorted_counts
from pyhudi_core.engine.local import LocalDataset, LocalEngine, Part, counted, row_order
from pyhudi_core.runtime.base import Executor

_IN_MEMORY = 64 << 10
"""The maximum bytes of a task's rows that stay in memory instead of a file."""
_TASK_BYTES = 32 << 20
"""Bytes of rows that a task may have in memory."""
_NULL = np.iinfo(np.int32).min
"""Stands for a null among tasks and sort values, because nulls come first: every task and every sort value is greater."""


class SpillFile(Protocol):
    """A file that is being written: it exists after it is closed, and never if it is aborted."""

    @property
    def stream(self) -> IO[bytes] | pa.NativeFile: ...

    def close(self) -> object: ...

    def abort(self) -> None: ...


class Files(Protocol):
    """The methods that are needed of a storage."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random reads."""
        ...

    def open_output(self, path: str) -> SpillFile:
        """Open a new file for writing."""
        ...


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder of a storage for the files of one write."""

    files: Files
    folder: str
    _numbers: Iterator[int] = field(default_factory=count)

    def kept(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Part:
        """Return the batches for repeated reads: few batches in memory, many in a file."""
        held: list[pa.RecordBatch] = []
        rest, size = iter(batches), 0
        for batch in rest:
            held.append(batch)
            size += batch.nbytes
            if size > _IN_MEMORY:
                return IpcPart(self.files, self.write(_emptied(held, rest), schema))
        return held

    def write(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
        """Write a new file with these batches; return its path."""
        path = f"{self.folder}/rows-{next(self._numbers)}.arrow"
        output = self.files.open_output(path)
        try:
            options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
            with pa.ipc.new_file(output.stream, schema, options=options) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except BaseException:
            output.abort()
            raise
        output.close()
        return path


def _emptied(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and hold no batch longer than needed."""
    held.reverse()
    while held:
        yield held.pop()
    yield from rest


@dataclass(frozen=True, slots=True)
class IpcPart:
    """The batches of an Arrow IPC file; each iteration reads it."""

    files: Files
    path: str

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self.files.open_input(self.path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


@dataclass(frozen=True, slots=True)
class SpilledRows:
    """Rows for a write that are not in memory.

    Attributes:
        schema: the schema of the rows.
        parts: the rows of each task; an iteration reads them.
        scratch: the folder for temporary files.
        run_bytes: the size of rows in memory in one run of a shuffle, on each core.
        bytes: the size of all rows in memory; 0 if unknown.
        count: the number of rows.
    """

    schema: pa.Schema
    parts: Sequence[Part]
    scratch: Scratch
    run_bytes: int = 16 << 20
    bytes: int = 0
    count: int = 0

    @property
    def tasks(self) -> int:
        """Return the number of tasks: each task has few rows, because a task of an index looks up the keys of all its rows together."""
        return -(-self.bytes // _TASK_BYTES)


@dataclass(frozen=True, slots=True)
class SpilledEngine:
    """Runs tasks on the given executor; ``rows`` give the scratch folder."""

    executor: Executor
    cores: int
    rows: SpilledRows

    @property
    def in_process(self) -> bool:
        return True

    def dataset(self, data: object) -> Dataset:
        """Return a dataset: the rows of `SpilledRows` are read when they are needed; other data is handled as by `LocalEngine`."""
        if isinstance(data, SpilledRows):
            return SpilledDataset(self, data.schema, lambda: list(data.parts))
        return LocalEngine(self.executor, self.cores).dataset(data)

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        return SpilledDataset(self, pa.schema([]), lambda: [[] for _ in payloads]).map(fn, schema, payloads)


@dataclass(frozen=True, slots=True)
class _Piped:
    """A part with a function; each iteration runs it."""

    part: Part
    fn: TaskFunction
    task: TaskInfo
    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.fn(self.task, iter(self.part)):
            yield batch.cast(self.schema) if batch.schema != self.schema else batch


@dataclass(slots=True)
class SpilledDataset:
    """Tasks of batches that are read from files, and computed when first needed. ``streams``: the rows of each task, not read yet."""

    engine: SpilledEngine
    schema: pa.Schema
    streams: Callable[[], list[Part]]
    _kept: list[Part] | None = field(default=None)
    _keep: bool = False

    @property
    def row_bytes(self) -> int:
        rows = self.engine.rows
        return rows.bytes // max(1, rows.count)

    def source(self) -> Source | None:
        return None

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        def streams() -> list[Part]:
            return [
                _Piped(part, fn, TaskInfo(number, payloads[number] if payloads else None), schema)
                for number, part in enumerate(self._parts())
            ]

        return SpilledDataset(self.engine, schema, streams)

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        if len(sort_by) > 1 or (sort_by and self.schema.field(sort_by[0]).type != pa.int64()):
            return self._in_memory().shuffle(by, tasks, *sort_by)

        def streams() -> list[Part]:
            exchange = _Exchange(self.engine.rows, self.schema, (by, *sort_by))
            parts, width = self._parts(), max(1, self.engine.executor.workers)
            # A file for each worker, not for each part, because a task opens all these files at once.
            shares = [chain.from_iterable(parts[n::width]) for n in range(min(width, len(parts)))]
            runs = self.engine.executor.map(exchange.sorted, shares)
            return [_TaskPart(self.engine.rows.scratch.files, runs, task) for task in range(tasks)]

        return SpilledDataset(self.engine, self.schema, streams)

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        return self._in_memory().shuffle_by_range(tasks, *by)

    def persist(self) -> Dataset:
        self._keep = True
        return self

    def release(self) -> None:
        self._kept = None

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        def counts(part: Part) -> Counter[tuple[str | None, ...]]:
            found: Counter[tuple[str | None, ...]] = Counter()
            for batch in part:
                found.update(counted(pa.Table.from_batches([batch]), columns))
            return found

        total: Counter[tuple[str | None, ...]] = Counter()
        for found in self.engine.executor.map(counts, self._parts()):
            total.update(found)
        return sorted_counts(total.items())

    def collect(self) -> pa.Table:
        parts = self.engine.executor.map(list, self._parts())
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def _parts(self) -> list[Part]:
        """Return the rows of each task: computed and persisted if requested, or computed when they are read."""
        if self._kept is not None:
            return self._kept
        streams = self.streams()
        if not self._keep:
            return streams
        scratch, schema = self.engine.rows.scratch, self.schema
        self._kept = self.engine.executor.map(lambda part: scratch.kept(part, schema), streams)
        return self._kept

    def _in_memory(self) -> LocalDataset:
        return LocalDataset(self.engine.executor, self.schema, lambda: self.engine.executor.map(list, self._parts()))


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A file of sorted runs of rows. Batch ``n`` has the rows of one run, one task and one sort value: ``tasks[n]`` and ``sorts[n]``."""

    path: str
    tasks: Ints
    sorts: Ints


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One shuffle: the column of the task, and the column of the sort value. Without a sort value, rows of a task come in any order."""

    rows: SpilledRows
    schema: pa.Schema
    by: Sequence[str]

    def sorted(self, part: Part) -> _Sorted:
        """Return the rows of a part in sorted runs."""
        keys: list[list[Ints]] = [[np.empty(0, np.int64)] for _ in range(2)]

        def pieces() -> Iterator[pa.RecordBatch]:
            for rows in self._runs(part):
                found = [rows.column(name).fill_null(_NULL).to_numpy().astype(np.int64) for name in self.by]
                differs = np.any([np.diff(key) != 0 for key in found], axis=0)
                edges = np.concatenate(([0], np.flatnonzero(differs) + 1, [len(rows)]))
                for number, known in enumerate(keys):
                    known.append(found[number][edges[:-1]] if number < len(found) else np.zeros_like(edges[:-1]))
                yield from (rows.slice(start, end - start) for start, end in pairwise(edges.tolist()))

        path = self.rows.scratch.write(pieces(), self.schema)
        return _Sorted(path, np.concatenate(keys[0]), np.concatenate(keys[1]))

    def _runs(self, part: Part) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in part:
            held.append(batch)
            size += batch.nbytes
            if size >= self.rows.run_bytes:
                yield from self._run(held)
                size = 0
        yield from self._run(held)

    def _run(self, held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the held rows as one sorted run, and empty the list of held batches."""
        table = pa.Table.from_batches(held, self.schema)
        held.clear()
        table = table.take(row_order(table, self.by))
        yield from table.combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class _TaskPart:
    """The rows of one task after a shuffle, in the order of their sort values; each iteration reads them from the files."""

    files: Files
    runs: Sequence[_Sorted]
    task: int

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        own = [np.flatnonzero(known.tasks == self.task) for known in self.runs]
        if not own:
            return
        sorts = np.concatenate([known.sorts[numbers] for known, numbers in zip(self.runs, own, strict=True)])
        places = np.repeat(np.arange(len(own)), [len(numbers) for numbers in own])
        order = np.lexsort((places, sorts))
        with ExitStack() as opened:
            readers: dict[int, Any] = {}
            for at, number in zip(places[order].tolist(), np.concatenate(own)[order].tolist(), strict=True):
                if at not in readers:
                    readers[at] = pa.ipc.open_file(opened.enter_context(self.files.open_input(self.runs[at].path)))
                yield readers[at].get_batch(number)
