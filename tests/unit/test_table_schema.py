"""Types, nulls, and columns that come and grow."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from support import all_types
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError


def _plain(table: pa.Table, columns: list[str]) -> list[dict]:
    return table.select(columns).sort_by("id").to_pylist()


@pytest.mark.row("D1", "D3")
def test_every_type_comes_back_as_it_went_in(location: str) -> None:
    given = all_types.rows()
    table = make(location, given.schema, partition_by=())
    table.upsert(given)
    names = given.schema.names
    assert _plain(table.scan().to_arrow(), names) == _plain(given, names)
    table.upsert(given.slice(2, 1))
    assert _plain(table.scan().to_arrow(), names) == _plain(given, names), "after the file was rewritten"
    swapped = given.set_column(0, "id", pa.array([2, 3, 1]))
    table.upsert(swapped)
    assert _plain(table.scan().to_arrow(), names) == _plain(swapped, names), "after every row was replaced"


def test_small_types_are_stored_as_the_types_that_hudi_has(location: str) -> None:
    table = make(location, all_types.SCHEMA, partition_by=())
    kinds = {field.name: field.type for field in table.schema}
    assert kinds["c_int8"] == kinds["c_int16"] == pa.int32()
    assert kinds["c_ts_ms"] == pa.timestamp("us")
    assert kinds["c_ts_zone"] == pa.timestamp("us", "UTC")
    assert kinds["c_list"] == pa.list_(pa.int64())


def test_the_zone_of_a_timestamp_changes_the_words_and_not_the_moment(location: str) -> None:
    moment = datetime(2026, 7, 1, 10, tzinfo=UTC)
    schema = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us", "Asia/Tokyo"))])
    table = make(location, schema)
    table.upsert(pa.table([[1], [moment]], schema=schema))
    assert table.scan(columns=["t"]).to_arrow().to_pylist() == [{"t": moment}]


def test_other_arrow_types_are_taken_as_what_they_mean(location: str) -> None:
    table = make(location)
    batch = pa.table({
        "id": pa.array([1, 2], pa.uint8()), "day": pa.array(["a", "b"]).dictionary_encode(),
        "price": pa.array([1, 2], pa.float32()), "ts": pa.array([1, 2], pa.int16()),
    })  # fmt: skip
    table.upsert(batch)
    table.upsert(batch.set_column(1, "day", pa.array(["a", "b"], pa.large_string())))
    assert rows(table, "id", "day", "price", "ts") == [(1, "a", 1.0, 1), (2, "b", 2.0, 2)]


def test_a_column_of_nulls_takes_its_type_from_the_table(location: str) -> None:
    table = make(location)
    table.upsert(pa.table({"id": [1], "day": ["a"], "price": pa.nulls(1), "ts": pa.nulls(1)}))
    assert rows(table, "id", "price") == [(1, None)]


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_decimals_of_python_whose_digits_the_batch_decides_fit_the_column_of_the_table(
    location: str, table_type: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("net", pa.decimal128(10, 2)), ("taxes", pa.list_(pa.decimal128(6, 3)))])
    table = hudi.create_table(location, schema, "id", table_type=table_type)
    for number, net, tax in ((1, "1.25", "0.125"), (2, "7", "1"), (3, "2.5", "19.5")):
        table.upsert(pa.Table.from_pylist([{"id": number, "net": Decimal(net), "taxes": [Decimal(tax), None]}]))
    assert table.schema == schema
    assert [row[1:] for row in sorted(rows(table, "id", "net", "taxes"))] == [
        (Decimal("1.25"), [Decimal("0.125"), None]),
        (Decimal("7.00"), [Decimal("1.000"), None]),
        (Decimal("2.50"), [Decimal("19.500"), None]),
    ]
    with pytest.raises(SchemaMismatchError, match=r"net is decimal128\(10, 2\) in the table and decimal128\(4, 3\)"):
        table.upsert(pa.Table.from_pylist([{"id": 4, "net": Decimal("1.255"), "taxes": None}]))
    many = pa.table({"id": [5], "net": pa.array([Decimal(10**36)], pa.decimal128(38, 1)), "taxes": pa.nulls(1)})
    with pytest.raises(SchemaMismatchError, match="cannot hold"):
        table.upsert(many)
    assert table.scan().count() == 3


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_python_objects_whose_lists_are_empty_and_whose_fields_are_missing_take_their_types_from_the_table(
    location: str, table_type: str
) -> None:
    kinds = {"tags": pa.list_(pa.string()), "at": pa.struct([("x", pa.int32()), ("y", pa.string())])}  # fmt: skip
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), *kinds.items()]), "id", table_type=table_type)
    first = [{"id": 1, "tags": ["a"], "at": {"x": 1, "y": "b"}}, {"id": 2, "tags": None, "at": None}]
    table.upsert(pa.Table.from_pylist(first))
    table.upsert(
        pa.Table.from_pylist([{"id": 1, "tags": [], "at": {"x": 2, "y": None}}, {"id": 3, "tags": [], "at": {}}])
    )
    table.upsert(pa.Table.from_pylist([{"id": 2, "tags": [None], "at": {}}]))
    assert table.schema.field("tags").type == kinds["tags"]
    assert sorted(rows(table, "id", "tags", "at"), key=str) == [
        (1, [], {"x": 2, "y": None}),
        (2, [None], {"x": None, "y": None}),
        (3, [], {"x": None, "y": None}),
    ]


@pytest.mark.row("D10")
def test_an_added_column_is_null_in_old_rows_and_stays_after_rewrites(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table.upsert(orders((3, "a", 3.0)).append_column("note", pa.array(["x"])))
    assert rows(table, "id", "note") == [(1, None), (2, None), (3, "x")]
    assert table.schema.names == ["id", "day", "price", "ts", "note"]
    assert rows(table.incremental(after=first.completion_time), "id", "note") == [(3, "x")]
    assert rows(table.scan(where="note IS NULL"), "id") == [(1,), (2,)]
    assert rows(table.scan(where="note = 'x'"), "id") == [(3,)]
    assert table.scan(as_of=table.timeline[0]).schema.names[5:] == ["id", "day", "price", "ts"]
    table.upsert(orders((2, "b", 20.0)).append_column("note", pa.array(["y"])))
    assert rows(table, "id", "note") == [(1, None), (2, "y"), (3, "x")]


@pytest.mark.one_in(3)
@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("old", "new", "low", "high", "result"),
    [
        (pa.int32(), pa.int64(), 1, 2**40, pa.int64()),
        (pa.int32(), pa.float64(), 1, 0.5, pa.float64()),
        (pa.int64(), pa.float64(), 3, 0.5, pa.float64()),
        (pa.float32(), pa.float64(), 0.5, 1e300, pa.float64()),
        (pa.int32(), pa.float32(), 16777217, 0.5, pa.float64()),
        (pa.decimal128(4, 2), pa.decimal128(20, 2), Decimal("1.23"), Decimal("123456789.01"), pa.decimal128(20, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), [1], [2**40], pa.list_(pa.int64())),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64()), ("y", pa.string())]), {"x": 1}, {"x": 2**40, "y": "q"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_widened_column_reads_old_files_in_the_new_type(
    location: str, old: pa.DataType, new: pa.DataType, low: object, high: object, result: pa.DataType | None
) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", old)])
    make(location, schema)
    lossy = {"pyhudi.schema.allow.lossy.widening": str(old == pa.int64()).lower()}
    table = hudi.open_table(location, options=lossy)
    first = table.upsert(pa.table([[1, 2], ["a", "b"], pa.array([low, None], old)], schema=schema))
    wider = schema.set(2, pa.field("v", new))
    table.upsert(pa.table([[3], ["a"], pa.array([high], new)], schema=wider))
    kind = result or new
    assert table.schema.field("v").type == kind
    both = low if not isinstance(low, dict) else {**low, "y": None}
    assert table.scan(columns=["id", "v"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": both}, {"id": 2, "v": None}, {"id": 3, "v": high},
    ]  # fmt: skip
    assert table.incremental(after=first.completion_time, columns=["v"]).to_arrow().to_pylist() == [{"v": high}]
    narrow = pa.struct([*old, ("y", pa.string())]) if pa.types.is_struct(old) else old  # a struct is given whole
    table.upsert(pa.table([[2], ["b"], pa.array([low], narrow)], schema=schema.set(2, pa.field("v", narrow))))
    found = table.scan(columns=["id", "v"], where="id = 2").to_arrow()
    assert found.to_pylist() == [{"id": 2, "v": both}], "narrow data is widened on its way in"
    assert table.schema.field("v").type == kind


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("column", "value"),
    [("price", pa.array(["text"])), ("day", pa.array([1])), ("ts", pa.array([[1]]))],
)
def test_types_that_cannot_meet_are_refused_by_name(location: str, column: str, value: pa.Array) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    batch = orders((1, "a", 1.0))
    wrong = batch.set_column(batch.schema.get_field_index(column), column, value)
    with pytest.raises(SchemaMismatchError, match=f"Column {column} is .* in the table and .* in the data"):
        table.upsert(wrong)


def test_renamed_or_left_out_columns_are_refused(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(SchemaMismatchError, match="no column 'price', which the table has"):
        table.upsert(orders((1, "a", 1.0)).drop_columns(["price"]))
    with pytest.raises(SchemaMismatchError, match="differ in case alone"):
        table.upsert(orders((1, "a", 1.0)).append_column("Price", pa.array([1.0])))
