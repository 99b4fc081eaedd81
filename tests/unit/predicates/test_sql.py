"""SQL conditions: what they keep, and what is refused."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import Predicate

UTC = dt.UTC
ROWS = pa.table(
    {
        "row": [0, 1, 2],
        "i": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([1, 2, None], pa.int64()),
        "f": pa.array([1.0, float("nan"), None]),
        "s": ["a\nb", None, "a%b"],
        "ts": pa.array(
            [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 5, 1, 12, tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([dt.datetime(2024, 1, 1), None, None], pa.timestamp("us")),
        "d": pa.array([dt.date(2024, 1, 1), None, dt.date(2024, 5, 1)]),
        "st": pa.array([{"b": 1}, None, {"b": 3}]),
        "ok": [True, False, None],
        "dec": pa.array([Decimal("1.50"), Decimal("2.25"), None]),
        "bin": [b"\xab\xcd", None, b""],
        "t": pa.array(["7", "x", "2024-02-30"]),
    }
)

KEPT = {
    "i = 1": [0],
    "s || 'x' = 'a%bx'": [2],
    "concat(s, i) = 'a%b3'": [2],
    "d + 1 > DATE '2024-01-02'": [2],
    "date_sub(d, 1) = DATE '2023-12-31'": [0],
    "date_add(n, 31) = DATE '2024-02-01'": [0],
    "datediff(d, '2024-01-01') = 121": [2],
    "d - INTERVAL '1' DAY < DATE '2024-01-01'": [0],
    "INTERVAL 12 HOURS + ts = TIMESTAMP '2024-05-02 00:00:00Z'": [1],
    "n - INTERVAL 1 HOUR 30 MINUTES = TIMESTAMP_NTZ '2023-12-31 22:30:00'": [0],
    "CAST(f AS INT) = 1": [0],
    "CAST(f AS INT) IS NULL": [1, 2],
    "CAST(dec AS INT) = 2": [1],
    "CAST(f AS DECIMAL(9, 2)) = 1.00": [0],
    "i > 1.5": [2],
    "5 > i": [0, 2],
    "i = '3'": [2],
    "i <> 1": [2],
    "NOT i = 1": [2],
    "NOT (i IN (1, NULL))": [],
    "i IN (1, NULL)": [0],
    "i IN (1, 99999999999)": [0],
    "i NOT IN (3)": [0],
    "i = NULL": [],
    "NULL": [],
    "i <=> NULL": [1],
    "i <=> 1": [0],
    "NOT i <=> 1": [1, 2],
    "i <=> l": [0],
    "i IS DISTINCT FROM l": [1, 2],
    "i = 1 OR l = 2": [0, 1],
    "i = 1 AND 1 = 2": [],
    "1 = 1": [0, 1, 2],
    "f > 0": [0, 1],
    "NOT f > 0": [],
    "f = 1": [0],
    "f >= 1": [0, 1],
    "f < 2": [0],
    "f = CAST('NaN' AS DOUBLE) OR f IS NULL": [1, 2],
    "s LIKE 'a%'": [0, 2],
    r"s LIKE 'a\%b'": [2],
    "s LIKE 'a!%b' ESCAPE '!'": [2],
    "s NOT LIKE '%\\%%'": [0],
    "startswith(s, 'a%')": [2],
    "ts >= '2024-02-01'": [1],
    "ts < TIMESTAMP '2024-01-01 02:00:01+02:00'": [0],
    "ts = DATE '2024-01-01'": [0],
    "year(ts) = 2024 AND month(d) = 1": [0],
    "hour(ts) = 12": [1],
    "ts = d": [0],
    "n = '2024-01-01T00:00:00'": [0],
    "d = '2024-1-1'": [0],
    "d BETWEEN '2024-01-01' AND DATE '2024-02-01'": [0],
    "d > '2024-02'": [2],
    "to_date(ts) = '2024-05-01'": [1],
    "st.b = 3": [2],
    "st IS NULL": [1],
    "ok": [0],
    "NOT ok": [1],
    "ok IS NOT TRUE": [1, 2],
    "ok = 'true'": [0],
    "dec = 1.5": [0],
    "dec > 1.555": [1],
    "dec <= 1.5 OR dec > 1e10": [0],
    "bin = X'abcd'": [0],
    "i % 2 = 1 AND -i < -2": [2],
    "i / 0 = 1": [],
    "i % 0 = 1": [],
    "l / 2 > 0.5": [1],
    "abs(i - 2) = 1": [0, 2],
    "lower(S) = 'a%b'": [2],
    "length(s) = 3 AND substring(s, 2, 1) = '%'": [2],
    "from_unixtime(l) = '1970-01-01 00:00:02'": [1],
    "from_unixtime(l, 'yyyy-MM-dd') = '1970-01-01'": [0, 1],
    "CAST(t AS INT) = 7": [0],
    "CAST(t AS DATE) IS NULL": [0, 1, 2],
    "CAST(i AS STRING) = '3'": [2],
    "CAST('2024-01-01' AS DATE) = d": [0],
    "'it''s' = 'it\\'s' AND i = 1": [0],
    "'''' = '\\'' AND i = 1": [0],
    's <> "a""""b" AND i = 1': [0],
    "coalesce(i, 7) > 2": [1, 2],
    "coalesce(i, 2.5) = 2.5": [1],
    "coalesce(i, l) = 2": [1],
    "ifnull(s, 'none') = 'none'": [1],
    "nvl(d, '2023-01-01') < '2024-01-01'": [1],
    "coalesce(NULL, ok, FALSE)": [0],
    "NOT coalesce(ok, FALSE)": [1, 2],
    "coalesce(NULL, NULL) IS NULL AND i = 1": [0],
    "coalesce(st.b, i, -1) = -1": [1],
    "coalesce(3, i) = 3 AND l = 1": [0],
    "'' = '' AND i = 1": [0],
    "s = 'its' OR 'it''s' = 'its'": [],
}

