"""Scans as DataFrames: read tasks run in Spark's executors; Spark's own Parquet scan, the fastest reader, reads suitable files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.base import TaskInfo
from pyhudi_core.engine.reading import EngineFiles, Reading, ReadTask, TaskGroup
from pyhudi_core.engine.spark_collect import quoted
from pyhudi_core.engine.spark_executors import refuse_unfit_executors
from pyhudi_core.engine.spark_rows import in_task, pickled
from pyhudi_core.engine.spark_sessions import session_of
from pyhudi_core.engine.spark_settings import under_settings

_TASK_BYTES, _MOST_TASKS = 32 << 20, 16
"""The minimum bytes of one Spark task, and the maximum number of Spark tasks for each core."""
_PAYLOAD = 1 << 20
"""The maximum bytes of the tasks that are sent to a Spark task."""
_SAMPLE = 64
"""The number of tasks whose bytes are measured first. To pickle all tasks takes 20 s for a million."""
_FEW_BRANCHES = 4
"""The maximum number of branches of a frame with small files. Each branch costs about 30 ms of planning, and a start of Python when it is read."""


def frame(reading: Reading, spark: SparkSession, location: str) -> DataFrame:
    """Return the rows of a reading; the executors read them when the frame is used. ``location`` is the location of the table."""
    session_of(spark).refuse_unusable()
    if reading.groups or any(files.keep is not None for files in reading.files):
        refuse_unfit_executors(spark, location)
    frames = [_of_files(spark, files, reading.schema) for files in reading.files]
    frames += _of_groups(spark, reading.groups, reading.schema)
    if not frames:
        return spark.createDataFrame([], spark_types.to_spark(reading.schema))
    while len(frames) > 1:  # a tree, because Spark looks at all branches of a union whenever a branch is added
        frames = [reduce(DataFrame.unionByName, frames[n : n + 2]) for n in range(0, len(frames), 2)]
    found = frames[0]
    return found if found.columns == reading.schema.names else _selected(found, reading.schema)


def _selected(found: DataFrame, schema: pa.Schema) -> DataFrame:
    return found.select(*[quoted(name) for name in schema.names])


def _of_files(spark: SparkSession, files: EngineFiles, schema: pa.Schema) -> DataFrame:
    found = _native_scan(spark, files)
    if files.among is not None:
        column, values = files.among
        found = found.where(quoted(column).isin(sorted(values)))
    if files.keep is not None:
        return _filter_in_tasks(_selected(found, files.schema), files.keep, schema)
    if files.where is not None:
        found = found.where(files.where)
    return _selected(found, schema)


def _of_groups(spark: SparkSession, groups: Sequence[TaskGroup], schema: pa.Schema) -> list[DataFrame]:
    """Return frames of the groups. By the values of their columns, Spark chooses frames without reading them.

    A group has its own frame if there are few groups, or many bytes; otherwise several groups share a frame.
    """
    cores = session_of(spark).cores
    total = sum(group.size for group in groups)
    wanted = max(cores, min(_MOST_TASKS * cores, total // _TASK_BYTES))
    branches = _branches(groups, max(_FEW_BRANCHES, wanted))
    return [
        _of_branch(spark, branch, schema, -(-wanted * sum(group.size for group in branch) // max(1, total)))
        for branch in branches
    ]


def _branches(groups: Sequence[TaskGroup], most: int) -> list[list[TaskGroup]]:
    """Divide the groups into at most ``most`` branches of similar bytes. Groups without known values are in one branch."""
    plain = [group for group in groups if group.tasks and not group.values]
    found = [plain] if plain else []
    rest = [group for group in groups if group.tasks and group.values]
    rest.sort(key=lambda group: [(name, value is not None, value) for name, value in group.values.items()])
    share = sum(group.size for group in rest) / most if len(rest) > most else 0
    room = 0.0
    for group in rest:
        if room <= 0:
            found.append([])
            room = share
        found[-1].append(group)
        room -= group.size
    return found


def _of_branch(spark: SparkSession, groups: Sequence[TaskGroup], schema: pa.Schema, wanted: int) -> DataFrame:
    """Return the rows of groups. One Spark task runs several small tasks, because for little work more than one Spark task for each core does not
    pay.

    A column with one value is not read, because the plan has the value.
    """
    tasks = tuple(task for group in groups for task in group.tasks)
    columns = {name: [group.values.get(name, _READ) for group in groups] for name in groups[0].values}
    single = {name: own[0] for name, own in columns.items() if all(value == own[0] for value in own)}
    read = tuple(name for name in schema.names if name not in single)
    own_schema = pa.schema([schema.field(name) for name in read or schema.names[:1]])
    kinds = spark_types.to_spark(schema)
    found = _scan_in_tasks(spark, tasks, wanted, own_schema)
    for name, values in columns.items():
        if name not in single and _READ not in values:
            found = found.where(_is_between(name, values, kinds[name].dataType))
    if not single:
        return found
    known = [_value(value, kinds[name].dataType).alias(name) for name, value in single.items()]
    return found.select("*", *known) if read else found.select(*known)


_READ = object()
"""The mark, in place of a value, that the column is read."""


def _value(value: Any, kind: DataType) -> Column:
    """Return a column with one value. Its type is always nullable, so that the types of a frame do not depend on the way of reading."""
    return F.when(F.lit(True), _literal(value, kind))


def _literal(value: Any, kind: DataType) -> Column:
    """Return a value as a column. PySpark cannot convert dates of years before 1000."""
    return F.lit(None if value is None else str(value)).cast(kind)


def _is_between(name: str, values: Sequence[Any], kind: DataType) -> Column:
    """Return a condition that all rows of the branch fulfil, so that Spark skips the branch in a query for other values."""
    known = {value for value in values if value is not None}
    between = quoted(name).between(_literal(min(known), kind), _literal(max(known), kind))
    return between if None not in values else between | quoted(name).isNull()


def _native_scan(spark: SparkSession, files: EngineFiles) -> DataFrame:
    """Read the given files with this schema by Spark's own Parquet scan. Limits planning to the cores of this machine."""
    key = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    schema = spark_types.to_spark(files.schema)
    with under_settings(spark, {key: str(session_of(spark).cores)}):
        reader = spark.read.schema(schema)
        # Dates in these files follow the proleptic calendar; Spark 3.5 refuses dates before 1582 unless this is configured.
        reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
        # A session that ignores missing or damaged files would lose rows of the table.
        reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        if files.root is not None:
            reader = reader.option("basePath", files.root)
        return reader.parquet(*files.paths)


