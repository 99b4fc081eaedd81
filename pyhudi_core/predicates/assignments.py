"""New values of columns for an update: ``{"price": "price * 1.1"}``.

A value is SQL text, a ``pyarrow.compute.Expression`` or a Python value. The value must fit its column: an update never changes the type of a column,
and never rounds a value.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError, PredicateError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import evaluated, type_of, value_of
from pyhudi_core.predicates.binding import bind_value, field_path
from pyhudi_core.predicates.coercion import fit_literal, is_bytes, is_number, is_string
from pyhudi_core.predicates.number_casts import number_as
from pyhudi_core.predicates.tree import Literal, Node


@dataclass(frozen=True, slots=True)
class Assignments:
    """Expressions for columns, checked against the schema of the input rows.

    ``values`` has the expressions by column; `columns` are all columns that can be set.
    """

    values: Mapping[str, pc.Expression]
    columns: pa.Schema

    @classmethod
    def of(
        cls,
        given: Mapping[str, object],
        columns: pa.Schema,
        rows: pa.Schema,
        zone: TimeZone | None = None,
        resolve: Callable[[Node], Node] = lambda node: node,
    ) -> Assignments:
        """Parse the values of columns.

        Args:
            given: SQL text, an Arrow expression, or a Python value for each column.
            columns: the columns that can be set.
            rows: the columns of the input rows.
            zone: the time zone of texts; UTC if none is chosen.
            resolve: called with the tree of each text, before its columns are resolved.

        Raises:
            PredicateError: a column does not exist, an expression is not valid, or its type does not fit the column.
        """
        values: dict[str, pc.Expression] = {}
        for name, value in given.items():
            path = field_path(columns, (name,))
            if path is None:
                whole = field_path(columns, (str(name).partition(".")[0],))
                raise PredicateError(
                    f"The update sets the column {name!r}, which does not exist",
                    hint=f"A struct is one value: set {whole[0]}, with all of its fields"
                    if whole is not None and pa.types.is_struct(columns.field(whole[0]).type)
                    else f"The columns are {', '.join(columns.names[:30])}",
                )
            if path[0] in values:
                raise PredicateError(f"The update sets the column {path[0]!r} twice", hint="Give one value")
            values[path[0]] = _expression(columns.field(path[0]), value, rows, zone or UTC, resolve)
        return cls(values, columns)

    def applied(self, rows: pa.Table) -> pa.Table:
        """Return the rows with the new values. Each value is computed from the old rows, so ``{"a": "b", "b": "a"}`` exchanges two columns.

        Raises `DataError` if a value cannot be computed, or its column cannot hold it.
        """
        changed = rows
        for name, column in self.computed(rows).items():
            changed = changed.set_column(rows.schema.get_field_index(name), self.columns.field(name), column)
        return changed

    def computed(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the new values of each column. Raises as `applied`."""
        return {name: _computed(rows, expression, self.columns.field(name)) for name, expression in self.values.items()}


def _expression(
    field: pa.Field, value: object, rows: pa.Schema, zone: TimeZone, resolve: Callable[[Node], Node]
) -> pc.Expression:
    if isinstance(value, pc.Expression):
        return value
    if isinstance(value, str):
        return _of_sql(field, value, rows, zone, resolve)
    item = value.as_py() if isinstance(value, pa.Scalar) else value
    if isinstance(item, np.bool_ | np.number) and not isinstance(item, np.timedelta64):
        item = item.item()  # as a number of Python: the column takes only a number that it holds exactly
    if isinstance(item, float | dt.datetime) and item != item and not pa.types.is_floating(field.type):  # noqa: PLR0124
        item = None  # a column without NaN and NaT stores null
    try:
        if isinstance(item, dt.datetime) and not getattr(item, "nanosecond", 0):
            return _literal(field, Literal(item), repr(item), zone)
        if hasattr(item, "dtype"):  # a value of numpy
            return pc.scalar(pa.scalar(item).cast(field.type))
        if pa.types.is_temporal(field.type) and isinstance(item, int | float | Decimal):
            raise TypeError("a number does not say in which unit it counts")
        if pa.types.is_floating(field.type) and isinstance(item, bool):
            raise TypeError("a truth value is no number")
        made = pa.scalar(item, field.type)
        if not _is_exact(made.as_py(), item):
            raise ValueError(f"it would become {made.as_py()!r:.80}")
        return pc.scalar(made)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _unfit(field, f"the value {value!r:.80}", f"{error}".splitlines()[0]) from None


def _is_exact(stored: object, given: Any) -> bool:
    """Return whether a column has stored a Python value exactly, including all fields of structs."""
    if isinstance(stored, dict):
        same = isinstance(given, Mapping) and stored.keys() == given.keys()
        return same and all(_is_exact(stored[name], given[name]) for name in stored)
    if isinstance(stored, list | tuple):
        parts = list(given.items()) if isinstance(given, Mapping) else given
        return len(parts) == len(stored) and all(map(_is_exact, stored, parts))
    if isinstance(stored, float) and not isinstance(given, int):  # the nearest number is stored
        return math.isinf(stored) == math.isinf(given)
    return bool(stored == given)


