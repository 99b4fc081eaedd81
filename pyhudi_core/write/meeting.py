"""The join of rows of two sides: the rows of a caller, and the rows of the table. `merge` and `replace` say what is done with joined rows.

In this process the rows of the table come in parts. On Spark both sides go to tasks by a hash of the compared columns, so rows that can match are in
one task, and the same function works there. No row comes to the driver, except small batches (``engine/spark_gathered.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import TASK, Dataset, Engine, TaskInfo
from pyhudi_core.engine.choice import engine_for, together
from pyhudi_core.engine.local import as_table
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import TAG_LEAVES
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.write.coercion import whole_as_integers

Names = Callable[[pa.Table], pa.Array]
"""Gives each row a text; rows can meet if their texts are equal."""
Work = Callable[[pa.Table, Iterable[pa.Table]], pa.Table]
"""Makes rows of the given rows and of parts of the table's rows."""

_PART_BYTES = 64 * 2**20
"""In this process, the table's rows are examined in parts of about this number of bytes."""
_TASK_BYTES = 16 * 2**20
"""On Spark there is one task for this number of bytes of the table's files, which are several times larger in memory."""
_GIVEN = "_pyhudi_given"


@dataclass(frozen=True, slots=True)
class Meeting:
    """The place of the join. ``spark``: the session on which rows are joined; None for this process."""

    engine: Engine
    spark: Any = None

    @classmethod
    def of(cls, context: TableContext, data: object, spark: Any) -> Meeting:
        """Return the join of data with a table: on the session of a PySpark DataFrame, or on the given session."""
        spark = spark_of(data, spark)
        return cls(engine_for(None, context.runtime.executor, spark, context.table), spark)

    def given(self, data: object, schema: pa.Schema) -> Dataset:
        """Return the given rows; persist them, or rows made from them, so that they are read once."""
        return self.engine.dataset(
            data if self.spark is not None else whole_as_integers(as_table(data, schema), schema)
        )

    def met(self, given: Dataset, found: Any, names: tuple[Names, Names], work: Work) -> Dataset:
        """Return the result of the work on the given rows and on the rows of a scan (None: no rows). ``names``: texts of the given rows, and of the
        scan's rows, by which they are joined.
        """
        if self.spark is None:
            return self.engine.dataset(work(given.collect(), () if found is None else _parts(found)))
        stored = given.schema.empty_table() if found is None else found.to_spark(self.spark)
        target = self.engine.dataset(stored)
        columns = given.schema if found is None else found.schema
        size = 0 if found is None else sum(piece.size for piece in found.slices())
        tasks = max(self.engine.cores, size // _TASK_BYTES)
        both = _both(given.schema, columns)
        mine = given.map(_Sent(names[0], given.schema, both, tasks, True), both)
        theirs = target.map(_Sent(names[1], columns, both, tasks, False), both)
        made = work(given.schema.empty_table(), [columns.empty_table()]).schema
        return together(mine, theirs, self.spark).shuffle(TASK, tasks).map(_Met(work, given.schema, columns), made)

    def to_write(self, rows: Dataset) -> object:
        """Return rows in the form in which a write takes them."""
        return rows if self.spark is not None else rows.collect()


def spark_of(data: object, spark: Any = None) -> Any:
    """Return the given session, otherwise the session of a PySpark DataFrame; None for other data."""
    is_frame = type(data).__module__.startswith("pyspark.sql") and hasattr(data, "sparkSession")
    return data.sparkSession if spark is None and is_frame else spark  # type: ignore[attr-defined]


def again(data: object) -> object:
    """Return data that can be read more than once."""
    return data.read_all() if isinstance(data, pa.RecordBatchReader) else data


def each(rows: Dataset, change: Callable[[pa.Table], pa.Table]) -> Dataset:
    """Return the rows that a function makes from each batch. The function also makes an empty table from an empty table."""
    schema = change(pa.Table.from_batches([], rows.schema)).schema
    return rows.map(_Each(change, schema), schema)


def joined(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return one text for each row from the compared columns; equal values give equal texts."""
    texts = [pc.fill_null(_text(column), "") for column in columns]
    found = pc.binary_join_element_wise(*texts, "\x00")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def mixed(rows: pa.Table, leaving: pa.Table) -> pa.Table:
    """Return rows to write together with rows to delete. Columns that only one side has are null for the other."""
    marks = pa.array(np.repeat([False, True], [len(rows), len(leaving)]))
    return pa.concat_tables([rows, leaving], promote_options="permissive").append_column(TAG_LEAVES, marks)


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_nested(column.type):
        return pa.array([""] * len(column), pa.string())  # all of them meet in one task
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return plain.cast(pa.string(), safe=False)


def _parts(found: Any) -> Iterator[pa.Table]:
    """Yield the rows of a scan in parts of about `_PART_BYTES`."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in found.to_batches():
        batches.append(batch)
        size += batch.nbytes
        if size >= _PART_BYTES:
            yield pa.Table.from_batches(batches, found.schema)
            batches, size = [], 0
    yield pa.Table.from_batches(batches, found.schema)


def _both(given: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """Return the columns of both sides: each row has values only in the columns of its own side."""
    own = [
        pa.field(f"{side}{number}", field.type)
        for side, schema in (("g", given), ("s", stored))
        for number, field in enumerate(schema)
    ]
    return pa.schema([*own, (_GIVEN, pa.bool_()), (TASK, pa.int32())])


@dataclass(frozen=True, slots=True)
class _Each:
    """Task function: applies a function of tables to each batch."""

    change: Callable[[pa.Table], pa.Table]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.change(pa.Table.from_batches([batch])).combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class _Sent:
    """Task function: takes rows of one side, and returns them in the columns of both sides, with a task chosen by a hash of their text."""

    names: Names
    own: pa.Schema
    both: pa.Schema
    tasks: int
    is_given: bool

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, count = cast_batch(batch, self.own), len(batch)
            if not count:
                continue
            tasks = hash_keys(self.names(pa.Table.from_batches([rows]))) % self.tasks
            others = [pa.nulls(count, field.type) for field in self.both][: len(self.both) - 2]
            first = 0 if self.is_given else len(others) - rows.num_columns
            others[first : first + rows.num_columns] = rows.columns
            columns = [*others, pa.repeat(self.is_given, count), pa.array(tasks.astype(np.int32))]
            yield pa.RecordBatch.from_arrays(columns, schema=self.both)


@dataclass(frozen=True, slots=True)
class _Met:
    """Task function: takes rows of both sides, and returns the result of the work."""

    work: Work
    given: pa.Schema
    stored: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        both = _both(self.given, self.stored)
        rows = pa.Table.from_batches([cast_batch(batch, both) for batch in batches], both)
        mine = rows.filter(rows[_GIVEN]).select(range(len(self.given)))
        theirs = rows.filter(pc.invert(rows[_GIVEN])).select(range(len(self.given), len(self.given) + len(self.stored)))
        stored = pa.Table.from_arrays(theirs.columns, schema=self.stored)
        yield from (
            self.work(pa.Table.from_arrays(mine.columns, schema=self.given), [stored]).combine_chunks().to_batches()
        )
