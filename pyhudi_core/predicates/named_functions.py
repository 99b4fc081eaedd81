"""Functions in conditions and values without special rules: text, dates, numbers. Names and results are Spark's.

`FUNCTIONS` has the arguments of each function, its result type, and its Arrow expression. `call_of` converts a call of sqlglot. An argument that must
be the same for all rows is a literal, such as the number in ``left(name, 3)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp

from pyhudi_core.predicates.coercion import is_string
from pyhudi_core.predicates.date_math import plus_months
from pyhudi_core.predicates.regexps import extracted, matches, replaced
from pyhudi_core.predicates.tree import FunctionCall, Literal

_Args = list[pc.Expression]
_Kinds = list[pa.DataType]
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    **{name: name.lower() for name in ("QUARTER", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
    "DD": "day",
}
_UNITS_OF_DATES = ("year", "quarter", "month", "week")


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A function. ``result`` returns the result type for arguments of these types; None if the function does not accept them."""

    result: Callable[[FunctionCall, _Kinds], pa.DataType | None]
    compute: Callable[[FunctionCall, _Args, _Kinds], pc.Expression]


def literal(call: FunctionCall, place: int) -> Any:
    """Return the value of a literal argument; None if it is not a literal, or missing."""
    argument = call.args[place] if place < len(call.args) else None
    return argument.value if isinstance(argument, Literal) else None


def substring(text: pc.Expression, start: int, length: int | None) -> pc.Expression:
    """Return a part of texts as Spark does. Positions count from 1; 0 is the first position, too; negative positions count from the end."""
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, start=first, stop=None if length is None else first + max(length, 0))
    if length is None or start + length >= 0:
        return pc.utf8_slice_codeunits(text, start=start)
    return pc.utf8_slice_codeunits(text, start=start, stop=start + max(length, 0))


