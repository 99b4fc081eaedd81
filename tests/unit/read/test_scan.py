"""Snapshot reads: columns, conditions, pruning, batches, what a scan says about itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, PredicateError, SchemaMismatchError
from pyhudi_core.table import HudiTable

META = 5


@pytest.fixture
def filled(location: str) -> HudiTable:
    """Twelve rows in three days."""
    table = make(location)
    table.upsert(orders(*((n, "abc"[n % 3], n / 2 if n % 4 else None, n * 10) for n in range(12))))
    return table


@pytest.mark.row("D3")
def test_a_scan_returns_the_meta_columns_first(filled: HudiTable) -> None:
    found = filled.scan().to_arrow()
    assert found.num_rows == 12
    assert [name.startswith("_hoodie_") for name in found.schema.names] == [True] * META + [False] * 4
    assert filled.scan().schema == found.schema


def test_columns_are_returned_in_the_order_they_are_asked_for(filled: HudiTable) -> None:
    assert filled.scan(columns=["ts", "_hoodie_record_key", "id"]).to_arrow().schema.names == [
        "ts",
        "_hoodie_record_key",
        "id",
    ]


def test_unknown_columns_are_refused_with_the_list_of_those_that_are_there(filled: HudiTable) -> None:
    with pytest.raises(SchemaMismatchError, match="no column 'prize'") as caught:
        filled.scan(columns=["id", "prize"])
    assert "price" in str(caught.value)
    assert caught.value.table == filled.location


@pytest.mark.parametrize("columns", [[], (), "id", ""])
def test_columns_are_a_list_with_something_in_it(filled: HudiTable, columns: object) -> None:
    with pytest.raises(InvalidOptionError, match="not a list of column names"):
        filled.scan(columns=columns)  # type: ignore[arg-type]


def test_a_column_is_named_once_whatever_reads_it(filled: HudiTable) -> None:
    """Engines differ about results that have a name twice: Spark has none of them in a struct, nor where two frames meet."""
    asked: list[Callable[[], object]] = [
        lambda: filled.scan(columns=["id", "price", "id"]),
        lambda: filled.scan(columns=["id", "id"], mode="read_optimized"),
        lambda: filled.incremental(columns=["id", "id"]),
        lambda: filled.changes(columns=["id", "id"]),
        lambda: filled.lookup(pa.table({"id": [1]}), columns=["id", "id"]),
    ]
    for ask in asked:
        with pytest.raises(InvalidOptionError, match="Duplicate columns: 'id'"):
            ask()


CONDITIONS = [
    ("id = 3", pc.field("id") == 3, [3]),
    ("day = 'a' AND ts >= 60", (pc.field("day") == "a") & (pc.field("ts") >= 60), [6, 9]),
    ("price IS NULL", pc.field("price").is_null(), [0, 4, 8]),
    ("day IN ('b', 'z')", pc.field("day").isin(["b", "z"]), [1, 4, 7, 10]),
    ("NOT (id < 10)", ~(pc.field("id") < 10), [10, 11]),
    ("day = 'z'", pc.field("day") == "z", []),
    ("id = 1 OR day = 'c'", (pc.field("id") == 1) | (pc.field("day") == "c"), [1, 2, 5, 8, 11]),
    ("_hoodie_record_key = '7'", pc.field("_hoodie_record_key") == "7", [7]),
]


@pytest.mark.one_in(2)
@pytest.mark.row("D3")
@pytest.mark.parametrize(("sql", "expression", "expected"), CONDITIONS, ids=[sql for sql, _, _ in CONDITIONS])
def test_sql_and_arrow_conditions_choose_the_same_rows(
    filled: HudiTable, sql: str, expression: pc.Expression, expected: list[int]
) -> None:
    assert [key for (key,) in rows(filled.scan(where=sql), "id")] == expected
    assert [key for (key,) in rows(filled.scan(where=expression), "id")] == expected
    assert [key for (key,) in rows(filled.scan(columns=["id"], where=sql))] == expected, (
        "the condition's columns need not be chosen"
    )
    batches = pa.Table.from_batches(filled.scan(where=sql).to_batches(), filled.scan().schema)
    assert [key for (key,) in rows(batches, "id")] == expected


@pytest.mark.parametrize("where", ["price >", "nothing = 1", "id = 'x' +", 7])
def test_a_condition_that_cannot_be_is_an_error_before_anything_is_read(filled: HudiTable, where: object) -> None:
    with pytest.raises((PredicateError, hudi.HudiError)):
        filled.scan(where=where)


def test_partitions_that_cannot_match_are_not_listed(filled: HudiTable) -> None:
    scan = filled.scan(where="day = 'b'")
    assert {piece.partition for piece in scan.slices()} == {"day=b"}
    [partitions, files_, *_] = scan.explain().steps
    assert (partitions.kept, partitions.of) == (1, 3)
    assert (files_.kept, files_.of) == (1, 3)


def test_row_groups_that_cannot_match_are_not_read(location: str) -> None:
    table = make(location, options={"pyhudi.parquet.row.group.rows": 100})
    count = 1000
    table.bulk_insert(
        pa.table(
            {"id": np.arange(count), "day": ["a"] * count, "price": np.arange(count) * 1.0, "ts": np.arange(count)}
        )
    )
    scan = table.scan(where="ts BETWEEN 250 AND 260", columns=["id"])
    steps = {step.name: step for step in scan.explain().steps}
    assert (steps["row groups"].kept, steps["row groups"].of) == (1, 10)
    assert [key for (key,) in rows(scan)] == list(range(250, 261))
    nothing = {step.name: step for step in table.scan(where="ts > 5000").explain().steps}
    assert (nothing["files after statistics"].kept, nothing["files after statistics"].of) == (0, 1)


def test_an_explanation_prints(filled: HudiTable) -> None:
    explained = filled.scan(where="id = 3").explain()
    assert "partitions: 3 of 3" in str(explained)
    assert "<td>partitions</td>" in explained._repr_html_()
    assert filled.location in str(filled.scan())


def test_a_scan_prints_in_a_line_what_it_reads(filled: HudiTable) -> None:
    scan = filled.scan(columns=["id", "price"], where="id > 3").limit(1_000)
    what = "Scan of id, price of rows that fit a condition, at most 1,000 rows: "
    assert str(scan) == f"{what}{filled.location} as of {scan.completion_time}"
    assert repr(scan).startswith(what)
    assert "table as of" in repr(filled.scan()), "the end of the location"


def test_batches_and_table_hold_the_same_rows(filled: HudiTable) -> None:
    scan = filled.scan()
    assert rows(pa.Table.from_batches(scan.to_batches(), scan.schema)) == rows(scan)


@pytest.mark.row("D3")
def test_an_empty_table_has_no_rows_and_its_columns(location: str) -> None:
    table = make(location)
    found = table.scan().to_arrow()
    assert found.num_rows == 0
    assert found.schema.names[META:] == ["id", "day", "price", "ts"]
    assert list(table.scan().to_batches()) == []
    assert rows(table.scan(where="id = 1")) == []
    assert table.scan().completion_time == ""
    assert rows(table.incremental(after="0")) == []
    assert rows(table.lookup(pa.table({"id": [1]}))) == []


def test_a_name_that_is_an_sql_word_can_be_asked_for(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("order", pa.int64()), ("select", pa.string())])
    table = make(location, schema)
    table.upsert(pa.table([[1, 2], [10, 20], ["x", "y"]], schema=schema))
    assert rows(table.scan(where="`order` = 20 AND `select` = 'y'"), "id") == [(2,)]
    for where in ("when = 20", "id = 1 AND select = 'y'"):
        with pytest.raises(PredicateError, match="has backquotes: `when` = 3"):
            table.scan(where=where)


def test_a_scan_can_be_sent_to_another_process(filled: HudiTable) -> None:
    import pickle

    predicate = filled.scan(where="day = 'b' AND id > 3").rows
    assert pickle.loads(pickle.dumps(predicate)).columns == predicate.columns


# --- look-up by key


def test_a_look_up_returns_the_rows_of_the_keys(filled: HudiTable) -> None:
    assert rows(filled.lookup(pa.table({"id": [3, 5, 99]})), "id") == [(3,), (5,)]
    assert rows(filled.lookup(pa.table({"id": pa.array([3], pa.int8())})), "id") == [(3,)]
    assert filled.lookup(pa.table({"id": [3]}), columns=["price"]).to_arrow().schema.names == ["price"]


def test_a_look_up_with_partitions_reads_these_only(filled: HudiTable) -> None:
    scan = filled.lookup(pa.table({"id": [3, 4], "day": ["a", "b"]}))
    assert {piece.partition for piece in scan.slices()} == {"day=a", "day=b"}
    assert rows(scan, "id") == [(3,), (4,)]


def test_a_look_up_passes_over_files_by_key_range_and_bloom_filter(location: str) -> None:
    table = make(location)
    for start in (100, 200, 300):
        table.bulk_insert(orders(*((start + 2 * n, "a", 1.0) for n in range(20))))
    steps = {step.name: step for step in table.lookup(pa.table({"id": [204]})).explain().steps}
    assert (steps["files after statistics"].kept, steps["files after statistics"].of) == (1, 3)
    absent = {step.name: step for step in table.lookup(pa.table({"id": [205]})).explain().steps}
    assert absent["files after statistics"].kept == 0, "within a range, but not in the filter"


def test_a_look_up_of_no_keys_has_no_rows(filled: HudiTable) -> None:
    assert rows(filled.lookup(pa.table({"id": pa.array([], pa.int64())}))) == []


def test_a_look_up_needs_the_key_columns(filled: HudiTable) -> None:
    with pytest.raises(SchemaMismatchError, match="keys have no column 'id'"):
        filled.lookup(pa.table({"day": ["a"]}))


@pytest.mark.parametrize("key", ["\ufb01", "\U0001f600", "\uffee", "z", "\ud7ff"])
def test_keys_of_any_script_are_found(location: str, key: str) -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    table = make(location, schema)
    keys = ["a", "\ufb01", "\U0001f600", "\uffee", "z", "\ud7ff"]
    table.upsert(pa.table([keys, list(range(len(keys)))], schema=schema))
    assert rows(table.lookup(pa.table({"id": [key]})), "id") == [(key,)]
    table.upsert(pa.table([[key], [99]], schema=schema))
    assert len(rows(table, "id")) == len(keys)
