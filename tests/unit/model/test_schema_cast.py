"""Casting to the logical schema: exactly on the way in, by Hudi's rules on the way out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.schema import cast_batch, conform, normalise


def batch(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], ["c"])


def one(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("c", kind)])


def cast(values: pa.Array, kind: pa.DataType) -> list[Any]:
    made = cast_batch(batch(values), one(kind))
    made.validate(full=True)
    assert made.schema == one(kind)
    return made.column(0).to_pylist()


SAMPLES = [
    pa.array([1, None, -3], pa.int8()),
    pa.array([1, None, 2**32 - 1], pa.uint32()),
    pa.array([1, None, 2**63 - 1], pa.uint64()),
    pa.array([1.5, None], pa.float16()),
    pa.array(["a", None, "é"], pa.large_string()),
    pa.array(["a", None, "a long string that is not stored inline"], pa.string_view()),
    pa.array(["a", None, "a"]).dictionary_encode(),
    pa.array([b"ab", None], pa.binary(2)),
    pa.array([Decimal("1.5"), None], pa.decimal256(38, 1)),
    pa.array([Decimal("1.5"), None], pa.decimal64(10, 1)),
    pa.array([0, 86_400_000, None], pa.date64()),
    pa.array([1_000, None], pa.time64("ns")),
    pa.array([1, None], pa.time32("s")),
    pa.array([1, None], pa.timestamp("s")),
    pa.array([1_000, None], pa.timestamp("ns", "Asia/Tokyo")),
    pa.array([[1, None], None, []], pa.large_list(pa.int8())),
    pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
    pa.array([["a"], None, ["b", None]], pa.list_view(pa.large_string())),
    pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.large_string(), pa.int16())),
    pa.array(
        [{"x": [1], "y": "a"}, None, {"x": None, "y": None}],
        pa.struct([("x", pa.list_(pa.int8())), ("y", pa.large_string())]),
    ),
    pa.array([[{"x": {"z": 1}}], None, [None]], pa.list_(pa.struct([("x", pa.struct([("z", pa.uint8())]))]))),
]


@pytest.mark.parametrize("values", SAMPLES, ids=lambda values: str(values.type))
def test_values_are_the_same_in_the_logical_type_and_in_every_slice(values: pa.Array) -> None:
    kind = normalise(one(values.type)).field(0).type
    expected = values.to_pylist()
    for start in range(len(values) + 1):
        got = cast(values[start:], kind)
        if pa.types.is_timestamp(kind) and kind.tz:
            assert [value and value.timestamp() for value in got] == [v and v.timestamp() for v in expected[start:]]
        else:
            assert got == expected[start:]


def test_columns_are_taken_by_name_and_missing_ones_are_null() -> None:
    data = pa.RecordBatch.from_pydict({"b": ["x"], "_hoodie_file_name": ["f"], "a": [1]})
    schema = pa.schema([("a", pa.int64()), ("later", pa.list_(pa.int32())), ("b", pa.string())])
    assert cast_batch(data, schema).to_pylist() == [{"a": 1, "later": None, "b": "x"}]


def test_a_batch_that_fits_is_not_copied() -> None:
    data = pa.RecordBatch.from_pydict({"a": [1]})
    assert cast_batch(data, pa.schema([("a", pa.int64())])) is data


def test_a_column_that_must_not_be_null_is_taken_as_nullable() -> None:
    schema = pa.schema([pa.field("c", pa.list_(pa.field("x", pa.int64(), nullable=False)), nullable=False)])
    data = pa.RecordBatch.from_arrays([pa.array([[1]], schema.field(0).type)], schema=schema)
    assert cast_batch(data, one(pa.list_(pa.int64()))).to_pydict() == {"c": [[1]]}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([2**31], pa.int64()), pa.int32()),
        (pa.array([1_001], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([2**62], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([1_001], pa.time64("ns")), pa.time64("us")),
        (pa.array([2**53 + 1], pa.int64()), pa.float64()),
        (pa.array([2**24 + 1], pa.int32()), pa.float32()),
        (pa.array([Decimal(10**38)], pa.decimal256(39, 0)), pa.decimal128(38, 0)),
        (pa.array([Decimal("1.23")], pa.decimal128(5, 2)), pa.decimal128(5, 1)),
        (
            pa.array([[{"x": 2**63}]], pa.list_(pa.struct([("x", pa.uint64())]))),
            pa.list_(pa.struct([("x", pa.int64())])),
        ),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_with_its_column(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="c") as raised:
        cast(values, kind)
    assert raised.value.hint


def test_narrowing_of_integers_is_allowed_if_the_values_fit() -> None:
    assert cast(pa.array([1, None], pa.int64()), pa.int32()) == [1, None]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([True]), pa.int32()),
        (pa.array([b"a"]), pa.string()),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([1], pa.date32()), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_refused(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="cannot become"):
        cast(values, kind)


def test_nulls_without_a_type_become_nulls_of_any_type() -> None:
    assert cast(pa.nulls(2), pa.struct([("x", pa.int32())])) == [None, None]


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1], pa.int32()), pa.int64(), [1]),
        (pa.array([2**53 + 1], pa.int64()), pa.float64(), [2.0**53]),
        (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
        (pa.array([b"a"]), pa.string(), ["a"]),
        (pa.array(["a"]), pa.binary(), [b"a"]),
        (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), pa.decimal128(9, 1), [Decimal("1.5")]),
        (pa.array([[1]], pa.list_(pa.int32())), pa.list_(pa.int64()), [[1]]),
        (
            pa.array([{"x": 1, "gone": 2}, None], pa.struct([("x", pa.int32()), ("gone", pa.int32())])),
            pa.struct([("y", pa.string()), ("x", pa.int64())]),
            [{"y": None, "x": 1}, None],
        ),
    ],
    ids=str,
)
def test_old_files_are_read_as_the_newest_schema(values: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    made = conform(batch(values), one(kind))
    made.validate(full=True)
    assert made.column(0).to_pylist() == expected


def test_times_without_zone_of_old_files_are_read_as_utc() -> None:
    made = conform(batch(pa.array([5], pa.timestamp("ms"))), one(pa.timestamp("us", "UTC")))
    assert made.column(0).cast(pa.int64()).to_pylist() == [5_000]


def test_a_file_whose_type_is_wider_than_the_tables_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="cannot become"):
        conform(batch(pa.array(["a"])), one(pa.int32()))


def test_many_rows_are_cast_as_columns() -> None:
    values = pa.array(np.arange(300_000) % 7, pa.int8())
    nested = pa.ListArray.from_arrays(np.arange(0, 300_001, 3, dtype=np.int32), values)
    made = cast_batch(batch(nested[10:]), one(pa.list_(pa.int64())))
    assert made.column(0).flatten().to_numpy().tolist() == values[30:].to_pylist()
