"""The expression tree of a ``where``, as immutable values.

``sql`` parses SQL text to a tree; ``binding`` adds the table's types and removes NOT. The bound tree becomes an Arrow expression
(``arrow``) or Spark SQL (``spark_text``), or decides whether a file can hold a matching row (``pruning``).

Invariants
- nodes are immutable values: equal trees compare equal;
- in a bound tree every Column and Literal has a type, and no node is a Not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pyarrow as pa

Value = bool | int | float | Decimal | str | bytes | dt.date | dt.datetime | dt.time | None


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column, or a field of a struct column; ``path`` has one part for each level. ``at``: the position of the name in the text, from 0, for
    messages."""

    path: tuple[str, ...]
    type: pa.DataType | None = None
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The dotted name, as used in statistics."""
        return ".".join(self.path)

    @property
    def place(self) -> str:
        """Return the position of the name in the text, in words; empty if unknown."""
        return "" if self.at is None else f" at character {self.at + 1}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is SQL's NULL."""

    value: Value
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call; ``type`` is the type of the result, and for a cast the target."""

    function: str
    args: tuple[Node, ...]
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right``; op is one of = != < <= > >= <=> (the last treats nulls as equal) or !<=> (its opposite)."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class In:
    """Membership in a list of literals."""

    operand: Node
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """SQL LIKE; the pattern's escape character is a backslash."""

    operand: Node
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Null test; never null itself."""

    operand: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are true."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if at least one part is true."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; null stays null."""

    child: Node


Node = ColumnName | Literal | FunctionCall | Compare | In | Like | IsNull | And | Or | Not

TRUE = Literal(True, pa.bool_())
FALSE = Literal(False, pa.bool_())


def children_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node."""
    if isinstance(node, And | Or):
        return node.children
    if isinstance(node, FunctionCall):
        return node.args
    if isinstance(node, Compare):
        return (node.left, node.right)
    if isinstance(node, In | Like | IsNull):
        return (node.operand,)
    return (node.child,) if isinstance(node, Not) else ()


def with_columns(node: Node, rename: Callable[[ColumnName], ColumnName]) -> Node:
    """Return a tree in which each column is replaced by the result of ``rename``."""
    if isinstance(node, ColumnName):
        return rename(node)
    if isinstance(node, FunctionCall):
        return replace(node, args=tuple(with_columns(arg, rename) for arg in node.args))
    if isinstance(node, And | Or):
        return replace(node, children=tuple(with_columns(child, rename) for child in node.children))
    if isinstance(node, Compare):
        return replace(node, left=with_columns(node.left, rename), right=with_columns(node.right, rename))
    if isinstance(node, In | Like | IsNull):
        return replace(node, operand=with_columns(node.operand, rename))
    return replace(node, child=with_columns(node.child, rename)) if isinstance(node, Not) else node


def columns_of(node: Node) -> Iterator[ColumnName]:
    """Return every column of a tree, from left to right, with repetitions."""
    if isinstance(node, ColumnName):
        yield node
    for child in children_of(node):
        yield from columns_of(child)


def calls_of(node: Node) -> Iterator[FunctionCall]:
    """Return every call of a tree."""
    if isinstance(node, FunctionCall):
        yield node
    for child in children_of(node):
        yield from calls_of(child)


def text_of(node: Node) -> str:
    """Return a short text of a tree for error messages."""
    if isinstance(node, ColumnName):
        return node.name
    if isinstance(node, Literal):
        return "NULL" if node.value is None else repr(node.value)
    if isinstance(node, FunctionCall):
        return f"{node.function}({', '.join(map(text_of, node.args))})"
    if isinstance(node, Compare):
        return f"{text_of(node.left)} {node.op} {text_of(node.right)}"
    if isinstance(node, And | Or):
        return f" {type(node).__name__.upper()} ".join(f"({text_of(child)})" for child in node.children)
    if isinstance(node, Not):
        return f"NOT ({text_of(node.child)})"
    return f"{text_of(node.operand)} {'NOT ' if node.negated else ''}{_TESTS[type(node)]}"


_TESTS = {In: "IN (...)", Like: "LIKE ...", IsNull: "IS NULL"}
