"""Columns whose type was altered: what older files hold is read as the new type, as release 1.0.2 of Hudi reads it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.schema import cast_batch, conform

TEXT = pa.string()
ALTERED = [
    (pa.int32(), -7, TEXT, "-7"),
    (pa.int64(), 2**40, TEXT, "1099511627776"),
    (pa.float32(), 0.1, TEXT, "0.1"),
    (pa.float64(), 1e20, TEXT, "1.0E20"),
    (pa.decimal128(10, 3), Decimal("0.125"), TEXT, "0.125"),
    (pa.date32(), dt.date(2024, 1, 2), TEXT, "2024-01-02"),
    (TEXT, "2024-02-03", pa.date32(), dt.date(2024, 2, 3)),
    (TEXT, "1.50", pa.decimal128(12, 2), Decimal("1.50")),
    (pa.int32(), 3, pa.decimal128(12, 2), Decimal("3.00")),
    (pa.int64(), 2**60 + 1, pa.float32(), float(2**60)),
    (pa.float32(), 0.1, pa.float64(), 0.1),
]


def batch(kind: pa.DataType, value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([value, None], kind)], ["c"])


@pytest.mark.parametrize(("old", "value", "new", "expected"), ALTERED, ids=str)
def test_older_values_are_read_as_the_new_type(old: pa.DataType, value: Any, new: pa.DataType, expected: Any) -> None:
    assert conform(batch(old, value), pa.schema([("c", new)])).column(0).to_pylist() == [expected, None]


@pytest.mark.parametrize(("old", "value", "new"), [case[:3] for case in ALTERED if TEXT in (case[0], case[2])], ids=str)
def test_data_that_is_handed_in_is_not_turned_into_another_type(old: pa.DataType, value: Any, new: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError):
        cast_batch(batch(old, value), pa.schema([("c", new)]))


def test_numbers_are_widened_by_their_text_in_base_files_alone_and_not_inside_of_columns() -> None:
    narrow, wide = batch(pa.float32(), 0.1), pa.schema([("c", pa.float64())])
    exact = 0.10000000149011612
    assert conform(narrow, wide, of_log=True).column(0).to_pylist() == [exact, None]
    assert cast_batch(narrow, wide).column(0).to_pylist() == [exact, None]
    nested = pa.RecordBatch.from_arrays([pa.array([{"r": 0.1}], pa.struct([("r", pa.float32())]))], ["c"])
    read = conform(nested, pa.schema([("c", pa.struct([("r", pa.float64())]))]))
    assert read.column(0).to_pylist() == [{"r": exact}]


def test_a_text_that_is_no_date_is_an_error_and_not_null() -> None:
    with pytest.raises(SchemaMismatchError):
        conform(batch(TEXT, "soon"), pa.schema([("c", pa.date32())]))


def test_ends_of_numbers_keep_their_place() -> None:
    values = conform(batch(pa.float32(), math.inf), pa.schema([("c", pa.float64())]))
    assert values.column(0).to_pylist() == [math.inf, None]
