"""Floating-point data for an integer column: what fits goes in unchanged, what does not is told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.schema import cast_batch, conform, unfit_for_integers
from pyhudi_core.model.schema_cast import as_integers, first_unfit

FLOATS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}


@pytest.mark.parametrize("target", [pa.int32(), pa.int64()], ids=str)
@given(st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**63), 2**63).map(float)))
def test_what_is_not_told_becomes_the_same_number(target: pa.DataType, values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    bad = [v for v in values if v is not None and v == v and (not np.isfinite(v) or v != int(v) or abs(v) >= 2**53)]
    low, high = -(2 ** (target.bit_width - 1)), 2 ** (target.bit_width - 1) - 1
    beyond = [v for v in values if v is not None and v == v and v not in bad and not low <= v <= high]
    found = first_unfit(array, target)
    assert (found is None) == (not bad and not beyond)
    if found is None:
        expected = [None if v is None or v != v else int(v) for v in values]
        assert as_integers(array, target).to_pylist() == expected
    else:
        assert float(found) in bad + beyond


@pytest.mark.parametrize(("kind", "bits"), list(FLOATS.items()), ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_may_have_been_rounded_are_told(kind: pa.DataType, bits: int, sign: int) -> None:
    exact, doubtful = (pa.array([sign * value], pa.int64()).cast(kind) for value in (2**bits - 1, 2**bits))
    assert first_unfit(exact, pa.int64()) is None
    assert first_unfit(doubtful, pa.int64()) == repr(float(sign * 2**bits))


def test_the_ends_of_32_bits_fit() -> None:
    ends = pa.array([-(2.0**31), 2.0**31 - 1])
    assert as_integers(ends, pa.int32()).to_pylist() == [-(2**31), 2**31 - 1]
    assert first_unfit(ends, pa.int32()) is None
    assert first_unfit(pa.array([2.0**31]), pa.int32()) == "2147483648.0"


def test_arrays_without_a_value_fit() -> None:
    for array in (pa.array([], pa.float64()), pa.array([None], pa.float32()), pa.array([1.5, 2.0]).slice(1)):
        assert first_unfit(array, pa.int32()) is None


def test_all_columns_that_do_not_fit_are_named_with_a_value() -> None:
    batch = pa.record_batch({"a": [1.0, 0.5], "b": [[0.25]] * 2, "c": [3.0, None]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.int32())), ("c", pa.int64())])
    assert unfit_for_integers(batch, schema) == {"a": "0.5", "b.element": "0.25"}
    with pytest.raises(SchemaMismatchError, match=r"Column a is int64 in the table, and the data has the value 0\.5"):
        cast_batch(batch, schema)


def test_files_of_the_table_are_not_narrowed() -> None:
    with pytest.raises(SchemaMismatchError, match="cannot become int64"):
        conform(pa.record_batch({"a": [1.0]}), pa.schema([("a", pa.int64())]))
