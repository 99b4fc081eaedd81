"""Convert the data that an asset or a task returns to the input of a table: a Spark DataFrame or an Arrow stream.

Rows come as one object, or in parts: an iterator, such as a generator, or a list of Arrow tables or batches with one schema. Other data is refused,
with advice what to return, so that no orchestrator repeats a step that cannot work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.lazy import lazy, lazy_call
from pyhudi_core.orchestration import polars_frames
from pyhudi_core.orchestration.partition_values import Value

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from pyhudi_core.engine.local import as_table
    from pyhudi_core.engine.pandas_frames import is_pandas
else:  # programs that only declare tables handle no rows
    pc = lazy("pyarrow.compute")
    as_table = lazy_call("pyhudi_core.engine.local", "as_table")
    is_pandas = lazy_call("pyhudi_core.engine.pandas_frames", "is_pandas")

_NULL = "__HIVE_DEFAULT_PARTITION__"
_HOW = {
    "Changes": "Return changes.to_arrow() or changes.to_spark(spark).",
    "Series": "A Series is not a frame: return series.to_frame().",
    "DataFrame": "Return one DataFrame: pandas.concat, polars.concat or unionByName make one of several; a generator yields Arrow batches.",
    "list of dict": "Return pyarrow.Table.from_pylist(rows).",
    "dict": "Return pyarrow.table(columns).",
    "async_generator": "Return the rows, or make the function a plain generator.",
}
_LISTS = (list, tuple)
_RETURN = "Return a Spark DataFrame, Arrow, pandas or polars data, HudiWrite(...), or None."


@dataclass(frozen=True, slots=True)
class Giver:
    """The source of the rows: words for errors, and a function that is called with a Spark session.

    Attributes:
        name: its name in errors: ``The asset``.
        how: what to return instead of the orchestrator's own values, by type name.
        claim: called with the Spark session of a DataFrame; the end of the step must cancel the jobs of this session.
    """

    name: str = "The function"
    how: Mapping[str, str] = field(default_factory=dict)
    claim: Callable[[Any], object] = lambda _: None


SOMEBODY = Giver()


def is_spark(data: Any) -> bool:
    """Say whether data is a Spark DataFrame, classic or Connect; imports no pyspark."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "sparkSession")


def normalised(
    data: Any,
    giver: Giver = SOMEBODY,
    *,
    keep_empty: bool = False,
    known: Callable[[], pa.Schema | None] = lambda: None,
) -> Any:
    """Return a Spark DataFrame, or a ``pyarrow`` table or reader. Raises `SchemaMismatchError`.

    None if there is nothing to write. With ``keep_empty`` a table without rows is returned, for operations in which an empty batch has a meaning.
    ``known`` returns the columns of the table; it is called only for a pandas frame, which has lists of pairs for maps.
    """
    refuse_no_rows(data, giver)
    if data is None or is_spark(data):
        if data is not None:
            giver.claim(data.sparkSession)
        return data
    rows = _joined(iter(data), giver) if _is_in_parts(data) else _read(data, giver, known)
    if isinstance(rows, pa.Table):
        return rows if rows.num_rows or keep_empty else None
    return rows


def refuse_no_rows(data: Any, giver: Giver) -> None:
    """Raise `SchemaMismatchError` if the value is not data. Does not read from iterators."""
    if not (data is None or is_spark(data) or isinstance(data, Iterator) or _is_rows(data)) and not (
        _is_in_parts(data) and all(map(_is_part, data))
    ):
        raise _no_rows(data, giver, "returned")


def _is_in_parts(data: Any) -> bool:
    """Say whether the rows come in parts. A reader has its own stream; named tuples, such as events of Dagster, are not lists."""
    if type(data) in _LISTS:
        return len(data) > 0
    return isinstance(data, Iterator) and not isinstance(data, pa.RecordBatchReader)


def _is_part(data: Any) -> bool:
    return isinstance(data, pa.RecordBatch | pa.Table)


def _is_rows(data: Any) -> bool:
    """Say whether a value is a table or a batch of any library; a column is not."""
    kind = type(data)
    if kind is type or kind.__name__ in ("Series", "ChunkedArray"):
        return False
    is_frame = is_pandas(kind) or polars_frames.is_polars(kind)
    return is_frame or _is_part(data) or hasattr(data, "__arrow_c_stream__")


def _read(rows: Any, giver: Giver, known: Callable[[], pa.Schema | None]) -> pa.Table | pa.RecordBatchReader:
    """Return the rows of one object: a frame as a table, other Arrow data unchanged or as a stream."""
    if polars_frames.is_polars(type(rows)):
        return polars_frames.to_arrow(rows)
    if is_pandas(type(rows)):
        return as_table(rows, known())
    if isinstance(rows, pa.RecordBatch):
        return as_table(rows)
    if isinstance(rows, pa.Table | pa.RecordBatchReader):
        return rows
    try:
        return pa.RecordBatchReader.from_stream(rows)
    except (pa.ArrowException, TypeError) as error:
        raise _no_rows(rows, giver, "returned") from error


def _joined(parts: Iterator[Any], giver: Giver) -> pa.RecordBatchReader | None:
    """Return the rows of all parts as one stream with the columns of the first part; None if there is no part."""
    batches = _batches(parts, giver)
    first = next(batches, None)
    return None if first is None else pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


def _batches(parts: Iterator[Any], giver: Giver) -> Iterator[pa.RecordBatch]:
    schema = None
    for number, part in enumerate(parts, 1):
        if not _is_part(part):
            raise _no_rows(part, giver, "yielded")
        schema = part.schema if schema is None else schema
        if not part.schema.equals(schema):
            raise SchemaMismatchError(
                f"Part {number} of the rows has the columns {_columns(part.schema)}, and the first part has {_columns(schema)}",
                hint="Give all parts the same columns and types: part.select(schema.names).cast(schema).",
            )
        yield from part.to_batches() if isinstance(part, pa.Table) else [part]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _no_rows(data: Any, giver: Giver, verb: str) -> SchemaMismatchError:
    name = type(data).__qualname__
    if type(data) in _LISTS and data:
        name = f"{name} of {next(type(each).__qualname__ for each in data if not _is_part(each))}"
    how = {**_HOW, **giver.how}
    hint = how.get(name) or how.get(name.rpartition(" of ")[2], _RETURN)
    return SchemaMismatchError(f"{giver.name} {verb} {name}, which is not a supported type of data", hint=hint)


def schema_of(data: Any) -> Any:
    """Return the schema (pyarrow's or Spark's) of data, even without rows; None if the data has no schema, or columns without a type."""
    if data is None or is_spark(data):
        return None if data is None else data.schema
    found = normalised(data, keep_empty=True)
    untyped = found is None or any(pa.types.is_null(field.type) for field in found.schema)
    return None if untyped else found.schema


def only_values(data: Any, columns: Sequence[str], values: Iterable[Value]) -> Any:
    """Return the rows whose partition columns have one of the values."""
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


def descriptions_of(schema: Any) -> dict[str, str]:
    """Return the descriptions of columns in the field metadata of an Arrow or Spark schema: ``description``, or Spark's ``comment``."""
    found: dict[str, str] = {}
    for column in schema if schema is not None else ():
        entries = {_text(name): value for name, value in (getattr(column, "metadata", None) or {}).items()}
        if said := entries.get("description") or entries.get("comment"):
            found[column.name] = _text(said)
    return found


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
