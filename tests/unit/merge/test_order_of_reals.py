"""Ordering values that are real numbers are compared as Java compares them."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest

from pyhudi_core.merge.law import compare

IN_ORDER = [None, -math.inf, -1.0, -0.0, 0.0, 5e-324, math.inf, math.nan]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_minus_zero_is_below_zero_and_not_a_number_above_all(kind: pa.DataType) -> None:
    values = [value for value in IN_ORDER if kind == pa.float64() or value != 5e-324]
    pairs = list(itertools.product(range(len(values)), repeat=2))
    new = pa.chunked_array([pa.array([values[one] for one, _ in pairs], kind)])
    old = pa.chunked_array([pa.array([values[other] for _, other in pairs], kind)])
    lower, higher = compare(new, old)
    assert lower.tolist() == [one < other for one, other in pairs]
    assert higher.tolist() == [one > other for one, other in pairs]
