"""What an engine reads for a scan: tasks that it runs, and files that it may read by itself. The engine returns a frame of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class ReadTask(Protocol):
    """A picklable value that reads rows."""

    @property
    def size(self) -> int:
        """Bytes of the files that it reads."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """Parquet files on a local disk, with columns of the names and types of ``schema``, and what to keep of them.

    Attributes:
        paths: absolute, without characters that an engine takes for patterns.
        among: keep rows in which a text column has one of some values: (column, values).
        where: keep rows for which this condition in Spark's SQL is true.
        keep: keep what this picklable function keeps of a batch; for conditions without an SQL text.
    """

    paths: Sequence[str]
    schema: pa.Schema
    among: tuple[str, Sequence[str]] | None = None
    where: str | None = None
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows with the columns of ``schema``: those of all tasks, and those of the files."""

    schema: pa.Schema
    tasks: Sequence[ReadTask] = ()
    files: EngineFiles | None = None
