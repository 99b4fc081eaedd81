"""Integer columns stay integer columns: floating-point data goes into them as whole numbers, and nothing widens them in silence."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError

LARGE = 2**53 + 1
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
ALLOW = {"pyhudi.schema.allow.lossy.widening": "true"}


def create(schema: pa.Schema, **more: object) -> hudi.HudiTable:
    return create_plain(f"memory://integers/{uuid4()}", schema, record_key="id", **more)  # type: ignore[arg-type]


@pytest.fixture
def table() -> hudi.HudiTable:
    made = create(SCHEMA)
    made.upsert(pa.table({"id": [1], "n": [LARGE]}, schema=SCHEMA))
    return made


def values(table: hudi.HudiTable) -> list[object]:
    return table.scan(columns=["id", "n"]).to_arrow().sort_by("id").column("n").to_pylist()


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    "data",
    [
        lambda: pd.DataFrame({"id": [2, 3], "n": [None, 5]}),
        lambda: pd.DataFrame({"id": [2.0, 3.0], "n": [float("nan"), 5.0]}),
        lambda: pa.table({"id": [2, 3], "n": pa.array([float("nan"), 5.0])}),
        lambda: pa.table({"id": [2, 3], "n": pa.array([None, 5.0], pa.float32())}),
        lambda: pa.table({"id": [2, 3], "n": pa.array([None, 5.0], pa.float16())}),
    ],
    ids=["pandas", "pandas, keys too", "nan", "float32", "float16"],
)
def test_whole_numbers_and_missing_ones_go_into_the_integer_column(
    table: hudi.HudiTable, data: Callable[[], object]
) -> None:
    table.upsert(data())
    assert values(table) == [LARGE, None, 5]
    assert table.schema == SCHEMA
    assert table.lookup(pa.table({"id": [3.0]})).to_arrow().num_rows == 1


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("bad", "shown"),
    [(0.5, "0.5"), (float("inf"), "inf"), (2.0**53, "9007199254740992.0"), (-(2.0**63), "-9.223372036854775808e\\+18|-9.2233")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite_table"])
def test_a_widening_that_can_lose_values_is_refused_before_anything_is_written(
    table: hudi.HudiTable, bad: float, shown: str, operation: str
) -> None:
    before = list(table.timeline)
    with pytest.raises(SchemaMismatchError, match=rf"Column n .*({shown})") as raised:
        getattr(table, operation)(pa.table({"id": [2, 3], "n": [1.0, bad]}))
    assert raised.value.table == table.location
    assert "pyhudi.schema.allow.lossy.widening" in str(raised.value)
    assert list(table.timeline) == before
    assert values(table) == [LARGE]


@pytest.mark.row("D10")
def test_a_lossy_widening_happens_when_it_is_asked_for_by_name(table: hudi.HudiTable) -> None:
    asked = hudi.open_table(table.location, options=ALLOW)
    asked.upsert(pa.table({"id": [2], "n": [1.0]}))
    assert asked.schema == SCHEMA, "nothing needed it"
    asked.upsert(pa.table({"id": [2], "n": [0.5]}))
    assert asked.schema.field("n").type == pa.float64()
    assert values(asked) == [float(2**53), 0.5]


@pytest.mark.row("D10")
def test_an_integer_of_32_bits_becomes_a_double_without_loss_if_the_data_needs_it() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table = create(schema)
    table.upsert(pa.table({"id": [1], "n": [2**31 - 1]}, schema=schema))
    table.upsert(pd.DataFrame({"id": [2, 3], "n": [None, 7]}))
    assert table.schema == schema
    table.upsert(pa.table({"id": [2], "n": [2.0**31]}))
    assert table.schema.field("n").type == pa.float64()
    assert values(table) == [2.0**31 - 1, 2.0**31, 7.0]


@pytest.mark.row("D10")
def test_columns_are_judged_one_by_one() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("m", pa.int32())])
    table = create(schema)
    table.upsert(pa.table({"id": [1], "n": [LARGE], "m": [1]}, schema=schema))
    table.upsert(pa.table({"id": [2], "n": [1.0], "m": [0.5]}))
    assert [table.schema.field(name).type for name in ("n", "m")] == [pa.int64(), pa.float64()]
    assert values(table) == [LARGE, 1]


NESTED = {
    "struct": (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.float64())]), {"x": LARGE}, {"x": 5.0}, {"x": 0.5}, r"n\.x"),
    "list": (pa.list_(pa.int64()), pa.list_(pa.float64()), [LARGE], [5.0, float("nan")], [1.0, 0.5], r"n\.element"),
    "map": (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.float64()), [("a", LARGE)], [("a", 5.0)], [("a", 0.5)], r"n\.value"),
    "struct in a list": (pa.list_(pa.struct([("x", pa.int64())])), pa.list_(pa.struct([("x", pa.float64())])), [{"x": LARGE}], [{"x": 5.0}, None],
                         [None, {"x": 0.5}], r"n\.element\.x"),
}  # fmt: skip


@pytest.mark.row("D10")
@pytest.mark.parametrize(("kind", "floating", "old", "whole", "bad", "path"), list(NESTED.values()), ids=list(NESTED))
def test_nested_integers_are_kept_too(
    kind: pa.DataType, floating: pa.DataType, old: object, whole: object, bad: object, path: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", kind)])
    table = create(schema)
    table.upsert(pa.table([pa.array([1]), pa.array([old], kind)], schema=schema))
    table.upsert(pa.table([pa.array([2, 3]), pa.array([whole, None], floating)], names=["id", "n"]))
    assert table.schema == schema
    assert (
        values(table)
        == pa.array([old, [5, None] if isinstance(whole, list) and whole[0] == 5.0 else whole, None], kind).to_pylist()
    )
    with pytest.raises(SchemaMismatchError, match=rf"Column {path} .*0\.5"):
        table.upsert(pa.table([pa.array([2]), pa.array([bad], floating)], names=["id", "n"]))


@pytest.mark.row("D10")
@pytest.mark.parametrize("options", [{}, ALLOW], ids=["by default", "when asked for"])
@pytest.mark.parametrize("column", ["id", "day"])
def test_key_and_partition_columns_never_become_floating(column: str, options: dict[str, str]) -> None:
    """Their text would change (1 and 1.0), so every row would be there twice."""
    schema = pa.schema([("id", pa.int32()), ("day", pa.int32()), ("v", pa.string())])
    table = hudi.open_table(create(schema, partition_by="day").location, options=options)
    table.upsert(pa.table({"id": [1], "day": [20], "v": ["old"]}))
    table.upsert(pa.table({"id": [1.0], "day": [20.0], "v": ["new"]}))
    assert table.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": "new"}]
    with pytest.raises(SchemaMismatchError, match=f"Column {column} "):
        table.upsert(
            pa.table({"id": [1], "day": [20], "v": ["x"]}).set_column(
                schema.get_field_index(column), column, pa.array([1.5])
            )
        )
    assert table.delete(pa.table({"id": [1.0], "day": [20.0]})).stats.rows_deleted == 1


def test_rows_without_a_parent_are_not_looked_at() -> None:
    """What lies under a null struct is no value."""
    kind = pa.struct([("x", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("n", kind)])
    table = create(schema)
    below = pa.StructArray.from_arrays([pa.array([0.5, 2.0])], ["x"], mask=pa.array([True, False]))
    table.upsert(pa.table([pa.array([1, 2]), below], names=["id", "n"]))
    assert values(table) == [None, {"x": 2}]
    assert table.schema == schema
