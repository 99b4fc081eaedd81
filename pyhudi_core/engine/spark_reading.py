"""Scans as DataFrames: read tasks run in Spark's executors, and Spark's own Parquet scan, the fastest reader, reads files that suit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.base import TaskInfo
from pyhudi_core.engine.reading import EngineFiles, Reading, ReadTask
from pyhudi_core.engine.spark import use_own_python
from pyhudi_core.engine.spark_collect import quoted
from pyhudi_core.engine.spark_rows import in_task
from pyhudi_core.engine.spark_settings import under_settings

_TASK_BYTES, _MOST_TASKS = 32 << 20, 16
"""Bytes that one Spark task reads at least, and the most Spark tasks for each core."""


def frame(reading: Reading, spark: SparkSession) -> DataFrame:
    """Return the rows of a reading; the executors read them when the frame is used."""
    use_own_python(spark)
    frames = []
    if reading.files is not None:
        frames.append(_of_files(spark, reading.files, reading.schema))
    if reading.tasks or not frames:
        frames.append(_of_tasks(spark, reading.tasks, reading.schema))
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _of_files(spark: SparkSession, files: EngineFiles, schema: pa.Schema) -> DataFrame:
    found = _native_scan(spark, files.schema, files.paths)
    if files.among is not None:
        column, values = files.among
        found = found.where(quoted(column).isin(sorted(values)))
    if files.keep is not None:
        return _filter_in_tasks(found, files.keep, schema)
    if files.where is not None:
        found = found.where(files.where)
    return found.select(*[quoted(name) for name in schema.names])


def _of_tasks(spark: SparkSession, tasks: Sequence[ReadTask], schema: pa.Schema) -> DataFrame:
    """Return the rows of all tasks. One Spark task runs several small tasks: starting more than one for each core does not pay for little work."""
    if not tasks:
        return spark.createDataFrame([], spark_types.to_spark(schema))
    cores = int(spark.sparkContext.defaultParallelism)
    wanted = max(cores, min(_MOST_TASKS * cores, sum(task.size for task in tasks) // _TASK_BYTES))
    return _scan_in_tasks(spark, len(tasks), wanted, _ByNumber(tuple(tasks)), schema)


@dataclass(frozen=True, slots=True)
class _ByNumber:
    """Reads the task with a given number; runs in the executors."""

    tasks: tuple[ReadTask, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        return self.tasks[number].batches()


def _native_scan(spark: SparkSession, schema: pa.Schema, paths: Sequence[str]) -> DataFrame:
    """Spark's own Parquet scan of the given local files, with this schema; planning is kept to the cores of this machine."""
    key = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    with under_settings(spark, {key: str(spark.sparkContext.defaultParallelism)}):
        reader = spark.read.schema(spark_types.to_spark(schema))
        # Dates in these files follow the proleptic calendar; Spark 3.5 refuses dates before 1582 unless this is configured.
        reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
        # A session that passes over files would lose rows of the table.
        reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        return reader.parquet(*[f"file:{path}" for path in paths])


def _scan_in_tasks(
    spark: SparkSession, count: int, tasks: int, read: Callable[[int], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Read numbered items (from 0) with an Arrow function in the executors; consecutive items are in one task."""

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    numbers = spark.range(0, count, numPartitions=max(1, min(count, tasks)))
    return numbers.mapInArrow(in_task(run, schema), spark_types.to_spark(schema))


def _filter_in_tasks(
    found: DataFrame, keep: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> DataFrame:
    """Filter a DataFrame by an Arrow function, and select columns."""

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield keep(batch).select(schema.names)

    return found.mapInArrow(in_task(run, schema), spark_types.to_spark(schema))
