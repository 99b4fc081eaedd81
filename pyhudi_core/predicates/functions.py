"""The functions allowed in a ``where``: argument types, result types, and their Arrow expressions.

Names and results are Spark's. Integers are computed in 64 bits, and decimals exactly. A zero divisor gives null. A call is refused if its result
differs between Arrow and Spark (division of decimals, decimals with floating-point numbers, floating-point numbers as text).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.coercion import is_bytes, is_number, is_string
from pyhudi_core.predicates.date_math import compute_date
from pyhudi_core.predicates.letter_case import in_case
from pyhudi_core.predicates.local_times import LOCAL, MOMENT, local_times, moments
from pyhudi_core.predicates.named_functions import FUNCTIONS, substring
from pyhudi_core.predicates.number_casts import may_change, to_number
from pyhudi_core.predicates.text_values import from_text
from pyhudi_core.predicates.tree import FunctionCall, Literal, text_of

_DIGITS = 38
"""The maximum digits of a decimal in Spark."""
_WIDE_DIGITS = 76
"""The maximum digits of a wide decimal in Arrow."""
_PLAIN_SCALE = 6
"""The maximum decimal places of a decimal with a plain text; other decimals have texts such as 1E-7 in some systems."""
DATE_PARTS = (
    *("year", "month", "day", "hour", "minute", "second"),
    *("quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"),
)
_TARGETS = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": MOMENT,
    "timestamp_ntz": LOCAL,
    "binary": pa.binary(),
}
_TYPE_NAMES = {pa.float32().id: "FLOAT", pa.float64().id: "DOUBLE", pa.decimal128(1, 0).id: "DECIMAL(10, 2)"}
_BYTES = "Only texts become bytes; write bytes out as X'0AFF'"
_OWN_TYPE = "No cast between these types is the same in all systems; compare and store the value in its own type"
_LITERALS = (
    "Cast the first argument; numbers and texts behind it are written out: left(name, 3), replace(name, 'a', 'b'), lpad(code, 5, '0'), with one"
    " character to fill up with"
)
ZONED: dict[str, Callable[[pc.Expression, str], pc.Expression]] = {"local_time": local_times, "moment": moments}
"""Calls with a value and the name of a zone, which the binding makes. Only these calls depend on a zone."""
_TIME_FORMAT_PARTS = ("%Y", "%m", "%d", "%H", "%M", "%S")


def target_type(name: str) -> pa.DataType:
    """Return the type in ``CAST(... AS name)``. Raises `PredicateError`."""
    if name.startswith("decimal("):
        precision, scale = ([int(part) for part in name[8:-1].split(",") if part.strip().isdecimal()] + [0])[:2]
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    elif name in _TARGETS:
        return _TARGETS[name]
    raise PredicateError(
        f"the type {name} does not exist", hint="See Spark's data types; a decimal has at most 38 digits"
    )


def result_type(call: FunctionCall, kinds: list[pa.DataType]) -> pa.DataType:
    """Return the type of a call's result for arguments of these types.

    Raises:
        PredicateError: the function does not accept such arguments.
    """
    name = call.function
    named = FUNCTIONS[name].result(call, kinds) if name in FUNCTIONS else None
    if named is not None:
        return named
    fits = _ACCEPTS.get(name)
    if fits is None or not fits(kinds):
        raise PredicateError(
            f"{text_of(call)[:120]} does not take {', '.join(map(str, kinds))}", hint=_way_out(name, kinds)
        )
    if name in ("+", "-", "*", "%"):
        if any(map(pa.types.is_decimal, kinds)):
            return _exact(name, *map(_as_decimal, kinds))
        return pa.float64() if any(map(pa.types.is_floating, kinds)) else pa.int64()
    if name == "round":
        digits = call.args[1].value if isinstance(call.args[1], Literal) else None
        return _rounded(kinds[0], digits)
    if name == "abs":
        exact = pa.types.is_decimal(kinds[0])
        return kinds[0] if exact else pa.float64() if pa.types.is_floating(kinds[0]) else pa.int64()
    if name == "/":
        return pa.float64()
    if name == "date_add":
        return pa.date32()
    return pa.string() if name in ("lower", "upper", "substring", "from_unixtime", "concat") else pa.int64()


def _way_out(name: str, kinds: list[pa.DataType]) -> str:
    """Return the advice for a call that does not accept such arguments."""
    if sum(map(pa.types.is_date, kinds)) == 2:
        return "Write datediff(later, earlier) for the days between two dates"
    if name == "+" and any(map(is_string, kinds)):
        return "Join texts by a || b or concat(a, b); add numbers in texts by CAST(a AS DOUBLE) + b"
    if name == "%":
        return "Cast floating-point numbers to decimals, such as CAST(x AS DECIMAL(18, 6)) % 2"
    if name in ARITHMETIC or name == "abs":
        return "Cast decimals beside floating-point numbers, and those that are divided, to double: CAST(price AS DOUBLE) / 3"
    return _LITERALS if name in FUNCTIONS else "Cast the arguments, or filter the result"


def check_cast(source: pa.DataType, target: pa.DataType, what: str) -> None:
    """Raise `PredicateError` if Arrow's cast differs from Spark's, or does not exist."""
    test = pa.types
    allowed = (
        source == target
        or (is_number(source) and test.is_floating(target))
        or (test.is_integer(source) and test.is_integer(target))
        or (test.is_integer(source) and (test.is_timestamp(target) or test.is_boolean(target)))
        or (test.is_integer(source) and test.is_decimal(target) and target.precision - target.scale >= 20)
        or (test.is_decimal(source) and test.is_decimal(target) and _holds_decimal(target, source))
        or (
            is_string(source)
            and (is_number(target) or test.is_boolean(target) or test.is_date(target) or is_bytes(target))
        )
        or (is_string(target) and (test.is_integer(source) or test.is_boolean(source) or test.is_date(source)))
        or (is_string(target) and test.is_decimal(source) and 0 <= source.scale <= _PLAIN_SCALE)
        or (is_string(source) and is_string(target))
        or (test.is_date(source) and (test.is_timestamp(target) or test.is_date(target)))
        or (test.is_timestamp(source) and (test.is_timestamp(target) or test.is_date(target)))
        or (test.is_boolean(source) and test.is_integer(target))
        or may_change(source, target)
    )
    if not allowed:
        raise PredicateError(
            f"a cast of {what[:120]} from {source} to {target} is not supported", hint=_in_place_of_cast(source, target)
        )


def _in_place_of_cast(source: pa.DataType, target: pa.DataType) -> str:
    """Return the advice for a refused cast; ``x`` stands for the value."""
    test = pa.types
    if test.is_floating(source) and test.is_decimal(target):
        return "Cast it to a decimal with at most 15 digits before the point and 15 behind it, such as decimal(24, 9)"
    if test.is_floating(source) and is_string(target):
        return "Numbers have other texts in other systems: cast it to a decimal first, such as CAST(CAST(x AS DECIMAL(17, 2)) AS STRING)"
    if test.is_decimal(source) and is_string(target):
        return f"Small numbers have other texts in other systems: keep {_PLAIN_SCALE} places, CAST(CAST(x AS DECIMAL(18, {_PLAIN_SCALE})) AS STRING)"
    if test.is_timestamp(source) and is_string(target):
        return "CAST(CAST(x AS DATE) AS STRING) is the text of its day; hour(x), minute(x) and second(x) are numbers"
    if is_string(source) and test.is_timestamp(target):
        return "Only a text that is written out becomes a timestamp, TIMESTAMP '2026-01-31 12:00:00'; of a column take CAST(x AS DATE)"
    if is_number(source) or is_number(target):
        return _in_place_of_number(source, target)
    if is_bytes(target):
        return _BYTES
    return "Cast one of its fields, such as x.name" if test.is_struct(source) else _OWN_TYPE


def _in_place_of_number(source: pa.DataType, target: pa.DataType) -> str:
    """Return the advice for a refused cast of a number, or to a number."""
    test = pa.types
    if test.is_boolean(source) and is_number(target):
        return f"Cast it to a whole number first: CAST(CAST(x AS INT) AS {_TYPE_NAMES[target.id]})"
    if test.is_boolean(target) and is_number(source):
        return "Write x <> 0"
    if test.is_integer(source) and test.is_date(target):
        return "A number of days since 1970 becomes a date by date_add(DATE '1970-01-01', x)"
    if is_number(source) and test.is_timestamp(target):
        return "Whole seconds since 1970 become a time: CAST(CAST(x AS BIGINT) AS TIMESTAMP)"
    if test.is_date(source) and is_number(target):
        return "datediff(x, DATE '1970-01-01') is its number of days since 1970"
    if test.is_timestamp(source) and is_number(target):
        return "year(x), dayofyear(x), hour(x), minute(x) and second(x) are numbers; compare it with TIMESTAMP '2026-01-31 12:00:00'"
    if is_bytes(target):
        return _BYTES
    return "Cast one of its fields, such as x.name" if test.is_struct(source) else _OWN_TYPE


def compute(call: FunctionCall, args: list[pc.Expression], kinds: list[pa.DataType]) -> pc.Expression:
    """Return the Arrow expression of a call that ``result_type`` or ``check_cast`` has accepted."""
    name = call.function
    if name in FUNCTIONS:
        return FUNCTIONS[name].compute(call, args, kinds)
    if name in ARITHMETIC:
        return _arithmetic(call, args, kinds)
    if name in DATE_PARTS:
        return _PARTS[name](_cast(args[0], kinds[0], MOMENT) if pa.types.is_date(kinds[0]) else args[0])
    if name in ZONED:
        zone = call.args[1]
        assert isinstance(zone, Literal), "the binding wrote the zone"
        return ZONED[name](args[0], str(zone.value))
    return _COMPUTED[name](call, args, kinds)


def _arithmetic(call: FunctionCall, args: list[pc.Expression], kinds: list[pa.DataType]) -> pc.Expression:
    operator = ARITHMETIC[call.function]
    if pa.types.is_decimal(call.type) and call.function == "%":
        return _exact_modulo(call, args, kinds)
    if pa.types.is_decimal(call.type):
        left, right = (arg.cast(_as_decimal(kind)) for arg, kind in zip(args, kinds, strict=True))
        return operator(left, right).cast(call.type)
    left, right = (arg.cast(call.type, safe=False) for arg in args)
    return operator(left, right)


def _holds_decimal(target: pa.DataType, source: pa.DataType) -> bool:
    return bool(target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale)


def _literal_text(call: FunctionCall, index: int) -> str:
    argument = call.args[index]
    text = argument.value if isinstance(argument, Literal) else None
    rest = text if isinstance(text, str) else "%"
    for part in _TIME_FORMAT_PARTS:
        rest = rest.replace(part, "")
    if any(character.isascii() and (character.isalpha() or character in "%'[]{}#") for character in rest):
        raise PredicateError(
            f"the time format of {text_of(call)[:120]} is not supported",
            hint="Use yyyy, MM, dd, HH, mm and ss, with separators between them",
        )
    return str(text)


def _substring(call: FunctionCall, text: pc.Expression) -> pc.Expression:
    numbers = [argument.value for argument in call.args[1:] if isinstance(argument, Literal)]
    if len(numbers) != len(call.args) - 1 or not all(isinstance(number, int) for number in numbers):
        raise PredicateError(
            f"{text_of(call)[:120]} needs a start and a length that are whole numbers",
            hint="Positions count from 1, and negative ones from the end",
        )
    start, *length = (int(str(number)) for number in numbers)
    return substring(text, start, length[0] if length else None)


def _cast(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    if pa.types.is_integer(source) and pa.types.is_timestamp(target):
        return value.cast(pa.int64()).cast(pa.timestamp("s", target.tz)).cast(target)
    if pa.types.is_date(source) and pa.types.is_timestamp(target):
        return value.cast(pa.date32()).cast(pa.timestamp("us")).cast(pa.int64()).cast(target)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # The cast goes through the number, so that a zone is only added or removed and the value never shifts.
        return value.cast(pa.timestamp(target.unit, source.tz), safe=False).cast(pa.int64()).cast(target)
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        # The cast goes through text, which gives the nearest number; Arrow's direct cast is wrong in the last bit.
        return value.cast(pa.string()).cast(target)
    if is_string(source) and not is_string(target) and not is_bytes(target):
        return from_text(value.cast(pa.string()), target)
    if is_number(source) and is_number(target) and not is_exact(source, target):
        return to_number(value, source, target)
    return value.cast(target, safe=pa.types.is_integer(target))


def is_exact(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast of numbers is exact: it preserves each value, rounds it to the nearest floating-point number, or raises an error."""
    test = pa.types
    if test.is_floating(target):
        return True
    if test.is_integer(source):
        return bool(test.is_integer(target) or target.precision - target.scale >= 20)
    return bool(test.is_decimal(source) and test.is_decimal(target) and _holds_decimal(target, source))


