"""Convert tasks to Spark's input partitions, and read their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.model.schema import conform
from pyhudi_core.read.tasks import Task


class TaskPartition(InputPartition):  # type: ignore[misc]  # PySpark has no types here
    """An input partition that contains one task."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)

    @property
    def task(self) -> Task:
        task: Task = self.value
        return task


def partitions_of(tasks: Iterable[Task]) -> list[InputPartition]:
    """Return a partition for each task."""
    return [TaskPartition(task) for task in tasks]


def rows_of(partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a partition, cast to the schema that Spark expects."""
    if not isinstance(partition, TaskPartition):
        return  # Spark's own placeholder, if the source has no partitions
    with raised_in_task():
        for batch in partition.task.batches():
            yield conform(batch, schema)
