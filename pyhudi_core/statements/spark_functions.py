"""Translate functions of a query to DuckDB: functions that DuckDB lacks, and functions that DuckDB computes differently from Spark and from the
conditions of UPDATE and DELETE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from pyhudi_core.predicates.letter_case import cased
from pyhudi_core.predicates.regexps import rewritten

_NUMBER = exp.Literal.number
_CASES = {"lower": "lower_of_spark", "upper": "upper_of_spark"}
"""The names of the functions that `add_functions` adds; DuckDB's own map each letter to one letter."""


def as_spark_computes(tree: Any) -> None:
    """Change the function calls of a query in place."""
    for select in tree.find_all(exp.Select):
        select.set("expressions", [_with_its_name(column) for column in select.expressions])
    for call in list(tree.find_all(*_BY_KIND, exp.Anonymous)):
        change = _BY_NAME.get(call.name.lower()) if isinstance(call, exp.Anonymous) else _BY_KIND[type(call)]
        made = change(call) if change is not None else None
        if made is not None:
            call.replace(made)


def add_functions(connection: Any, text: str) -> None:
    """Add to a connection the functions that a translated query calls and that DuckDB lacks."""
    for function, name in _CASES.items():
        if name in text.lower():
            connection.create_function(name, partial(_cased, function), ["VARCHAR"], "VARCHAR", type="arrow")


def _cased(function: str, text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return cased(function, text.cast(pa.string()))


def _with_its_name(column: Any) -> Any:
    """Return a column of a result that still has the name of its expression after `_letter_case`."""
    if isinstance(column, exp.Alias | exp.Query) or column.find(exp.Lower, exp.Upper) is None:
        return column
    name = column.sql(dialect="duckdb", normalize_functions="lower")
    return exp.Alias(this=column, alias=exp.to_identifier(name, quoted=True))


def _letter_case(function: str, call: Any) -> Any:
    return exp.Anonymous(this=_CASES[function], expressions=[call.this.copy()])


def _substring(call: Any) -> Any:
    """Treat the start position 0 as the first position, as Spark does."""
    start = call.args.get("start")
    if start is None:
        return None
    one = exp.Case(
        ifs=[exp.If(this=exp.EQ(this=start.copy(), expression=_NUMBER(0)), true=_NUMBER(1))], default=start.copy()
    )
    call.set("start", one)
    return None


def _side(call: Any) -> Any:
    """Return no letters for a negative number. DuckDB would omit this number of letters at the other end."""
    size = call.expression
    none = exp.If(this=exp.LT(this=size.copy(), expression=_NUMBER(0)), true=_NUMBER(0))
    call.set("expression", exp.Case(ifs=[none], default=size.copy()))


def _is_nan(call: Any) -> Any:
    """Return false for null."""
    if isinstance(call.parent, exp.Coalesce):
        return None
    return exp.Coalesce(this=call.copy(), expressions=[exp.false()])


def _day_of_week(call: Any) -> Any:
    return exp.paren(
        exp.Add(this=exp.Anonymous(this="dayofweek", expressions=[call.this.copy()]), expression=_NUMBER(1))
    )


def _weekday(call: Any) -> Any:
    return exp.paren(exp.Sub(this=exp.Anonymous(this="isodow", expressions=_date_of(call)), expression=_NUMBER(1)))


def _date_of(call: Any) -> list[Any]:
    return [exp.cast(call.expressions[0].copy(), "date")]


def _trunc(call: Any) -> Any:
    unit = {"MM": "month", "MON": "month", "YY": "year", "YYYY": "year"}.get(call.unit.name.upper(), call.unit.name)
    of = exp.cast(call.this.copy(), "date")
    return exp.cast(exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), of]), "date")


def _null_test(call: Any) -> Any:
    return exp.paren(exp.Is(this=exp.paren(call.expressions[0].copy()), expression=exp.null()))


def _add_months(call: Any) -> Any:
    months = exp.Anonymous(this="to_months", expressions=[exp.cast(call.expression.copy(), "int")])
    return exp.cast(exp.paren(exp.Add(this=exp.cast(call.this.copy(), "date"), expression=months)), "date")


def _regexp_replace(call: Any) -> Any:
    """Write the references to groups in the replacement as DuckDB expects them."""
    new = call.args.get("replacement")
    if isinstance(new, exp.Literal) and new.is_string:
        call.set("replacement", exp.Literal.string(rewritten(new.name)))


_BY_KIND: dict[type[Any], Callable[[Any], Any]] = {
    exp.Lower: partial(_letter_case, "lower"),
    exp.Upper: partial(_letter_case, "upper"),
    exp.AddMonths: _add_months,
    exp.RegexpReplace: _regexp_replace,
    exp.Substring: _substring,
    exp.Left: _side,
    exp.Right: _side,
    exp.IsNan: _is_nan,
    exp.DayOfWeek: _day_of_week,
    exp.DateTrunc: _trunc,
}
_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "weekday": _weekday,
    "isnull": _null_test,
    "isnotnull": lambda call: exp.not_(_null_test(call)),
    "btrim": lambda call: exp.Anonymous(this="trim", expressions=[part.copy() for part in call.expressions]),
}
