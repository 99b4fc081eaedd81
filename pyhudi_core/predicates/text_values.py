"""Booleans, numbers and dates in text, parsed as by Spark's TRY_CAST: null if the text is not a value.

Spark ignores blanks and control characters at both ends. It accepts several words for true and false, signs, a ``d`` or ``f`` after a
number, and dates without a day or followed by a time. Whole numbers out of range are null; decimals are rounded half up.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_ENDS = "".join(map(chr, (*range(0x21), 0x7F)))
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_WHOLE = r"^[+-]?0*\d{1,19}$"
_NUMBER = r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?$"
_SPECIAL = r"^(?:[+-]?(?:inf|infinity)|nan)$"
_SIGNED_NAN = r"^[+-]NaN$"
_DECIMAL = r"^[+-]?(?:\d{1,28}\.?\d{0,28}|\.\d{1,28})(?:[eE][+-]?\d)?$"
_LONG, _WIDE = pa.decimal128(20, 0), pa.decimal256(76, 38)
_DATE = r"^(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[ T](?s:.*))?)?)?$"


def from_text(text: pc.Expression, target: pa.DataType) -> pc.Expression:
    """Parse texts. A decimal with more than 28 digits before the point, or after it, becomes null."""
    trimmed = pc.utf8_trim(text, characters=_ENDS)
    types = pa.types
    if types.is_date(target):
        return _date(trimmed)
    if types.is_boolean(target):
        word = pc.utf8_lower(trimmed)
        yes, no = (word.isin(pa.array(words)) for words in (_TRUE, _FALSE))
        return pc.if_else(yes, True, pc.if_else(no, False, pc.scalar(pa.scalar(None, pa.bool_()))))
    if types.is_integer(target):
        number = _where(trimmed, pc.match_substring_regex(trimmed, _WHOLE)).cast(_LONG)
        limit = 1 << (target.bit_width - 1)
        return _within(number, _LONG, Decimal(-limit), Decimal(limit - 1)).cast(target)
    if types.is_decimal(target):
        number = _where(trimmed, pc.match_substring_regex(trimmed, _DECIMAL)).cast(_WIDE)
        rounded = pc.round(number, ndigits=target.scale, round_mode="half_towards_infinity")
        most = Decimal(10**target.precision - 1).scaleb(-target.scale)
        return _within(rounded, _WIDE, -most, most).cast(target)
    return _floating(trimmed).cast(target)


def _floating(text: pc.Expression) -> pc.Expression:
    plain = pc.replace_substring_regex(text, pattern=_NUMBER, replacement=r"\1")
    special = pc.match_substring_regex(text, _SPECIAL, ignore_case=True)
    nan = pc.match_substring_regex(text, _SIGNED_NAN)
    number = _where(plain, pc.match_substring_regex(text, _NUMBER) | special)
    return pc.if_else(nan, "nan", number)


def _date(text: pc.Expression) -> pc.Expression:
    parts = pc.extract_regex(text, pattern=_DATE)
    year, month, day = (pc.struct_field(parts, indices=[n]) for n in range(3))
    month, day = (pc.utf8_lpad(pc.if_else(part == "", "1", part), width=2, padding="0") for part in (month, day))
    iso = pc.binary_join_element_wise(year, month, day, "-")
    moment = pc.strptime(iso, format="%Y-%m-%d", unit="s", error_is_null=True)
    # The 30th of February is returned as a day of March.
    exact = pc.strftime(moment, format="%Y-%m-%d") == iso
    return pc.if_else(exact, moment.cast(pa.date32()), pc.scalar(pa.scalar(None, pa.date32())))


def _within(number: pc.Expression, kind: pa.DataType, low: Decimal, high: Decimal) -> pc.Expression:
    """Return the numbers, with null in place of numbers out of the type's range."""
    inside = (number >= pa.scalar(low, kind)) & (number <= pa.scalar(high, kind))
    return pc.if_else(inside, number, pc.scalar(pa.scalar(None, kind)))


def _where(text: pc.Expression, condition: pc.Expression) -> pc.Expression:
    return pc.if_else(condition, text, pc.scalar(pa.scalar(None, pa.string())))
