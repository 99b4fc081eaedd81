"""Convert tasks to Spark's input partitions, and read their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.model.schema import conform
from pyhudi_core.read.tasks import Task
from pyhudi_core.spark.session_zone import ZonedCondition


class TaskPartition(InputPartition):  # type: ignore[misc]  # PySpark has no types here
    """An input partition with at most one task, and a condition. In the session the condition must still have its planned meaning."""

    def __init__(self, task: Task | None, condition: ZonedCondition | None) -> None:
        super().__init__(task)
        self.condition = condition

    @property
    def task(self) -> Task | None:
        task: Task | None = self.value
        return task

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows. Raises as `ZonedCondition.refuse_if_changed`."""
        if self.condition is not None:
            self.condition.refuse_if_changed()
        return iter(()) if self.task is None else self.task.batches()


def partitions_of(tasks: Iterable[Task], condition: ZonedCondition | None) -> list[InputPartition]:
    """Return a partition for each task; at least one if there is a condition, because only a task can check it."""
    found: list[Task | None] = list(tasks)
    return [TaskPartition(task, condition) for task in found or ([] if condition is None else [None])]


def rows_of(partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a partition, cast to the schema that Spark expects."""
    if not isinstance(partition, TaskPartition):
        return  # the placeholder that Spark uses if the source has no partitions
    with raised_in_task():
        for batch in partition.batches():
            yield conform(batch, schema)
