"""Where Arrow functions run: a small dataset interface, with a local and a Spark engine behind it.

The write pipeline is written once over it. Functions take the batches of one task and yield batches; they must be picklable, hold no open storage
and keep no state between tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """Which task a function runs in: a number from 0, the same for every attempt at the same task."""

    number: int


TaskFunction = Callable[[TaskInfo, Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class Dataset(Protocol):
    """Rows in tasks. Nothing runs before `collect` or `persist`."""

    @property
    def schema(self) -> pa.Schema: ...

    def map(self, fn: TaskFunction, schema: pa.Schema) -> Dataset:
        """Apply a function to each task's batches; the result has the given schema."""
        ...

    def shuffle(self, by: str, tasks: int, sort_by: str) -> Dataset:
        """Bring rows together: the int32 column ``by`` says to which of the tasks (0 to tasks - 1) a row goes.

        Within a task the rows come sorted by the int64 column ``sort_by``; the order of rows with equal values is free.
        """
        ...

    def persist(self) -> Dataset:
        """The same rows, computed at most once from now on; to be given back with `release`."""
        ...

    def release(self) -> None:
        """Give back what `persist` keeps; safe to call on any dataset, and twice."""
        ...

    def count_by(self, column: str) -> dict[str, int]:
        """How many rows have each value of a string column, sorted by value. Raises as `collect`."""
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
        """The data as a dataset. Raises `ConfigError` for data it cannot take."""
        ...
