"""Floating-point data for an integer column: whole and missing numbers are accepted, all others are reported.

From 2**53 on (2**24 in 32 bits, 2**11 in 16) a floating-point number may be a rounded integer: pandas turns a column of integers into
doubles if one is missing, and rounds them. Such numbers are refused. Every function works on Arrow columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}


def first_unfit(array: pa.Array, target: pa.DataType) -> str | None:
    """Return the first value that is neither missing (null, NaN) nor a whole number of the integer type; None if all fit."""
    values = _values(array)
    unfit = _unfit(values, array.type, target)
    return repr(float(values[int(unfit.argmax())])) if unfit.any() else None


def as_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the array as integers; NaN becomes null. The caller must have refused values that do not fit."""
    values = _values(array)
    missing = np.isnan(values)
    whole = np.where(missing, 0, values).astype(target.to_pandas_dtype())
    return pa.array(whole, target, mask=missing)


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values, with NaN for null."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return (
        values if values.dtype.kind == "f" else values.astype(np.float64)
    )  # an empty or all-null array may have the type object


def _unfit(values: npt.NDArray[Any], kind: pa.DataType, target: pa.DataType) -> npt.NDArray[np.bool_]:
    limit = 2.0 ** min(_EXACT_BITS[kind], target.bit_width - 1)
    lowest = -limit if target.bit_width <= _EXACT_BITS[kind] else -limit + 1
    with np.errstate(invalid="ignore"):
        unfit = (np.trunc(values) != values) | (values >= limit) | (values < lowest)
    return np.asarray(unfit & ~np.isnan(values), bool)
