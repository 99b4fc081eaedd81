"""Refuse texts in a condition that the user may have meant as a column.

Spark SQL reads ``"day"`` as a text. DuckDB, Polars, PostgreSQL and Python's other table libraries read it as a column. A text in place of a column
makes a comparison constant, and a delete with such a condition deletes every row or none. So a text is refused if

- it has double quotes and is the name of a column (``kind = "day"``), or
- its comparison reads no column, and it has double quotes or is the name of a column (``'day' <> '2026-01-01'``, ``"dya" IS NOT NULL``).

Every other text keeps the meaning that it has in Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.binding import field_path

_COMPARING = (exp.Predicate, exp.StartsWith, exp.Escape)
"""The nodes of sqlglot whose result is true or false. `exp.Predicate` is the class of all comparisons, IN, LIKE, BETWEEN and IS."""


def refuse_misread_texts(condition: Any, text: str, schema: pa.Schema) -> None:
    """Raise `PredicateError` if a text of a parsed condition may stand for a column.

    Arguments:
        condition: the condition as parsed by sqlglot.
        text: the SQL text, to which the positions of the parsed nodes refer.
        schema: the columns.
    """

    def column_of(literal: Any) -> str | None:
        path = field_path(schema, literal.name.split(".")) or field_path(schema, [literal.name])
        return None if path is None else ".".join(path)

    for literal in _texts(condition):
        if _in_double_quotes(literal, text) and (column := column_of(literal)) is not None:
            raise _double_quoted_column(literal.name, column)
    for comparison in condition.find_all(*_COMPARING):
        if comparison.find(exp.Column) is None:
            _refuse_constant(comparison, text, column_of, schema)


def _refuse_constant(comparison: Any, text: str, column_of: Callable[[Any], str | None], schema: pa.Schema) -> None:
    for literal in _texts(comparison):
        column = column_of(literal)
        if column is not None:
            raise PredicateError(
                f"{comparison.sql(dialect='spark')[:120]!r} compares the text {literal.name!r} with a text, not with the column {column}",
                hint=f"Write {_as_column(column)} without quotes for the column",
            )
        if _in_double_quotes(literal, text):
            near = difflib.get_close_matches(literal.name, schema.names, n=1)
            raise PredicateError(
                f'"{literal.name}" is a text in a condition, and no column has this name, so the comparison reads no column',
                hint=f"Did you mean the column {_as_column(near[0])}?" if near
                else f"The columns are {', '.join(schema.names[:30])}; write '{literal.name}' for the text",
            )  # fmt: skip


def _texts(condition: Any) -> Iterator[Any]:
    """Yield the texts of a condition. A text that is a name is omitted, such as the second part of ``s."x"``."""
    for literal in condition.find_all(exp.Literal):
        if literal.is_string and not isinstance(literal.parent, exp.Column):
            yield literal


def _in_double_quotes(literal: Any, text: str) -> bool:
    start = literal.meta.get("start")
    return start is not None and text[start : start + 1] == '"'


def _double_quoted_column(written: str, column: str) -> PredicateError:
    return PredicateError(
        f'"{written}" can mean the column {column} or the text {written!r}',
        hint=f"Write {_as_column(column)} for the column, or '{written}' for the text",
    )


def _as_column(name: str) -> str:
    return name if name.replace(".", "_").isidentifier() else f"`{name}`"
