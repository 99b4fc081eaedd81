"""The logical column types of a table, and the logical type of each Arrow type.

Columns have the types that Hudi's Avro schemas can express: bool, int32, int64, float32, float64, string,
binary, date32, time64[us], timestamp[us] with zone UTC or without zone, decimal128, list, map with string keys, and
struct. Every level is nullable. The specification's section "Schema" refers to Avro; where Arrow has more types, the
choice is the project's own.

`ColumnRule`s decide which names and types a column may have. `walk` shows them every level of a schema: the columns, the fields of structs, and the
contents of lists and maps. So a rule does not handle nesting itself. `COLUMN_RULES` are the rules that need only the data; ``model/schema.py`` has
the casts that compare with the table, ``write/coercion.py`` the casts of written rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Level:
    """The names of one level: the columns (``parent`` is empty), or the fields of a struct at a dotted path.

    ``table``: the names in the table, or None.
    """

    parent: str
    data: tuple[str, ...]
    table: tuple[str, ...] | None = None

    @property
    def missing(self) -> list[str]:
        """Return the names that only the table has."""
        return [name for name in self.table or () if name not in self.data]

    @property
    def new(self) -> list[str]:
        """Return the names that only the data has."""
        return [name for name in self.data if name not in (self.table or ())]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, a field, or the content of a list or a map, at a dotted path. ``table``: its type in the table, or None."""

    path: str
    data: pa.DataType
    table: pa.DataType | None = None


Fields = Iterable[pa.Field]


def walk(data: Fields, table: Fields | None = None, parent: str = "") -> Iterator[Level | Column]:
    """Iterate over every level of data and table: the names of a level, then each column with its nested levels."""
    fields, known = list(data), {field.name: field.type for field in table or ()}
    yield Level(parent, tuple(field.name for field in fields), None if table is None else tuple(known))
    for field in fields:
        yield from _inside(joined(parent, field.name), field.type, known.get(field.name))


def _inside(path: str, data: pa.DataType, table: pa.DataType | None) -> Iterator[Level | Column]:
    types = pa.types
    data = _values_of(data)
    yield Column(path, data, table)
    if types.is_struct(data):
        yield from walk(data.fields, table.fields if table is not None and types.is_struct(table) else None, path)
    elif is_list(data):
        inside = table.value_type if table is not None and types.is_list(table) else None
        yield from _inside(f"{path}.element", data.value_type, inside)
    elif types.is_map(data):
        key, value = (table.key_type, table.item_type) if table is not None and types.is_map(table) else (None, None)
        yield from _inside(f"{path}.key", data.key_type, key)
        yield from _inside(f"{path}.value", data.item_type, value)


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A rule for columns. ``of_level`` checks the names of each level, ``of_column`` each column; both return the error, or None.

    ``why_top``: why the rule applies only to the top level; empty for a rule that applies to every level.
    """

    name: str
    of_level: Callable[[Level], SchemaMismatchError | None] | None = None
    of_column: Callable[[Column], SchemaMismatchError | None] | None = None
    why_top: str = ""

    def asked(self, seen: Level | Column) -> SchemaMismatchError | None:
        """Return the error for a level or a column."""
        if isinstance(seen, Column):
            return self.of_column(seen) if self.of_column is not None else None
        return self.of_level(seen) if self.of_level is not None and not (self.why_top and seen.parent) else None


def keep_rules(rules: Sequence[ColumnRule], seen: Iterable[Level | Column]) -> None:
    """Raise the first error of a rule, in the order of the levels."""
    for one in seen:
        for rule in rules:
            if error := rule.asked(one):
                raise error


def logical_type(kind: pa.DataType, column: str) -> pa.DataType:
    """Return the logical type of an Arrow type; ``column`` is for errors.

    Raises:
        SchemaMismatchError: no table can have such a column.
    """
    keep_rules(COLUMN_RULES, _inside(column, kind, None))
    return _logical(kind)


def _logical(kind: pa.DataType) -> pa.DataType:
    """Return the logical type of an Arrow type that the rules allow."""
    plain = _REPLACED.get(kind)
    if plain is not None:
        return plain
    types = pa.types
    if types.is_dictionary(kind):
        return _logical(kind.value_type)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if is_list(kind):
        return pa.list_(_logical(kind.value_type))
    if types.is_map(kind):
        return pa.map_(pa.string(), _logical(kind.item_type))
    assert types.is_struct(kind), kind
    return pa.struct([pa.field(field.name, _logical(field.type)) for field in kind.fields])


def logical_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the nullable logical fields of a schema, without metadata. Raises `SchemaMismatchError` as `COLUMN_RULES` say."""
    fields = list(fields)
    keep_rules(COLUMN_RULES, walk(fields))
    return [pa.field(field.name, _logical(field.type)) for field in fields]


