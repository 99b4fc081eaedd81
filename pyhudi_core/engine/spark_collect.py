"""Collect the rows of a DataFrame at the driver: all rows in any case, or no row if all rows exceed a number of bytes.

Spark's estimate of a DataFrame may be far below its bytes, for example with files that compress well, `explode`, `repeat` or joins. So the incoming
bytes are counted (`collect_at_most`). Each task counts in Python the bytes that it sends, and ends at its share, before Spark has made more. The
driver then stops reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.spark_sessions import session_of

_MORE = pa.field("_pyhudi_more", pa.int8())
_LEAST_SHARE = 1 << 20
"""The minimum share in bytes of a task, however many tasks run."""


def quoted(name: str) -> Column:
    """Return the column with exactly this name."""
    return F.col("`" + name.replace("`", "``") + "`")


def collect_arrow(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Return all rows at the driver; for small results of this package, such as one row for each file."""
    if hasattr(frame, "toArrow"):
        return _with_nullable_voids(frame).toArrow().cast(schema)
    batches = frame._collect_as_arrow()  # PySpark 3.5 has the same under a private name only
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


def collect_at_most(frame: DataFrame, schema: pa.Schema, limit: int, *, share: int = 0) -> pa.Table | None:
    """Return all rows at the driver; None if they exceed ``limit`` bytes (then all are discarded).

    In addition to the received bytes, the driver holds at most one ``share`` for each running task. By default all shares together are at most twice
    the limit, or 1 MB for each core if that is more. If the rows of one task exceed the share, the result is None, too.
    """
    session = session_of(frame.sparkSession)
    if session.is_at_driver(frame):
        rows = collect_arrow(frame, schema)
        return rows if rows.nbytes <= limit else None
    share = share or max(_LEAST_SHARE, min(limit, 2 * limit // session.cores))
    names = _names(schema)
    fields = [field.with_name(name).with_nullable(True) for field, name in zip(schema, names, strict=True)]
    source = frame if names == schema.names else frame.toDF(*names)
    counted = source.mapInArrow(_Counted(share), spark_types.to_spark(pa.schema([*fields, _MORE])))
    batches = _batches_at_most(_with_nullable_voids(counted) if _has_voids(frame) else counted, limit)
    if batches is None:
        return None
    own = (pa.RecordBatch.from_arrays(batch.columns[:-1], names=schema.names) for batch in batches)
    return pa.Table.from_batches([batch.cast(schema) for batch in own], schema)


def _names(schema: pa.Schema) -> list[str]:
    """Return the names of the columns. If `mapInArrow` would not find the columns by these names, return other names."""
    plain = len({name.lower() for name in schema.names}) == len(schema) and not any(
        set(name) & set("`.") for name in schema.names
    )
    return schema.names if plain else [f"c{number}" for number in range(len(schema))]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Task function: yields batches with a column of zeros.

    If the bytes exceed the share, the task sends one row without values and with 1 in this column, and ends.
    """

    share: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in batches:
            size += batch.get_total_buffer_size()
            more = size > self.share
            columns = [pa.nulls(1, field.type) for field in batch.schema] if more else batch.columns
            last = pa.repeat(pa.scalar(int(more), _MORE.type), 1 if more else batch.num_rows)
            yield pa.RecordBatch.from_arrays([*columns, last], names=[*batch.schema.names, _MORE.name])
            if more:
                return


def _batches_at_most(frame: DataFrame, limit: int) -> list[pa.RecordBatch] | None:
    return session_of(frame.sparkSession).batches_at_most(frame, limit)


def _has_voids(frame: DataFrame) -> bool:
    return "void" in frame.schema.simpleString()


def _with_nullable_voids(frame: DataFrame) -> DataFrame:
    if not _has_voids(frame):
        return frame
    kinds = {field.name: spark_types.with_nullable_elements(field.dataType) for field in frame.schema.fields}
    return frame.select([quoted(name).cast(kind).alias(name) for name, kind in kinds.items()])
