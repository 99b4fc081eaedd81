"""Casts between kinds of numbers. Casts to whole numbers and to decimals may change a value. The results are those of Spark's TRY_CAST.

A cast to a whole number cuts off a fraction; a cast to a decimal rounds it half up. Values that the type cannot store become null: NaN, an infinity,
a too large number. A floating-point number becomes the decimal of its shortest text, as in Spark. So the decimal may have at most 15 digits before
and after the point, because such a text has at most 15 digits.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = 15
_WIDE = pa.decimal256(76, 38)
_LEAST = 1e-16
"""Smaller numbers are zero with 15 decimal places. Their texts have more digits than a wide decimal."""


def may_change(source: pa.DataType, target: pa.DataType) -> bool:
    """Say whether the cast may change a value; then `to_number` makes the cast."""
    test = pa.types
    if test.is_floating(source) and test.is_decimal(target):
        return bool(target.scale <= _DIGITS and target.precision - target.scale <= _DIGITS)
    if test.is_integer(target):
        return bool(
            test.is_floating(source) or (test.is_decimal(source) and source.scale <= 38 and source.precision <= 38)
        )
    return bool(
        test.is_decimal(target)
        and target.precision <= 38
        and (test.is_integer(source) or (test.is_decimal(source) and source.precision <= 38))
    )


def to_number(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    """Return the cast of a number, if `may_change` is true for the types."""
    if pa.types.is_floating(source):
        double = value.cast(pa.float64())
        if pa.types.is_integer(target):
            return _whole(double, target)
        size = pc.abs(double)
        finite = _where(size < 10.0**_DIGITS, double, pa.float64())
        text = pc.if_else(size < _LEAST, pc.scalar(0.0), finite).cast(pa.string())
        return _decimal(text.cast(_WIDE), target)
    wide = value.cast(pa.decimal128(20, 0)).cast(_WIDE) if pa.types.is_integer(source) else value.cast(_WIDE)
    if pa.types.is_decimal(target):
        return _decimal(wide, target)
    cut = pc.round(wide, ndigits=0, round_mode="towards_zero")
    limit = 1 << (target.bit_width - 1)
    inside = _between(cut, _WIDE, Decimal(-limit), Decimal(limit - 1))
    return inside.cast(pa.decimal128(38, 0)).cast(target)


def _whole(double: pc.Expression, target: pa.DataType) -> pc.Expression:
    cut = pc.trunc(double)
    limit = float(1 << (target.bit_width - 1))
    inside = (cut >= -limit) & (cut < limit)  # false for NaN
    return _where(inside, cut, pa.float64()).cast(pa.int64(), safe=False).cast(target)


def _decimal(wide: pc.Expression, target: pa.DataType) -> pc.Expression:
    rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    most = Decimal(10**target.precision - 1).scaleb(-target.scale)
    return _between(rounded, _WIDE, -most, most).cast(target)


def _between(number: pc.Expression, kind: pa.DataType, low: Decimal, high: Decimal) -> pc.Expression:
    inside = (number >= pa.scalar(low, kind)) & (number <= pa.scalar(high, kind))
    return _where(inside, number, kind)


def _where(inside: pc.Expression, number: pc.Expression, kind: pa.DataType) -> pc.Expression:
    """Return the numbers that the type can store, and null for all others."""
    return pc.if_else(inside, number, pc.scalar(pa.scalar(None, kind)))


_WHOLE = pa.decimal256(20, 0)
"""A type for all integers of 64 bits, with or without a sign."""


def number_as(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return numbers in another type of numbers. Raises `pyarrow.ArrowException` and `OverflowError` for a number that the type cannot hold.

    In a floating-point type, a decimal or a double becomes the nearest number.
    """
    if pa.types.is_integer(column.type) and pa.types.is_decimal(target):
        # Arrow's direct cast refuses a decimal type that cannot hold every integer.
        return column.cast(_WHOLE).cast(target)
    if not pa.types.is_floating(target) or pa.types.is_integer(column.type):
        return column.cast(target)
    is_decimal = pa.types.is_decimal(column.type)
    given = column.cast(pa.string()) if is_decimal else column  # Arrow's direct cast of a decimal misses the last bit
    made = given.cast(target)
    large = pc.is_inf(made) if is_decimal else pc.and_(pc.is_inf(made), pc.invert(pc.is_inf(column)))
    if pc.any(large).as_py():
        raise OverflowError(f"a number is too large for {target}")
    return made
