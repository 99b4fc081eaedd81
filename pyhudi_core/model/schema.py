"""A table's logical schema, and its evolution.

The schema of a table is a pyarrow schema of the types in `schema_types`, without meta columns; everything is nullable. Every commit
stores it as Avro text (`schema_avro`), and batches are cast to it (`schema_cast`). Evolution follows the specification's section
"Schema": columns are only added, and types only widened (Avro's promotions), so that the newest schema can read every older file.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION
from pyhudi_core.model.numbering import column_paths, parts_of
from pyhudi_core.model.schema_avro import from_avro, to_avro
from pyhudi_core.model.schema_cast import cast_batch, conform, unfit_for_integers
from pyhudi_core.model.schema_types import MAX_DECIMAL_PRECISION, is_list, joined, logical_fields, type_for_both

__all__ = [
    "Level",
    "cast_batch",
    "changed_columns",
    "conform",
    "floats_for_integers",
    "from_avro",
    "normalise",
    "reconcile",
    "shared_levels",
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
        known: the table's schema, if it exists. What has no type in the data takes it from there: a column of nulls, also within a struct, the
            elements of lists that are all empty, and a struct without fields.

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
    """The type, with the table's one where it has none, as data from Python objects that are all missing or empty."""
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

    Columns of the table keep their order, also if the data lacks them; new columns are appended. A type becomes the
    wider of the two: int32 -> int64 -> float64, float32 -> float64, and decimals with more digits before the point; one with fewer digits
    behind it takes the table's scale. An integer and a float32 become float64, since float32 cannot hold all integers. The columns in
    ``integers`` (dotted paths) stay integers, because all floating-point numbers of the data fit into them. ``fixed`` are the columns that
    `table.alter` gives no other type.

    Raises:
        SchemaMismatchError: two types have no common type, or a new name differs from an existing one in case alone.
    """
    return pa.schema(_Meeting(integers, fixed).fields(table, incoming, ""))


def floats_for_integers(table: pa.Schema, incoming: pa.Schema, fixed: Container[str] = ()) -> dict[str, pa.DataType]:
    """Return the table's integer columns (dotted paths) that have a floating-point type in the data, with that type. Raises as `reconcile`."""
    meeting = _Meeting((), fixed)
    meeting.fields(table, incoming, "")
    return meeting.widened


class _Meeting:
    """The state of one call of `reconcile`. ``widened`` lists the integer columns that became float64."""

    def __init__(self, integers: Container[str], fixed: Container[str]) -> None:
        self._integers, self._fixed = integers, fixed
        self.widened: dict[str, pa.DataType] = {}

    def fields(self, table: Iterable[pa.Field], incoming: Iterable[pa.Field], parent: str) -> list[pa.Field]:
        merged = {field.name: field for field in table}
        lower = {name.lower(): name for name in merged}
        for field in incoming:
            column = joined(parent, field.name)
            known = merged.get(field.name)
            if known is not None:
                merged[field.name] = pa.field(field.name, self._type(known.type, field.type, column))
                continue
            other = lower.setdefault(field.name.lower(), field.name)
            if other != field.name:
                raise SchemaMismatchError(
                    f"Column {column} of the data and column {joined(parent, other)} of the table differ in case alone",
                    hint=f"Rename the data's column to {other}",
                )
            merged[field.name] = field
        return list(merged.values())

    def _type(self, table: pa.DataType, incoming: pa.DataType, column: str) -> pa.DataType:
        if table == incoming:
            return table
        types = pa.types
        if table in _NUMBERS and incoming in _NUMBERS:
            return self._number(table, incoming, column)
        if types.is_decimal(table) and types.is_decimal(incoming) and incoming.scale <= table.scale:
            # Arrow infers precision and scale of Python's decimals from the values of the batch, so both may be smaller than the table's.
            whole = max(table.precision - table.scale, incoming.precision - incoming.scale)
            return pa.decimal128(min(whole + table.scale, MAX_DECIMAL_PRECISION), table.scale)
        if types.is_list(table) and types.is_list(incoming):
            return pa.list_(self._type(table.value_type, incoming.value_type, f"{column}.element"))
        if types.is_map(table) and types.is_map(incoming):
            return pa.map_(pa.string(), self._type(table.item_type, incoming.item_type, f"{column}.value"))
        if types.is_struct(table) and types.is_struct(incoming):
            return pa.struct(self.fields(table.fields, incoming.fields, column))
        raise SchemaMismatchError(
            f"Column {column} is {table} in the table and {incoming} in the data",
            hint=self._ways_out(table, incoming, column),
        )

    def _ways_out(self, table: pa.DataType, incoming: pa.DataType, column: str) -> str:
        cast = f"Cast the data's column to {table}, or write it under another name"
        both = None if column.partition(".")[0] in self._fixed else type_for_both(table, incoming)
        if both is None:
            return cast
        made = str(both) if pa.types.is_decimal(both) else f"{both}()"
        return f"Make the column wider: table.alter(retype={{{column!r}: pa.{made}}}). Or cast the data's column to {table}"

    def _number(self, table: pa.DataType, incoming: pa.DataType, column: str) -> pa.DataType:
        if _NUMBERS.index(incoming) <= _NUMBERS.index(table):
            return table
        if not (pa.types.is_integer(table) and pa.types.is_floating(incoming)):
            return incoming
        if column in self._integers:
            return table
        self.widened[column] = table
        return pa.float64()


@dataclass(frozen=True, slots=True)
class Level:
    """Names that table and data have side by side: the columns (``parent`` is empty), or the fields of a struct at a dotted path."""

    parent: str
    table: tuple[str, ...]
    data: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        """The names that only the table has."""
        return [name for name in self.table if name not in self.data]

    @property
    def new(self) -> list[str]:
        """The names that only the data has."""
        return [name for name in self.data if name not in self.table]


def shared_levels(table: pa.Schema, data: pa.Schema) -> Iterator[Level]:
    """Iterate over the columns, and over the fields of every struct that both schemas have, also in lists and in values of maps."""
    return _levels(list(table), list(data), "")


def _levels(table: list[pa.Field], data: list[pa.Field], parent: str) -> Iterator[Level]:
    yield Level(parent, tuple(field.name for field in table), tuple(field.name for field in data))
    given = {field.name: field.type for field in data}
    for field in table:
        if field.name in given:
            yield from _levels_inside(field.type, given[field.name], joined(parent, field.name))


def _levels_inside(table: pa.DataType, data: pa.DataType, column: str) -> Iterator[Level]:
    types = pa.types
    if types.is_struct(table) and types.is_struct(data):
        yield from _levels(list(table.fields), list(data.fields), column)
    elif types.is_list(table) and is_list(data):
        yield from _levels_inside(table.value_type, data.value_type, f"{column}.element")
    elif types.is_map(table) and types.is_map(data):
        yield from _levels_inside(table.item_type, data.item_type, f"{column}.value")


def changed_columns(before: pa.Schema, after: pa.Schema) -> tuple[list[str], list[str]]:
    """Return the columns (dotted paths) that ``after`` has in addition, and those that have another type there; nested ones by themselves."""
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
    return [column for field in schema for column in _times(field.type, field.name)]


def _times(kind: pa.DataType, column: str) -> list[str]:
    types = pa.types
    if types.is_time(kind):
        return [column]
    if types.is_list(kind):
        return _times(kind.value_type, f"{column}.element")
    if types.is_map(kind):
        return _times(kind.item_type, f"{column}.value")
    if types.is_struct(kind):
        return [found for field in kind.fields for found in _times(field.type, joined(column, field.name))]
    return []
