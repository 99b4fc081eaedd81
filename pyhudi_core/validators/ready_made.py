"""Ready-made pre-commit validators. Rules about single rows read only the rows that a commit changes or adds. Unchanged rows fulfilled the rule
before the commit, and still do. Only `unique` and `row_count` read the table.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError
from pyhudi_core.lazy import lazy
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module

if TYPE_CHECKING:
    from pyhudi_core import predicates
    from pyhudi_core.validators.candidate import Candidate
else:
    predicates = lazy("pyhudi_core.predicates")

_FEW = 100_000
"""The maximum number of written values for which `unique` reads only the table's rows with one of these values."""


@set_module("pyhudi")
def not_null(*columns: str) -> NotNull:
    """Require that no written row has a null in one of the columns."""
    return NotNull(_checked(columns, "not_null"))


@set_module("pyhudi")
def unique(*columns: str) -> Unique:
    """Require that no two rows of the table have the same values in the columns. Rows with a null in one of the columns are not compared."""
    return Unique(_checked(columns, "unique"))


@set_module("pyhudi")
@refuses_wrong_types
def in_range(column: str, low: Any = None, high: Any = None) -> Satisfies:
    """Require that the values of a column in the written rows are not below ``low`` and not above ``high``.

    Nulls are not compared; NaN is above every number.
    """
    (name,) = _checked((column,), "in_range")
    quoted = f"`{name.replace('`', '``')}`"
    bounds = [f"{quoted} {sign} {_literal(value)}" for sign, value in ((">=", low), ("<=", high)) if value is not None]
    if not bounds:
        raise InvalidOptionError("in_range needs a bound", hint=f"For example in_range({name!r}, 0, 100).")
    shown = ", ".join(f"{side}={value!r}" for side, value in (("low", low), ("high", high)) if value is not None)
    return Satisfies(f"{quoted} IS NULL OR ({' AND '.join(bounds)})", f"in_range({name!r}, {shown})")


@set_module("pyhudi")
def satisfies(condition: Any) -> Satisfies:
    """Require that a condition (SQL text, or a ``pyarrow.compute.Expression``) is true for every written row. Null is not true."""
    if condition is None:
        raise InvalidOptionError("satisfies needs a condition", hint="For example satisfies('price >= 0').")
    return Satisfies(condition, f"satisfies({str(condition)!r})")


@set_module("pyhudi")
@refuses_wrong_types
def row_count(at_least: int | None = None, at_most: int | None = None, *, unchanged: bool = False) -> RowCount:
    """Require that the table has this number of rows after the commit; with ``unchanged``, the same number as before."""
    if at_least is None and at_most is None and not unchanged:
        raise InvalidOptionError("row_count needs a bound", hint="For example row_count(at_least=1).")
    for side, bound in (("at_least", at_least), ("at_most", at_most)):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or bound < 0):
            raise InvalidOptionError(f"row_count has {side}={bound!r}", hint="Give a whole number from 0 on.")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise InvalidOptionError(
            f"row_count has at_least={at_least} above at_most={at_most}", hint="No table could pass it."
        )
    return RowCount(at_least, at_most, unchanged)


@dataclass(frozen=True, slots=True)
@printable
class NotNull:
    """The validator of `not_null`."""

    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The call in Python."""
        return _call("not_null", self.columns)

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Raise `SchemaMismatchError` if a column does not exist."""
        _refuse_absent(self.name, self.columns, schema)

    def __call__(self, candidate: Candidate) -> str:
        """Return the violation as text; empty if there is none."""
        found = []
        for column in self.columns:
            nulls = candidate.find(candidate.written(candidate.key_columns, f"`{column.replace('`', '``')}` IS NULL"))
            found += [f"nulls in {column!r} of {nulls}"] if nulls else []
        return ", ".join(found)


@dataclass(frozen=True, slots=True)
@printable
class Unique:
    """The validator of `unique`."""

    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The call in Python."""
        return _call("unique", self.columns)

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Raise `SchemaMismatchError` if a column does not exist, and `InvalidOptionError` if its values cannot be compared as texts."""
        _refuse_absent(self.name, self.columns, schema)
        for column in self.columns:
            kind = schema.field(column).type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                raise InvalidOptionError(
                    f"{self.name} cannot compare values of type {kind}", hint="Choose other columns."
                )

    def __call__(self, candidate: Candidate) -> str:
        """Return the violation as text; empty if there is none. If the written values are few, reads only rows with one of these values."""
        stats, found = candidate.stats, candidate.after(self.columns)
        rows = stats.rows_inserted + stats.rows_updated
        if not candidate.is_service and rows <= _FEW:
            column = self.columns[0]
            found = candidate.among(found, column, candidate.written([column]).to_arrow().column(column))
        repeated = candidate.repeated(found)
        return f"values that several rows have: {repeated}" if repeated else ""


@dataclass(frozen=True, slots=True)
@printable
class Satisfies:
    """The validator of `satisfies` and `in_range`. ``name`` is the call in Python."""

    condition: Any
    name: str

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Raise `PredicateError` if the condition does not fit the columns."""
        predicates.Predicate.of(self.condition, with_meta_fields(schema))

    def refuse_unreadable(self) -> None:
        """Raise `PredicateError` if the condition is not valid SQL, before a schema is known."""
        if isinstance(self.condition, str):
            predicates.Predicate.refuse_syntax(self.condition)

    def __call__(self, candidate: Candidate) -> str:
        """Return the violation as text; empty if there is none."""
        found = candidate.violating(self.condition, candidate.written(candidate.key_columns))
        return f"{found} for which it is not true" if found else ""


@dataclass(frozen=True, slots=True)
@printable
class RowCount:
    """The validator of `row_count`."""

    at_least: int | None
    at_most: int | None
    unchanged: bool

    @property
    def name(self) -> str:
        """The call in Python."""
        given = (("at_least", self.at_least), ("at_most", self.at_most), ("unchanged", self.unchanged or None))
        return f"row_count({', '.join(f'{key}={value}' for key, value in given if value is not None)})"

    def __call__(self, candidate: Candidate) -> str:
        """Return the violation as text; empty if there is none. Reads only rows of file groups with log files."""
        rows = candidate.count(candidate.after(candidate.key_columns))
        low, high = self.at_least, self.at_most
        if (low is not None and rows < low) or (high is not None and rows > high):
            return f"{rows:,} rows"
        if self.unchanged:
            before = candidate.count(candidate.before(candidate.key_columns))
            return f"{rows:,} rows, and {before:,} before" if rows != before else ""
        return ""


def _checked(columns: tuple[str, ...], what: str) -> tuple[str, ...]:
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise InvalidOptionError(f"{what} takes names of columns", hint=f'For example {what}("id").')
    if len(set(columns)) != len(columns):
        raise InvalidOptionError(f"{_call(what, columns)} names a column twice", hint="Name it once.")
    return columns


def _call(what: str, columns: tuple[str, ...]) -> str:
    return f"{what}({', '.join(map(repr, columns))})"


def _refuse_absent(name: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    absent = [column for column in columns if column not in schema.names]
    if absent:
        raise SchemaMismatchError(
            f"The validator {name} names columns that do not exist: {', '.join(map(repr, absent))}",
            hint=f"The table has: {', '.join(schema.names)}.",
        )


def _literal(value: Any) -> str:
    """Return a bound as SQL."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str | dt.date):
        raise InvalidOptionError(
            f"in_range cannot compare with {value!r}",
            hint="Give a number, a text, a date or a datetime; or use satisfies().",
        )
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
