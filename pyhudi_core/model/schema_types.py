"""The logical column types of a table, and the logical type of each Arrow type.

Columns have the types that Hudi's Avro schemas can express: bool, int32, int64, float32, float64, string,
binary, date32, time64[us], timestamp[us] with zone UTC or without zone, decimal128, list, map with string keys, and
struct. Every level is nullable. The specification's section "Schema" refers to Avro; where Arrow has more types, the
choice is the project's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError

AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_DECIMAL_PRECISION = 38
_DIGITS = {pa.int32(): 10, pa.int64(): 19}
_EXACT = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
    *((kind, pa.string()) for kind in (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32())),
}

_RESCUE = "Cast the column before writing, or leave it out"

_SAME = (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
_REPLACED: dict[pa.DataType, pa.DataType] = {
    **{kind: kind for kind in _SAME},
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def logical_type(kind: pa.DataType, column: str) -> pa.DataType:
    """Return the logical type of an Arrow type; ``column`` is for errors.

    Raises:
        SchemaMismatchError: no table can have such a column.
    """
    plain = _REPLACED.get(kind)
    if plain is not None:
        return plain
    types = pa.types
    if types.is_dictionary(kind):
        return logical_type(kind.value_type, column)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_decimal(kind):
        return _decimal(kind, column)
    if is_list(kind):
        return pa.list_(logical_type(kind.value_type, f"{column}.element"))
    if types.is_map(kind):
        return _map(kind, column)
    if types.is_struct(kind):
        return pa.struct(logical_fields(kind.fields, column))
    if types.is_null(kind):
        raise SchemaMismatchError(
            f"Column {column} holds only nulls and has no type", hint="Cast it to the type it should have"
        )
    raise SchemaMismatchError(f"Column {column} has type {kind}, which no Hudi table can hold", hint=_RESCUE)


def logical_fields(fields: Iterable[pa.Field], parent: str = "") -> list[pa.Field]:
    """Return the nullable logical fields of a schema or struct, without metadata; checks the names."""
    fields = list(fields)
    check_names([field.name for field in fields], parent)
    if not fields:
        raise SchemaMismatchError(
            f"Column {parent} is a struct without fields" if parent else "The schema has no columns",
            hint=_RESCUE if parent else "Give the columns of the rows, one at least: schema=data.schema.",
        )
    return [pa.field(field.name, logical_type(field.type, joined(parent, field.name))) for field in fields]


def check_names(names: list[str], parent: str = "") -> None:
    """Raise `SchemaMismatchError` for names that Avro does not allow, that occur twice, or that differ in case alone."""
    seen: dict[str, str] = {}
    for name in names:
        column = joined(parent, name)
        if not AVRO_NAME.fullmatch(name):
            raise SchemaMismatchError(
                f"Column name {column!r} cannot be written to a Hudi table",
                hint="Rename it to letters, digits and underscores, not beginning with a digit; hudi.rename_columns(data) renames all"
                " columns, and so does --rename snake of pyhudi import and bootstrap",
            )
        other = seen.get(name.lower())
        if other is None:
            seen[name.lower()] = name
            continue
        if other == name:
            raise SchemaMismatchError(f"Column {column} occurs twice", hint="Give each column its own name")
        raise SchemaMismatchError(
            f"Columns {joined(parent, other)} and {column} differ in case alone",
            hint="Spark does not distinguish them; rename one",
        )


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's list types."""
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def joined(parent: str, name: str) -> str:
    """Return the dotted path of a nested column."""
    return f"{parent}.{name}" if parent else name


def holds_all(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether a column of one logical type can become the other without losing a value; what `table.alter` may do."""
    types = pa.types
    if (before, after) in _EXACT or (types.is_decimal(before) and after == pa.string()):
        return True
    return bool(types.is_decimal(after)) and after == _decimal_for(before, after)


def type_for_both(table: pa.DataType, incoming: pa.DataType) -> pa.DataType | None:
    """Return the type by which a column of one logical type would also take values of the other; None if there is none."""
    if pa.types.is_decimal(incoming):
        return _decimal_for(table, incoming)
    return incoming if holds_all(table, incoming) else None


def _decimal_for(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType | None:
    """Return the smallest decimal with room for all values of two types, the second a decimal; None beyond the most digits of decimals."""
    if pa.types.is_decimal(kind):
        digits, scale = kind.precision - kind.scale, kind.scale
    elif kind in _DIGITS:
        digits, scale = _DIGITS[kind], 0
    else:
        return None
    scale = max(scale, wanted.scale)
    precision = max(digits, wanted.precision - wanted.scale) + scale
    return pa.decimal128(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def _decimal(kind: pa.DataType, column: str) -> pa.DataType:
    if kind.precision > MAX_DECIMAL_PRECISION:
        raise SchemaMismatchError(
            f"Column {column} has type {kind}; decimals have at most {MAX_DECIMAL_PRECISION} digits", hint=_RESCUE
        )
    if not 0 <= kind.scale <= kind.precision:
        raise SchemaMismatchError(
            f"Column {column} has type {kind}; a scale is between 0 and the precision", hint=_RESCUE
        )
    return pa.decimal128(kind.precision, kind.scale)


def _map(kind: pa.DataType, column: str) -> pa.DataType:
    key = logical_type(kind.key_type, f"{column}.key")
    if key != pa.string():
        raise SchemaMismatchError(f"Column {column} is a map with {kind.key_type} keys; keys are strings", hint=_RESCUE)
    return pa.map_(pa.string(), logical_type(kind.item_type, f"{column}.value"))