def _as_decimal(kind: pa.DataType) -> pa.DataType:
    """Return the type of a number in exact arithmetic."""
    if pa.types.is_integer(kind):
        return pa.decimal128(20, 0)
    return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _DIGITS else kind


def _exact(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type that can store each sum, difference, product or remainder of two decimals. Raises `PredicateError` if there is no such type."""
    scale, whole = max(left.scale, right.scale), max(left.precision - left.scale, right.precision - right.scale) + 1
    if name == "*":
        scale, whole = left.scale + right.scale, left.precision + right.precision + 1 - left.scale - right.scale
    if name == "%":
        whole = max(1, min(left.precision - left.scale, right.precision - right.scale))
    if scale + whole > _DIGITS:
        raise PredicateError(
            f"{left} {name} {right} has more than {_DIGITS} digits",
            hint="Cast the arguments to decimals with fewer digits, or to double",
        )
    return pa.decimal128(scale + whole, scale)


def _rounded(kind: pa.DataType, digits: object) -> pa.DataType:
    """Return the type of a rounded number. Raises `PredicateError` for floating-point numbers, which Spark rounds by their text."""
    if not isinstance(digits, int) or not 0 <= digits <= _DIGITS or not pa.types.is_decimal(kind):
        raise PredicateError(
            f"round takes a decimal and a number of places, not {kind} and {digits}",
            hint="Cast the argument to a decimal",
        )
    scale = min(digits, kind.scale)
    return pa.decimal128(min(kind.precision - kind.scale + scale + 1, _DIGITS), scale)


def _round(value: pc.Expression, kind: pa.DataType, call: FunctionCall) -> pc.Expression:
    scale = call.type.scale  # type: ignore[union-attr]
    wider = pa.decimal128(min(kind.precision + 1, _DIGITS), kind.scale)
    return pc.round(value.cast(wider), scale, "half_towards_infinity").cast(call.type)


def _divide(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return pc.divide(left, _or_null(right, pa.float64()))


def _modulo(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    divisor = _or_null(right, pa.int64())
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def _or_null(divisor: pc.Expression, kind: pa.DataType) -> pc.Expression:
    return pc.if_else(divisor == pa.scalar(0, kind), pc.scalar(pa.scalar(None, kind)), divisor)


def _integers(kinds: list[pa.DataType]) -> bool:
    return len(kinds) == 2 and all(map(pa.types.is_integer, kinds))


def _numbers(kinds: list[pa.DataType]) -> bool:
    """Return whether numbers can be added: none is a decimal, or none is a floating-point number."""
    return _plain_numbers(kinds) or (all(map(is_number, kinds)) and not any(map(pa.types.is_floating, kinds)))


def _exact_numbers(kinds: list[pa.DataType]) -> bool:
    """Return whether numbers can be added: either no decimal or no floating-point number is among them."""
    if len(kinds) != 2 or any(map(pa.types.is_floating, kinds)) or not all(map(is_number, kinds)):
        return False
    return bool(sum(kind.precision for kind in _aligned(kinds)) < _WIDE_DIGITS)


def _aligned(kinds: list[pa.DataType]) -> list[pa.DataType]:
    """Return wide types of the same scale that hold the numbers."""
    exact = [_as_decimal(kind) for kind in kinds]
    scale = max(kind.scale for kind in exact)
    return [pa.decimal256(kind.precision - kind.scale + scale, scale) for kind in exact]


def _exact_modulo(call: FunctionCall, args: list[pc.Expression], kinds: list[pa.DataType]) -> pc.Expression:
    """Return the remainder of decimals, with the sign of the dividend; null for a zero divisor."""
    wide = _aligned(kinds)
    left, right = (
        arg.cast(_as_decimal(kind)).cast(target) for arg, kind, target in zip(args, kinds, wide, strict=True)
    )
    right = pc.if_else(right == pa.scalar(Decimal(0), wide[1]), pc.scalar(pa.scalar(None, wide[1])), right)
    times = pc.round(pc.divide(left, right), 0, "towards_zero").cast(pa.decimal256(wide[0].precision, 0))
    return pc.subtract(left, pc.multiply(times, right).cast(wide[0])).cast(call.type)


def _plain_numbers(kinds: list[pa.DataType]) -> bool:
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)


def _text(kinds: list[pa.DataType]) -> bool:
    return is_string(kinds[0])


_ACCEPTS: dict[str, Callable[[list[pa.DataType]], bool]] = {
    "+": _numbers,
    "-": _numbers,
    "*": _numbers,
    "round": lambda kinds: len(kinds) == 2,
    "/": _plain_numbers,
    "%": lambda kinds: _integers(kinds) or _exact_numbers(kinds),
    "abs": lambda kinds: is_number(kinds[0]),
    "lower": _text,
    "upper": _text,
    "length": _text,
    "substring": lambda kinds: _text(kinds) and len(kinds) in (2, 3),
    "from_unixtime": lambda kinds: bool(pa.types.is_integer(kinds[0])),
    "concat": lambda kinds: all(map(is_string, kinds)),
    "date_add": lambda kinds: bool(pa.types.is_date(kinds[0]) and pa.types.is_integer(kinds[1])),
    "datediff": lambda kinds: all(map(pa.types.is_date, kinds)),
    **{part: lambda kinds: bool(pa.types.is_date(kinds[0]) or pa.types.is_timestamp(kinds[0])) for part in DATE_PARTS},
}
ARITHMETIC: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": _divide,
    "%": _modulo,
}
"""The operators of arithmetic; each takes two numbers."""
_PARTS: dict[str, Callable[[pc.Expression], pc.Expression]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "quarter": pc.quarter,
    "dayofweek": lambda time: pc.day_of_week(time, count_from_zero=False, week_start=7),
    "weekday": pc.day_of_week,
    "dayofyear": pc.day_of_year,
    "weekofyear": pc.iso_week,
}


def _text_of_time(call: FunctionCall, args: list[pc.Expression], kinds: list[pa.DataType]) -> pc.Expression:
    seconds = args[0].cast(pa.int64()).cast(pa.timestamp("s", "UTC"))
    return pc.strftime(seconds, format=_literal_text(call, 1))


_COMPUTED: dict[str, Callable[[FunctionCall, list[pc.Expression], list[pa.DataType]], pc.Expression]] = {
    "cast": lambda call, args, kinds: _cast(args[0], kinds[0], call.type),
    "round": lambda call, args, kinds: _round(args[0], kinds[0], call),
    "from_unixtime": _text_of_time,
    "time_text": lambda call, args, _kinds: pc.strftime(
        args[0].cast(pa.timestamp("s"), safe=False), format=_literal_text(call, 1)
    ),
    "substring": lambda call, args, _kinds: _substring(call, args[0]),
    "coalesce": lambda _call, args, _kinds: pc.coalesce(*args),
    "concat": lambda _call, args, _kinds: pc.binary_join_element_wise(*(arg.cast(pa.string()) for arg in args), ""),
    "abs": lambda call, args, _kinds: pc.abs_checked(args[0].cast(call.type, safe=False)),
    "length": lambda _call, args, _kinds: pc.utf8_length(args[0].cast(pa.string())).cast(pa.int64()),
    **dict.fromkeys(("lower", "upper"), lambda call, args, _kinds: in_case(call.function, args[0].cast(pa.string()))),
    **dict.fromkeys(("date_add", "datediff", "shift"), lambda call, args, _kinds: compute_date(call, args)),
}
