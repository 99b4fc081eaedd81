"""Which rows of a merge meet, and what its plan counts: dates beside moments in a zone, cases of names, rows that the merge law refuses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from unit import test_merge
from unit.test_merge import KINDS

import pyhudi_core as hudi
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError

ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "-09:30"]
DAY = dt.date(2018, 11, 4)
"""In Sao Paulo its first hour is left out."""


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["us", "ms"])
@pytest.mark.parametrize("on_both", [False, True])
def test_a_day_meets_the_moment_that_a_condition_finds_for_it(zone: str, unit: str, on_both: bool) -> None:
    """``on=`` by a name, and as text with another condition."""
    moment, day = pa.timestamp(unit, "UTC"), pa.date32()
    start = dt.datetime(2018, 11, 3, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(minutes=30 * half) for half in range(4 * 24)]
    schema = pa.schema([("id", pa.int64()), ("ts", moment), ("d", day)])
    table = hudi.create_table(
        f"memory://days-{zone}-{unit}-{on_both}", schema, "id", options={"pyhudi.condition.timezone": zone}
    )
    table.insert(pa.table({"id": range(len(moments)), "ts": moments, "d": [DAY] * len(moments)}, schema=schema))
    at = table.scan(["ts"], where=f"ts = DATE '{DAY}'").to_arrow()["ts"].to_pylist()
    assert len(at) == 1
    rest = " AND source.k = 1" if on_both else ""
    days = pa.table({"x": pa.array([DAY, None]), "k": [1, 1]})
    found = table.merge(days, f"target.ts = source.x{rest}").when_matched_delete().plan()
    assert found.rows_deleted == 1
    for kind in (moment, pa.timestamp("ns", "UTC")):
        times = pa.table({"x": pa.array([*moments, None], kind), "k": [1] * (len(moments) + 1)})
        merge = table.merge(times, f"target.d = source.x{rest}").when_matched_update({"ts": "source.x"})
        assert merge.run().stats.rows_updated == len(moments)
        assert {*table.to_arrow()["ts"].to_pylist()} == {*at}


def test_an_exclude_takes_any_case_as_other_names_do(location: str) -> None:
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), ("v", pa.int64()), ("W", pa.int64())]), "id")
    table.insert(pa.table({"id": [1], "v": [1], "W": [1]}))
    source = pa.table({"ID": [1], "V": [2], "w": [2]})
    table.merge(source, on="Id").when_matched_update_all(exclude=["v", "W"][1:]).run()
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": 2, "W": 1}]
    hudi.sql(
        "MERGE INTO t USING s ON t.ID = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (V)",
        tables={"t": table, "s": pa.table({"id": [1], "v": [3], "W": [3]})},
    )
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": 2, "W": 3}]
    with pytest.raises(InvalidOptionError, match="exclude names 'X'"):
        table.merge(source, on="Id").when_matched_update_all(exclude=["X"]).run()


SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.float64()), ("v", pa.int64())])
NAN = float("nan")
STORED = [(1, 5.0), (2, 5.0), (3, None), (4, NAN), (5, 5.0), (6, 5.0)]
GIVEN = [(1, 4.0), (2, 5.0), (3, None), (4, 9.0), (5, None), (6, NAN), (7, 1.0)]
CLAUSES = {"all": True, "one by one": False}


def rows_of(given: list[tuple[int, float | None]], v: int) -> pa.Table:
    ids, times = zip(*given, strict=True)
    return pa.table({"id": ids, "ts": pa.array(times, pa.float64()), "v": [v] * len(ids)}, schema=SCHEMA)


@pytest.mark.parametrize("clauses", CLAUSES)
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_plan_counts_the_rows_that_the_merge_changes(clauses: str, ordering: str | None, table_type: str) -> None:
    name = f"memory://counted-{clauses.replace(' ', '-')}-{ordering}-{table_type}"
    table = hudi.create_table(name, SCHEMA, "id", ordering=ordering, table_type=table_type)
    table.insert(rows_of(STORED, 1))
    merge = table.merge(rows_of(GIVEN, 2), "id")
    merge = (
        merge.when_matched_update_all()
        if CLAUSES[clauses]
        else merge.when_matched_update({"v": "source.v", "ts": "source.ts"})
    )
    merge = merge.when_not_matched_insert_all()
    planned = merge.plan()
    stats = merge.run().stats
    changed = [row["id"] for row in table.to_arrow().to_pylist() if row["v"] == 2]
    assert sorted(changed) == ([2, 3, 6, 7] if ordering else [1, 2, 3, 4, 5, 6, 7])
    assert planned == hudi.MergePlan(len(changed) - 1, 1, 0)
    if table_type == "cow":
        assert (stats.rows_updated, stats.rows_inserted, stats.rows_deleted) == (len(changed) - 1, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_of_rows_with_one_key_a_replace_writes_the_one_that_an_upsert_writes(kind: str) -> None:
    rows = test_merge.rows_of(
        (2, 3, "a", 20.0, "first"), (2, 2, "a", 21.0, "old"), (1, 2, "a", 10.0, "x"), (1, 2, "a", 11.0, "last")
    )
    replaced, upserted = (test_merge.made(f"twice-{verb}", kind) for verb in ("replace", "upsert"))
    replaced.replace(rows, where="day = 'a'")
    upserted.delete(where="day = 'a'")
    upserted.upsert(rows) if "keys" not in kind else upserted.insert(rows)
    expected = test_merge.found(upserted)
    assert sorted(test_merge.found(replaced), key=str) == sorted(expected, key=str)
    assert ("keys" in kind) == ("old" in [row[4] for row in expected])


NUMBERS: list[Any] = [
    0,
    1,
    2,
    -1,
    127,
    128,
    1.5,
    0.1,
    Decimal("0.1"),
    Decimal("1.005"),
    Decimal("99999999.99"),
    2**31,
    2**53,
]
NUMBERS += [2**53 + 1, 2**63 - 1, -(2**63), Decimal(10) ** 20, 1e20, 1e300, float("nan"), float("inf"), None]
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
TYPES += [pa.decimal128(*digits) for digits in ((10, 2), (38, 9), (20, 0), (5, 5))]


def held(kind: pa.DataType) -> pa.Array:
    """The numbers that a type can hold; a FLOAT and a DOUBLE hold the nearest one of some."""
    found: dict[str, Any] = {}
    for number in NUMBERS:
        try:
            given = float(number) if pa.types.is_floating(kind) and number is not None else number
            value = pa.scalar(given, kind).as_py()
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            continue
        if pa.types.is_floating(kind) or value == number:
            found[repr(value)] = value
    return pa.array(found.values(), kind)


def exactly(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return bool(one == other or (one != one and other != other))


def as_doubles(one: Any, other: Any) -> bool:
    return exactly(one, other) or (None not in (one, other) and exactly(float(one), float(other)))


@pytest.mark.parametrize("stored", TYPES, ids=str)
def test_numbers_of_any_two_types_meet_where_they_are_equal(stored: pa.DataType) -> None:
    """Exactly equal numbers meet; a decimal may meet a floating-point number to which it is equal as a DOUBLE. No type is refused."""
    mine = held(stored)
    schema = pa.schema([("id", pa.int64()), ("k", stored)])
    table = hudi.create_table(f"memory://numbers-{stored}", schema, "id")
    table.insert(pa.table([pa.array(range(len(mine))), mine], schema=schema))
    for given in TYPES:
        theirs = held(given)
        merge = table.merge(pa.table({"x": theirs}), "target.k = source.x").when_matched_delete()
        met = merge.plan().rows_deleted
        least, most = (
            sum(any(equal(one, other) for other in theirs.to_pylist()) for one in mine.to_pylist())
            for equal in (exactly, as_doubles)
        )
        assert least <= met <= most, f"{stored} and {given}: {met}, not {least} to {most}"


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("key", ["id", ()])
def test_a_generated_column_of_the_source_can_be_compared_and_is_never_written(
    table_type: str, key: str | tuple[()]
) -> None:
    columns = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("twice", pa.int64())])
    rules = hudi.TableRules(generated={"twice": "v * 2"})
    name = f"memory://generated-{table_type}-{bool(key)}"
    table = hudi.create_table(name, columns, key, table_type=table_type, rules=rules)
    table.insert(pa.table({"id": [1, 2], "v": [1, 2]}))
    source = pa.table({"id": [2, 3], "v": [5, 7], "twice": [4, 4]}, schema=columns)
    assert table.merge(source.slice(0, 1), on="twice").when_matched_delete().plan().rows_deleted == 1
    merge = table.merge(source, on="target.id = source.id")
    merge.when_matched_update({"v": "source.twice"}, where="source.twice = target.twice").run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "v": [1, 4], "twice": [2, 8]}
    table.merge(source, on="id").when_matched_update_all().when_not_matched_insert_all().run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [1, 5, 7], "twice": [2, 10, 14]}
    merge = table.merge(source, on="id").when_matched_update_all(exclude=["twice", "v"]).when_not_matched_insert_all()
    assert merge.run().stats.rows_updated == 2


def test_a_generated_partition_is_compared_as_the_source_gives_it_and_a_key_is_never_there_twice() -> None:
    columns = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("part", pa.int64())])
    rules = hudi.TableRules(generated={"part": "v % 2"})
    table = hudi.create_table("memory://generated-part", columns, "id", partition_by="part", rules=rules)
    table.insert(pa.table({"id": [1, 2], "v": [1, 2]}))
    merge = table.merge(pa.table({"id": [1], "v": [3], "part": [0]}, schema=columns), on=["id", "part"])
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(DuplicateKeyError, match="key of another row"):
        merge.run()
    right = pa.table({"id": [1], "v": [3], "part": [1]}, schema=columns)
    table.merge(right, on=["id", "part"]).when_matched_update_all().when_not_matched_insert_all().run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "v": [3, 2], "part": [1, 0]}
