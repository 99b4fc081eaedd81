"""Where Arrow functions run: a small dataset interface, with a local and a Spark engine behind it.

The write pipeline is written once over it. Functions take the batches of one task and yield batches; they must be picklable, hold no open storage
and keep no state between tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TASK = "_pyhudi_task"
"""Column (int32) of the task that a shuffle sends a row to."""

SORT = "_pyhudi_sort"
"""Column (int64) by which a shuffle sorts the rows of a task."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """Which task a function runs in: a number from 0, the same for every attempt at the same task, and what `Dataset.map` was given for it."""

    number: int
    payload: Any = None


TaskFunction = Callable[[TaskInfo, Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns that are a key together.

    The key of one column is its value. That of several is the text ``name:value,name:value``, with ``null`` and ``empty`` where a value is missing.
    Rows with the same key always go to the same slot. Several columns may be strings and integers only. ``hashes`` hashes the keys of a batch, for an
    engine that has the rows as Arrow. ``ambiguous`` is a regular expression of texts that no key column may have; empty if all are allowed.
    ``distinct`` says of a column of Arrow whether it is known that no value occurs twice.
    """

    names: tuple[str, ...]
    null: str
    empty: str
    hashes: Callable[[pa.RecordBatch], npt.NDArray[np.uint32]]
    ambiguous: str = ""
    distinct: Callable[[pa.ChunkedArray], bool] = lambda _column: False


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for rows: a task, and the values of `SORT` from ``sort`` to ``sort + parts - 1``. A hash of the key chooses one of them."""

    task: int
    sort: int
    parts: int = 1


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """How many rows have each combination of values of some columns, and how many rows of all have no key, or an ambiguous one.

    ``distinct``: it is known that no key occurs twice. False says nothing.
    """

    values: pa.RecordBatch
    rows: tuple[int, ...]
    without_key: int
    ambiguous: int = 0
    distinct: bool = False


class Source(Protocol):
    """Rows that cost little to read and are the same each time, so that they are read twice instead of being kept.

    They are counted, then brought to their tasks as they are, where the function that follows prepares them. Rows outside Python become Arrow there.
    """

    @property
    def keyless(self) -> bool:
        """Whether rows may have no key columns: then ``hashes`` spreads them."""
        ...

    def counts(self, by: Sequence[str], key: KeyColumns) -> SourceCounts:
        """Count the rows by the columns ``by``, which hold no floating-point numbers. A row has no key if all key columns are null or empty.

        The other calls are given the values that this one returned.
        """
        ...

    def scattered(
        self, values: pa.RecordBatch, slots: Sequence[Sequence[Slot]], key: KeyColumns, tasks: int
    ) -> Dataset:
        """Bring the rows to tasks: a row with the values of row ``i`` of ``values`` goes to one of ``slots[i]``, chosen by a hash of its key; with
        no slots it is left out.

        Within a task the rows come sorted by the column `SORT` (int64), which is added; it is -1 for values that are not there. `ORDER` (int64) is
        added too: the order of the rows in the source.
        """
        ...

    def placed(self, values: pa.RecordBatch, tasks_of: Sequence[Sequence[int]], key: KeyColumns, tasks: int) -> Dataset:
        """Bring the rows to tasks, as they are and in any order: a row with the values of row ``i`` of ``values`` goes to one of the tasks
        ``tasks_of[i]`` (one at least), chosen by a hash of its key. Rows with values that are not there may go anywhere.
        """
        ...


ORDER = "_pyhudi_order"
"""Column (int64) of the order of rows in a `Source`."""


class Dataset(Protocol):
    """Rows in tasks. Nothing runs before `collect` or `persist`."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def row_bytes(self) -> int:
        """The bytes of a row in memory on average; 0 if they are not known."""
        ...

    def source(self) -> Source | None:
        """Return the same rows as a `Source`, if they are one."""
        ...

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        """Apply a function to each task's batches; the result has the given schema.

        ``payloads`` has one picklable value for each task, after a shuffle. A task unpickles its own payload only; none is in the function's closure.
        """
        ...

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        """Bring rows together: the int32 column ``by`` says to which of the tasks (0 to tasks - 1) a row goes.

        Within a task the rows come sorted by the columns ``sort_by``, nulls first and NaN last; the order of rows with equal values is free.
        """
        ...

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        """Sort all rows by columns, nulls first and NaN last, and cut them into tasks of about the same size, at most ``tasks``.

        The tasks one after the other hold the rows in order. Rows with equal values of all columns are in one task, and their order is free.
        The rows are read twice (the first time to choose the cuts), so `persist` them if they cost more than a sort.
        """
        ...

    def persist(self) -> Dataset:
        """Return the same rows, computed at most once from now on; to be given back with `release`."""
        ...

    def release(self) -> None:
        """Give back what `persist` keeps and what payloads took; safe to call on any dataset, and twice. The dataset is not used afterwards."""
        ...

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        """Say how many rows have each combination of values of string columns, sorted, nulls first. Raises as `collect`."""
        ...

    def collect(self) -> pa.Table:
        """Run, and bring all rows here. Errors of this package that a task raised are raised as they were."""
        ...


class Engine(Protocol):
    """Makes datasets from what users hand in."""

    @property
    def in_process(self) -> bool:
        """Whether tasks run in this process, with its storage and its ids."""
        ...

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    def dataset(self, data: object) -> Dataset:
        """Return the data as a dataset. Raises `ConfigError` for data it cannot take."""
        ...

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        """Return a dataset of tasks, one for each payload, without incoming rows: what the function yields in each of them."""
        ...


def sorted_counts(counts: Iterable[tuple[tuple[str | None, ...], int]]) -> dict[tuple[str | None, ...], int]:
    """Return the result of `Dataset.count_by` in its order."""
    return dict(sorted(counts, key=lambda item: [(value is not None, value or "") for value in item[0]]))
