"""Filtering equals SQL's three-valued logic, and pruning never loses a row that matches."""

from __future__ import annotations

import datetime as dt
import math
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.predicates import ColumnStats, Predicate, partition_stats
from pyhudi_core.predicates.arrow import to_expression
from pyhudi_core.predicates.binding import bind
from pyhudi_core.predicates.pruning import could_match, literal_prefix
from pyhudi_core.predicates.tree import And, ColumnName, Compare, In, IsNull, Like, Literal, Node, Not, Or

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("c", pa.decimal128(6, 2)),
        ("b", pa.bool_()),
    ]
)
NUMBERS = st.integers(-3, 3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": NUMBERS,
    "f": st.sampled_from([-1.5, 0.0, -0.0, 1.0, 2.0, math.nan, math.inf]),
    "s": st.sampled_from(["", "a", "ab", "b", "é", "a%"]),
    "d": st.integers(1, 5).map(lambda day: dt.date(2024, 1, day)),
    "c": NUMBERS.map(lambda number: Decimal(number) / 2),
    "b": st.booleans(),
}
ROW = st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, values in VALUES.items()})
ROWS = st.lists(ROW, min_size=1, max_size=4)


def _literal(name: str) -> st.SearchStrategy[Literal]:
    plain = VALUES[name].filter(lambda value: not (isinstance(value, float) and math.isnan(value)))
    return st.one_of(plain, plain, plain, st.none()).map(Literal)


def _leaf(name: str) -> st.SearchStrategy[Node]:
    column, literal = ColumnName((name,)), _literal(name)
    ops = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>", "!<=>"])
    leaves: list[st.SearchStrategy[Node]] = [
        st.builds(Compare, ops, st.just(column), literal),
        st.builds(Compare, ops, literal, st.just(column)),
        st.builds(Compare, ops, st.just(column), st.just(column)),
        st.builds(In, st.just(column), st.lists(literal, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(column), st.booleans()),
    ]
    if name == "s":
        leaves.append(
            st.builds(Like, st.just(column), st.sampled_from(["a%", "%b", "a", "_", "a\\%", "é%"]), st.booleans())
        )
    if name == "b":
        leaves.append(st.just(column))
    return st.one_of(leaves)


NODES = st.recursive(
    st.sampled_from(sorted(VALUES)).flatmap(_leaf),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: And(tuple(nodes))),
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: Or(tuple(nodes))),
        inner.map(Not),
    ),
    max_leaves=6,
)


