"""Read tasks in Spark's executors, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi_core.engine import spark as engine

_TASK_BYTES, _MOST_TASKS = 32 << 20, 16
"""Bytes that one Spark task reads at least, and the most Spark tasks for each core."""


class ReadTask(Protocol):
    """A picklable value that reads rows."""

    @property
    def size(self) -> int:
        """Bytes of the files that it reads."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


def read_tasks(spark: SparkSession, tasks: Sequence[ReadTask], schema: pa.Schema) -> DataFrame:
    """Return the rows of all tasks as a DataFrame; the executors read them when it is used.

    One Spark task runs several small tasks: starting more than one for each core does not pay for little work.
    """
    engine.use_own_python(spark)
    if not tasks:
        return engine.empty_frame(spark, schema)
    cores = int(spark.sparkContext.defaultParallelism)
    wanted = max(cores, min(_MOST_TASKS * cores, sum(task.size for task in tasks) // _TASK_BYTES))
    return engine.scan_in_tasks(spark, len(tasks), wanted, _ByNumber(tuple(tasks)), schema)


@dataclass(frozen=True, slots=True)
class _ByNumber:
    """Reads the task with a given number; runs in the executors."""

    tasks: tuple[ReadTask, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        return self.tasks[number].batches()
