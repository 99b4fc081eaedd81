"""Decide which types can be compared, and the type of a literal that is compared with a column.

The rules are Spark's where they are safe: a string compared with a date becomes a date, an int compared with a decimal becomes a decimal,
a number compared with a double becomes a double. Where Spark would guess (a number with a string), an error is raised. If a literal without a zone is
compared with a moment, the literal is a local time in the zone of the condition.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.local_times import LOCAL, MOMENT
from pyhudi_core.predicates.tree import Literal, Value

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d{0,3})?)?)?")
_SPECIAL = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}
_ZONE = re.compile(r"(?<!\s)\s*(?:Z|UTC|GMT|([+-])(\d{1,2})(?::?(\d{2}))?)$")


def fit_literal(literal: Literal, kind: pa.DataType, zone: TimeZone) -> Literal:
    """Convert a literal to the type in which it can be compared with a value of type ``kind``.

    The new type is ``kind``, or a wider type; then the other side must be cast to the wider type. ``zone``: the zone of times without a zone.

    Raises:
        PredicateError: the two cannot be compared.
    """
    value = literal.value
    if value is None or pa.types.is_null(kind):
        return Literal(None, pa.null())
    fitted = _fit(value, kind, zone)
    if fitted is None:
        raise _incomparable(value, kind)
    return fitted


def _incomparable(value: Value, kind: pa.DataType) -> PredicateError:
    """Return the error for a literal that does not fit. It shows a timestamp in the form of a condition."""
    literal = _fit_timestamp(value, MOMENT, UTC) if pa.types.is_timestamp(kind) and kind.tz is None else None
    if literal is not None and isinstance(literal.value, dt.datetime):
        plain = literal.value.replace(tzinfo=None).isoformat(sep=" ")
        return PredicateError(
            f"TIMESTAMP '{plain}Z' is a moment, and cannot be compared with a value of type {kind}, which has no time zone",
            hint=f"Write TIMESTAMP_NTZ '{plain}' if the column has times of UTC, else the local time",
        )
    return PredicateError(
        f"{value!r} cannot be compared with a value of type {kind}",
        hint="Write the literal in the column's type, or cast one of the two",
    )


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type in which two values can be compared. Raises `PredicateError` if there is no such type."""
    if left == right:
        return left
    kinds = (left, right)
    if all(map(is_number, kinds)):
        if any(map(pa.types.is_floating, kinds)):
            return pa.float64()
        return pa.int64() if all(map(pa.types.is_integer, kinds)) else _wider_decimal(left, right)
    if all(map(is_string, kinds)):
        return pa.string()
    if all(map(is_bytes, kinds)):
        return pa.binary()
    if all(map(pa.types.is_date, kinds)):
        return pa.date32()
    if all(map(pa.types.is_time, kinds)):
        return pa.time64("us")
    zones = {kind.tz is not None for kind in kinds if pa.types.is_timestamp(kind)}
    if len(zones) == 1 and all(pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in kinds):
        return MOMENT if True in zones else LOCAL
    raise PredicateError(f"values of the types {left} and {right} cannot be compared", hint="Cast one of them")


