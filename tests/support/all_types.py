"""A table with one column of every supported type, with edge values and nulls."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

POINT = pa.struct([("x", pa.int32()), ("label", pa.string()), ("deep", pa.list_(pa.struct([("d", pa.date32())])))])

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "c_bool": (pa.bool_(), [True, False]),
    "c_int8": (pa.int8(), [-128, 127]),
    "c_int16": (pa.int16(), [-32768, 32767]),
    "c_int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "c_int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "c_float": (pa.float32(), [1.5, float("-inf")]),
    "c_double": (pa.float64(), [-0.1, float("inf")]),
    "c_decimal": (pa.decimal128(38, 10), [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")]),
    "c_small_decimal": (pa.decimal128(5, 2), [Decimal("999.99"), Decimal("-0.01")]),
    "c_string": (pa.string(), ["", "ünï 漢字 😀 \n\t\"'"]),
    "c_binary": (pa.binary(), [b"", b"\x00\xff"]),
    "c_date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "c_ts_ms": (pa.timestamp("ms"), [datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(2026, 7, 1)]),
    "c_ts_us": (pa.timestamp("us"), [datetime(1900, 1, 1, 0, 0, 0, 1), datetime(2262, 4, 11)]),
    "c_ts_ms_utc": (pa.timestamp("ms", "UTC"), [datetime(2026, 1, 1, 12, 0, 0, 5000, UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
    "c_ts_us_utc": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 12, 0, 0, 7, UTC), datetime(1950, 1, 1, tzinfo=UTC)]),
    "c_ts_zone": (pa.timestamp("us", "Europe/Berlin"), [datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    "c_time": (pa.time64("us"), [time(0, 0), time(23, 59, 59, 999999)]),
    "c_list": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "c_map": (pa.map_(pa.string(), pa.float64()), [[], [("a", 1.0), ("b", None)]]),
    "c_struct": (POINT, [{"x": 1, "label": None, "deep": []}, {"x": None, "label": "p", "deep": [{"d": date(2026, 1, 1)}, None]}]),
    "c_nested": (pa.list_(pa.map_(pa.string(), pa.list_(pa.string()))), [[[("k", ["v", None])], None], [[]]]),
}  # fmt: skip

SCHEMA = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])


def rows(spark: bool = False) -> pa.Table:
    """Three rows: the two edge values, and a row of nulls except its key. On request, without the types that Spark does not have."""
    table = pa.table(
        [pa.array([1, 2, 3]), *(pa.array([*values, None], kind) for kind, values in COLUMNS.values())], schema=SCHEMA
    )
    return table.drop_columns(["c_time"]) if spark else table
