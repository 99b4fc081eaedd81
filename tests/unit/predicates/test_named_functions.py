"""Functions of conditions and values on random rows, against DuckDB, whose results are Spark's for these; where it differs from Spark, by hand."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from decimal import Decimal

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import evaluated, value_of
from pyhudi_core.predicates.binding import bind_value
from pyhudi_core.predicates.sql import parse_sql

duckdb = pytest.importorskip("duckdb")

ROUNDS = 2 * int(os.environ.get("PYHUDI_EXPLORE", "1"))
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int32()),
        ("j", pa.int64()),
        ("x", pa.float64()),
        ("m", pa.decimal128(9, 3)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
    ]
)
LETTERS = " abÄé%_x€𝄞"


def rows(number: int, chance: random.Random) -> pa.Table:
    def some(value: object) -> object:
        return None if chance.random() < 0.15 else value

    day = dt.datetime(1995, 1, 1)
    return pa.Table.from_pylist(
        [
            {
                "s": some("".join(chance.choices(LETTERS, k=chance.randrange(8)))),
                "i": some(chance.randint(-9, 9)),
                "j": some(chance.choice([0, 1, -7, 10**12, -(10**12), 2**62])),
                "x": some(chance.choice([0.0, -0.0, 1.5, -2.5, 7.25, 1e9, math.nan, 0.1])),
                "m": some(Decimal(chance.randint(-(10**6), 10**6)).scaleb(-3)),
                "d": some((day + dt.timedelta(days=chance.randrange(20_000))).date()),
                "t": some(day + dt.timedelta(microseconds=chance.randrange(10**15))),
            }
            for _ in range(number)
        ],
        SCHEMA,
    )


SAME = [
    "trim(s)", "ltrim(s)", "rtrim(s)", "upper(trim(s))", "left(s, 2)", "right(s, 3)", "left(s, 0)", "lpad(s, 5, 'x')", "rpad(s, 3, '-')",
    "reverse(s)", "repeat(s, 2)", "replace(s, 'a', 'bb')", "replace(s, '%', '')", "concat_ws('-', s, upper(s))", "cast(m as string)", "cast(cast(t as date) as string)", "s || '_' || s",
    "substring(s, 2)", "substring(s, 1, 3)", "substring(s, -2)", "substr(s, 3, 2)", "length(trim(s))",
    "coalesce(nullif(s, 'a'), 'none')", "ifnull(i, 5)", "nullif(i, 0)", "if(i > 0, i, -i)",
    "abs(i)", "abs(j)", "abs(x)", "abs(m)", "abs(m - 3.5)", "i % 4", "j % 7", "mod(i, 5)", "i % nullif(nullif(i, 3), 0)", "floor(m)", "ceil(m)",
    "year(d)", "quarter(d)", "month(d)", "day(d)", "dayofyear(d)", "weekofyear(d)", "extract(month from d)", "date_part('year', d)",
    "year(t)", "quarter(t)", "hour(t)", "dayofyear(t)", "last_day(d)",
    "date_trunc('month', t)", "date_trunc('hour', t)", "date_trunc('week', t)", "date_trunc('quarter', t)", "date_trunc('year', t)",
    "case when trim(s) = '' then 'blank' else trim(s) end",
    "floor(x + 0.25)", "ceil(x - 0.25)", "m % 0.75", "m % 2", "j % m", "i % cast(2.5 as decimal(4, 2))",
    "greatest(i, 3)", "least(i, j, 5)", "greatest(x, 1.5e0)", "least(x, 1.5e0)", "greatest(s, 'a')", "greatest(d, last_day(d))",
    "t + interval 1 month", "t - interval 13 months", "t + interval 1 year", "month(d + interval 7 months)",
]  # fmt: skip
"""Texts that Spark and DuckDB understand alike."""
OTHER = {
    "isnan(x)": "coalesce(isnan(x), false)",
    "m % 0": "CAST(NULL AS INT)",
    "add_months(d, i)": "CAST(d + to_months(i) AS DATE)",
    "last_day(d - interval 1 month)": "last_day(d - interval 1 month)",
    "s RLIKE '^[ab]+.?$'": "regexp_matches(s, '^[ab]+.?$')",
    "regexp_like(s, 'x|b')": "regexp_matches(s, 'x|b')",
    "regexp_extract(s, '([ab])(.)', 2)": "regexp_extract(s, '([ab])(.)', 2)",
    "regexp_extract(s, '(?:x|b)([^a]*)')": "regexp_extract(s, '(?:x|b)([^a]*)', 1)",
    "regexp_extract(s, '[(]|x+', 0)": "regexp_extract(s, '[(]|x+', 0)",
    "regexp_replace(s, '([ab])(.)', '$2-$1')": "regexp_replace(s, '([ab])(.)', '\\2-\\1', 'g')",
    "isnull(s)": "s IS NULL",
    "isnotnull(x)": "x IS NOT NULL",
    "endswith(s, '_')": "suffix(s, '_')",
    "contains(s, '%')": "contains(s, '%')",
    "startswith(s, ' ')": "prefix(s, ' ')",
    "i DIV 4": "i // 4",
    "i DIV 0": "CAST(NULL AS BIGINT)",
    "dayofweek(d)": "dayofweek(d) + 1",
    "weekday(d)": "isodow(d) - 1",
    "trunc(d, 'MM')": "CAST(date_trunc('month', d) AS DATE)",
    "trunc(d, 'week')": "CAST(date_trunc('week', d) AS DATE)",
    "substring(s, 0, 2)": "substring(s, 1, 2)",
    "trim(BOTH 'x' FROM s)": "trim(s, 'x')",
    "btrim(s)": "trim(s)",
    "sqrt(abs(i))": "sqrt(abs(i))",
}
"""What Spark calls otherwise than DuckDB, or computes otherwise."""


def ours(table: pa.Table, text: str, zone: TimeZone = UTC) -> list[object]:
    node = bind_value(parse_sql(text), table.schema, zone)
    return evaluated(table, value_of(node)).to_pylist()


def plain(values: list[object]) -> list[object]:
    return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in values]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [*SAME, *OTHER])
def test_a_function_computes_what_duckdb_computes(text: str) -> None:
    chance = random.Random(text)
    with duckdb.connect() as connection:
        for _ in range(ROUNDS):
            table = rows(40, chance)
            connection.register("rows", table)
            theirs = connection.sql(f"SELECT {OTHER.get(text, text)} AS v FROM rows").to_arrow_table().column(0)
            assert plain(ours(table, text)) == plain(theirs.to_pylist()), text


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text", [*SAME, *OTHER, "substring(s, 0)", "substring(s, -6, 3)", "trunc(t, 'YEAR')", "left(s, -1)", "right(s, -2)"]
)
def test_a_query_computes_what_a_condition_computes(text: str) -> None:
    """Queries run in DuckDB, and a function in an UPDATE has to mean the same."""
    table = rows(40, random.Random(text))
    found = hudi.sql(f"SELECT {text} AS v FROM t", {"t": table})
    assert isinstance(found, pa.Table)
    assert plain(ours(table, text)) == plain(found.column(0).to_pylist())


def test_days_begin_at_midnight_of_the_zone() -> None:
    table = pa.table({"t": pa.array([dt.datetime(2026, 3, 29, 22, 30, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))})
    berlin = TimeZone("Europe/Berlin")
    assert ours(table, "date_trunc('day', t)", berlin) == [dt.datetime(2026, 3, 29, 22, tzinfo=dt.UTC)]
    assert ours(table, "date_trunc('day', t)") == [dt.datetime(2026, 3, 29, tzinfo=dt.UTC)]
    assert ours(table, "dayofyear(t)", berlin) == [89]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("substring('abcd', -6, 3)", "a"),
        ("substring('abcd', -3, 2)", "bc"),
        ("substring('abcd', -2, 9)", "cd"),
        ("right('ab', 0)", ""),
    ],
)
def test_positions_from_the_end_are_sparks(text: str, expected: str) -> None:
    assert ours(pa.table({"s": [""]}), text) == [expected]


@pytest.mark.parametrize(
    "text",
    ["left(s, i)", "replace(s, s, 'a')", "lpad(s, 3, 'ab')", "lpad(s, 3, '')", "trim(i)", "isnan(s)", "trunc(t, 'hour')", "date_trunc('age', t)",
     "i DIV x", "floor(s)", "last_day(i)"],
)  # fmt: skip
def test_what_a_function_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(PredicateError) as caught:
        ours(rows(1, random.Random(1)), text)
    assert caught.value.hint
