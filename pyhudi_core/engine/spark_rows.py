"""Rows in Spark: mapInArrow for functions, one exchange for a shuffle.

A shuffle sends each row to the task in its column: in Spark the hash of an integer determines the task of a row, so for each task there is an integer
whose hash leads to the task. Rows of a `SparkSource` are counted and brought to their tasks in the JVM, and become Arrow once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import and_, or_
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel, TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.base import (
    ORDER,
    SORT,
    Dataset,
    KeyColumns,
    Slot,
    Source,
    SourceCounts,
    TaskFunction,
    TaskInfo,
    sorted_counts,
)
from pyhudi_core.engine.spark_collect import collect_arrow, collect_at_most, quoted
from pyhudi_core.engine.spark_salts import salts_for
from pyhudi_core.engine.spark_session import Payloads, Session
from pyhudi_core.engine.spark_sessions import estimated_bytes, reads_alike, session_of
from pyhudi_core.engine.spark_settings import under_settings
from pyhudi_core.engine.task_errors import job_errors, raised_in_task
from pyhudi_core.errors import LimitExceededError

_TARGET = "_pyhudi_target"
_FEW = 64
"""Up to this number, combinations of values are compared one by one. A join would cost another job."""


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema in which Spark hands a DataFrame to Python; timestamps with a zone read UTC."""
    return spark_types.to_arrow(frame.schema)


@dataclass(slots=True)
class _Payloads:
    """One pickled value for each task. A task unpickles its own value only."""

    session: Session
    values: Payloads
    released: bool = False

    @classmethod
    def of(cls, spark: SparkSession, values: Sequence[Any]) -> _Payloads:
        session = session_of(spark)
        return cls(session, session.send(pickled(values)))

    def release(self) -> None:
        if not self.released:
            self.released = True
            self.session.release(self.values)


def pickled(values: Sequence[Any]) -> list[bytes]:
    """Return each value pickled. A value of several tasks is pickled once, and a broadcast of the result sends this value once."""
    known: dict[int, bytes] = {}
    for value in values:
        if id(value) not in known:
            known[id(value)] = CloudPickleSerializer().dumps(value)
    return [known[id(value)] for value in values]


@dataclass(frozen=True, slots=True)
class _Step:
    """A function that runs in tasks, the schema of its result, and its payloads."""

    fn: TaskFunction
    schema: pa.Schema
    payloads: Payloads | None = None


@dataclass(slots=True)
class _Width:
    """Whether rows are known to be narrow. All datasets made from the same rows share one object."""

    narrow: bool = False


