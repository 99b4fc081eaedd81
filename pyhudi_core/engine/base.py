"""Run Arrow functions on a small dataset interface, which has a local and a Spark engine.

The write pipeline uses only this interface. Functions take the batches of one task and yield batches; they must be picklable, hold no open storage
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
"""Column (int32) with the target task of a row in a shuffle."""

SORT = "_pyhudi_sort"
"""Column (int64) by which a shuffle sorts the rows of a task."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The task in which a function runs: its number from 0, which is the same for every attempt, and its payload from `Dataset.map`."""

    number: int
    payload: Any = None


TaskFunction = Callable[[TaskInfo, Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of a key.

    The key of one column is its value. The key of several columns is the text ``name:value,name:value``, with ``null`` and ``empty`` where a value is
    missing. Rows with the same key always go to the same slot. Several key columns must be strings or integers. ``hashes`` computes hashes of the
    keys of a batch, for an engine with Arrow rows. ``ambiguous`` is a regular expression of forbidden texts in key columns; empty if all texts are
    allowed. ``distinct`` returns whether it is known that no value of an Arrow column occurs twice.
    """

    names: tuple[str, ...]
    null: str
    empty: str
    hashes: Callable[[pa.RecordBatch], npt.NDArray[np.uint32]]
    ambiguous: str = ""
    distinct: Callable[[pa.ChunkedArray], bool] = lambda _column: False


@dataclass(frozen=True, slots=True)
class Slot:
    """A destination of rows: a task, and the values of `SORT` from ``sort`` to ``sort + parts - 1``.

    A hash of the key chooses one of these values.
    """

    task: int
    sort: int
    parts: int = 1


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """The number of rows for each combination of values of some columns, and the numbers of all rows without a key, or with an ambiguous key.

    ``distinct``: whether it is known that no key occurs twice. False means unknown.
    """

    values: pa.RecordBatch
    rows: tuple[int, ...]
    without_key: int
    ambiguous: int = 0
    distinct: bool = False


class Source(Protocol):
    """Rows that are cheap to read and the same each time, so that they are read twice instead of being cached.

    First they are counted. Then they are sent unchanged to their tasks, where the next function prepares them. Rows outside Python become Arrow
    there.
    """

    @property
    def keyless(self) -> bool:
        """Whether rows may have no key columns; then ``hashes`` distributes them."""
        ...

    def counts(self, by: Sequence[str], key: KeyColumns) -> SourceCounts:
        """Count the rows by the columns ``by``, which hold no floating-point numbers. A row has no key if all key columns are null or empty.

        The other methods take the values that this method returned.
        """
        ...

    def scattered(
        self, values: pa.RecordBatch, slots: Sequence[Sequence[Slot]], key: KeyColumns, tasks: int
    ) -> Dataset:
        """Send the rows to tasks. A row with the values of row ``i`` of ``values`` goes to one of ``slots[i]``, chosen by a hash of its key. If there
        are no slots, the row is left out.

        Within a task the rows are sorted by the added column `SORT` (int64); it is -1 for missing values. `ORDER` (int64) is added too: the order of
        the rows in the source.
        """
        ...

    def placed(self, values: pa.RecordBatch, tasks_of: Sequence[Sequence[int]], key: KeyColumns, tasks: int) -> Dataset:
        """Send the rows to tasks, unchanged and in any order.

        A row with the values of row ``i`` of ``values`` goes to one of the tasks ``tasks_of[i]`` (at least one), chosen by a hash of its key. Rows
        with missing values may go to any task.
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
        """The average bytes of a row in memory; 0 if unknown."""
        ...

    def source(self) -> Source | None:
        """Return the same rows as a `Source`, if they are a source."""
        ...

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        """Apply a function to each task's batches; the result has the given schema.

        ``payloads`` has one picklable value for each task, after a shuffle. A task unpickles only its own payload; the function's closure contains
        none.
        """
        ...

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        """Send each row to the task in its int32 column ``by`` (0 to tasks - 1).

        Within a task the rows are sorted by the columns ``sort_by``, nulls first and NaN last; rows with equal values have any order.
        """
        ...

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        """Sort all rows by columns, nulls first and NaN last, and divide them into at most ``tasks`` tasks of about the same size.

        The rows are in order across the tasks. Rows with equal values of all columns are in one task, in any order. The rows are read twice (the
        first time to choose the cuts), so `persist` them if they cost more than a sort.
        """
        ...

    def persist(self) -> Dataset:
        """Return the same rows, computed at most once from now on. Call `release` later."""
        ...

    def release(self) -> None:
        """Free the cache of `persist` and the memory of payloads. Safe to call on any dataset, and twice. Do not use the dataset afterwards."""
        ...

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        """Return the number of rows for each combination of values of string columns, sorted, nulls first. Raises as `collect`."""
        ...

    def collect(self) -> pa.Table:
        """Run the tasks, and return all rows in this process. Raises this package's errors of tasks unchanged."""
        ...


class Engine(Protocol):
    """Makes datasets from users' data."""

    @property
    def in_process(self) -> bool:
        """Whether tasks run in this process, with its storage and its ids."""
        ...

    @property
    def cores(self) -> int:
        """The number of concurrent tasks."""
        ...

    def dataset(self, data: object) -> Dataset:
        """Return the data as a dataset. Raises `ConfigError` for data of an unknown kind."""
        ...

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        """Return a dataset of tasks without input, one for each payload: the rows that the function yields in each task."""
        ...


def sorted_counts(counts: Iterable[tuple[tuple[str | None, ...], int]]) -> dict[tuple[str | None, ...], int]:
    """Return the result of `Dataset.count_by` in its order."""
    return dict(sorted(counts, key=lambda item: [(value is not None, value or "") for value in item[0]]))
