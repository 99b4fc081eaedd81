"""Floating-point data for an integer column: whole numbers and missing ones go in, anything else is told.

A floating-point number from 2**53 on (2**24 in 32 bits, 2**11 in 16) may stand for an integer next to it: pandas turns a column of integers into
doubles when one is missing, and rounds them then. So these are not taken for integers either. All works on whole columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}


def first_unfit(array: pa.Array, target: pa.DataType) -> str | None:
    """The first value that is neither missing (null, NaN) nor a whole number of the integer type; None if there is none."""
    values = _values(array)
    unfit = _unfit(values, array.type, target)
    return repr(float(values[int(unfit.argmax())])) if unfit.any() else None


def as_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array as integers; NaN becomes null. Values that are unfit must have been refused."""
    values = _values(array)
    missing = np.isnan(values)
    whole = np.where(missing, 0, values).astype(target.to_pandas_dtype())
    return pa.array(whole, target, mask=missing)


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """The values, with NaN for null."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return (
        values if values.dtype.kind == "f" else values.astype(np.float64)
    )  # an empty or all-null array may come as objects


def _unfit(values: npt.NDArray[Any], kind: pa.DataType, target: pa.DataType) -> npt.NDArray[np.bool_]:
    limit = 2.0 ** min(_EXACT_BITS[kind], target.bit_width - 1)
    lowest = -limit if target.bit_width <= _EXACT_BITS[kind] else -limit + 1
    with np.errstate(invalid="ignore"):
        unfit = (np.trunc(values) != values) | (values >= limit) | (values < lowest)
    return np.asarray(unfit & ~np.isnan(values), bool)