@dataclass(slots=True)
class SparkDataset:
    """A DataFrame, and the Arrow schema of the rows for functions.

    Attributes:
        sent: the payloads of the functions that made the DataFrame.
        behind: the DataFrame and the functions from which ``frame`` results. The next function joins them, so rows enter and leave Python only once.
        width: whether the rows are narrow, if this is known.
    """

    frame: DataFrame
    schema: pa.Schema
    sent: tuple[_Payloads, ...] = ()
    behind: tuple[DataFrame, tuple[_Step, ...]] | None = None
    width: _Width = field(default_factory=_Width)

    @property
    def row_bytes(self) -> int:
        return 0

    def source(self) -> Source | None:
        return SparkSource(self.frame, self.schema, self.width) if reads_alike(self.frame) else None

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        own = _Payloads.of(self.frame.sparkSession, payloads) if payloads else None
        before, steps = self.behind or (self.frame, ())
        steps = (*steps, _Step(fn, schema, own.values if own is not None else None))
        frame = before.mapInArrow(_in_task(steps), spark_types.to_spark(schema))
        return SparkDataset(frame, schema, self.sent if own is None else (*self.sent, own), (before, steps), self.width)

    def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
        salts = _literals(salts_for(tasks), "array<int>")
        routed = self.frame.withColumn(_TARGET, F.element_at(salts, quoted(by) + 1))
        exchanged = routed.repartition(tasks, _TARGET).drop(_TARGET)
        if sort_by:
            exchanged = exchanged.sortWithinPartitions(*map(quoted, sort_by))
        return SparkDataset(exchanged, self.schema, self.sent, width=self.width)

    def shuffle_by_range(self, tasks: int, *by: str) -> Dataset:
        columns = [quoted(name) for name in by]
        ranges = self.frame.repartitionByRange(tasks, *columns)
        return SparkDataset(ranges.sortWithinPartitions(*columns), self.schema, self.sent, width=self.width)

    def persist(self) -> Dataset:
        return SparkDataset(self.frame.persist(StorageLevel.DISK_ONLY), self.schema, self.sent, width=self.width)

    def release(self) -> None:
        self.frame.unpersist()
        for payloads in self.sent:
            payloads.release()

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        # The counting stays in the JVM: another function in Python would cost another worker for each core.
        with job_errors(), self._set():
            counts = _counts(self.frame.groupBy(*map(quoted, columns)).count(), columns)
        return sorted_counts((tuple(row), count) for *row, count in zip(*_values(counts), strict=True))

    def collect(self) -> pa.Table:
        with job_errors(), self._set({"spark.sql.adaptive.coalescePartitions.enabled": "false"}):
            # Adaptive execution must not merge the tasks of a shuffle, because there is a task for each core.
            return collect_arrow(self.frame, self.schema)

    def _set(self, settings: Mapping[str, str] = MappingProxyType({})) -> AbstractContextManager[None]:
        """Return the settings under which a job runs."""
        return under_settings(self.frame.sparkSession, {**settings, **(_UNLIMITED if self.width.narrow else {})})


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A DataFrame whose rows stay in the JVM until they reach their task."""

    frame: DataFrame
    schema: pa.Schema
    width: _Width = field(default_factory=_Width)

    @property
    def keyless(self) -> bool:
        return False

    def counts(self, by: Sequence[str], key: KeyColumns) -> SourceCounts:
        missing = [_is_missing(self.schema.field(name)) for name in key.names]
        without, ambiguous = _count(reduce(and_, missing)), _count(_is_ambiguous(self.schema, key))
        columns = [quoted(name).alias(f"v{number}") for number, name in enumerate(by)]
        with job_errors():
            counted = self.frame.groupBy(*columns).agg(
                F.count(F.lit(1)).alias("rows"), without.alias("w"), ambiguous.alias("a")
            )
            found = _counts(counted, by)
        found = found.filter(pc.field("rows") > 0)
        rows, no_key, unclear = _values(found.select(["rows", "w", "a"]))
        self.width.narrow = estimated_bytes(self.frame) <= _NARROW * sum(rows)
        schema = pa.schema([self.schema.field(name) for name in by])
        values = [column.combine_chunks() for column in found.columns[: len(by)]]
        batch = pa.RecordBatch.from_arrays(values, schema=schema)
        return SourceCounts(batch, tuple(rows), sum(no_key), sum(unclear))

    def scattered(
        self, values: pa.RecordBatch, slots: Sequence[Sequence[Slot]], key: KeyColumns, tasks: int
    ) -> Dataset:
        salts = salts_for(tasks)
        lists = [
            ([salts[slot.task] for slot in own], [slot.sort for slot in own], [slot.parts for slot in own])
            for own in slots
        ]
        frame, (to, sort, parts) = self._beside(values, lists, _PLACES)
        if values.num_columns and not all(slots):
            frame = frame.where(to.isNull() | (F.size(to) > 0))
        elif not values.num_columns and not slots[0]:
            frame = frame.limit(0)
        hashed = self._hashed(key)
        place = _place(hashed, to)
        part = F.pmod(F.shiftright(hashed, 24), F.element_at(parts, place))
        schema = pa.schema([*self.schema, (ORDER, pa.int64()), (SORT, pa.int64())])
        routed = frame.select(
            *[quoted(name) for name in self.schema.names],
            F.monotonically_increasing_id().alias(ORDER),
            F.coalesce(F.element_at(sort, place) + part, F.lit(-1)).cast("long").alias(SORT),
            F.coalesce(F.element_at(to, place), F.lit(salts[0])).alias(_TARGET),
        )
        exchanged = routed.repartition(tasks, _TARGET).drop(_TARGET)
        return SparkDataset(exchanged.sortWithinPartitions(SORT), schema, width=self.width)

    def placed(self, values: pa.RecordBatch, tasks_of: Sequence[Sequence[int]], key: KeyColumns, tasks: int) -> Dataset:
        salts = salts_for(tasks)
        frame, places = self._beside(values, [([salts[task] for task in own],) for own in tasks_of], _PLACES[:1])
        place = F.lit(1) if all(len(own) == 1 for own in tasks_of) else _place(self._hashed(key), places[0])
        target = F.coalesce(F.element_at(places[0], place), F.lit(salts[0]))
        routed = frame.select(*[quoted(name) for name in self.schema.names], target.alias(_TARGET))
        return SparkDataset(routed.repartition(tasks, _TARGET).drop(_TARGET), self.schema, width=self.width)

    def _hashed(self, key: KeyColumns) -> Column:
        return F.xxhash64(_key(self.schema, key))

    def _beside(
        self, values: pa.RecordBatch, lists: Sequence[tuple[list[int], ...]], columns: Sequence[str]
    ) -> tuple[DataFrame, list[Column]]:
        """Add the lists of its values to each row; missing values have null instead of lists. Return the rows and the columns with the lists."""
        frame = self.frame
        names_of_lists, kinds_of_lists = zip(*(column.split() for column in columns), strict=True)
        if not values.num_columns:
            return frame, [_literals(own or [0], kind) for own, kind in zip(lists[0], kinds_of_lists, strict=True)]
        known = list(zip(*(column.to_pylist() for column in values.columns), strict=True))
        names = values.schema.names
        if len(known) <= _FEW and all(map(_has_literals, values.schema.types)):
            # Missing values get the null at the end of the array. If `row` were null, Spark would assume that the result is never null.
            row = F.coalesce(*(F.when(_same(names, own, F.lit), n) for n, own in enumerate(known, 1)), F.lit(-1))
            return frame, [
                F.element_at(F.array(*(_literals(one, kind) for one in own), F.lit(None)), row)
                for own, kind in zip(zip(*lists, strict=True), kinds_of_lists, strict=True)
            ]
        kinds = [
            f"`v{n}` {spark_types.to_spark(pa.schema([f]))[0].dataType.simpleString()}"
            for n, f in enumerate(values.schema)
        ]
        rows = [(*own, *places) for own, places in zip(known, lists, strict=True)]
        places = frame.sparkSession.createDataFrame(rows, ", ".join([*kinds, *columns]))
        same = _same(names, [f"v{n}" for n in range(len(names))], F.col)
        frame = frame.join(F.broadcast(places), same, "left")
        return frame, [F.col(name) for name in names_of_lists]


def _same(names: Sequence[str], others: Sequence[Any], column: Callable[[Any], Column]) -> Column:
    """Return the condition that the columns have the same values as the other columns; two nulls are equal."""
    return reduce(and_, [quoted(name).eqNullSafe(column(own)) for name, own in zip(names, others, strict=True)])


def _has_literals(kind: pa.DataType) -> bool:
    """Say whether values of the type mean the same in every time zone and in every precision."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    return any(test(kind) for test in tests)


