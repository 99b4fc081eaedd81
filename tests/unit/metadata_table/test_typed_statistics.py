"""Statistics of the metadata table as values of a column's type, and what says nothing for sure."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.metadata_table.reader import ColumnRangeOfFile
from pyhudi_core.metadata_table.statistics import typed_stats
from pyhudi_core.predicates import ColumnStats

MICROS = pa.timestamp("us", "UTC")
DAY = 86_400_000_000


def stats(low: object, high: object, kind: pa.DataType, nulls: int | None = 0, rows: int = 9) -> ColumnStats | None:
    return typed_stats(ColumnRangeOfFile("p", "f", "c", low, high, nulls, rows), kind, rows)


def test_moments_are_read_unless_they_could_be_milliseconds() -> None:
    moment = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
    found = stats(moment, moment + DAY, MICROS)
    assert found is not None
    assert (found.min, found.max) == (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    assert stats(moment // 1000, (moment + DAY) // 1000, MICROS) is None
    bound = 260_000_000_000_000
    for low in (bound, -bound):
        assert stats(low, moment, MICROS) is not None
    for low in (bound - 1, 1 - bound):
        assert stats(low, moment, MICROS) is None


@pytest.mark.parametrize(("size", "truncated"), [(63, False), (64, True), (65, True)])
def test_texts_of_64_bytes_and_more_may_have_been_cut(size: int, truncated: bool) -> None:
    found = stats("a", "b" * size, pa.string())
    assert found is not None
    assert found.truncated == truncated


@pytest.mark.parametrize("value", [True, 1.5, "1", None])
def test_values_of_another_type_say_nothing(value: Any) -> None:
    assert stats(value, value, pa.int64()) is None


def test_a_column_of_nulls_has_no_bounds() -> None:
    assert stats(0, 0, pa.int64(), nulls=9) == ColumnStats(None, None, 9, 9)
    found = stats(0, 0, pa.int64(), nulls=8)
    assert found is not None
    assert (found.min, found.max) == (0, 0)
