"""Number the columns of a schema (`internal_schema`): existing columns keep their numbers, and new columns get new numbers.

Hudi's documentation, "Schema Evolution". All columns of one level get their numbers first, then the columns inside of them, as in Hudi. A number is
never used twice, so that a new column cannot read the values of a dropped column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.model.internal_schema import NumberedColumn, Version
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION
from pyhudi_core.model.schema_types import joined

_PLAIN: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
}
Origins = Mapping[str, str]
"""Old dotted paths of columns by new ones; a path that is missing is a new column."""


def plain_kind(kind: pa.DataType) -> str:
    """Return Hudi's word for a type without columns inside. Timestamps with and without zone have the same word."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return _PLAIN[kind]


def first_version(schema: pa.Schema, *, meta_fields: bool, operation: bool) -> Version:
    """Return the version before the first change. ``operation``: rows have the sixth meta column."""
    meta = [*(META_FIELDS if meta_fields else ()), *([OPERATION] if operation else ())]
    fields = [pa.field(name, pa.string()) for name in meta]
    numbers = _Numbering({}, {}, None, -1)
    columns = numbers.fields([*fields, *schema], "")
    docs = dict.fromkeys(META_FIELDS, "")
    named = tuple(NumberedColumn(c.number, c.name, c.inside, c.kind, c.optional, docs.get(c.name)) for c in columns)
    return Version(0, named, numbers.greatest)


def renumbered(
    last: Version, greatest: int, before: pa.Schema, after: pa.Schema, number: int, origins: Origins | None = None
) -> Version:
    """Return the version of a changed schema; ``last`` itself if no column has changed.

    Args:
        greatest: the greatest number that any version has used.
        before, after: the table's columns, without meta columns.
        number: the number of the new version.
        origins: the old names of columns; None if no name changed.
    """
    known = dict(_paths(last.columns, ""))
    types = dict(column_paths(before))
    numbers = _Numbering(known, types, origins, greatest)
    data = set(before.names)
    meta = tuple(column for column in last.columns if column.name not in data)
    columns = (*meta, *numbers.fields(after, ""))
    return last if columns == last.columns else Version(number, columns, numbers.greatest)


@dataclass(slots=True)
class _Numbering:
    """The state of one call: columns and types of the last version by dotted path, and the greatest number so far."""

    known: Mapping[str, NumberedColumn]
    types: Mapping[str, pa.DataType]
    origins: Origins | None
    greatest: int

    def fields(self, fields: Iterable[pa.Field], parent: str) -> tuple[NumberedColumn, ...]:
        """Return the columns of one level, which have the dotted path ``parent`` in the new schema."""
        listed = list(fields)
        paths = [joined(parent, field.name) for field in listed]
        old = [self._old(path) for path in paths]
        numbers = [self._next() if column is None else column.number for column in old]
        return tuple(
            self._column(field.name, field.type, path, column, number)
            for field, path, column, number in zip(listed, paths, old, numbers, strict=True)
        )

    def _column(
        self, name: str, kind: pa.DataType, path: str, old: NumberedColumn | None, number: int
    ) -> NumberedColumn:
        optional, doc = (True, None) if old is None else (old.optional, old.doc)
        types = pa.types
        if types.is_struct(kind):
            return NumberedColumn(number, name, self.fields(kind.fields, path), "record", optional, doc)
        if types.is_list(kind):
            element = self.fields([pa.field("element", kind.value_type)], path)
            return NumberedColumn(number, name, element, "array", optional, doc)
        if types.is_map(kind):
            parts = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
            key, value = self.fields(parts, path)
            key = NumberedColumn(key.number, key.name, key.inside, key.kind, False)
            return NumberedColumn(number, name, (key, value), "map", optional, doc)
        # An existing column keeps its word, because Hudi has some words, such as fixed[16], that Arrow's type does not show.
        same = old is not None and self.types.get(self._origin(path)) == kind
        word = old.kind if same and old is not None else plain_kind(kind)
        return NumberedColumn(number, name, (), word, optional, doc)

    def _origin(self, path: str) -> str:
        return path if self.origins is None else self.origins.get(path, "")

    def _old(self, path: str) -> NumberedColumn | None:
        return self.known.get(self._origin(path))

    def _next(self) -> int:
        self.greatest += 1
        return self.greatest


def numbered_paths(columns: Iterable[NumberedColumn]) -> Mapping[str, int]:
    """Return the numbers of columns, nested ones too, by dotted path."""
    return {path: column.number for path, column in _paths(columns, "")}


def _paths(columns: Iterable[NumberedColumn], parent: str) -> Iterator[tuple[str, NumberedColumn]]:
    for column in columns:
        path = joined(parent, column.name)
        yield path, column
        yield from _paths(column.inside, path)


def column_paths(fields: Iterable[pa.Field], parent: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Yield the dotted paths of columns, nested ones too, and their types."""
    for field in fields:
        path, kind = joined(parent, field.name), field.type
        yield path, kind
        yield from column_paths(parts_of(kind), path)


def parts_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the columns inside a type, by Hudi's names."""
    types = pa.types
    if types.is_struct(kind):
        return list(kind.fields)
    if types.is_list(kind):
        return [pa.field("element", kind.value_type)]
    if types.is_map(kind):
        return [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
    return []


def with_parts(kind: pa.DataType, part: Callable[[list[pa.Field]], list[pa.Field]]) -> pa.DataType:
    """Return the type with other columns inside; ``part`` converts the columns of `parts_of`. A plain type has none, and does not change."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct(part(list(kind.fields)))
    if types.is_list(kind):
        return pa.list_(part(parts_of(kind))[0].type)
    if types.is_map(kind):
        return pa.map_(pa.string(), part(parts_of(kind))[1].type)
    return kind
