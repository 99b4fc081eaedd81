"""The types of values in statistics, for records that name their types (version 2 of indexes; `HoodieValueTypeInfo` of release 1.1).

A number names the type; for decimals, a text has precision and scale. Decimals are stored as the bytes of their unscaled number, days as a number,
and timestamps as a number in the unit of their column.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.metadata_table.names import damage
from pyhudi_core.metadata_table.record_schema import VALUE_TYPE

HIGHEST_TEXT = "\U0010ffff" * 16
HIGHEST_BYTES = b"\xff" * 64
"""Bytes that sort after every value, except values made to sort after them."""
MOST_MOMENT = 9_223_372_036_854 * 10**6
"""The greatest number of a Java timestamp, in the unit of its column."""
_MOST_DIGITS = 38
_NULL, _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _STRING, _BYTES = range(1, 9)
_DECIMAL, _DATE = 10, 12
_MOMENTS = {
    15: pa.timestamp("ms", "UTC"),
    16: pa.timestamp("us", "UTC"),
    18: pa.timestamp("ms"),
    19: pa.timestamp("us"),
}
_PLAIN = {
    pa.bool_(): _BOOLEAN,
    pa.int8(): _INT,
    pa.int16(): _INT,
    pa.int32(): _INT,
    pa.int64(): _LONG,
    pa.float32(): _FLOAT,
    pa.float64(): _DOUBLE,
    pa.string(): _STRING,
    pa.binary(): _BYTES,
    pa.date32(): _DATE,
}
_WRAPPERS = {_BOOLEAN: "Boolean", _INT: "Int", _LONG: "Long", _FLOAT: "Float", _DOUBLE: "Double", _STRING: "String"}
_WRAPPERS |= {_BYTES: "Bytes", _DECIMAL: "Bytes", _DATE: "Int", **dict.fromkeys(_MOMENTS, "Long")}
_EXACT = {(_INT, _LONG): int, (_INT, _DOUBLE): float, (_FLOAT, _DOUBLE): float}
"""Changes of a column's type that keep each value exactly."""


def of(column: pa.DataType) -> tuple[int, str | None] | None:
    """Return the type in the record of a column of this type; None if such a column has no statistics here."""
    if pa.types.is_decimal(column):
        return (_DECIMAL, f"{column.precision},{column.scale}") if pa.types.is_decimal128(column) else None
    if pa.types.is_timestamp(column):
        as_stored = pa.timestamp(column.unit, column.tz and "UTC")
        return next(((number, None) for number, kind in _MOMENTS.items() if kind == as_stored), None)
    number = _PLAIN.get(column)
    return None if number is None else (number, None)


def value_of(value: Any, info: Mapping[str, Any]) -> Any:
    """Return a bound as a value of the type that its record names (``info``); None if the value is unknown."""
    if value is None:
        return None
    number = info["typeOrdinal"]
    try:
        if number == _DECIMAL:
            return Decimal(f"{int.from_bytes(value, 'big', signed=True)}e{-_scale(info)}")
        if number == _DATE:
            return dt.date(1970, 1, 1) + dt.timedelta(days=value)
        if number in _MOMENTS:
            return pa.scalar(value, pa.int64()).cast(_MOMENTS[number]).as_py()
    except (ValueError, OverflowError, TypeError, ArithmeticError, pa.ArrowInvalid):
        return None  # outside of Python's dates, or damaged
    return value if number in _WRAPPERS else None


def number_of(value: Any, info: Mapping[str, Any]) -> Any:
    """Return the number by which a stored bound is compared. For a decimal, whose bytes do not sort, it is the unscaled number."""
    return int.from_bytes(value, "big", signed=True) if info["typeOrdinal"] == _DECIMAL else value


def as_newer(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the older statistics, converted to the type of the newer statistics, and this type.

    A bound that the newer type cannot hold exactly becomes a bound outside all of its values, because a range may be too wide, but not too narrow.
    """
    mine, its = old.get(VALUE_TYPE), new.get(VALUE_TYPE)
    if its is None or mine is None or mine == its or mine["typeOrdinal"] == _NULL:
        return old, its
    if its["typeOrdinal"] == _NULL:
        return old, mine
    try:
        bounds = {name: _changed(old[name], mine, its, side) for side, name in enumerate(("minValue", "maxValue"))}
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise damage("column_stats", f"has statistics of a type that cannot be: {error!s:.100}") from error
    return {**old, **bounds}, its


def _changed(wrapped: Any, before: Mapping[str, Any], after: Mapping[str, Any], side: int) -> Any:
    if wrapped is None:
        return None
    value = wrapped[1]["value"] if isinstance(wrapped, tuple) else wrapped["value"]
    number = after["typeOrdinal"]
    exact = _EXACT.get((before["typeOrdinal"], number))
    if exact is not None:
        value = exact(value)
    elif before["typeOrdinal"] == number == _DECIMAL and _scale(after) >= _scale(before):
        moved = int.from_bytes(value, "big", signed=True) * 10 ** (_scale(after) - _scale(before))
        value = _bytes(moved)
    else:
        value = _outside(after)[side]
    return (f"org.apache.hudi.avro.model.{_WRAPPERS[number]}Wrapper", {"value": value})


def _outside(info: Mapping[str, Any]) -> tuple[Any, Any]:
    number = info["typeOrdinal"]
    if number == _DECIMAL:
        most = 10 ** _digits(info)[0] - 1
        return _bytes(-most), _bytes(most)
    bits = {_INT: 31, _DATE: 31, _LONG: 63}.get(number)
    if bits is not None:
        return -(1 << bits), (1 << bits) - 1
    if number in _MOMENTS:
        return -MOST_MOMENT, MOST_MOMENT
    others = {_BOOLEAN: (False, True), _STRING: ("", HIGHEST_TEXT), _BYTES: (b"", HIGHEST_BYTES)}
    return others.get(number, (-math.inf, math.inf))


def _scale(info: Mapping[str, Any]) -> int:
    return _digits(info)[1]


def _digits(info: Mapping[str, Any]) -> tuple[int, int]:
    """Return precision and scale of a decimal. Raises ValueError."""
    precision, _, scale = (info["additionalInfo"] or "").partition(",")
    found = int(precision), int(scale)
    if not 0 <= found[1] <= found[0] <= _MOST_DIGITS:
        raise ValueError(f"a decimal({found[0]}, {found[1]})")
    return found


def _bytes(number: int) -> bytes:
    return number.to_bytes(1 + (number if number >= 0 else ~number).bit_length() // 8, "big", signed=True)