def _scan_in_tasks(spark: SparkSession, tasks: Sequence[ReadTask], wanted: int, schema: pa.Schema) -> DataFrame:
    """Read tasks in the executors. Consecutive tasks share one of ``wanted`` Spark tasks; there are more Spark tasks if their payload would be too
    large.

    A few tasks are sent with the function. Many tasks are sent as rows, a row for each Spark task: otherwise each Spark task would get all tasks.
    """
    packs = _packed(tasks, -(-len(tasks) // max(1, wanted)))
    is_small = sum(map(len, packs)) <= _PAYLOAD
    sent = packs if is_small else []

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                for each in CloudPickleSerializer().loads(sent[value] if sent else value):
                    for rows in each.batches():
                        yield rows if rows.schema.names == schema.names else rows.select(schema.names)

    frame = spark.range(0, len(packs), numPartitions=len(packs)) if is_small else session_of(spark).spread(packs)
    return frame.mapInArrow(in_task(run, schema), spark_types.to_spark(schema))


def _packed(tasks: Sequence[ReadTask], count: int) -> list[bytes]:
    """Return packs of pickled tasks. A pack has ``count`` consecutive tasks, or fewer if it would be too large for a payload."""
    some = tasks[:: -(-len(tasks) // _SAMPLE)]
    count = max(1, min(count, _PAYLOAD * len(some) // (2 * len(pickled([some])[0]))))
    while True:
        packs = pickled([tasks[n : n + count] for n in range(0, len(tasks), count)])
        largest = max(map(len, packs))
        if largest <= _PAYLOAD or count == 1:
            return packs
        count = max(1, count * _PAYLOAD // (2 * largest))


def _filter_in_tasks(
    found: DataFrame, keep: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> DataFrame:
    """Filter a DataFrame by an Arrow function, and select columns."""

    def run(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield keep(batch).select(schema.names)

    return found.mapInArrow(in_task(run, schema), spark_types.to_spark(schema))
