"""The engine on Spark: small batches are collected at the driver, larger ones stay in Spark. Works on PySpark 3.5 and 4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi_core.engine.base import Dataset, TaskFunction, TaskInfo
from pyhudi_core.engine.local import LocalDataset, LocalEngine
from pyhudi_core.engine.spark_collect import collect_at_most
from pyhudi_core.engine.spark_executors import refuse_unfit_executors
from pyhudi_core.engine.spark_gathered import GatheredDataset
from pyhudi_core.engine.spark_rows import SparkDataset, arrow_schema
from pyhudi_core.engine.spark_sessions import estimated_bytes, session_of
from pyhudi_core.engine.task_errors import job_errors
from pyhudi_core.errors import ConfigError
from pyhudi_core.runtime.base import Executor

GATHER_BYTES = 16 << 20
"""The maximum bytes of a batch that is collected at the driver. Spark's estimate only decides which batches are tried; then the bytes are counted."""


_SENT_ROWS = 1 << 16
"""The maximum collected rows of one task."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs on one Spark session; ``executor`` runs small batches at the driver. ``location`` is the location of the table, if known."""

    spark: SparkSession
    executor: Executor
    location: str = ""

    def __post_init__(self) -> None:
        session_of(self.spark).refuse_unusable()
        refuse_unfit_executors(self.spark, self.location)

    @property
    def in_process(self) -> bool:
        return False

    @property
    def cores(self) -> int:
        return session_of(self.spark).cores

    def dataset(self, data: object) -> Dataset:
        if isinstance(data, SparkDataset | GatheredDataset):  # rows that a task function made
            return data
        if isinstance(data, pa.Table):
            return self._gathered(data)
        if isinstance(data, DataFrame):
            _refuse_stream(data)
            schema = arrow_schema(data)
            if estimated_bytes(data) <= GATHER_BYTES:
                with job_errors():
                    few = collect_at_most(data, schema, GATHER_BYTES)
                if few is not None:
                    return self._gathered(few)
            return SparkDataset(data, schema)
        raise ConfigError(
            f"Data of type {type(data).__qualname__} cannot be written on Spark",
            hint="Give a PySpark DataFrame, or leave spark= away.",
        )

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        count = len(payloads)
        if not count:
            return self._gathered(schema.empty_table())
        numbers = self.spark.range(0, count, numPartitions=count)
        return SparkDataset(numbers, arrow_schema(numbers)).map(_WithoutRows(fn), schema, payloads)

    def _gathered(self, table: pa.Table) -> Dataset:
        local = LocalEngine(self.executor, self.cores).dataset(table)
        assert isinstance(local, LocalDataset)
        return GatheredDataset(self.spark, self.executor, local)


def united(one: Dataset, other: Dataset, spark: SparkSession) -> Dataset:
    """Return the rows of two datasets with the same columns. Two collected datasets stay collected."""
    if isinstance(one, GatheredDataset) and isinstance(other, GatheredDataset):
        return one.with_rows(other.collect())
    first, second = _spread(one, spark), _spread(other, spark)
    return SparkDataset(first.frame.union(second.frame), one.schema, (*first.sent, *second.sent))


def _spread(rows: Dataset, spark: SparkSession) -> SparkDataset:
    """Return rows as a DataFrame. Collected rows are sent with the function that yields them."""
    if isinstance(rows, SparkDataset):
        return rows
    pieces = rows.collect().to_batches(max_chunksize=_SENT_ROWS)
    numbers = spark.range(0, len(pieces), numPartitions=max(1, len(pieces)))
    made = SparkDataset(numbers, arrow_schema(numbers)).map(_Pieces(pieces), rows.schema)
    assert isinstance(made, SparkDataset)
    return made


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Task function: yields the pieces with the given numbers. The numbers of tasks change in a union, so the number of a task does not determine the
    piece."""

    pieces: Sequence[pa.RecordBatch]

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.pieces[number]


@dataclass(frozen=True, slots=True)
class _WithoutRows:
    """Task function: calls the inner function without rows. The rows exist only to make tasks."""

    fn: TaskFunction

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from self.fn(task, iter(()))


def _refuse_stream(frame: DataFrame) -> None:
    if frame.isStreaming:
        raise ConfigError(
            "A streaming DataFrame has no end, and cannot be written by one call",
            hint='Write each of its batches: frame.writeStream.foreachBatch(pyhudi.spark.StreamSink(location, "orders")), with a checkpointLocation.',
        )
