"""Data of a type that a column does not widen to by itself: the hint of the refusal is a call of alter, and after it the data fits."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pytest
from support.tables import make

from pyhudi_core.errors import SchemaMismatchError

LEVELS = {
    "column": lambda kind, value: (kind, value),
    "struct": lambda kind, value: (pa.struct([("x", kind)]), {"x": value}),
    "list": lambda kind, value: (pa.list_(kind), [value]),
    "map": lambda kind, value: (pa.map_(pa.string(), kind), [("k", value)]),
    "struct in a list": lambda kind, value: (pa.list_(pa.struct([("x", kind)])), [{"x": value}]),
    "list in a map": lambda kind, value: (pa.map_(pa.string(), pa.list_(kind)), [("k", [value])]),
}
ALTERED = [
    (pa.decimal128(10, 2), pa.decimal128(20, 4), Decimal("1.23"), Decimal("123456789012.1234")),
    (pa.decimal128(10, 2), pa.decimal128(4, 3), Decimal("12345678.90"), Decimal("1.234")),
    (pa.int32(), pa.decimal128(12, 2), 7, Decimal("1.23")),
    (pa.int64(), pa.decimal128(4, 2), 2**62, Decimal("1.23")),
    (pa.date32(), pa.string(), None, "soon"),
    (pa.decimal128(10, 2), pa.string(), None, "much"),
]


@pytest.mark.one_in(3)
@pytest.mark.row("D10")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("old", "new", "low", "high"), ALTERED, ids=str)
def test_the_hint_of_a_refused_type_is_a_call_after_which_the_data_fits(
    location: str, level: str, old: pa.DataType, new: pa.DataType, low: object, high: object
) -> None:
    (kind, first), (wider, second) = LEVELS[level](old, low), LEVELS[level](new, high)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", kind)])
    table = make(location, schema)
    table.upsert(pa.table([[1], ["a"], pa.array([first], kind)], schema=schema))
    data = pa.table([[2], ["a"], pa.array([second], wider)], schema=schema.set(2, pa.field("v", wider)))
    with pytest.raises(SchemaMismatchError) as caught:
        table.upsert(data)
    assert len(table.timeline.commits) == 1
    call = re.search(r"table\.alter\(retype=(\{.*\})\)\.", str(caught.value.hint))
    assert call, caught.value.hint
    table.alter(retype=eval(call[1], {"pa": pa}))
    table.upsert(data)
    found = table.scan(columns=["id", "v"]).to_arrow().sort_by("id").column("v").to_pylist()
    assert found == [first, second]


@pytest.mark.parametrize("level", LEVELS)
def test_a_decimal_with_more_digits_before_the_point_widens_the_column(location: str, level: str) -> None:
    (kind, first) = LEVELS[level](pa.decimal128(10, 2), Decimal("1.23"))
    (wider, second) = LEVELS[level](pa.decimal128(20, 2), Decimal("123456789012345.10"))
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", kind)])
    table = make(location, schema)
    table.upsert(pa.table([[1], ["a"], pa.array([first], kind)], schema=schema))
    table.upsert(pa.table([[2], ["a"], pa.array([second], wider)], schema=schema.set(2, pa.field("v", wider))))
    assert table.schema.field("v").type == wider
    assert table.scan(columns=["id", "v"]).to_arrow().sort_by("id").column("v").to_pylist() == [first, second]


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("id", pa.int64(), pa.string()),
        ("day", pa.date32(), pa.string()),
        ("ts", pa.int64(), pa.decimal128(22, 2)),
        ("v", pa.decimal128(30, 2), pa.decimal128(30, 20)),
        ("v", pa.bool_(), pa.int32()),
    ],
)
def test_no_hint_names_alter_where_it_would_refuse(
    location: str, column: str, old: pa.DataType, new: pa.DataType
) -> None:
    """Columns of keys, partitions and the ordering, and types that no type holds together."""
    names = {"id": pa.int64(), "day": pa.string(), "ts": pa.int64(), "v": pa.int64(), column: old}
    schema = pa.schema(list(names.items()))
    table = make(location, schema, ordering="ts")
    data = schema.set(schema.get_field_index(column), pa.field(column, new)).empty_table()
    with pytest.raises(SchemaMismatchError) as caught:
        table.upsert(data)
    assert "alter(" not in str(caught.value.hint)
    assert "Cast the data's column to" in str(caught.value.hint)