def _literals(values: Sequence[int], kind: str) -> Column:
    """Return an array, made from one literal: each literal costs a call into the JVM, and there may be thousands of tasks."""
    return (F.split(F.lit(",".join(map(str, values))), ",") if values else F.array()).cast(kind)


def _place(hashed: Column, places: Column) -> Column:
    """Return the number, from 1, of the place to which a row goes."""
    return (F.pmod(hashed, F.size(places)) + 1).cast("int")


_PLACES = ("_pyhudi_to array<int>", "_pyhudi_sorts array<bigint>", "_pyhudi_parts array<int>")


def _is_missing(field: pa.Field) -> Column:
    column = quoted(field.name)
    return column.isNull() | (column == "") if pa.types.is_string(field.type) else column.isNull()


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0))


def _is_ambiguous(schema: pa.Schema, key: KeyColumns) -> Column:
    texts = [name for name in key.names if key.ambiguous and pa.types.is_string(schema.field(name).type)]
    return reduce(or_, (quoted(name).rlike(key.ambiguous) for name in texts), F.lit(False))


def _key(schema: pa.Schema, key: KeyColumns) -> Column:
    if len(key.names) == 1:
        return quoted(key.names[0])
    parts: list[Column] = []
    for name in key.names:
        text = F.coalesce(quoted(name).cast("string"), F.lit(key.null))
        parts += [F.lit(f"{name}:"), F.when(text == "", key.empty).otherwise(text), F.lit(",")]
    return F.concat(*parts)


_COUNT_BYTES = 64 << 20
"""The maximum bytes of the counts at the driver. The counts have a row for each combination of partition values, or for each file group."""


def _counts(counted: DataFrame, by: Sequence[str]) -> pa.Table:
    """Return the counted rows at the driver. Raises `LimitExceededError` if there are too many."""
    found = collect_at_most(counted, arrow_schema(counted), _COUNT_BYTES, share=_COUNT_BYTES)
    if found is None:
        raise LimitExceededError(
            f"The rows have more different values of {', '.join(by)} than the driver counts ({_COUNT_BYTES >> 20} MB)",
            limit=_COUNT_BYTES,
            seen=_COUNT_BYTES + 1,
            hint="Nothing was written. Partition the table by fewer values, such as days in place of times, or write the rows in several parts.",
        )
    return found


def _values(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


_NARROW = 1024
"""Rows are narrow if Spark estimates at most this number of bytes for the average row."""
_UNLIMITED = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
"""The value that switches off a limit of Spark 4.1 and later: Spark measures a batch after each row, which takes as long as the conversion to Arrow.
Then only the number of rows (10,000) bounds a batch, which is enough for narrow rows."""


def in_task(fn: TaskFunction, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function in the form that mapInArrow takes."""
    return _in_task((_Step(fn, schema),))


def _in_task(steps: Sequence[_Step]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        number = task.partitionId() if task is not None else 0
        rows = iter(batches)
        for step in steps:
            own = CloudPickleSerializer().loads(step.payloads.value[number]) if step.payloads is not None else None
            rows = _yielded(step, TaskInfo(number, own), rows)
        with raised_in_task():
            yield from rows
        _freeze()

    return run


@cache
def _freeze() -> None:
    """Exclude the present objects from garbage collection, once in each worker: PySpark collects garbage after every task.

    Otherwise each collection would examine all modules.
    """
    gc.collect()
    gc.freeze()


def _yielded(step: _Step, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in step.fn(task, batches):
        yield batch.cast(step.schema) if batch.schema != step.schema else batch
