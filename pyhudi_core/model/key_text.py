"""The text of column values in record keys and partition paths.

The text is that of Apache Hudi's writer on its Avro path (upsert, insert, delete): ``Object.toString`` of the value, with dates as ``LocalDate`` and
decimals as ``BigDecimal``; timestamps are microseconds since the epoch. Hudi's row writer (bulk_insert) formats timestamps differently, so partition
columns must not be timestamps. Java releases differ in the text of floating-point numbers, so neither keys nor partition columns may be floats;
binaries, times and nested values are refused too.

Invariant: two values of one column have the same text if and only if they are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def key_column(batch: pa.RecordBatch, field: str) -> pa.Array | None:
    """Return a column by its name or its dotted path into structs; None if it does not exist."""
    index = batch.schema.get_field_index(field)
    if index >= 0:
        return batch.column(index)
    root, *path = field.split(".")
    index = batch.schema.get_field_index(root)
    if index < 0 or not path:
        return None
    column = batch.column(index)
    for part in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return None
        column = pc.struct_field(column, part)
    return column


def text_problem(kind: pa.DataType, *, timestamps: bool) -> str | None:
    """Return the reason why the values of a type have no agreed text; None if they have one."""
    if pa.types.is_dictionary(kind):
        return text_problem(kind.value_type, timestamps=timestamps)
    if pa.types.is_floating(kind):
        return "Java releases write floating-point numbers in different ways"
    if pa.types.is_timestamp(kind):
        if timestamps:
            return None
        return "Hudi's operations write timestamps in different ways; derive a date or a string column"
    if pa.types.is_decimal(kind):
        return "its scale is negative" if kind.scale < 0 else None
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_null(kind):
        return None
    if is_text(kind):
        return None
    return f"{kind} has no text form that every Hudi release agrees on"


def is_text(kind: pa.DataType) -> bool:
    """Say whether a type is one of Arrow's string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def without_dictionary(values: Any) -> Any:
    """Return a column with its values in place of a dictionary. Categories of Polars are string views, which Arrow does not decode itself."""
    kind = values.type
    if not pa.types.is_dictionary(kind):
        return values
    if kind.value_type in _VIEWS:
        values = values.cast(pa.dictionary(kind.index_type, _VIEWS[kind.value_type], kind.ordered))
    return values.dictionary_decode()


def as_text(column: pa.Array) -> pa.Array:
    """Convert a column without a ``text_problem`` into a string array; nulls stay null."""
    column = without_dictionary(column)
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_date(kind):
        # java.time writes a sign before years of more than four digits.
        return pc.replace_substring_regex(column.cast(pa.date32()).cast(pa.string()), r"^(\d{5,})", r"+\1")
    return column.cast(pa.string())


def can_mark(kind: pa.DataType) -> bool:
    """Say whether a text column of this type can mark deletes: Java and Arrow write its values with the same text."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
    )