def _bad_name(level: Level) -> SchemaMismatchError | None:
    bad = next((name for name in level.data if not AVRO_NAME.fullmatch(name)), None)
    return (
        bad
        if bad is None
        else SchemaMismatchError(
            f"Column name {joined(level.parent, bad)!r} cannot be written to a Hudi table",
            hint="Rename it to letters, digits and underscores, not beginning with a digit; hudi.rename_columns(data) renames all"
            " columns, and so does --rename snake of pyhudi import and bootstrap",
        )
    )


def _twice(level: Level) -> SchemaMismatchError | None:
    twice = next((name for number, name in enumerate(level.data) if name in level.data[:number]), None)
    return (
        twice
        if twice is None
        else SchemaMismatchError(
            f"Column {joined(level.parent, twice)} occurs twice", hint="Give each column its own name"
        )
    )


def _in_two_cases(level: Level) -> SchemaMismatchError | None:
    seen: dict[str, str] = {}
    for name in level.data:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return SchemaMismatchError(
                f"Columns {joined(level.parent, other)} and {joined(level.parent, name)} differ in case alone",
                hint="Spark does not distinguish them; rename one",
            )
    return None


def _no_fields(level: Level) -> SchemaMismatchError | None:
    if level.data:
        return None
    if level.parent:
        return SchemaMismatchError(f"Column {level.parent} is a struct without fields", hint=_RESCUE)
    return SchemaMismatchError(
        "The schema has no columns", hint="Give the columns of the rows, one at least: schema=data.schema."
    )


def _no_type(column: Column) -> SchemaMismatchError | None:
    if not pa.types.is_null(column.data):
        return None
    return SchemaMismatchError(
        f"Column {column.path} holds only nulls and has no type", hint="Cast it to the type it should have"
    )


def _no_such_type(column: Column) -> SchemaMismatchError | None:
    kind, types = column.data, pa.types
    nested = is_list(kind) or types.is_map(kind) or types.is_struct(kind)
    time = types.is_timestamp(kind) or types.is_time(kind)
    if (
        kind in _REPLACED
        or types.is_null(kind)
        or nested
        or time
        or types.is_fixed_size_binary(kind)
        or types.is_decimal(kind)
    ):
        return None
    return SchemaMismatchError(f"Column {column.path} has type {kind}, which no Hudi table can hold", hint=_RESCUE)


def _decimals(column: Column) -> SchemaMismatchError | None:
    kind = column.data
    if not pa.types.is_decimal(kind):
        return None
    if kind.precision > MAX_DECIMAL_PRECISION:
        why = f"decimals have at most {MAX_DECIMAL_PRECISION} digits"
    elif not 0 <= kind.scale <= kind.precision:
        why = "a scale is between 0 and the precision"
    else:
        return None
    return SchemaMismatchError(f"Column {column.path} has type {kind}; {why}", hint=_RESCUE)


def _map_keys(column: Column) -> SchemaMismatchError | None:
    kind = column.data
    if not pa.types.is_map(kind) or _REPLACED.get(_values_of(kind.key_type)) == pa.string():
        return None
    return SchemaMismatchError(
        f"Column {column.path} is a map with {kind.key_type} keys; keys are strings", hint=_RESCUE
    )


def _values_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; for another type, the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


COLUMN_RULES = (
    ColumnRule("a name that Avro does not allow", of_level=_bad_name),
    ColumnRule("a name twice", of_level=_twice),
    ColumnRule("a name in two cases", of_level=_in_two_cases),
    ColumnRule("no columns", of_level=_no_fields),
    ColumnRule("no type", of_column=_no_type),
    ColumnRule("a type of no table", of_column=_no_such_type),
    ColumnRule("digits of decimals", of_column=_decimals),
    ColumnRule("keys of maps", of_column=_map_keys),
)
"""The rules that need only the data."""


def is_list(kind: pa.DataType) -> bool:
    """Say whether a type is one of Arrow's list types."""
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
    """Return whether every value of the first logical type fits into the second; `table.alter` can make such changes."""
    types = pa.types
    if (before, after) in _EXACT or (types.is_decimal(before) and after == pa.string()):
        return True
    return bool(types.is_decimal(after)) and after == _decimal_for(before, after)


def type_for_both(table: pa.DataType, incoming: pa.DataType) -> pa.DataType | None:
    """Return a common type for the values of both logical types; None if there is none."""
    if pa.types.is_decimal(incoming):
        return _decimal_for(table, incoming)
    return incoming if holds_all(table, incoming) else None


def _decimal_for(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType | None:
    """Return the smallest decimal type for all values of two types, of which the second is a decimal; None if it would need too many digits."""
    if pa.types.is_decimal(kind):
        digits, scale = kind.precision - kind.scale, kind.scale
    elif kind in _DIGITS:
        digits, scale = _DIGITS[kind], 0
    else:
        return None
    scale = max(scale, wanted.scale)
    precision = max(digits, wanted.precision - wanted.scale) + scale
    return pa.decimal128(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None