def is_string(kind: pa.DataType) -> bool:
    """Say whether a type holds text, also dictionary-encoded."""
    if pa.types.is_dictionary(kind):
        return is_string(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Say whether a type holds bytes."""
    test = pa.types
    return bool(
        test.is_binary(kind)
        or test.is_large_binary(kind)
        or test.is_fixed_size_binary(kind)
        or test.is_binary_view(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Say whether a type is an integer, a decimal or a float."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def parse_date(text: str) -> dt.date | None:
    """Parse a date as Spark does: ``yyyy``, ``yyyy-m`` or ``yyyy-m-d``; text after the day and a blank or a T is ignored."""
    day_text, *rest = re.split(r"[T ]", text.strip(), maxsplit=1)
    match = _DATE.fullmatch(day_text)
    if match is None or (rest and match.group(3) is None):
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


def parse_timestamp(text: str) -> dt.datetime | None:
    """Parse a timestamp as Spark does, down to microseconds. With ``Z``, ``UTC`` or an offset the result has a zone."""
    stripped = text.strip()
    zone_match = _ZONE.search(stripped) if len(stripped) > len("yyyy-mm-dd") else None
    zone: dt.timezone | None = None
    if zone_match is not None:
        sign, hours, minutes = zone_match.groups()
        offset = dt.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        if offset > dt.timedelta(hours=18):
            return None
        zone = dt.timezone(-offset if sign == "-" else offset)
        stripped = stripped[: zone_match.start()]
    day_text, *clock = re.split(r"[T ]", stripped, maxsplit=1)
    day = parse_date(day_text)
    time = _parse_time(clock[0]) if clock else dt.time()
    if day is None or time is None:
        return None
    return dt.datetime.combine(day, time, zone)


def _parse_time(text: str) -> dt.time | None:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    try:
        return dt.time(hour, minute, second, int((match.group(4) or "").ljust(6, "0")))
    except ValueError:
        return None


def _fit(value: Value, kind: pa.DataType, zone: TimeZone) -> Literal | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        word = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
        return Literal(word, kind) if isinstance(word, bool) else None
    if is_number(kind):
        special = _SPECIAL.get(value.strip().lower()) if isinstance(value, str) and pa.types.is_floating(kind) else None
        number = _number(value) if special is None else special
        return None if number is None else _fit_number(number, kind)
    if is_string(kind):
        return (
            Literal(value, kind if pa.types.is_large_string(kind) else pa.string()) if isinstance(value, str) else None
        )
    if is_bytes(kind):
        data = value.encode() if isinstance(value, str) else value
        return Literal(data, pa.binary()) if isinstance(data, bytes) else None
    if pa.types.is_date(kind):
        return _fit_date(value)
    if pa.types.is_timestamp(kind):
        return _fit_timestamp(value, kind, zone)
    if pa.types.is_time(kind):
        time = _parse_time(value) if isinstance(value, str) else value
        return Literal(time, pa.time64("us")) if isinstance(time, dt.time) else None
    return None


def _number(value: Value) -> int | float | Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        return value
    if not isinstance(value, str):
        return None
    try:
        number = Decimal(value.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and "_" not in value else None


def _fit_number(number: float | Decimal, kind: pa.DataType) -> Literal | None:
    if pa.types.is_floating(kind) or isinstance(number, float):
        try:
            return Literal(float(number), pa.float64())
        except OverflowError:
            return None
    if isinstance(number, int) or number == number.to_integral_value():
        whole = int(number)
        if pa.types.is_integer(kind):
            for candidate in (kind, pa.int64()):
                if _holds(candidate, whole):
                    return Literal(whole, candidate)
        number = Decimal(whole)
    target = _wider_decimal(kind, _decimal_of(number))
    return Literal(number, target)


def _holds(kind: pa.DataType, whole: int) -> bool:
    bits = kind.bit_width
    if pa.types.is_signed_integer(kind):
        return bool(-(1 << (bits - 1)) <= whole < 1 << (bits - 1))
    return bool(0 <= whole < 1 << bits)


def _decimal_of(number: Decimal) -> pa.DataType:
    _, digits, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale, 1)
    if precision > 76:
        raise PredicateError(
            f"the number {number} has more digits than a decimal holds", hint="Write it as a double: 1e3"
        )
    return pa.decimal256(precision, scale)


def _wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    whole = scale = 0
    for kind in (left, right):
        precision, digits = (20, 0) if pa.types.is_integer(kind) else (kind.precision, kind.scale)
        whole, scale = max(whole, precision - digits), max(scale, digits)
    if whole + scale > 76:
        raise PredicateError("two decimals are too far apart to be compared", hint="Cast one of them to double")
    return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else pa.decimal256(whole + scale, scale)


def _fit_date(value: Value) -> Literal | None:
    if isinstance(value, dt.datetime):
        return _fit_timestamp(value, natural_type(value), UTC)
    day = parse_date(value) if isinstance(value, str) else value
    return Literal(day, pa.date32()) if isinstance(day, dt.date) else None


def _fit_timestamp(value: Value, kind: pa.DataType, zone: TimeZone) -> Literal | None:
    moment = parse_timestamp(value) if isinstance(value, str) else value
    if isinstance(moment, dt.date) and not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time())
    if not isinstance(moment, dt.datetime) or (kind.tz is None and moment.tzinfo is not None):
        return None
    if kind.tz is None:
        return Literal(moment, LOCAL)
    try:
        return Literal(moment.astimezone(dt.UTC) if moment.tzinfo is not None else zone.moment(moment), MOMENT)
    except OverflowError:
        return None


def natural_type(value: Value) -> pa.DataType:
    """Return the type of a literal if no column determines the type."""
    if isinstance(value, Decimal):
        return _decimal_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if _holds(pa.int64(), value) else _decimal_of(Decimal(value))
    if isinstance(value, dt.datetime):
        return MOMENT if value.tzinfo is not None else LOCAL
    kinds = {bool: pa.bool_(), float: pa.float64(), str: pa.string(), bytes: pa.binary(), dt.date: pa.date32()}
    return kinds.get(type(value), pa.null())
