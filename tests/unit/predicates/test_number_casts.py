"""Casts that may change a number: Python's own numbers say what is right, over many random values. And what a refused cast says to write."""

import math
import random
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import ColumnStats, Predicate
from pyhudi_core.predicates.arrow import evaluated, value_of
from pyhudi_core.predicates.binding import bind_value
from pyhudi_core.predicates.sql import parse_sql

WHOLE = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
DRAW = random.Random(49)
DOUBLES = [
    *(None, 0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, -0.5, 1e-7, -1e-20, 2.675, 127.99, -128.99, 2147483647.5, 2.0**63, -(2.0**63), 1e300, 5e-324),
    *(DRAW.uniform(-1, 1) * 10 ** DRAW.randrange(-12, 22) for _ in range(500)),
    *(round(DRAW.uniform(-1000, 1000), 3) for _ in range(500)),
]  # fmt: skip
DECIMALS = [
    None,
    *(Decimal(DRAW.randrange(-(10**18), 10**18)).scaleb(-6) for _ in range(300)),
    Decimal("0.5"),
    Decimal("-2.5"),
]
INTEGERS = [None, 0, 2**63 - 1, -(2**63), *(DRAW.randrange(-(10**9), 10**9) for _ in range(300))]


def cut(value: float | Decimal | None, bits: int) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    whole = math.trunc(value)
    return whole if -(1 << bits) <= whole < 1 << bits else None


def rounded(value: float | Decimal | None, precision: int, scale: int) -> Decimal | None:
    if value is None or not math.isfinite(value):
        return None
    with localcontext(prec=400):
        exact = (Decimal(repr(value)) if isinstance(value, float) else Decimal(value)).quantize(
            Decimal(1).scaleb(-scale), ROUND_HALF_UP
        )
        return exact if abs(exact) < Decimal(10) ** (precision - scale) else None


def cast(values: list[object], kind: pa.DataType, target: str) -> list[object]:
    rows = pa.table({"x": pa.array(values, kind)})
    return evaluated(rows, value_of(bind_value(parse_sql(f"CAST(x AS {target})"), rows.schema))).to_pylist()


@pytest.mark.parametrize("target", WHOLE)
@pytest.mark.parametrize(("values", "kind"), [(DOUBLES, pa.float64()), (DECIMALS, pa.decimal128(20, 6))])
def test_a_cast_to_whole_numbers_cuts_the_fraction_off(values: list[object], kind: pa.DataType, target: str) -> None:
    right: Callable[[object], object] = lambda value: cut(value, WHOLE[target])  # noqa: E731
    assert cast(values, kind, target) == [right(value) for value in values]


@pytest.mark.parametrize(("precision", "scale"), [(9, 2), (15, 0), (6, 6), (30, 15), (18, 3)])
@pytest.mark.parametrize(
    ("values", "kind"), [(DOUBLES, pa.float64()), (DECIMALS, pa.decimal128(20, 6)), (INTEGERS, pa.int64())]
)
def test_a_cast_to_a_decimal_rounds_half_up(
    values: list[object], kind: pa.DataType, precision: int, scale: int
) -> None:
    assert cast(values, kind, f"DECIMAL({precision}, {scale})") == [
        rounded(value, precision, scale) for value in values
    ]


@pytest.mark.parametrize(
    ("where", "low", "high"),
    [
        ("CAST(x AS INT) = 1", "1.5", "1.9"),
        ("CAST(x AS INT) IS NULL", "1e12", "2e12"),
        ("CAST(x AS DECIMAL(9, 0)) = 2", "1.5", "1.9"),
    ],
)
def test_no_file_is_left_out_by_bounds_that_a_cast_changes(where: str, low: str, high: str) -> None:
    found = Predicate.of(where, pa.schema([("x", pa.decimal128(20, 6))]))
    assert found is not None
    assert found.could_match({"x": ColumnStats(Decimal(low), Decimal(high), 0, 3)})


OTHERS = pa.schema(
    [
        ("flag", pa.bool_()),
        ("whole", pa.int64()),
        ("number", pa.float32()),
        ("exact", pa.decimal128(18, 8)),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("parts", pa.struct([("name", pa.int64())])),
    ]
)
REFUSED: dict[str, tuple[str, ...]] = {
    "CAST(flag AS FLOAT)": ("CAST(CAST(x AS INT) AS FLOAT)",),
    "CAST(flag AS DOUBLE)": ("CAST(CAST(x AS INT) AS DOUBLE)",),
    "CAST(flag AS DECIMAL(5, 1))": ("CAST(CAST(x AS INT) AS DECIMAL(10, 2))",),
    "CAST(number AS BOOLEAN)": ("x <> 0",),
    "CAST(exact AS BOOLEAN)": ("x <> 0",),
    "CAST(number AS DECIMAL(38, 18))": ("decimal(24, 9)",),
    "CAST(number AS STRING)": ("CAST(CAST(x AS DECIMAL(17, 2)) AS STRING)",),
    "CAST(exact AS STRING)": ("CAST(CAST(x AS DECIMAL(18, 6)) AS STRING)",),
    "CAST(whole AS DATE)": ("date_add(DATE '1970-01-01', x)",),
    "CAST(number AS TIMESTAMP)": ("CAST(CAST(x AS BIGINT) AS TIMESTAMP)",),
    "CAST(exact AS TIMESTAMP_NTZ)": ("CAST(CAST(x AS BIGINT) AS TIMESTAMP)",),
    "CAST(text AS TIMESTAMP)": ("CAST(x AS DATE)", "TIMESTAMP '2026-01-31 12:00:00'"),
    "CAST(day AS BIGINT)": ("datediff(x, DATE '1970-01-01')",),
    "CAST(moment AS STRING)": ("CAST(CAST(x AS DATE) AS STRING)", "hour(x)", "minute(x)", "second(x)"),
    "CAST(local AS BIGINT)": ("year(x)", "dayofyear(x)", "hour(x)"),
    "CAST(whole AS BINARY)": ("X'0AFF'",),
    "CAST(parts AS STRING)": ("x.name",),
}


@pytest.mark.parametrize("cast", REFUSED)
def test_what_a_refused_cast_says_to_write_is_accepted(cast: str) -> None:
    with pytest.raises(PredicateError) as refused:
        Predicate.of(f"{cast} IS NULL", OTHERS)
    column = cast.removeprefix("CAST(").partition(" ")[0]
    for way in REFUSED[cast]:
        assert way in refused.value.hint
        written = f"CAST(x AS {way})" if way.startswith("decimal(") else way
        Predicate.of("(" + re.sub(r"\bx\b", column, written) + ") IS NULL", OTHERS)
