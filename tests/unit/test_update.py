"""`update(set, where)`: new values of columns in the rows that a condition finds, in one commit. The judge of its values is DuckDB."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.samples import one_in

import pyhudi_core as hudi
from pyhudi_core.errors import DataError, InvalidOptionError, PredicateError

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("day", pa.string()),
        ("price", pa.float64()),
        ("qty", pa.int32()),
        ("exact", pa.decimal128(10, 2)),
        ("name", pa.string()),
        ("since", pa.date32()),
        ("sold", pa.bool_()),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {
            "id": 1,
            "ts": 1,
            "day": "a",
            "price": 1.5,
            "qty": 1,
            "exact": Decimal("1.10"),
            "name": "x",
            "since": dt.date(2026, 1, 1),
            "sold": True,
        },
        {
            "id": 2,
            "ts": 1,
            "day": "a",
            "price": math.nan,
            "qty": 2,
            "exact": Decimal("2.25"),
            "name": "y",
            "since": None,
            "sold": False,
        },
        {
            "id": 3,
            "ts": 1,
            "day": "b",
            "price": None,
            "qty": 3,
            "exact": None,
            "name": None,
            "since": dt.date(2026, 1, 3),
            "sold": None,
        },
        {
            "id": 4,
            "ts": 1,
            "day": "b",
            "price": 4.0,
            "qty": None,
            "exact": Decimal("4.40"),
            "name": "w",
            "since": dt.date(2026, 1, 4),
            "sold": True,
        },
    ],
    SCHEMA,
)
KINDS = {
    "copy-on-write": {"record_key": "id", "ordering": "ts", "table_type": "cow"},
    "copy-on-write in partitions": {"record_key": "id", "ordering": "ts", "partition_by": "day", "table_type": "cow"},
    "merge-on-read in partitions": {"record_key": "id", "ordering": "ts", "partition_by": "day", "table_type": "mor"},
    "without keys": {"partition_by": "day", "table_type": "cow"},
    "merge-on-read without keys": {"table_type": "mor"},
}


def made(
    location: str, kind: str = "copy-on-write in partitions", rows: pa.Table = ROWS, **more: Any
) -> hudi.HudiTable:
    table = hudi.create_table(location, SCHEMA, **KINDS[kind], **more)  # type: ignore[arg-type]
    table.insert(rows)
    return table


def values(table: hudi.HudiTable, *columns: str) -> list[tuple[object, ...]]:
    found = table.scan(["id", *columns]).to_arrow().sort_by("id").to_pylist()
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_match_get_new_values_in_one_commit_and_others_keep_theirs(location: str, kind: str) -> None:
    table = made(location, kind)
    before = len(table.timeline.commits)
    commit = table.update({"price": "price * 1.1", "qty": "qty + 1", "name": "'new'"}, where="id <> 2 AND day = 'a'")
    assert (commit.stats.rows_updated, commit.stats.rows_inserted, commit.stats.rows_deleted) == (1, 0, 0)
    assert len(table.timeline.commits) == before + 1
    rows = values(table, "price", "qty", "name")
    assert rows[0] == (1, 1.5 * 1.1, 2, "new")
    assert rows[2:] == [(3, None, 3, None), (4, 4.0, None, "w")]
    assert rows[1][2:] == (2, "y")


def test_only_file_groups_with_such_rows_are_written(location: str) -> None:
    table = made(location)
    table.update({"qty": 7}, where="day = 'a'")
    written = table.commit_metadata(table.timeline.commits[-1]).stats
    assert {stat.partition for stat in written} == {"day=a"} or {stat.partition for stat in written} == {"a"}


def test_without_a_condition_all_rows_are_updated(location: str) -> None:
    table = made(location)
    assert table.update({"qty": 9}).stats.rows_updated == 4
    assert [row[1] for row in values(table, "qty")] == [9, 9, 9, 9]


def test_all_values_are_computed_from_the_row_as_it_was(location: str) -> None:
    table = made(location)
    table.update({"name": "day", "qty": "CAST(id AS INT)", "since": pc.field("since")})
    assert values(table, "name", "qty") == [(1, "a", 1), (2, "a", 2), (3, "b", 3), (4, "b", 4)]


def test_python_values_and_scalars_of_other_libraries_are_stored_as_they_are(location: str) -> None:
    table = made(location)
    new = {
        "price": np.float64(2.5),
        "qty": np.int64(3),
        "name": pa.scalar("it's"),
        "since": dt.date(2026, 5, 1),
        "sold": None,
    }
    table.update({**new, "exact": Decimal("9.99")}, where="id = 1")
    [row] = table.scan(list(new) + ["exact"], where="id = 1").to_arrow().to_pylist()
    assert row == {
        "price": 2.5,
        "qty": 3,
        "name": "it's",
        "since": dt.date(2026, 5, 1),
        "sold": None,
        "exact": Decimal("9.99"),
    }


def test_values_of_numpy_and_times_with_zones_are_converted_exactly() -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("plain", pa.timestamp("us")), ("moment", pa.timestamp("us", "UTC")), ("day", pa.date32())]
    )
    table = hudi.create_table("memory://updates-times", schema, "id")
    table.insert(pa.table([[1], [None], [None], [None]], schema=schema))
    east = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    table.update({"plain": np.datetime64("1970-01-01T00:00:01", "ns"), "moment": east})
    [row] = table.to_arrow().to_pylist()
    assert row["plain"] == dt.datetime(1970, 1, 1, 0, 0, 1)
    assert row["moment"] == east
    for bad in ({"day": dt.datetime(2026, 1, 1, 12)}, {"plain": east}):
        with pytest.raises(PredicateError, match="does not take"):
            table.update(bad)


def test_a_struct_is_one_value_with_all_of_its_fields() -> None:
    schema = pa.schema([("id", pa.int64()), ("home", pa.struct([("street", pa.string()), ("no", pa.int64())]))])
    table = hudi.create_table("memory://updates-struct", schema, "id")
    table.insert(pa.table([[1], [{"street": "x", "no": 1}]], schema=schema))
    for bad in ({"no": 4}, {"no": 4, "stret": "q"}):
        with pytest.raises(PredicateError, match="all of its fields"):
            table.update({"home": bad})
    table.update({"home": {"street": "home.street", "no": 4}})
    assert table.to_arrow().to_pylist() == [{"id": 1, "home": {"street": "home.street", "no": 4}}]


def test_missing_times_of_pandas_are_null(location: str) -> None:
    table = made(location)
    table.update({"since": pd.NaT, "price": float("nan")}, where="id = 1")
    [row] = table.to_arrow(["since", "price"], "id = 1").to_pylist()
    assert row["since"] is None
    assert math.isnan(row["price"])


def test_an_update_to_null_is_refused_where_the_merger_keeps_stored_values() -> None:
    payload = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    table = made("memory://updates-payload", "copy-on-write", options={"hoodie.compaction.payload.class": payload})
    with pytest.raises(DataError, match="keeps the stored value"):
        table.update({"name": None})
    assert table.update({"name": "'k'"}).stats.rows_updated == 4


def test_an_update_without_a_row_to_change_makes_no_commit(location: str) -> None:
    table = made(location)
    result = table.update({"qty": 1}, where="id = 99")
    assert not result
    assert result.reason == "no row matches the condition"


BAD = {
    "a key column": ({"id": 1}, InvalidOptionError, "part of the record key"),
    "a key column in other case": ({"ID": 1}, InvalidOptionError, "part of the record key"),
    "a partition column": ({"day": "'c'"}, InvalidOptionError, "partition column"),
    "nothing": ({}, InvalidOptionError, "dict"),
    "a list": ([("qty", 1)], InvalidOptionError, "dict"),
    "an unknown column": ({"prise": "1"}, PredicateError, "does not exist"),
    "one column twice": ({"qty": 1, "QTY": 2}, PredicateError, "twice"),
    "an unknown column in an expression": ({"qty": "kty + 1"}, PredicateError, "'kty'"),
    "text without quotes": ({"name": "new"}, PredicateError, "write text in quotes"),
    "text that is no SQL": ({"name": "brand new"}, PredicateError, "not SQL"),
    "text for a number": ({"qty": "'many'"}, PredicateError, "int32"),
    "a column of another type": ({"name": "price"}, PredicateError, "double"),
    "an Arrow expression of another type": ({"qty": pc.field("name")}, PredicateError, "string"),
    "a fraction for whole numbers": ({"qty": "qty * 1.5"}, DataError, "qty"),
    "a number that is too large": ({"qty": 1 << 40}, PredicateError, "qty"),
    "an overflow": ({"qty": "qty + 3000000000"}, DataError, "qty"),
    "an overflow of 64 bits": ({"qty": "9223372036854775807 + id"}, DataError, "qty"),
    "a number beyond a float": ({"price": 10**400}, PredicateError, "price"),
    "a number that would be rounded": ({"price": "9007199254740993"}, PredicateError, "rounded"),
    "a constant that a decimal would round": ({"exact": "1 / 3"}, PredicateError, "rounded to 0.33"),
    "a fraction as a Python value": ({"qty": 5.9}, PredicateError, "would become 5"),
    "a number for a date": ({"since": 20240506}, PredicateError, "unit"),
    "more decimal places": ({"exact": "exact * 1.123"}, DataError, "round"),
    "a lower ordering value": ({"ts": "ts - 1"}, DataError, "lower ts"),
    "no ordering value": ({"ts": None}, DataError, "lower ts"),
    "an aggregate": ({"price": "sum(price)"}, PredicateError, "SUM(price)"),
    "a subquery": ({"price": "(SELECT 1)"}, PredicateError, "SELECT 1"),
    "a random number": ({"price": "rand()"}, PredicateError, "RAND()"),
    "the time of the call": ({"since": "current_date()"}, PredicateError, "CURRENT_DATE"),
    "an empty text": ({"name": ""}, PredicateError, "Write NULL for no value, \"''\" for an empty text"),
    "a blank text for a number": ({"price": " \n"}, PredicateError, "Write NULL for no value"),
    "half a value": ({"price": "price *"}, PredicateError, 'It is one value in Spark SQL, such as "price . 1.1"'),
    "a statement": ({"price": "SELECT price"}, PredicateError, "give the value alone"),
    "a column without a name": ({1: "price"}, InvalidOptionError, "1 is no text"),
    "a truth value for a number": ({"price": True}, PredicateError, "a truth value is no number"),
}


@pytest.mark.parametrize("given", ["16777217", 16777217, 2**24 + 3])
def test_a_whole_number_that_a_narrow_column_would_round_is_refused(location: str, given: object) -> None:
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), ("f", pa.float32())]), "id")
    table.insert(pa.table({"id": [1], "f": pa.array([0.1], pa.float32())}))
    with pytest.raises(PredicateError, match="Column f is float and does not take"):
        table.update({"f": given})
    table.update({"f": 2**24})
    table.update({"f": 0.1}, where="f > 1")
    assert table.to_arrow()["f"].to_pylist() == [pytest.approx(0.1)]


def test_a_field_of_a_struct_is_set_with_its_struct(location: str) -> None:
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]), "id")
    table.insert(pa.table({"id": [1], "s": [{"a": 1}]}))
    with pytest.raises(PredicateError, match="set s, with all of its fields"):
        table.update({"s.a": 2})


@pytest.mark.parametrize(("given", "error", "says"), BAD.values(), ids=BAD)
def test_what_an_update_cannot_set_is_refused_and_nothing_is_written(
    location: str, given: dict[str, object], error: type[Exception], says: str
) -> None:
    rows = ROWS.set_column(4, "qty", pa.array([1, 2, 3, 4], pa.int32()))
    table = made(location, rows=rows)
    with pytest.raises(error, match="(?s)" + says.replace("(", r"\(").replace(")", r"\)")) as refused:
        table.update(given)
    assert table.location in str(refused.value)
    assert len(table.timeline.commits) == 1
    assert not table.timeline.pending.instants


def test_a_higher_ordering_value_can_be_set(location: str) -> None:
    table = made(location)
    table.update({"ts": "ts + 1", "qty": 5}, where="id = 1")
    assert values(table, "ts", "qty")[0] == (1, 2, 5)


EXPRESSIONS = {
    "price": [
        "price * 2",
        "price + qty",
        "CASE WHEN price > 2 THEN 1.5 WHEN name IS NULL THEN -1 END",
        "-price",
        "7",
        "NULL",
    ],
    "qty": ["qty + 1", "CASE WHEN sold THEN 1 ELSE 2 END", "length(name)", "qty * 2 - 3", "coalesce(qty, 0)"],
    "exact": [
        "exact + 1.25",
        "exact - 1",
        "round(exact * 1.17, 2)",
        "round(exact * qty, 1)",
        "CASE name WHEN 'n1' THEN 1.5 ELSE exact END",
    ],
    "name": ["upper(name)", "CASE WHEN qty IS NULL OR qty > 4 THEN 'big' ELSE name END", "substring(name, 1, 1)"],
    "sold": [
        "qty > 3",
        "NOT sold",
        "sold AND qty < 5",
        "name LIKE 'n%'",
        "qty IN (1, 2)",
        "qty IS NULL",
        "price BETWEEN 1 AND 3",
    ],
}
CONDITIONS = [
    None,
    "qty > 3",
    "sold",
    "NOT sold OR name = 'n2'",
    "price < 2 OR price IS NULL",
    "exact >= 5.5",
    "day = 'b'",
]


def random_rows(chance: random.Random, count: int) -> pa.Table:
    def one(number: int) -> dict[str, object]:
        row: dict[str, object] = {
            "id": number, "ts": 1, "day": chance.choice("abc"), "price": chance.choice([0.5, 1.0, 2.5, 1e6, -0.0, math.nan]), "qty": chance.randrange(9),
            "exact": Decimal(chance.randrange(-999, 999)) / 100, "name": f"n{chance.randrange(5)}", "since": dt.date(2026, 1, 1), "sold": chance.random() < 0.5,
        }  # fmt: skip
        return {
            name: None if name not in ("id", "ts", "day") and chance.random() < 0.2 else value
            for name, value in row.items()
        }

    return pa.Table.from_pylist([one(number) for number in range(count)], SCHEMA)


def plain(rows: list[tuple[object, ...]]) -> list[str]:
    """Rows as texts: NaN equals NaN, and the two zeros are one number."""
    return [repr([one + 0.0 if isinstance(one, float) else one for one in row]) for row in rows]


def update_as_duckdb(kind: str, seed: str, rounds: int) -> None:
    """Random updates of one table, and of the same rows in DuckDB."""
    chance = random.Random(seed)
    table = made(f"memory://updates-{seed.replace(' ', '-')}", kind, random_rows(chance, 60))
    judge = duckdb.connect()
    judge.register("start", table.scan(SCHEMA.names).to_arrow())
    judge.execute("CREATE TABLE t AS SELECT * FROM start")
    for _ in range(rounds):
        chosen = chance.sample(sorted(EXPRESSIONS), chance.randint(1, 3))
        new, where = {name: chance.choice(EXPRESSIONS[name]) for name in chosen}, chance.choice(CONDITIONS)
        table.update(new, where=where)
        setting = ", ".join(f"{name} = {text}" for name, text in new.items())
        judge.execute(f"UPDATE t SET {setting} WHERE {where or 'true'}")
        expected = judge.execute("SELECT * FROM t ORDER BY id").fetchall()
        found = [tuple(row.values()) for row in table.scan(SCHEMA.names).to_arrow().sort_by("id").to_pylist()]
        assert plain(found) == plain(expected), f"{seed}: {setting} WHERE {where}"
    judge.close()


@pytest.mark.parametrize("seed", one_in(11, range(11)))
@pytest.mark.parametrize("kind", KINDS)
def test_random_updates_give_the_values_of_duckdb(kind: str, seed: int) -> None:
    update_as_duckdb(kind, f"{kind} {seed}", 20 if seed else 12)
