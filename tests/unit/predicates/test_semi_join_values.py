"""Join keys of another type than the column: equal means what Spark means by it, or there is an error."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import ColumnStats, Predicate, SemiJoin
from pyhudi_core.predicates.equality import named_values

UTC = pa.timestamp("us", "UTC")


def kept(column: pa.Array, keys: Any) -> list[Any]:
    """The values of a column that are among the keys."""
    table = pa.table({"c": column})
    return table.filter(SemiJoin.of(keys, "c", table.schema, None).expression).column("c").to_pylist()


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_is_minus_zero(kind: pa.DataType, zero: float) -> None:
    assert kept(pa.array([0.0, -0.0, 1.0, None], kind), pa.array([zero], kind)) == [0.0, -0.0]
    assert kept(pa.array([0.0, -0.0, 1.0], kind), [1.0]) == [1.0]


def test_nan_is_nan() -> None:
    assert len(kept(pa.array([float("nan"), 1.0]), [float("nan")])) == 1


def test_a_double_is_equal_to_a_float_only_if_nothing_is_rounded() -> None:
    column = pa.array([0.1, 0.5, float("nan")], pa.float32())
    assert kept(column, pa.array([0.1, 0.5])) == [0.5]
    assert len(kept(column, pa.array([float("nan")]))) == 1
    assert len(kept(column, [0.1])) == 1, "numbers without a type take that of the column"


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (pa.array([1.105]), pa.decimal128(10, 2)),
        (pa.array([Decimal("1.105")]), pa.decimal128(10, 2)),
        (pa.array([1.5]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([1.0]), pa.string()),
        (pa.array(["7"]), pa.int64()),
        (pa.array([2]), pa.bool_()),
        (pa.array([True]), pa.int64()),
        (pa.array([5]), UTC),
        (pa.array([dt.datetime(2026, 1, 1)], UTC), pa.timestamp("us")),
        (pa.array([dt.datetime(2026, 1, 1, 12)], UTC), pa.date32()),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([[1]]), pa.int64()),
    ],
)  # fmt: skip
def test_keys_that_would_change_their_meaning_are_refused(keys: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(PredicateError, match="not of the type"):
        SemiJoin.of(keys, "c", pa.schema([("c", kind)]), None)


def test_keys_of_a_kindred_type_are_taken() -> None:
    day, noon = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    assert kept(pa.array([1, 2], pa.int64()), pa.array([2], pa.int8())) == [2]
    assert kept(pa.array([1, 2], pa.int32()), pa.array([2.0])) == [2]
    assert kept(pa.array(["a", "b"]), pa.array(["b"]).dictionary_encode()) == ["b"]
    assert kept(pa.array([day]), pa.array(["2026-01-01"])) == [day]
    assert kept(pa.array([noon], UTC), pa.array([noon], pa.timestamp("ms", "Europe/Berlin"))) == [noon]
    assert kept(pa.array([noon], UTC), pa.array([noon.replace(tzinfo=None)])) == [noon]
    assert kept(pa.array(["a"]), pa.array([None])) == []


def test_statistics_of_a_column_that_had_another_type_leave_no_file_out() -> None:
    join = SemiJoin.of(["a"], "c", pa.schema([("c", pa.string())]), None)
    assert join.could_match({"c": ColumnStats(1, 9, 0, 5)})


def test_a_condition_names_the_values_of_its_own_column_alone() -> None:
    schema = pa.schema([("id", pa.int64()), ("other", pa.int64())])
    condition = Predicate.of("id = 1 AND other IN (2, 3)", schema)
    assert named_values(condition, "id") == [1]
    assert named_values(condition, "other") == [2, 3]
    assert named_values(condition, "absent") is None
    assert named_values(Predicate.of("NOT id = 1", schema), "id") is None


@pytest.mark.parametrize("kind", [pa.decimal256(76, 56), pa.decimal128(30, 10)])
def test_the_largest_whole_number_is_compared_with_decimals_of_any_digits(kind: pa.DataType) -> None:
    most = (1 << 64) - 1
    rows = pa.table(
        {"n": pa.array([most, 7, 8], pa.uint64()), "d": pa.array([Decimal(most), Decimal(7), Decimal("8.5")], kind)}
    )
    condition = Predicate.of("n = d", rows.schema)
    assert condition is not None
    assert rows.filter(condition.expression)["n"].to_pylist() == [most, 7]


def test_a_whole_number_of_twenty_digits_is_compared_with_a_decimal_of_few() -> None:
    rows = pa.table(
        {"n": pa.array([(1 << 64) - 1, 7], pa.uint64()), "d": pa.array([Decimal(7), Decimal(7)], pa.decimal128(5, 3))}
    )
    condition = Predicate.of("n = d", rows.schema)
    assert condition is not None
    assert rows.filter(condition.expression)["n"].to_pylist() == [7]