def _order(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def truth(node: Node, row: dict[str, Any]) -> bool | None:
    """SQL's value of a condition for one row, written down directly."""
    if isinstance(node, Not):
        inner = truth(node.child, row)
        return None if inner is None else not inner
    if isinstance(node, And | Or):
        values = [truth(child, row) for child in node.children]
        decided = isinstance(node, Or)
        return decided if decided in values else None if None in values else not decided
    if isinstance(node, ColumnName):
        return None if row[node.name] is None else bool(row[node.name])
    if isinstance(node, IsNull):
        return (_value(node.operand, row) is None) != node.negated
    if isinstance(node, Compare):
        return _compared(node.op, _value(node.left, row), _value(node.right, row))
    assert isinstance(node, In | Like)
    if isinstance(node, Like):
        found = _like(node.pattern, _value(node.operand, row))
    else:
        found = truth(Or(tuple(Compare("=", node.operand, value) for value in node.values)), row)
    return None if found is None else found != node.negated


def _value(node: Node, row: dict[str, Any]) -> Any:
    return row[node.name] if isinstance(node, ColumnName) else node.value  # type: ignore[union-attr]


def _compared(op: str, left: Any, right: Any) -> bool | None:
    same = left is None and right is None or (None not in (left, right) and _order(left) == _order(right))
    if op in ("<=>", "!<=>"):
        return same == (op == "<=>")
    if left is None or right is None:
        return None
    if op in ("=", "!="):
        return same == (op == "=")
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[op]
    return bool(compare(_order(left), _order(right)))


def _like(pattern: str, text: str | None) -> bool | None:
    if text is None:
        return None
    return {"a%": text.startswith("a"), "%b": text.endswith("b"), "a": text == "a", "_": len(text) == 1}.get(
        pattern, text.startswith("é") if pattern == "é%" else text == "a%"
    )


def stats_of(rows: list[dict[str, Any]], truncated: bool = False) -> dict[str, ColumnStats]:
    """What a Parquet writer stores: bounds without nulls and NaN."""
    result = {}
    for name in VALUES:
        values = [
            row[name]
            for row in rows
            if row[name] is not None and not (isinstance(row[name], float) and math.isnan(row[name]))
        ]
        nulls = sum(row[name] is None for row in rows)
        low, high = (min(values), max(values)) if values else (None, None)
        cut = truncated and name == "s" and values
        result[name] = ColumnStats(low[:1] if cut else low, high[:1] if cut else high, nulls, len(rows), bool(cut))
    return result


@settings(max_examples=examples(250), deadline=None)
@given(NODES, ROWS, st.booleans(), st.sets(st.sampled_from(sorted(VALUES))))
def test_filters_keep_what_sql_keeps_and_pruning_drops_no_file_that_holds_such_a_row(
    node: Node, rows: list[dict[str, Any]], truncated: bool, unknown: set[str]
) -> None:
    bound = bind(node, SCHEMA)
    expected = [index for index, row in enumerate(rows) if truth(node, row) is True]
    table = pa.Table.from_pylist(rows, SCHEMA).append_column("row", pa.array(range(len(rows))))
    opaque = Predicate.of(to_expression(bound), SCHEMA)
    assert opaque is not None
    assert table.filter(opaque.expression)["row"].to_pylist() == expected
    stats = {name: known for name, known in stats_of(rows, truncated).items() if name not in unknown}
    if expected:
        assert could_match(bound, stats)
        assert opaque.could_match(stats)


PRUNED = {
    "i > 7": True,
    "i >= 7": False,
    "i < 3 OR i IN (1, 9)": True,
    "i BETWEEN 4 AND 5": False,
    "i IS NULL": True,
    "i = 2.5": True,
    "NOT (i <= 7)": True,
    "s LIKE 'x%'": True,
    "s LIKE 'mo%'": False,
    "d > '2024-02-01'": True,
    "year(d) = 2023": True,
    "year(ts) = 2024 AND to_date(ts) = '2024-03-01'": False,
    "ts >= '2024-03-03'": True,
    "f < 1": True,
    "f > 100": False,
    "k != 5": True,
    "k = 5": False,
    "k NOT IN (5, 6)": True,
    "k % 2 = 0": False,
    "gone = 1": True,
    "gone IS NOT NULL": True,
    "lower(gone) = 'a'": False,
    "i = 5 AND gone IS NULL": False,
    "1 = 2": True,
}
FILE_SCHEMA = pa.schema(
    [("i", pa.int32()), ("k", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32())]
    + [("ts", pa.timestamp("us", "UTC")), ("gone", pa.int32())]
)
FILE = {
    "i": ColumnStats(3, 7, 0, 10),
    "k": ColumnStats(5, 5, 2, 10),
    "f": ColumnStats(1.0, 2.0, 0, 10),
    "s": ColumnStats("lima", "papa", 0, 10),
    "d": ColumnStats(dt.date(2024, 1, 1), dt.date(2024, 2, 1), 0, 10),
    "ts": ColumnStats(dt.datetime(2024, 3, 1, tzinfo=dt.UTC), dt.datetime(2024, 3, 2, tzinfo=dt.UTC), 0, 10),
    "gone": ColumnStats(None, None, 10, 10),
}


@pytest.mark.parametrize("where", [where for where in PRUNED if "lower" not in where])
def test_a_file_that_cannot_match_is_left_out(where: str) -> None:
    predicate = Predicate.of(where, FILE_SCHEMA)
    assert predicate is not None
    assert predicate.could_match(FILE) is not PRUNED[where]
    assert predicate.could_match({}) or where == "1 = 2"


@pytest.mark.parametrize(
    ("where", "pruned"),
    [
        (pc.field("i") > 7, True),
        (pc.field("i") == 5, False),
        (pc.field("k") < 5, True),
        (pc.field("gone").is_valid(), True),
        (pc.field("f") > 100, False),
        (pc.field("s") == "zulu", True),
        (pc.field("ts") > pa.scalar(dt.datetime(2024, 4, 1, tzinfo=dt.UTC)), True),
    ],
)
def test_an_opaque_expression_prunes_by_the_same_statistics(where: pc.Expression, pruned: bool) -> None:
    predicate = Predicate.of(where, FILE_SCHEMA)
    assert predicate is not None
    assert predicate.could_match(FILE) is not pruned


def test_statistics_of_another_type_keep_the_file() -> None:
    predicate = Predicate.of("s = 'x' AND ts > '2024-01-01'", FILE_SCHEMA)
    assert predicate is not None
    naive = {"s": ColumnStats(1, 2, 0, 10), "ts": ColumnStats(dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1), 0, 10)}
    assert predicate.could_match(naive)


@pytest.mark.row("A2")
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("day = '2024-01-02'", True),
        ("day > '2024-01-02'", False),
        ("city IS NULL", True),
        ("city = 'x'", True),
        ("n IS NOT NULL", False),
        ("n IS NULL AND month(day) = 1", True),
        ("flag", False),
    ],
)
def test_partition_folders_are_pruned_by_their_values(where: str, kept: bool) -> None:
    schema = pa.schema(
        [("day", pa.date32()), ("city", pa.string()), ("n", pa.int32()), ("flag", pa.bool_()), ("x", pa.int32())]
    )
    known = partition_stats(["day", "city", "n", "flag"], ("2024-01-02", None, None, "false"), schema)
    predicate = Predicate.of(where, schema)
    assert predicate is not None
    assert predicate.could_match(known) is kept
    assert predicate.could_match(partition_stats(["day"], None, schema))


def test_the_prefix_of_a_pattern_ends_at_its_first_wildcard() -> None:
    assert [literal_prefix(text) for text in ("ab%c", "a_b", "%a", "a\\%b%", "ab")] == ["ab", "a", "", "a%b", "ab"]
