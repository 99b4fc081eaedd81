"""What an engine reads for a scan: tasks that it runs, and files that it may read by itself. The engine returns a frame of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

Values = Mapping[str, Any]
"""Columns that have one value in all rows, and this value."""


class ReadTask(Protocol):
    """A picklable value that reads rows."""

    @property
    def size(self) -> int:
        """Bytes of the files that it reads."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """Parquet files that the engine opens by itself, with columns of the names and types of ``schema``, and what to keep of them.

    Attributes:
        paths: as the engine opens them, without characters that it takes for patterns.
        root: a folder. Below it, folder names (``column=value``) have the values of the columns in ``folders``; None if the files have them.
        folders: these columns, all that the folders name.
        among: keep rows in which a text column has one of some values: (column, values).
        where: keep rows for which this condition in Spark's SQL is true.
        keep: keep what this picklable function keeps of a batch; for conditions without an SQL text.
    """

    paths: Sequence[str]
    schema: pa.Schema
    root: str | None = None
    folders: tuple[str, ...] = ()
    among: tuple[str, Sequence[str]] | None = None
    where: str | None = None
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks whose rows all have the same ``values`` in some columns, as those of a partition have."""

    tasks: Sequence[ReadTask]
    values: Values = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the files that the tasks read."""
        return sum(task.size for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows with the columns of ``schema``: those of all tasks, and those of the files."""

    schema: pa.Schema
    groups: Sequence[TaskGroup] = ()
    files: Sequence[EngineFiles] = ()