def _of_text(*literals: type) -> Callable[[FunctionCall, _Kinds], pa.DataType | None]:
    """Return a check for the arguments: a text, followed by literals of these types."""

    def result(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
        values = [literal(call, place) for place in range(1, len(call.args))]
        fits = len(values) == len(literals) and all(map(isinstance, values, literals))
        return pa.string() if fits and is_string(kinds[0]) else None

    return result


def _text(compute: Callable[..., pc.Expression], *literals: type) -> NamedFunction:
    """Return a function of a text and literals. ``compute`` gets the text and the values of the literals."""

    def computed(call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
        values = [literal(call, place) for place in range(1, len(call.args))]
        return compute(args[0].cast(pa.string()), *values)

    return NamedFunction(_of_text(*literals), computed)


def _padded(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    fits = _of_text(int, str)(call, kinds) is not None and len(literal(call, 2)) == 1
    return pa.string() if fits else None


def _pad(left: bool) -> NamedFunction:
    pad = pc.utf8_lpad if left else pc.utf8_rpad

    def computed(call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
        width = max(literal(call, 1), 0)
        wide = pad(args[0].cast(pa.string()), width=width, padding=literal(call, 2))
        return pc.utf8_slice_codeunits(wide, start=0, stop=width)

    return NamedFunction(_padded, computed)


def _joined_with(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    return pa.string() if isinstance(literal(call, 0), str) and all(map(is_string, kinds)) else None


def _join_with(call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
    separator, none = str(literal(call, 0)), pc.scalar("")
    texts = [arg.cast(pa.string()) for arg in args[1:]]
    # Arrow has an option that skips nulls, but this option loses rows.
    parts = [pc.coalesce(pc.binary_join_element_wise(none, text, separator), none) for text in texts]
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, none), start=len(separator))


def _not_a_number(_call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    return pa.bool_() if pa.types.is_floating(kinds[0]) else None


def _rounded(_call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    """Return the type for floor and ceil: BIGINT for an integer, a decimal without places for a decimal, and DOUBLE for a floating-point number, so
    that NaN is preserved.
    """
    kind = kinds[0]
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision - kind.scale + 1, 38), 0) if kind.precision <= 37 else None
    return pa.int64() if pa.types.is_integer(kind) else None


def _to_whole(mode: str) -> NamedFunction:
    def computed(call: FunctionCall, args: _Args, kinds: _Kinds) -> pc.Expression:
        if pa.types.is_integer(kinds[0]):
            return args[0].cast(pa.int64())
        if pa.types.is_floating(kinds[0]):
            return pc.round(args[0].cast(pa.float64()), ndigits=0, round_mode=mode)
        wide = pa.decimal128(kinds[0].precision + 1, kinds[0].scale)
        return pc.round(args[0].cast(wide), ndigits=0, round_mode=mode).cast(call.type)

    return NamedFunction(_rounded, computed)


def _whole_quotient(_call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    return pa.int64() if len(kinds) == 2 and all(map(pa.types.is_integer, kinds)) else None


def _divide_whole(_call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
    left, right = (arg.cast(pa.int64()) for arg in args)
    none = pc.scalar(pa.scalar(None, pa.int64()))
    return pc.divide_checked(left, pc.if_else(right == pa.scalar(0, pa.int64()), none, right))


def _root(_call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    return pa.float64() if pa.types.is_integer(kinds[0]) or pa.types.is_floating(kinds[0]) else None


def _truncated(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    """Return the type for ``trunc(date, unit)`` and ``date_trunc(unit, timestamp)``; the unit is always the second argument here."""
    unit = _UNITS.get(str(literal(call, 1)).upper())
    if call.function == "trunc":
        return pa.date32() if unit in _UNITS_OF_DATES and pa.types.is_date(kinds[0]) else None
    return pa.timestamp("us", kinds[0].tz) if unit and pa.types.is_timestamp(kinds[0]) else None


def _truncate(call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
    unit = _UNITS[str(literal(call, 1)).upper()]
    return pc.floor_temporal(args[0].cast(call.type, safe=False), unit=unit)


def _end_of_month(_call: FunctionCall, args: _Args, _kinds: _Kinds) -> pc.Expression:
    following = pc.ceil_temporal(args[0].cast(pa.date32()), unit="month", ceil_is_strictly_greater=True)
    return pc.subtract(following.cast(pa.date32()).cast(pa.int32()), pa.scalar(1, pa.int32())).cast(pa.date32())


def _later(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    """Return the type for ``add_months(date, number)``, and for a date or time plus an interval of months (``shift_months``)."""
    if len(kinds) != 2 or not pa.types.is_integer(kinds[1]):
        return None
    if pa.types.is_date(kinds[0]):
        return pa.date32()
    is_time = call.function == "shift_months" and pa.types.is_timestamp(kinds[0])
    return pa.timestamp("us", kinds[0].tz) if is_time else None


def _add_months(call: FunctionCall, args: _Args, kinds: _Kinds) -> pc.Expression:
    if pa.types.is_date(kinds[0]):
        return plus_months(args[0].cast(pa.date32()), args[1])
    zone = kinds[0].tz
    micros = args[0].cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    start = pc.floor_temporal(micros.cast(pa.timestamp("us")), unit="day")
    later = plus_months(start.cast(pa.date32()), args[1]).cast(pa.timestamp("us")).cast(pa.int64())
    return (
        pc.add(later, pc.subtract(micros, start.cast(pa.int64())))
        .cast(pa.timestamp("us"))
        .cast(pa.int64())
        .cast(call.type)
    )


def _truth_of_text(call: FunctionCall, kinds: _Kinds) -> pa.DataType | None:
    return pa.bool_() if _of_text(str)(call, kinds) is not None else None


FUNCTIONS: dict[str, NamedFunction] = {
    "regexp_like": NamedFunction(
        _truth_of_text, lambda call, args, _kinds: matches(args[0].cast(pa.string()), literal(call, 1))
    ),
    "regexp_replace": _text(replaced, str, str),
    "regexp_extract": _text(extracted, str, int),
    "add_months": NamedFunction(_later, _add_months),
    "shift_months": NamedFunction(_later, _add_months),
    "trim": _text(lambda text, characters: pc.utf8_trim(text, characters=characters), str),
    "ltrim": _text(lambda text, characters: pc.utf8_ltrim(text, characters=characters), str),
    "rtrim": _text(lambda text, characters: pc.utf8_rtrim(text, characters=characters), str),
    "left": _text(lambda text, size: substring(text, 1, size), int),
    "right": _text(lambda text, size: substring(text, -size, None) if size > 0 else substring(text, 1, 0), int),
    "lpad": _pad(left=True),
    "rpad": _pad(left=False),
    "reverse": _text(pc.utf8_reverse),
    "repeat": _text(lambda text, times: pc.binary_repeat(text, max(times, 0)), int),
    "replace": _text(
        lambda text, old, new: pc.replace_substring(text, pattern=old, replacement=new) if old else text, str, str
    ),
    "concat_ws": NamedFunction(_joined_with, _join_with),
    "isnan": NamedFunction(_not_a_number, lambda _call, args, _kinds: pc.is_nan(args[0])),
    "floor": _to_whole("down"),
    "ceil": _to_whole("up"),
    "div": NamedFunction(_whole_quotient, _divide_whole),
    "sqrt": NamedFunction(_root, lambda _call, args, _kinds: pc.sqrt(args[0].cast(pa.float64(), safe=False))),
    "trunc": NamedFunction(_truncated, _truncate),
    "date_trunc": NamedFunction(_truncated, _truncate),
    "last_day": NamedFunction(lambda _call, kinds: pa.date32() if pa.types.is_date(kinds[0]) else None, _end_of_month),
}

_SIDES = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim"}
_BLANK = exp.Literal.string(" ")
_NAMED: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    exp.AddMonths: ("add_months", ("this", "expression")),
    exp.RegexpLike: ("regexp_like", ("this", "expression")),
    exp.RegexpReplace: ("regexp_replace", ("this", "expression", "replacement")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.IntDiv: ("div", ("this", "expression")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.LastDay: ("last_day", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfYear: ("dayofyear", ("this",)),
    exp.WeekOfYear: ("weekofyear", ("this",)),
}
"""Calls of sqlglot, with the names of their arguments."""
_PARTS = (
    "year",
    "quarter",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "dayofweek",
    "weekday",
    "dayofyear",
    "weekofyear",
)
_OTHER_PARTS = {"week": "weekofyear", "doy": "dayofyear", "dow": "dayofweek", "dayofmonth": "day"}


def call_of(part: Any) -> tuple[str, list[Any]] | None:
    """Return the function name and the arguments of a sqlglot call; None if the function is not in `FUNCTIONS` and not a part of dates."""
    if isinstance(part, exp.Trim):
        return _SIDES[str(part.args.get("position") or "BOTH")], [part.this, part.args.get("expression") or _BLANK]
    if isinstance(part, exp.Pad):
        name = "lpad" if part.args.get("is_left") else "rpad"
        return name, [part.this, part.expression, part.args.get("fill_pattern") or _BLANK]
    if isinstance(part, exp.RegexpExtract):
        return "regexp_extract", [part.this, part.expression, part.args.get("group") or exp.Literal.number(1)]
    if isinstance(part, exp.ConcatWs):
        return "concat_ws", list(part.expressions)
    if isinstance(part, exp.TimestampTrunc | exp.DateTrunc):
        name = "trunc" if isinstance(part, exp.DateTrunc) else "date_trunc"
        return name, [part.this, exp.Literal.string(part.args["unit"].name)]
    if isinstance(part, exp.Extract):
        return _part_of(part.this.name, part.expression)
    if isinstance(part, exp.Anonymous):
        name, arguments = part.name.lower(), part.expressions
        if name == "btrim":
            return "trim", [*arguments, _BLANK][:2]
        if name == "weekday":
            return name, list(arguments)
        if name == "regexp":
            return "regexp_like", list(arguments)
        return _part_of(arguments[0].name, arguments[1]) if name == "date_part" and len(arguments) == 2 else None
    name, keys = _NAMED.get(type(part), ("", ()))
    given = {key for key, value in part.args.items() if value}
    return (name, [part.args[key] for key in keys if part.args.get(key)]) if name and given <= {*keys} else None


def _part_of(word: str, of: Any) -> tuple[str, list[Any]] | None:
    name = _OTHER_PARTS.get(word.lower(), word.lower())
    return (name, [of]) if name in _PARTS else None
