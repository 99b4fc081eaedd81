"""Run Arrow functions on a small dataset interface, which has a local and a Spark engine.

The write pipeline uses only this interface. Functions take the batches of one task and yield batches; they must be picklable, hold no open storage
and keep no state between tasks.

A shuffle brings all rows of a group to one task (column `TASK`), in the order of the groups (column `SORT`, the number of a group). The payload of
the task has the data for its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
    """The number of rows for each combination of values of some columns, the number of rows without a key, and the number with an ambiguous key.

    ``distinct``: whether it is known that no key occurs twice. False means unknown.
    """

    values: pa.RecordBatch
    rows: tuple[int, ...]
    without_key: int
    ambiguous: int = 0
    distinct: bool = False


class Source(Protocol):
    """Rows that are cheap to read and the same in each read. So they are read twice instead of being cached.

    The first read counts the rows. The second read sends the unchanged rows to their tasks, where the next function prepares them. Rows outside of
    Python become Arrow in the tasks.
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
        """Send the rows to tasks. A row with the values of row ``i`` of ``values`` goes to a slot in ``slots[i]``; a hash of its key chooses the
        slot. If ``slots[i]`` is empty, the row is omitted.

        Two columns are added. Within a task the rows are sorted by `SORT` (int64), which is -1 for missing values. `ORDER` (int64) has the order of
        the rows in the source.
        """
        ...

    def placed(self, values: pa.RecordBatch, tasks_of: Sequence[Sequence[int]], key: KeyColumns, tasks: int) -> Dataset:
        """Send the rows to tasks, unchanged and in any order.

        A row with the values of row ``i`` of ``values`` goes to a task in ``tasks_of[i]``, which has at least one task; a hash of the row's key
        chooses the task. Rows with missing values may go to any task.
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
        """Return the same rows as a `Source`; None if they are not a source."""
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
        """Free the cache of `persist` and the memory of payloads. Every dataset allows this call, also twice. Do not use the dataset afterwards."""
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
        """Return a dataset with a task for each payload. A task has no input; the function yields its rows."""
        ...


def sorted_counts(counts: Iterable[tuple[tuple[str | None, ...], int]]) -> dict[tuple[str | None, ...], int]:
    """Return the result of `Dataset.count_by` in its order."""
    return dict(sorted(counts, key=lambda item: [(value is not None, value or "") for value in item[0]]))


Ints = npt.NDArray[np.int64]
Item = TypeVar("Item")


def slotted(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows after `with_slots`."""
    return pa.schema([*schema, (TASK, pa.int32()), (SORT, pa.int64())])


def with_slots(batch: pa.RecordBatch, tasks: Ints, groups: Ints) -> pa.RecordBatch:
    """Add the task and the group of each row, as the columns `TASK` and `SORT`."""
    columns = [*batch.columns, pa.array(tasks.astype(np.int32)), pa.array(groups)]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, TASK, SORT])


def without_slots(rows: pa.Table) -> pa.Table:
    """Remove the columns that `with_slots` added."""
    return rows.drop_columns([TASK, SORT])


def dealt(items: Sequence[Item], tasks: int) -> list[dict[int, Item]]:
    """Give item ``n`` to task ``n % tasks``. Returns a dictionary for each task: its items by number."""
    payloads: list[dict[int, Item]] = [{} for _ in range(tasks)]
    for number, item in enumerate(items):
        payloads[number % tasks][number] = item
    return payloads


def runs(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield (value, rows) for each run of equal values of an int64 column; holds the rows of one run at a time."""
    held: list[pa.RecordBatch] = []
    current: int | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        values = batch.column(column).to_numpy()
        edges = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(values)]))
        for start, end in zip(edges[:-1], edges[1:], strict=True):
            value = int(values[start])
            if current is not None and value != current:
                yield current, pa.Table.from_batches(held)
                held = []
            current = value
            held.append(batch.slice(start, end - start))
    if current is not None:
        yield current, pa.Table.from_batches(held)
