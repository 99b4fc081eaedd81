"""Convert a bound tree to Spark SQL, so that Spark itself can filter and prune.

Timestamps are written with their zone. In Spark, parts of timestamps depend on the session's zone, so a tree with such parts has no SQL text, and
Arrow evaluates it.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa

from pyhudi_core.predicates.arrow import type_of
from pyhudi_core.predicates.coercion import is_number, is_string
from pyhudi_core.predicates.functions import is_exact
from pyhudi_core.predicates.tree import And, ColumnName, Compare, FunctionCall, In, IsNull, Like, Literal, Node, Or

_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "large_string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
}
_ZERO = "CAST('{}0.0' AS DOUBLE)"
_PLAIN_FUNCTIONS = (
    "lower",
    "upper",
    "length",
    "substring",
    "abs",
    "year",
    "month",
    "day",
    "coalesce",
    "concat",
    "date_add",
    "datediff",
)


class _NoTextError(Exception):
    """Spark would evaluate this part of a tree differently, or not at all."""


def to_spark(node: Node) -> str | None:
    """Return a bound condition as Spark SQL, or None if Spark would evaluate it differently."""
    try:
        return _condition(node)
    except _NoTextError:
        return None


def _condition(node: Node) -> str:
    if isinstance(node, And | Or):
        word = " AND " if isinstance(node, And) else " OR "
        return word.join(f"({_condition(child)})" for child in node.children)
    if isinstance(node, Compare) and isinstance(node.right, Literal) and isinstance(node.right.value, float):
        return _of_number(_value(node.left), node.op, node.right.value)
    if isinstance(node, Compare):
        return f"{_value(node.left)} {node.op} {_value(node.right)}"
    if isinstance(node, In) and any(isinstance(literal.value, float) for literal in node.values):
        op, word = ("!=", " AND ") if node.negated else ("=", " OR ")
        return word.join(f"({_condition(Compare(op, node.operand, literal))})" for literal in node.values)
    if isinstance(node, In):
        return f"{_value(node.operand)} {'NOT ' if node.negated else ''}IN ({', '.join(map(_value, node.values))})"
    if isinstance(node, Like):
        return f"{_value(node.operand)} {'NOT ' if node.negated else ''}LIKE {_quoted(node.pattern)}"
    if isinstance(node, IsNull):
        return f"{_value(node.operand)} IS {'NOT ' if node.negated else ''}NULL"
    return _value(node)


def _of_number(value: str, op: str, number: float) -> str:
    """Return the text of a comparison with a floating-point number. If a pushed-down comparison would lose rows, Spark does not push down this text.

    Parquet filters skip row groups by bounds that omit NaN, although NaN is greater than every number, and by dictionaries in which 0.0 is
    not -0.0. A test for NaN is not pushed down, and a condition that is joined to the test by OR is not pushed down.
    """
    if math.isnan(number):
        if op in ("=", ">="):
            return f"isnan({value})"
        present = f"({value} IS NOT NULL)"
        return {">": "FALSE", "<=": present}.get(op) or f"{present} AND (NOT isnan({value}))"
    literal = _literal(Literal(number))
    if op in ("<", "<="):
        return f"{value} {op} {_literal(Literal(number + 0.0))}"
    if op == "=":
        return (
            f"{value} = {literal}"
            if number
            else f"({value} >= {_ZERO.format('-')}) AND ({value} <= {_ZERO.format('')})"
        )
    return f"isnan({value}) OR ({value} {op} {literal})"


def _value(node: Node) -> str:
    if isinstance(node, ColumnName):
        return ".".join(f"`{part.replace('`', '``')}`" for part in node.path)
    if isinstance(node, Literal):
        return _literal(node)
    if not isinstance(node, FunctionCall):
        raise _NoTextError
    args = [_value(arg) for arg in node.args]
    kinds = [type_of(arg) for arg in node.args]
    if node.function == "cast":
        return _cast(args[0], kinds[0], type_of(node))
    if node.function == "abs" and pa.types.is_integer(kinds[0]):
        # Spark computes in 64 bits, too: the smallest 32-bit integer has no positive counterpart in 32 bits.
        args = [f"CAST({args[0]} AS BIGINT)"]
    if node.function == "date_add":
        args[1] = f"CAST({args[1]} AS INT)"  # Spark takes no 64-bit number in this place
    if node.function in _PLAIN_FUNCTIONS and not any(map(pa.types.is_timestamp, kinds)):
        return f"{node.function}({', '.join(args)})"
    raise _NoTextError


def _cast(text: str, source: pa.DataType, target: pa.DataType) -> str:
    zoned = pa.types.is_timestamp(source) or pa.types.is_timestamp(target)
    if is_number(source) and is_number(target) and not is_exact(source, target):
        raise _NoTextError  # Spark gives the nearest number or an error; here the result is null
    # A text that is not a number gives null, also under Spark's ANSI rules.
    word = "TRY_CAST" if is_string(source) else "CAST"
    if pa.types.is_decimal128(target):
        return f"{word}({text} AS DECIMAL({target.precision},{target.scale}))"
    if zoned or str(target) not in _TYPES:
        raise _NoTextError
    return f"{word}({text} AS {_TYPES[str(target)]})"


def _literal(literal: Literal) -> str:
    value = literal.value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        plain = {pa.int32(): f"{value}", pa.int64(): f"{value}L"}
        return plain.get(literal.type) or f"CAST({value} AS {_type(literal)})"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, Decimal):
        if literal.type is None or not pa.types.is_decimal128(literal.type):
            raise _NoTextError
        return f"CAST('{value:f}' AS DECIMAL({literal.type.precision},{literal.type.scale}))"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        return f"TIMESTAMP '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise _NoTextError


def _type(literal: Literal) -> str:
    name = _TYPES.get(str(literal.type))
    if name is None:
        raise _NoTextError
    return name


def _quoted(text: str) -> str:
    """Quote a text. A text that needs an escape is written as bytes, because a backslash has different meanings in different sessions."""
    if text.isprintable() and not {"\\", "'"} & set(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"
