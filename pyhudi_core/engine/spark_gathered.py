"""Small batches on Spark: collected at the driver, and sent to the executors by task.

For a batch of some megabytes, a cache, an exchange and four transfers between the JVM and Python cost more than the work. So the batch is collected
once, and cheap functions run at the driver. The functions after a shuffle read and write files. They run in the executors and get their rows with the
task. Functions and results are the same as in `SparkDataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pyhudi_core.engine.base import Dataset, Source, TaskFunction, TaskInfo
from pyhudi_core.engine.local import LocalDataset, Part
from pyhudi_core.engine.spark_sessions import session_of
from pyhudi_core.engine.task_errors import job_errors, raised_in_task
from pyhudi_core.runtime.base import Executor


@dataclass(slots=True)
class GatheredDataset:
    """Rows at the driver. ``local`` has them in parts. ``scattered``: a shuffle was the last step, so the next function runs in executors."""

    spark: SparkSession
    executor: Executor
    local: LocalDataset
    scattered: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.local.schema

    @property
    def row_bytes(self) -> int:
        return 0

    def source(self) -> Source | None:
        return None  # the rows are here, and are Arrow already

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        if not self.scattered:
            return self._with(self.local.map(fn, schema, payloads))
        run = LocalDataset(self.executor, schema, lambda: self._in_executors(fn, schema, payloads))
        # A later step may need the result more than once, and the function must not run twice.
        run.persist()
        return self._with(run)

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        return self._with(self.local.shuffle(by, tasks, *sort_by), scattered=True)

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        return self._with(self.local.shuffle_by_range(tasks, *by), scattered=True)

    def persist(self) -> Dataset:
        self.local.persist()
        return self

    def release(self) -> None:
        self.local.release()

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        return self.local.count_by(*columns)

    def collect(self) -> pa.Table:
        return self.local.collect()

    def with_rows(self, rows: pa.Table) -> GatheredDataset:
        """Return these rows and the given rows, which have the same columns."""
        more = [[batch for batch in rows.to_batches() if batch.num_rows]]
        return self._with(LocalDataset(self.executor, self.schema, lambda: [*self.local.parts(), *more]))

    def _with(self, local: Dataset, *, scattered: bool = False) -> GatheredDataset:
        assert isinstance(local, LocalDataset)
        return GatheredDataset(self.spark, self.executor, local, scattered)

    def _in_executors(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> list[Part]:
        """Return the parts after the function. Executors run the function on parts with rows. A part without rows runs here, because a task for it
        does not pay."""
        parts = self.local.parts()
        tasks = [TaskInfo(number, payload) for number, payload in enumerate(payloads or [None] * len(parts))]
        sent = [
            (task, _to_bytes(part, self.schema)) for task, part in zip(tasks, parts, strict=True) if _has_rows(part)
        ]
        made: dict[int, Part] = {}
        if sent:
            with job_errors():
                results = session_of(self.spark).run_each(sent, _runner(fn, schema))
            made = {task.number: _from_bytes(result) for (task, _), result in zip(sent, results, strict=True)}
        return [made[task.number] if task.number in made else _run(fn, schema, task, ()) for task in tasks]


Sent = tuple[TaskInfo, bytes]
"""The input that is sent to a task: its number, its payload and its rows."""


def _runner(fn: TaskFunction, schema: pa.Schema) -> Callable[[Iterable[Sent]], Iterator[bytes]]:
    def run(parts: Iterable[Sent]) -> Iterator[bytes]:
        for task, rows in parts:
            with raised_in_task():
                made = _run(fn, schema, task, _from_bytes(rows))
            yield _to_bytes(made, schema)

    return run


def _run(fn: TaskFunction, schema: pa.Schema, task: TaskInfo, rows: Iterable[pa.RecordBatch]) -> Part:
    return [batch.cast(schema) if batch.schema != schema else batch for batch in fn(task, iter(rows))]


def _has_rows(part: Part) -> bool:
    return any(batch.num_rows for batch in part)


def _to_bytes(part: Part, schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in part:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _from_bytes(data: bytes) -> Part:
    return list(pa.ipc.open_stream(pa.py_buffer(data)))
