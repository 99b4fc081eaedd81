"""Converts the data that an asset may return to the input of a table: a Spark DataFrame or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import SchemaMismatchError
from pyhudi_dagster import interrupts, polars_frames
from pyhudi_dagster.partition_values import Value

_NULL = "__HIVE_DEFAULT_PARTITION__"


def is_spark(data: Any) -> bool:
    """Whether it is a Spark DataFrame, classic or Connect; imports no pyspark."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "sparkSession")


def normalised(data: Any, *, keep_empty: bool = False) -> Any:
    """A Spark DataFrame, or a ``pyarrow`` table or reader. Raises `SchemaMismatchError`.

    None if there is nothing to write. With ``keep_empty`` a table without rows is returned, for operations to which an empty batch has a meaning.
    """
    if data is None or is_spark(data):
        if data is not None:
            interrupts.claim(data.sparkSession)
        return data
    if polars_frames.is_polars(type(data)):
        data = polars_frames.to_arrow(data)
    elif type(data).__module__.startswith("pandas."):
        data = pa.Table.from_pandas(data, preserve_index=False)
    elif isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Iterator) or (isinstance(data, Sequence) and data and isinstance(data[0], pa.RecordBatch)):
        data = _reader(data)
    elif hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.Table | pa.RecordBatchReader):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.Table):
        return data if data.num_rows or keep_empty else None
    if isinstance(data, pa.RecordBatchReader) or data is None:
        return data
    raise _no_rows(data, "The asset")


def refuse_no_rows(data: Any, whose: str) -> None:
    """Raise `SchemaMismatchError` if it is no data at all. It does not read what an iterator returns."""
    known = is_spark(data) or polars_frames.is_polars(type(data)) or type(data).__module__.startswith("pandas.")
    batches = isinstance(data, Sequence) and bool(data) and isinstance(data[0], pa.RecordBatch)
    streams = isinstance(data, Iterator | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__")
    if not (data is None or known or batches or streams):
        raise _no_rows(data, whose)


def _no_rows(data: Any, whose: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"{whose} returned {type(data).__qualname__}, which is not a supported type of data",
        hint="Return a Spark DataFrame, Arrow, pandas or polars data, HudiWrite(...), or None.",
    )


def schema_of(data: Any) -> Any:
    """The schema of data, also of data without rows: pyarrow's or Spark's; None if the data has no schema, or columns without a type."""
    if data is None or is_spark(data):
        return None if data is None else data.schema
    found = normalised(data, keep_empty=True)
    untyped = found is None or any(pa.types.is_null(field.type) for field in found.schema)
    return None if untyped else found.schema


def only_values(data: Any, columns: Sequence[str], values: Iterable[Value]) -> Any:
    """Only the rows whose partition columns have one of the values."""
    allowed = ["/".join(value) for value in values]
    if is_spark(data):
        from pyspark.sql import functions  # noqa: PLC0415 - the data is a Spark DataFrame, so pyspark is installed

        parts = [functions.coalesce(functions.col(name).cast("string"), functions.lit(_NULL)) for name in columns]
        return data.where(functions.concat_ws("/", *parts).isin(allowed))
    reader = data.to_reader() if isinstance(data, pa.Table) else data
    filtered = (_only(batch, columns, pa.array(allowed, pa.string())) for batch in reader)
    return pa.Table.from_batches(filtered, schema=reader.schema)


def _only(batch: pa.RecordBatch, columns: Sequence[str], allowed: pa.Array) -> pa.RecordBatch:
    texts = [pc.fill_null(pc.cast(batch[name], pa.string()), _NULL) for name in columns]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/")
    return batch.filter(pc.is_in(joined, value_set=allowed))


def _reader(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    stream = iter(batches)
    first = next(stream, None)
    return None if first is None else pa.RecordBatchReader.from_batches(first.schema, chain([first], stream))
