"""Errors for names in a condition or expression that match no column: the known names, and the name that was probably meant."""

from __future__ import annotations

import difflib

import pyarrow as pa

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.spelling import meant_by
from pyhudi_core.predicates.tree import ColumnName

_SHOWN = 30
"""The maximum number of columns in a message."""


def unknown_column(column: ColumnName, known: tuple[str, ...], schema: pa.Schema) -> PredicateError:
    """Return the error for a name. ``known`` is the longest beginning of the name's path that the columns have, in their spelling."""
    kind: pa.DataType = pa.struct(list(schema))
    for name in known:
        kind = kind.field(name).type
    if column.path[0].lower() == "default" and not known:
        return _error(
            column,
            "which does not exist",
            "DEFAULT is a whole value by itself: SET price = DEFAULT, VALUES (1, DEFAULT)",
        )
    if not pa.types.is_struct(kind):
        inner = ".".join(known)
        return _error(
            column,
            f"but {inner} is a column of type {kind}, which has no field {column.path[len(known)]!r}",
            f"Write {inner} alone, or the name of another column"
            + ("" if len(known) > 1 else _qualified(column, schema)),
        )
    return _error(column, "which does not exist", _hint(column, known, kind, schema))


def _error(column: ColumnName, why: str, hint: str) -> PredicateError:
    return PredicateError(f"the where uses the column {column.name!r}{column.place}, {why}", hint=hint)


def _hint(column: ColumnName, known: tuple[str, ...], kind: pa.DataType, schema: pa.Schema) -> str:
    fields = [kind.field(index).name for index in range(kind.num_fields)]
    near = difflib.get_close_matches(column.path[len(known)], fields, n=1)
    structs = [name for name in fields if not known and pa.types.is_struct(kind.field(name).type)]
    if len(structs) == len(fields):  # for the two sides of a merge: a name in their columns is meant
        fields = [f"{name}.{part.name}" for name in structs for part in kind.field(name).type]
        near = near or [full for full in fields if full.partition(".")[2].lower() == column.path[-1].lower()][:1]
    qualified = "" if known else _qualified(column, schema)
    names = ", ".join(fields[:_SHOWN])
    there = f"The columns are {names}" if names else "It is computed without columns"
    if known:
        there = f"The fields of {'.'.join(known)} are {names}"
    other = meant_by(column.name) or meant_by(f"= {column.name}")
    if other is None and near and not qualified:
        return f"Did you mean {'.'.join((*known, near[0]))}?"
    return other or f"{there}; write text in quotes, such as 'a'{qualified}"


def _qualified(column: ColumnName, schema: pa.Schema) -> str:
    """Return the advice for a name that has the name of a table before the name of a column."""
    names = {name.lower() for name in schema.names}
    if len(column.path) < 2 or column.path[1].lower() not in names:
        return ""
    return f". If {column.path[0]} is meant as a table: a condition is about one table, so write {'.'.join(column.path[1:])} alone"
