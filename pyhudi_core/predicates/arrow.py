"""Convert a bound tree to a ``pyarrow.compute.Expression``.

The expression is true for the rows that SQL selects. Where SQL gives null, the expression is null or false; a filter drops the row in both cases.
Floating-point numbers are ordered as in Spark: NaN equals NaN and is greater than every number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.functions import compute
from pyhudi_core.predicates.tree import (
    And,
    ColumnName,
    Compare,
    FunctionCall,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Or,
    text_of,
)

_OPERATORS: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">="}
_CHAIN = 100


def to_expression(node: Node) -> pc.Expression:
    """Convert a bound condition to an Arrow expression."""
    if isinstance(node, And):
        return _joined(operator.and_, [to_expression(child) for child in node.children])
    if isinstance(node, Or):
        return _joined(operator.or_, [to_expression(child) for child in node.children])
    if isinstance(node, Compare):
        return _compare(node)
    if isinstance(node, In):
        return _in(node)
    if isinstance(node, Like):
        found = pc.match_like(value_of(node.operand), node.pattern)
        return ~found if node.negated else found
    if isinstance(node, IsNull):
        value = value_of(node.operand)
        return value.is_valid() if node.negated else value.is_null()
    return value_of(node)


def value_of(node: Node) -> pc.Expression:
    """Convert a bound column, literal or call to an Arrow expression."""
    if isinstance(node, ColumnName):
        return pc.field(*node.path)
    if isinstance(node, Literal):
        return pc.scalar(pa.scalar(node.value, node.type))
    if isinstance(node, FunctionCall) and node.function == "case":
        value = value_of(node.args[-1])
        for condition, chosen in reversed(list(zip(node.args[:-1:2], node.args[1::2], strict=True))):
            value = pc.if_else(pc.coalesce(to_expression(condition), pc.scalar(False)), value_of(chosen), value)
        return value
    if isinstance(node, FunctionCall):
        return compute(node, [value_of(arg) for arg in node.args], [type_of(arg) for arg in node.args])
    raise TypeError(f"{text_of(node)} is a condition, not a value")


def type_of(node: Node) -> pa.DataType:
    """Return the type of a bound column, literal or call."""
    if isinstance(node, ColumnName | Literal | FunctionCall) and node.type is not None:
        return node.type
    raise TypeError(f"{text_of(node)} has no type")


def evaluate(node: Node) -> object:
    """Compute the value of a bound tree without columns."""
    one_row = pa.table({"row": pa.array([0], pa.int8())})
    is_value = isinstance(node, ColumnName | Literal | FunctionCall)
    expression = value_of(node) if is_value else to_expression(node)
    if not is_value:
        return one_row.filter(expression).num_rows == 1
    return evaluated(one_row, expression)[0].as_py()


def evaluated(rows: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    """Return the value of an expression for each row. Raises `pyarrow.ArrowException`."""
    from pyarrow import acero  # noqa: PLC0415  (imports pandas, which takes a second; only queries that use it pay for that)

    source: Any = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project: Any = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]), [source])
    return project.to_table(use_threads=False).column(0)


def _joined(join: Callable[[pc.Expression, pc.Expression], pc.Expression], parts: list[pc.Expression]) -> pc.Expression:
    """Join conditions by AND or OR in nested groups. Arrow evaluates a chain by recursion, and a chain of thousands
    would crash the process.

    Each group is wrapped in a choice between true and false, because Arrow merges nested operations of the same kind into one chain.
    """
    while len(parts) > _CHAIN:
        pieces = [parts[at : at + _CHAIN] for at in range(0, len(parts), _CHAIN)]
        parts = [pc.if_else(reduce(join, piece), True, False) for piece in pieces]
    return reduce(join, parts)


def _compare(node: Compare) -> pc.Expression:
    op, left, right = node.op, node.left, node.right
    if op in _MIRRORED and pa.types.is_floating(type_of(left)):
        op, left, right = _MIRRORED[op], right, left
    one, two = value_of(left), value_of(right)
    plain = _OPERATORS[op](one, two)
    if not pa.types.is_floating(type_of(left)):
        return plain
    one_nan, two_nan = pc.is_nan(one), pc.is_nan(two)
    if op == "=":
        return plain | (one_nan & two_nan)
    if op == "!=":
        return plain & ~(one_nan & two_nan)
    if op == ">":
        return plain | (one_nan & ~two_nan)
    return plain | (one_nan & two.is_valid())


def _in(node: In) -> pc.Expression:
    operand = value_of(node.operand)
    values = [literal.value for literal in node.values]
    if 0.0 in values and pa.types.is_floating(type_of(node.operand)):
        # The two zeros are equal, but Arrow's search in a set distinguishes them.
        values += [0.0, -0.0]
    found = operand.isin(pa.array(values, node.values[0].type))
    return ~found & operand.is_valid() if node.negated else found


RowsT = TypeVar("RowsT", pa.RecordBatch, pa.Table)


def matching(batch: RowsT, expression: pc.Expression) -> RowsT:
    """Return the rows for which a condition is true.

    Raises `PredicateError` if the condition cannot be computed for a row: an overflow, or a text that is not a number.
    """
    try:
        return batch.filter(expression)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PredicateError(
            f"The condition cannot be computed for a row: {str(error).splitlines()[0]:.200}",
            hint="Exclude such rows with another condition, or cast to a wider type.",
        ) from error
