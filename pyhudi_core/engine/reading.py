"""The input of an engine for a scan: tasks that it runs, and files that it may read itself. The engine returns its own kind of frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

Values = Mapping[str, Any]
"""Columns with the same value in all rows, each with its value."""


class ReadTask(Protocol):
    """A picklable value that reads rows."""

    @property
    def size(self) -> int:
        """The bytes of the files that the task reads."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """Parquet files that the engine opens itself, and filters for their rows. The columns of the files have the names and types of ``schema``.

    Attributes:
        paths: the paths in the engine's form, without characters of patterns.
        root: a folder. Below it, folder names (``column=value``) have the values of the columns in ``folders``; None if the files have them.
        folders: all columns in the names of folders.
        among: keep rows in which a text column has one of these values: (column, values).
        where: keep rows for which this condition in Spark's SQL is true.
        keep: a picklable function that filters a batch; for conditions without an SQL text.
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
    """Tasks whose rows all have the same ``values`` in some columns, such as the tasks of one partition."""

    tasks: Sequence[ReadTask]
    values: Values = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the files that the tasks read."""
        return sum(task.size for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows with the columns of ``schema``: the rows of all tasks, and of the files."""

    schema: pa.Schema
    groups: Sequence[TaskGroup] = ()
    files: Sequence[EngineFiles] = ()