REFUSED = {
    "i = 'x'": "cannot be compared",
    "s = 5": "cannot be compared",
    "st = 1": "cannot be compared",
    "i = DATE '2024-01-01'": "cannot be compared",
    "d = '2024-13-01'": "cannot be compared",
    "n = TIMESTAMP '2024-01-01 00:00:00Z'": r"Write TIMESTAMP_NTZ '2024-01-01 00:00:00' if",
    "n = '2024-01-01 02:00:00.5+02:00'": r"Write TIMESTAMP_NTZ '2024-01-01 00:00:00\.500000' if",
    "n = TIMESTAMP '0001-01-01 00:00:00+10:00'": "cannot be compared",
    "n = '2024-13-01'": "cannot be compared",
    "tss = '2024'": "Did you mean ts",
    "i AND ok": "not a condition",
    "lower(i) = 'a'": "does not take int32",
    "CAST(t AS TIMESTAMP) = ts": "not supported",
    "i = 1 AND": "line 1, column 9",
    "i = 1; DROP TABLE x": "not SQL",
    "soundex(s) = 'x'": "at character 1",
    "i = 1 AND foo(i) = 1": "at character 11",
    "i > (SELECT 1)": "at character 13, a subquery",
    "i IN (SELECT 1)": "a subquery",
    "EXISTS (SELECT 1)": "a subquery",
    "sum(i) > 1": "at character 1, an aggregate",
    "count(*) OVER () = 1": "an aggregate",
    "d = current_date()": "'CURRENT_DATE' at character 5, whose value differs",
    "ts < now()": "at character 6, whose value differs",
    "rand() < 0.5": "at character 1, whose value differs",
    "s = uuid()": "whose value differs",
    "d + INTERVAL 1 HOUR > ts": "cannot be added to d",
    "d - d > 1": "datediff",
    "concat(f, 'x') = 'x'": "from double to string",
    "d > INTERVAL 1 DAY": "not supported",
    "s = 'it' 's'": "one literal",
    "s = 'a''b' 'c'": "one literal",
    "from_unixtime(l, 'EEE') = ''": "format",
    "i = 1" + "0" * 400: "digits",
    "coalesce(i, 'x') = 1": "cannot be compared",
    "coalesce(i, s) = 1": "cannot be compared",
    "coalesce(st, st) IS NULL": "cannot be compared",
    "": "empty",
    "(" * 5000 + "i = 1" + ")" * 5000: "nested too deeply",
}


