"""Statistics of a column that has another type now leave out no row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi_core.predicates import ColumnStats, Predicate


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.float32(), 16_777_217), (pa.float64(), 9_007_199_254_740_993)], ids=["float", "double"]
)
def test_whole_numbers_that_a_float_rounds_are_not_compared_as_they_were(kind: pa.DataType, value: int) -> None:
    read = pa.array([value]).cast(kind, safe=False)
    predicate = Predicate.of(f"c = {value - 1}.0", pa.schema([("c", kind)]))
    assert predicate is not None
    assert pa.table({"c": read}).filter(predicate.expression).num_rows == 1
    assert predicate.could_match({"c": ColumnStats(value, value, 0, 1)})


@pytest.mark.parametrize("where", ["c = 'a'", "c > 'a'", "c IN ('a', 'b')", "c LIKE 'a%'", "c != 'a'"])
def test_statistics_of_another_type_say_nothing(where: str) -> None:
    predicate = Predicate.of(where, pa.schema([("c", pa.string())]))
    assert predicate is not None
    assert predicate.could_match({"c": ColumnStats(1, 9, 0, 5)})
