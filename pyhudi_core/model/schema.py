"""A table's logical schema, and its evolution.

The schema of a table is a pyarrow schema of the types in `schema_types`, without meta columns; everything is nullable. Every commit
stores it as Avro text (`schema_avro`), and batches are cast to it (`schema_cast`). Evolution follows the specification's section
"Schema": columns are only added, and types only widened (Avro's promotions), so that the newest schema can read every older file.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import partial

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION
from pyhudi_core.model.numbering import column_paths, parts_of
from pyhudi_core.model.schema_avro import from_avro, to_avro
from pyhudi_core.model.schema_cast import cast_batch, conform, unfit_for_integers
from pyhudi_core.model.schema_types import (
    MAX_DECIMAL_PRECISION,
    Column,
    ColumnRule,
    Level,
    is_list,
    joined,
    keep_rules,
    logical_fields,
    type_for_both,
    walk,
)

__all__ = [
    "cast_batch",
    "changed_columns",
    "conform",
    "floats_for_integers",
    "from_avro",
    "normalise",
    "reconcile",
    "spark_incompatible",
    "to_avro",
    "unfit_for_integers",
]

_META = frozenset((*META_FIELDS, OPERATION))

_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())


def normalise(schema: pa.Schema, *, known: pa.Schema | None = None) -> pa.Schema:
    """Return the logical schema of data with this Arrow schema, without meta columns.

    Args:
        schema: the schema of the data.
        known: the table's schema, if it exists. It gives the types that the data does not show: of a column of nulls (also within a struct), of the
            elements of empty lists, and of a struct without fields.

    Raises:
        SchemaMismatchError: a type or name is not allowed in a table, or a name occurs twice, also in two cases.
    """
    fields = [field for field in schema if field.name not in _META]
    if known is not None:
        fields = _typed_fields(fields, known)
    return pa.schema(logical_fields(fields))


def _typed_fields(fields: Iterable[pa.Field], known: pa.Schema | pa.StructType) -> list[pa.Field]:
    there = {field.name: field.type for field in known}
    return [
        field.with_type(_typed(field.type, there[field.name])) if field.name in there else field for field in fields
    ]


def _typed(kind: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return the type. If the type is not known, because all values are missing or empty Python objects, return the table's type."""
    types = pa.types
    if types.is_null(kind):
        return known
    if types.is_struct(kind) and types.is_struct(known):
        return pa.struct(_typed_fields(kind.fields, known)) if kind.num_fields else known
    if is_list(kind) and types.is_list(known):
        return pa.list_(_typed(kind.value_type, known.value_type))
    if types.is_map(kind) and types.is_map(known):
        return pa.map_(kind.key_type, _typed(kind.item_type, known.item_type))
    return kind


def reconcile(
    table: pa.Schema, incoming: pa.Schema, integers: Container[str] = (), fixed: Container[str] = ()
) -> pa.Schema:
    """Return the table's schema after a write of data with the ``incoming`` schema; both are logical.

    Columns of the table keep their order, also if the data lacks them; new columns are appended. The type of a column becomes the wider type of the
    two: int32 -> int64 -> float64, float32 -> float64, and decimals with more digits before the point. A decimal with fewer digits behind the point
    takes the table's scale. An integer and a float32 become float64, since float32 cannot hold all integers. The columns in ``integers`` (dotted
    paths) stay integers, because all floating-point numbers of the data fit into them. ``fixed`` are the columns whose type `table.alter` cannot
    change.

    Raises:
        SchemaMismatchError: two types have no common type, or a new name differs from an existing one in case alone.
    """
    keep_rules(meeting_rules(fixed), walk(incoming, table))
    return pa.schema(_met(table, incoming, "", integers))


def floats_for_integers(table: pa.Schema, incoming: pa.Schema, fixed: Container[str] = ()) -> dict[str, pa.DataType]:
    """Return the table's integer columns (dotted paths) that have a floating-point type in the data, with that type. Raises as `reconcile`."""
    seen = list(walk(incoming, table))
    keep_rules(meeting_rules(fixed), seen)
    columns = [one for one in seen if isinstance(one, Column) and one.table is not None]
    return {one.path: one.table for one in columns if pa.types.is_integer(one.table) and pa.types.is_floating(one.data)}


def _met(
    table: Iterable[pa.Field], incoming: Iterable[pa.Field], parent: str, integers: Container[str]
) -> list[pa.Field]:
    """Return the combined columns of table and data, as the rules allow."""
    merged = {field.name: field for field in table}
    for field in incoming:
        known = merged.get(field.name)
        met = field.type if known is None else _met_type(known.type, field.type, joined(parent, field.name), integers)
        merged[field.name] = pa.field(field.name, met)
    return list(merged.values())