def _of_sql(
    field: pa.Field, text: str, rows: pa.Schema, zone: TimeZone, resolve: Callable[[Node], Node]
) -> pc.Expression:
    from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (sqlglot takes half a second to import)

    try:
        node = bind_value(resolve(parse_sql(text, rows, value=True)), rows, zone)
        if isinstance(node, Literal):
            return _literal(field, node, text, zone)
        if not _may_hold(field.type, type_of(node)):
            raise _unfit(field, f"the expression {text[:80]!r}", f"it is {type_of(node)}")
        return value_of(node)
    except PredicateError as error:
        raise PredicateError(
            f"The new value of {field.name}: {error.message.replace('the where', 'the expression')}", hint=error.hint
        ) from None


def _literal(field: pa.Field, node: Literal, text: str, zone: TimeZone) -> pc.Expression:
    if node.value is None:
        return pc.scalar(pa.scalar(None, field.type))
    try:
        fitted = fit_literal(node, field.type, zone)
        is_time = isinstance(node.value, dt.datetime) or (
            isinstance(node.value, str) and _TIME_OF_DAY.search(node.value)
        )
        if is_time and pa.types.is_date(field.type):
            raise PredicateError("it has a time of day, which the column would lose")
        stored = _stored(pa.chunked_array([pa.array([fitted.value], fitted.type)]), field)[0]
        if _is_rounded(node.value, stored.as_py()):
            raise PredicateError(f"it would be rounded to {stored.as_py()}")
        return pc.scalar(stored)
    except (PredicateError, pa.ArrowException, OverflowError) as error:
        why = error.message if isinstance(error, PredicateError) else str(error)
        raise _unfit(
            field, text[:80], why.replace("cannot be compared with a value of type", "does not fit").splitlines()[0]
        ) from None


def _is_rounded(given: object, stored: object) -> bool:
    """Return whether a column would not store exactly the number of a constant. Integer and decimal columns must not store the nearest number."""
    if isinstance(given, int) and isinstance(stored, float):
        return math.isinf(stored) or int(stored) != given
    return isinstance(given, float) and isinstance(stored, Decimal) and Decimal(given) != stored


def _may_hold(column: pa.DataType, value: pa.DataType) -> bool:
    """Return whether a column can store values of a type. Each value is checked when it is computed."""
    if column == value or pa.types.is_null(value):
        return True
    if is_number(column) and is_number(value):
        return not (pa.types.is_floating(value) and pa.types.is_decimal(column))
    if pa.types.is_timestamp(column) and pa.types.is_timestamp(value):
        return (column.tz is None) == (value.tz is None)
    return (is_string(column) and is_string(value)) or (is_bytes(column) and is_bytes(value))


def _unfit(field: pa.Field, what: str, why: str) -> PredicateError:
    cast = f"DECIMAL({field.type.precision}, {field.type.scale})" if pa.types.is_decimal(field.type) else ""
    return PredicateError(
        f"Column {field.name} is {field.type} and does not take {what}: {why}",
        hint=_HOW.get(str(field.type), _HOW_ELSE if not cast else _CAST.format(cast))
        + "; text in SQL has quotes inside: \"'new'\"",
    )


_TIME_OF_DAY = re.compile(r"\d(?:T|\s)\s*\S")
"""The part of a text after the day."""
_HOW_ELSE = "Give a value of this type; a struct with all of its fields"
_CAST = "Give a value of this type, or CAST(... AS {}) in SQL"
_HOW = {
    str(kind): _CAST.format(word)
    for kind, word in (
        (pa.int32(), "INT"),
        (pa.int64(), "BIGINT"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "DOUBLE"),
        (pa.string(), "STRING"),
        (pa.bool_(), "BOOLEAN"),
        (pa.date32(), "DATE"),
    )
}


def _stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Return values in the type of a column. Raises `pyarrow.ArrowException` and `OverflowError` for a value that the type cannot hold."""
    numbers = is_number(column.type) and is_number(field.type)
    return number_as(column, field.type) if numbers else column.cast(field.type)


def _computed(rows: pa.Table, expression: pc.Expression, field: pa.Field) -> pa.ChunkedArray:
    try:
        column = evaluated(rows, expression)
        if not _may_hold(field.type, column.type):
            raise _unfit(field, "the expression", f"it is {column.type}")
        return _stored(column, field)
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(
            f"The new value of {field.name} cannot be computed or stored for a row: {str(error).splitlines()[0]:.200}",
            hint="A column takes values that it can hold exactly: write round(...) or CAST(...), or exclude such rows by where=",
        ) from error
