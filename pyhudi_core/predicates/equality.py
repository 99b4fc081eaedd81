"""Find the values that a condition allows for a column, if it names them: ``city = 'Rome' AND ...``, ``city IN (...)``."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.semi_join import SemiJoin
from pyhudi_core.predicates.tree import And, ColumnName, Compare, In, Literal, Node

Values = Sequence[str | int]


def named_values(condition: object, column: str) -> Values | None:
    """Return the values (texts or whole numbers) of a column in matching rows; None if the condition does not name them."""
    if isinstance(condition, SemiJoin):
        if condition.column == column:
            return _plain(condition.values.to_pylist())
        return None if condition.also is None else named_values(condition.also, column)
    return _of(condition.tree, column) if isinstance(condition, Predicate) and condition.tree is not None else None


def _of(node: Node, column: str) -> Values | None:
    if isinstance(node, And):
        return next((found for child in node.children if (found := _of(child, column)) is not None), None)
    if isinstance(node, In) and not node.negated and _is(node.operand, column):
        # A NULL in the list matches no row.
        return _plain([literal.value for literal in node.values if literal.value is not None])
    if isinstance(node, Compare) and node.op in ("=", "<=>"):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if _is(one, column) and isinstance(other, Literal):
                return _plain([other.value])
    return None


def _is(node: Node, column: str) -> bool:
    return isinstance(node, ColumnName) and node.path == (column,)


def _plain(values: Sequence[object]) -> Values | None:
    found = [value for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
    return found if len(found) == len(values) else None
