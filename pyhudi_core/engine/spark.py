"""The engine on Spark: mapInArrow for functions, one exchange for a shuffle.

Works on PySpark 3.5 and 4, classic sessions. A shuffle sends each row to the task that its column names: Spark's hash of an integer decides where
a row goes, so for every task an integer is looked up that hashes to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark import Broadcast, StorageLevel, TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.base import Dataset, TaskFunction, TaskInfo, sorted_counts
from pyhudi_core.engine.local import LocalDataset, LocalEngine
from pyhudi_core.engine.spark_gathered import GatheredDataset
from pyhudi_core.engine.task_errors import driver_errors, raised_in_task
from pyhudi_core.errors import ConfigError
from pyhudi_core.runtime.base import Executor

_TARGET = "_pyhudi_target"

GATHER_BYTES = 16 << 20
"""Batches that Spark expects to be at most this large are gathered at the driver."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs on one Spark session; ``executor`` runs what small batches need at the driver."""

    spark: SparkSession
    executor: Executor

    def __post_init__(self) -> None:
        use_own_python(self.spark)

    @property
    def in_process(self) -> bool:
        return False

    @property
    def cores(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def dataset(self, data: object) -> Dataset:
        if isinstance(data, pa.Table):
            return self._gathered(data)
        if isinstance(data, DataFrame):
            if estimated_bytes(data) > GATHER_BYTES:
                return SparkDataset(data, arrow_schema(data))
            with driver_errors():
                return self._gathered(collect_arrow(data, arrow_schema(data)))
        raise ConfigError(
            f"Data of type {type(data).__qualname__} cannot be written on Spark",
            hint="Give a PySpark DataFrame, or leave spark= away.",
        )

    def _gathered(self, table: pa.Table) -> Dataset:
        local = LocalEngine(self.executor, self.cores).dataset(table)
        assert isinstance(local, LocalDataset)
        return GatheredDataset(self.spark, self.executor, local)


def estimated_bytes(frame: DataFrame) -> int:
    """What Spark's optimizer expects the rows to take; huge where it cannot know."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which Spark hands a DataFrame to Python; timestamps with a zone read UTC."""
    return spark_types.to_arrow(frame.schema)


@dataclass(slots=True)
class _Payloads:
    """One pickled value for each task. A broadcast is fetched once by each executor, and a task unpickles its own value only."""

    broadcast: Broadcast[list[bytes]]
    released: bool = False

    @classmethod
    def of(cls, spark: SparkSession, values: Sequence[Any]) -> _Payloads:
        return cls(spark.sparkContext.broadcast([CloudPickleSerializer().dumps(value) for value in values]))

    def release(self) -> None:
        if not self.released:
            self.released = True
            self.broadcast.destroy()


@dataclass(slots=True)
class SparkDataset:
    """A DataFrame and the Arrow schema that functions see. ``sent`` has the payloads of the functions that it comes from."""

    frame: DataFrame
    schema: pa.Schema
    sent: tuple[_Payloads, ...] = ()

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        own = _Payloads.of(self.frame.sparkSession, payloads) if payloads else None
        run = _in_task(fn, schema, own.broadcast if own is not None else None)
        sent = self.sent if own is None else (*self.sent, own)
        return SparkDataset(self.frame.mapInArrow(run, spark_types.to_spark(schema)), schema, sent)

    def shuffle(self, by: str, tasks: int, sort_by: str) -> Dataset:
        salts = F.array(*[F.lit(salt) for salt in salts_for(tasks)])
        routed = self.frame.withColumn(_TARGET, F.element_at(salts, F.col(by) + 1))
        exchanged = routed.repartition(tasks, _TARGET).drop(_TARGET)
        return SparkDataset(exchanged.sortWithinPartitions(sort_by), self.schema, self.sent)

    def persist(self) -> Dataset:
        return SparkDataset(self.frame.persist(StorageLevel.DISK_ONLY), self.schema, self.sent)

    def release(self) -> None:
        self.frame.unpersist()
        for payloads in self.sent:
            payloads.release()

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        # The counting stays in the JVM: another function in Python would cost another worker for each core.
        with driver_errors():
            counts = self.frame.groupBy(*columns).count().collect()
        return sorted_counts((tuple(row[: len(columns)]), row[len(columns)]) for row in counts)

    def collect(self) -> pa.Table:
        with driver_errors(), _no_coalescing(self.frame.sparkSession):
            return collect_arrow(self.frame, self.schema)


def collect_arrow(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """All rows at the driver."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow().cast(schema)
    batches = frame._collect_as_arrow()  # PySpark 3.5 has the same under a private name only
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


@contextmanager
def _no_coalescing(spark: SparkSession) -> Iterator[None]:
    """Keep adaptive execution from merging the tasks of a shuffle: each is there because a core is."""
    key = "spark.sql.adaptive.coalescePartitions.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, "false")
    try:
        yield
    finally:
        spark.conf.set(key, str(before))


def _in_task(
    fn: TaskFunction, schema: pa.Schema, payloads: Broadcast[list[bytes]] | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        number = task.partitionId() if task is not None else 0
        own = CloudPickleSerializer().loads(payloads.value[number]) if payloads is not None else None
        info = TaskInfo(number, own)
        with raised_in_task():
            for batch in fn(info, iter(batches)):
                yield batch.cast(schema) if batch.schema != schema else batch

    return run


@cache
def salts_for(tasks: int) -> tuple[int, ...]:
    """For each task an integer that Spark's hash partitioning sends there."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < tasks:
        found.setdefault(_spark_hash(candidate) % tasks, candidate)
        candidate += 1
    return tuple(found[task] for task in range(tasks))


def _spark_hash(value: int) -> int:
    """Spark's Murmur3 of one 32-bit integer with seed 42, as a signed integer (``org.apache.spark.sql.catalyst.expressions.Murmur3Hash``)."""
    mask = 0xFFFFFFFF
    k = (value * 0xCC9E2D51) & mask
    k = ((k << 15) | (k >> 17)) & mask
    k = (k * 0x1B873593) & mask
    h = 42 ^ k
    h = ((h << 13) | (h >> 19)) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & mask
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def use_own_python(spark: SparkSession) -> None:
    """Let a local session's workers run this interpreter, unless somebody chose one: left alone they run PATH's ``python3``.

    Raises `ConfigError` for what is no classic session, such as one of Spark Connect.
    """
    if not isinstance(spark, SparkSession):
        raise ConfigError(
            f"A {type(spark).__module__}.{type(spark).__qualname__} is not a session of classic Spark",
            hint="Give one made with SparkSession.builder.master(...); to_arrow() and to_batches() need none. "
            "Spark Connect is not supported.",
        )
    context = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or spark.conf.get("spark.pyspark.python", "")
    if context.master.startswith("local") and not chosen:
        context.pythonExec = sys.executable


def native_scan(spark: SparkSession, schema: pa.Schema, paths: Sequence[str]) -> DataFrame:
    """Spark's own Parquet scan of the given local files, with this schema; planning is kept to the cores of this machine."""
    key = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    before = spark.conf.get(key)
    spark.conf.set(key, str(spark.sparkContext.defaultParallelism))
    try:
        reader = spark.read.schema(spark_types.to_spark(schema))
        # Dates in these files follow the proleptic calendar; Spark 3.5 refuses dates before 1582 unless it is told so.
        reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
        # A session that passes over files would lose rows of the table.
        reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        return reader.parquet(*[f"file:{path}" for path in paths])
    finally:
        spark.conf.set(key, str(before))


def scan_in_tasks(
    spark: SparkSession, count: int, tasks: int, read: Callable[[int], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Read what is numbered from 0 by an Arrow function in the executors, neighbours in one task."""

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    numbers = spark.range(0, count, numPartitions=max(1, min(count, tasks)))
    return numbers.mapInArrow(_in_task(run, schema), spark_types.to_spark(schema))


def filter_in_tasks(
    frame: DataFrame, keep: Callable[[pa.RecordBatch], pa.RecordBatch], columns: Sequence[str], schema: pa.Schema
) -> DataFrame:
    """Filter a DataFrame by an Arrow function, and select columns."""

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield keep(batch).select(list(columns))

    return frame.mapInArrow(_in_task(run, schema), spark_types.to_spark(schema))


def empty_frame(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """No rows."""
    return spark.createDataFrame([], spark_types.to_spark(schema))
