"""Convert filters that Spark pushes down to conditions of this package.

A converted filter means exactly the same as in Spark (order of floating-point numbers, nulls in lists, escapes in patterns), so Spark does not
evaluate the filter again. Spark evaluates all other filters.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import datasource as spark

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import to_expression
from pyhudi_core.predicates.binding import bind
from pyhudi_core.predicates.opaque import check_expression
from pyhudi_core.predicates.tree import And, ColumnName, Compare, In, IsNull, Like, Literal, Node, Not

_COMPARISONS: dict[str, str] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_PATTERNS: dict[str, str] = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}


def condition(found: spark.Filter, schema: pa.Schema) -> Node | None:
    """Return the filter as a bound condition on rows of the schema; None if Spark must evaluate it."""
    node = _node(found)
    if node is None:
        return None
    try:
        bound = bind(node, schema)
        check_expression(to_expression(bound), schema)
    except (PredicateError, TypeError, pa.ArrowException):
        return None
    return bound


def joined(where: Predicate | None, conditions: Iterable[Node], schema: pa.Schema) -> Predicate | None:
    """Join a ``where`` and other bound conditions by AND."""
    nodes = tuple(conditions)
    if not nodes:
        return where
    if where is not None and where.tree is not None:
        nodes = (where.tree, *nodes)
    tree = nodes[0] if len(nodes) == 1 else And(nodes)
    return Predicate(to_expression(tree), schema, tree)


def _node(found: spark.Filter) -> Node | None:
    name = type(found).__name__
    if isinstance(found, spark.Not):
        child = _node(found.child)
        return None if child is None else Not(child)
    column = ColumnName(tuple(getattr(found, "attribute", ())))
    if name in _COMPARISONS:
        return Compare(_COMPARISONS[name], column, Literal(found.value))
    if name in _PATTERNS and isinstance(found.value, str):
        return Like(column, _PATTERNS[name].format(_escaped(found.value)))
    if isinstance(found, spark.In):
        return In(column, tuple(Literal(value) for value in found.value))
    if isinstance(found, spark.IsNull | spark.IsNotNull):
        return IsNull(column, negated=isinstance(found, spark.IsNotNull))
    return None


def _escaped(text: str) -> str:
    """Escape a text: the result is a pattern that matches only this text."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
