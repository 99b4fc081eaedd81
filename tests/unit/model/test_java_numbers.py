"""Texts of floating-point numbers as Java has them, and numbers widened by way of their texts."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from pyhudi_core.model.java_numbers import as_java_text, highest_widened, lowest_widened, widened

TEXTS = {
    0.0: "0.0",
    100.0: "100.0",
    1234567.0: "1234567.0",
    9999999.5: "9999999.5",
    1e7: "1.0E7",
    12345678.0: "1.2345678E7",
    1e20: "1.0E20",
    0.001: "0.001",
    0.00099: "9.9E-4",
    -1.5e-10: "-1.5E-10",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}


@pytest.mark.parametrize("number", TEXTS, ids=str)
def test_numbers_have_the_texts_of_java(number: float) -> None:
    assert as_java_text(pa.array([number])).to_pylist() == [TEXTS[number]]


def test_signs_of_zero_nulls_and_not_a_number_have_texts_too() -> None:
    assert as_java_text(pa.array([-0.0, None, math.nan], pa.float32())).to_pylist() == ["-0.0", None, "NaN"]


def test_a_text_has_as_many_digits_as_its_width_needs() -> None:
    assert as_java_text(pa.array([0.1, 3.4028234663852886e38], pa.float32())).to_pylist() == ["0.1", "3.4028235E38"]


@pytest.mark.parametrize("number", [0.1, -0.3, 1e-45, 3.4028234663852886e38, 16777217.0, 0.0])
def test_bounds_of_narrow_numbers_hold_what_they_become(number: float) -> None:
    narrow = pa.array([number], pa.float32())
    stored, wide = narrow.cast(pa.float64())[0].as_py(), widened(narrow)[0].as_py()
    low, high = lowest_widened(stored), highest_widened(stored)
    assert low is not None
    assert high is not None
    assert low <= wide <= high


def test_a_tenth_stays_a_tenth() -> None:
    assert widened(pa.array([0.1, None, math.inf], pa.float32())).to_pylist() == [0.1, None, math.inf]


def test_bounds_that_no_narrow_number_has_stay() -> None:
    assert (lowest_widened(0.1), highest_widened(0.1)) == (0.1, 0.1)
    assert (lowest_widened(None), highest_widened(math.inf)) == (None, math.inf)