def _met_type(table: pa.DataType, incoming: pa.DataType, column: str, integers: Container[str]) -> pa.DataType:
    types = pa.types
    if types.is_list(table) and types.is_list(incoming):
        return pa.list_(_met_type(table.value_type, incoming.value_type, f"{column}.element", integers))
    if types.is_map(table) and types.is_map(incoming):
        return pa.map_(pa.string(), _met_type(table.item_type, incoming.item_type, f"{column}.value", integers))
    if types.is_struct(table) and types.is_struct(incoming):
        return pa.struct(_met(table.fields, incoming.fields, column, integers))
    met = _common(table, incoming)
    assert met is not None, "the rules allow types with a common type only"
    return table if column in integers and types.is_integer(table) and types.is_floating(incoming) else met


def _common(table: pa.DataType, incoming: pa.DataType) -> pa.DataType | None:
    """Return the common type of a column and of its data, without nested columns; None if there is none."""
    types = pa.types
    if table == incoming:
        return table
    if table in _NUMBERS and incoming in _NUMBERS:
        if _NUMBERS.index(incoming) <= _NUMBERS.index(table):
            return table
        return pa.float64() if types.is_integer(table) and types.is_floating(incoming) else incoming
    if types.is_decimal(table) and types.is_decimal(incoming) and incoming.scale <= table.scale:
        # Arrow infers precision and scale of Python's decimals from the values of the batch, so both may be smaller than the table's.
        whole = max(table.precision - table.scale, incoming.precision - incoming.scale)
        return pa.decimal128(min(whole + table.scale, MAX_DECIMAL_PRECISION), table.scale)
    return None


def meeting_rules(fixed: Container[str]) -> tuple[ColumnRule, ...]:
    """Return the rules that compare data with the table. ``fixed``: the columns whose type `table.alter` cannot change."""
    return (
        ColumnRule("a name in another case", of_level=_in_another_case),
        ColumnRule("another type", of_column=partial(_other_type, fixed)),
    )


def _in_another_case(level: Level) -> SchemaMismatchError | None:
    lower = {name.lower(): name for name in level.table or ()}
    for name in level.new:
        other = lower.get(name.lower(), name)
        if other != name:
            return SchemaMismatchError(
                f"Column {joined(level.parent, name)} of the data and column {joined(level.parent, other)} of the table differ in case alone",
                hint=f"Rename the data's column to {other}",
            )
    return None


def _other_type(fixed: Container[str], column: Column) -> SchemaMismatchError | None:
    table, incoming, types = column.table, column.data, pa.types
    if table is None or any(
        is_kind(table) and is_kind(incoming) for is_kind in (types.is_list, types.is_map, types.is_struct)
    ):
        return None  # what is inside is a column by itself
    if _common(table, incoming) is not None:
        return None
    return SchemaMismatchError(
        f"Column {column.path} is {table} in the table and {incoming} in the data",
        hint=_ways_out(table, incoming, column.path, fixed),
    )


def _ways_out(table: pa.DataType, incoming: pa.DataType, column: str, fixed: Container[str]) -> str:
    cast = f"Cast the data's column to {table}, or write it under another name"
    both = None if column.partition(".")[0] in fixed else type_for_both(table, incoming)
    if both is None:
        return cast
    made = str(both) if pa.types.is_decimal(both) else f"{both}()"
    return f"Make the column wider: table.alter(retype={{{column!r}: pa.{made}}}). Or cast the data's column to {table}"


def changed_columns(before: pa.Schema, after: pa.Schema) -> tuple[list[str], list[str]]:
    """Return the columns (dotted paths) that are new in ``after``, and those that have another type in ``after``; nested columns are listed
    separately.
    """
    known = dict(column_paths(before))
    added = [path for path, _ in column_paths(after) if path not in known]
    new = tuple(f"{path}." for path in added)
    retyped = [
        path
        for path, kind in column_paths(after)
        if path in known and known[path] != kind and not (parts_of(kind) and parts_of(known[path]))
    ]
    return [path for path in added if not path.startswith(new)], retyped


def spark_incompatible(schema: pa.Schema) -> list[str]:
    """Return the columns (dotted paths) with types that Spark does not have: times of day."""
    return [one.path for one in walk(schema) if isinstance(one, Column) and pa.types.is_time(one.data)]
