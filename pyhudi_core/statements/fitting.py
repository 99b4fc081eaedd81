"""Convert the rows of a query to the types of a table. Every value is stored unchanged, or the statement is refused before anything is written.

A number goes into a column of another type of numbers if the column can hold the number exactly. A decimal goes into a floating-point column as the
nearest number; literals such as 2.5 are decimals in Spark. A text in ISO form becomes a date or a time. The rules of all writes apply to all other
values.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError
from pyhudi_core.predicates.coercion import is_number, is_string
from pyhudi_core.predicates.number_casts import number_as

_ZONED = r":\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"
"""The pattern of a text that is a time with a time zone."""


def fitted(rows: pa.Table, schema: pa.Schema, table: str) -> pa.Table:
    """Return the columns of a schema, from the columns of the rows with the same names, in the types of the schema. Raises `DataError` for a value
    that does not fit.
    """
    return pa.table([_fitted(rows.column(field.name), field, table) for field in schema], schema.names)


def _fitted(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    test, kind, target = pa.types, column.type, field.type
    if kind == target:
        return column
    if other := _other_fields(kind, target):
        raise DataError(
            f"Column {field.name} is {target}, and a value of the statement does not fit: {other}",
            table=table,
            hint="Give each field by its name, NULL too: named_struct('x', 1, 'y', NULL). Nothing was written.",
        )
    try:
        if is_number(kind) and is_number(target):
            return _number(column, target)
        if is_string(kind) and (test.is_date(target) or test.is_timestamp(target)):
            return _time(column, target)
        times = (test.is_timestamp(kind) and test.is_date(target)) or (test.is_date(kind) and test.is_timestamp(target))
        if test.is_null(kind) or times or (test.is_nested(kind) and test.is_nested(target)):
            return column.cast(target)
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(
            f"Column {field.name} is {target}, and a value of the statement does not fit: {str(error).splitlines()[0]:.200}",
            table=table,
            hint="Write round(...) or CAST(... AS ...) where a value is to be changed. Nothing was written.",
        ) from None
    return column


def _other_fields(kind: pa.DataType, target: pa.DataType) -> str:
    """Say which fields of structs, at any depth, are not fields of a column; Arrow's cast would drop them, or make them null."""
    test = pa.types
    if test.is_struct(kind) and test.is_struct(target):
        given, wanted = [field.name for field in kind], [field.name for field in target]
        if sorted(given) != sorted(wanted):
            return f"its struct has the fields {', '.join(given)}, and that of the column {', '.join(wanted)}"
        pairs = [(kind.field(name).type, target.field(name).type) for name in wanted]
    elif test.is_map(kind) and test.is_map(target):
        pairs = [(kind.key_type, target.key_type), (kind.item_type, target.item_type)]
    elif _is_list(kind) and _is_list(target):
        pairs = [(kind.value_type, target.value_type)]
    else:
        pairs = []
    return next(filter(None, (_other_fields(*pair) for pair in pairs)), "")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _number(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_decimal(target):
        raise pa.ArrowInvalid(f"it is {column.type}, whose values are not decimals")
    return number_as(column, target)


def _time(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(target) or target.tz is None:
        return column.cast(target)
    zoned = pc.fill_null(pc.match_substring_regex(column, _ZONED), False)
    moments = pc.if_else(zoned, column, None).cast(pa.timestamp(target.unit, "UTC")).cast(pa.int64())
    plain = pc.if_else(zoned, None, column).cast(pa.timestamp(target.unit)).cast(pa.int64())  # in UTC
    return pc.coalesce(moments, plain).cast(target)