@pytest.mark.parametrize("where", KEPT)
def test_a_condition_keeps_the_rows_that_spark_keeps(where: str) -> None:
    predicate = Predicate.of(where, ROWS.schema)
    assert predicate is not None
    assert ROWS.filter(predicate.expression)["row"].to_pylist() == KEPT[where]
    assert repr(pickle.loads(pickle.dumps(predicate)).tree) == repr(predicate.tree)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", REFUSED, ids=lambda where: where[:40])
def test_what_is_not_understood_is_refused_with_the_reason_and_a_way_out(where: str) -> None:
    with pytest.raises(PredicateError, match=REFUSED[where]) as error:
        Predicate.of(where, ROWS.schema)
    assert error.value.hint


def test_columns_are_named_in_the_spelling_of_the_schema() -> None:
    predicate = Predicate.of("LOWER(S) = 'x' OR st.B = 1", ROWS.schema)
    assert predicate is not None
    assert predicate.columns == frozenset({"s", "st"})


def test_a_pyarrow_expression_is_taken_as_it_is() -> None:
    predicate = Predicate.of(pc.field("i") == 1, ROWS.schema)
    assert predicate is not None
    assert ROWS.filter(predicate.expression)["row"].to_pylist() == [0]
    assert (predicate.columns, predicate.tree, predicate.to_spark()) == (frozenset({"i"}), None, None)


@pytest.mark.parametrize("where", [pc.field("zz") == 1, pc.field("i"), pc.field("s") == 1, 5, b"i = 1"])
def test_a_pyarrow_expression_that_does_not_fit_is_refused(where: object) -> None:
    with pytest.raises(PredicateError):
        Predicate.of(where, ROWS.schema)


def test_no_where_is_no_predicate() -> None:
    assert Predicate.of(None, ROWS.schema) is None


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("i = 1 and s = 'its'", "(`i` = 1) AND (`s` = 'its')"),
        ("s = 'it\\'s'", "`s` = CAST(X'69742773' AS STRING)"),
        ("ts > '2024-01-01 10:00:00+02:00'", "`ts` > TIMESTAMP '2024-01-01 08:00:00Z'"),
        ("not d between '2024-01-01' and '2024-02-01'", "(`d` < DATE '2024-01-01') OR (`d` > DATE '2024-02-01')"),
        ("hour(ts) = 1", None),
        ("coalesce(i, 3) > 2", "coalesce(`i`, 3) > 2"),
        ("dec in (1.5, 2)", "`dec` IN (CAST('1.5' AS DECIMAL(3,2)), CAST('2' AS DECIMAL(3,2)))"),
    ],
)
def test_the_spark_text_says_the_same_or_there_is_none(where: str, text: str | None) -> None:
    predicate = Predicate.of(where, ROWS.schema)
    assert predicate is not None
    assert predicate.to_spark() == text


WORDS = st.lists(
    st.sampled_from(
        [
            "i",
            "s",
            "ts",
            "d",
            "ok",
            "st.b",
            "=",
            "<",
            ">=",
            "<>",
            "AND",
            "OR",
            "NOT",
            "IN",
            "(",
            ")",
            ",",
            "LIKE",
            "'a%'",
        ]
        + [
            "1",
            "2.5",
            "NULL",
            "IS",
            "BETWEEN",
            "lower(",
            "year(",
            "CAST(",
            "AS",
            "INT",
            "'2024-01-01'",
            "-",
            "+",
            "%",
            "`",
        ]
    ),
    max_size=12,
)


@settings(max_examples=examples(500), deadline=None)
@given(st.one_of(WORDS.map(" ".join), st.text(max_size=30)))
def test_any_text_gives_a_predicate_or_a_typed_error(where: str) -> None:
    try:
        predicate = Predicate.of(where, ROWS.schema)
    except PredicateError:
        return
    assert predicate is not None
    ROWS.filter(predicate.expression)


def test_values_that_cannot_be_compared_are_named_by_the_first_that_is_asked_for() -> None:
    schema = pa.schema([(name, pa.list_(pa.int64())) for name in ("first", "second")])
    with pytest.raises(PredicateError, match="^first of type list<.*> cannot be compared"):
        Predicate.of("coalesce(first, second) = 1", schema)
