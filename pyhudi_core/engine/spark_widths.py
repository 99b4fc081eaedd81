"""How many bytes the rows of a DataFrame take as Arrow: a number for what all rows have, and an expression for what depends on the values."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

_OFFSET = 4


def quoted(name: str) -> Column:
    """The column with exactly this name."""
    return F.col("`" + name.replace("`", "``") + "`")


def fixed_bytes(kind: pa.DataType) -> int:
    """Of each value of the type, with its validity; for one of no fixed length, of an empty one."""
    if pa.types.is_struct(kind):
        return 1 + sum(fixed_bytes(field.type) for field in _fields(kind))
    if _is_text(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        return 1 + _OFFSET
    return 1 + (0 if pa.types.is_null(kind) else max(1, kind.bit_width // 8))


def variable_bytes(kind: pa.DataType, value: Column) -> Column | None:
    """Of the value, without `fixed_bytes`; None if all values have the same."""
    if _is_text(kind):
        return _known(F.octet_length(value))
    if pa.types.is_struct(kind):
        found = [variable_bytes(field.type, value.getField(field.name)) for field in _fields(kind)]
        return _sum(column for column in found if column is not None)
    if pa.types.is_list(kind):
        return _of_elements(kind.value_type, value)
    if pa.types.is_map(kind):
        return _of_elements(kind.key_type, F.map_keys(value)) + _of_elements(kind.item_type, F.map_values(value))
    return None


def has_like_names(fields: Iterable[pa.Field]) -> bool:
    """Whether Spark, which does not look at case, would take two columns for one, at any level."""
    fields = list(fields)
    names = {field.name.lower() for field in fields}
    return len(names) < len(fields) or any(has_like_names(_inner(field.type)) for field in fields)


def _of_elements(kind: pa.DataType, values: Column) -> Column:
    fixed = _known(F.greatest(F.size(values), F.lit(0))) * fixed_bytes(kind)
    if variable_bytes(kind, F.lit(None)) is None:
        return fixed

    def plus(before: Column, element: Column) -> Column:
        own = variable_bytes(kind, element)
        return before if own is None else before + own

    return fixed + _known(F.aggregate(values, F.lit(0).cast("long"), plus))


def _known(size: Column) -> Column:
    return F.coalesce(size.cast("long"), F.lit(0).cast("long"))


def _sum(columns: Iterable[Column]) -> Column | None:
    total: Column | None = None
    for column in columns:
        total = column if total is None else total + column
    return total


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _fields(kind: pa.StructType) -> list[pa.Field]:
    return [kind.field(number) for number in range(kind.num_fields)]


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, also of one in lists and maps."""
    if pa.types.is_struct(kind):
        return _fields(kind)
    if pa.types.is_list(kind):
        return _inner(kind.value_type)
    return [*_inner(kind.key_type), *_inner(kind.item_type)] if pa.types.is_map(kind) else []
