"""Pairs of types: what data has, and what the column of a table has. The rule is the same for every way into a table."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

BERLIN = pa.timestamp("us", "Europe/Berlin")
SOURCES: dict[str, pa.Array] = {
    "bool": pa.array([True]),
    "int8": pa.array([5], pa.int8()),
    "uint8": pa.array([200], pa.uint8()),
    "int32": pa.array([5], pa.int32()),
    "int64": pa.array([5], pa.int64()),
    "int64_large": pa.array([2**53 + 1], pa.int64()),
    "uint32": pa.array([2**32 - 1], pa.uint32()),
    "uint64": pa.array([5], pa.uint64()),
    "uint64_large": pa.array([2**63], pa.uint64()),
    "float16": pa.array([1.5], pa.float16()),
    "float32": pa.array([0.1], pa.float32()),
    "float64": pa.array([0.1], pa.float64()),
    "float64_whole": pa.array([7.0], pa.float64()),
    "text": pa.array(["007"]),
    "large_text": pa.array(["a"], pa.large_string()),
    "dictionary": pa.array(["a"]).dictionary_encode(),
    "bytes": pa.array([b"\x00\xff"]),
    "date": pa.array([date(2026, 1, 2)]),
    "date64": pa.array([date(2026, 1, 2)], pa.date64()),
    "time_of_day": pa.array([time(13, 30)], pa.time32("ms")),
    "time_of_day_ns": pa.array([1], pa.time64("ns")),
    "seconds": pa.array([datetime(2026, 1, 2, 13, 30)], pa.timestamp("s")),
    "millis": pa.array([datetime(2026, 1, 2, 13, 30)], pa.timestamp("ms")),
    "micros": pa.array([datetime(2026, 1, 2, 13, 30)], pa.timestamp("us")),
    "nanos": pa.array([1_000], pa.timestamp("ns")),
    "nanos_fine": pa.array([1_001], pa.timestamp("ns")),
    "instant": pa.array([datetime(2026, 7, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "berlin": pa.array([datetime(2026, 7, 1, tzinfo=UTC)], BERLIN),
    "decimal": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
    "decimal_fewer": pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
    "decimal_more": pa.array([Decimal("1.255")], pa.decimal128(9, 3)),
    "decimal_wide": pa.array([Decimal("1.25")], pa.decimal128(20, 2)),
    "list_int32": pa.array([[1, None]], pa.list_(pa.int32())),
    "list_text": pa.array([["a"]]),
    "struct": pa.array([{"x": 5}], pa.struct([("x", pa.int32())])),
    "struct_text": pa.array([{"x": "a"}]),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
    "nulls": pa.nulls(1),
}  # fmt: skip

TARGETS: dict[str, pa.Array] = {
    "bool": pa.array([False]),
    "int32": pa.array([1], pa.int32()),
    "int64": pa.array([1], pa.int64()),
    "float32": pa.array([1.0], pa.float32()),
    "float64": pa.array([1.0], pa.float64()),
    "string": pa.array(["b"]),
    "binary": pa.array([b"b"]),
    "date": pa.array([date(2026, 1, 1)]),
    "time_of_day": pa.array([time(1)], pa.time64("us")),
    "micros": pa.array([datetime(2026, 1, 1)], pa.timestamp("us")),
    "instant": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("2.00")], pa.decimal128(10, 2)),
    "list": pa.array([[2]], pa.list_(pa.int64())),
    "struct": pa.array([{"x": 1}], pa.struct([("x", pa.int64())])),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
}

_INTEGERS = ("int8", "uint8", "int32")
_LONGS = ("int64", "int64_large", "uint32", "uint64")
_ACCEPTED: dict[str, dict[str, pa.DataType | None]] = {
    "bool": {"bool": None},
    "int32": {
        **dict.fromkeys((*_INTEGERS, "float64_whole")),
        **dict.fromkeys(_LONGS, pa.int64()),
        **dict.fromkeys(("float16", "float32", "float64"), pa.float64()),
    },
    "int64": dict.fromkeys((*_INTEGERS, *_LONGS, "float64_whole")),
    "float32": {
        **dict.fromkeys((*_INTEGERS, "int64", "uint64", "float16", "float32")),
        **dict.fromkeys(("float64", "float64_whole"), pa.float64()),
    },
    "float64": dict.fromkeys(
        (*_INTEGERS, "int64", "uint32", "uint64", "float16", "float32", "float64", "float64_whole")
    ),
    "string": dict.fromkeys(("text", "large_text", "dictionary")),
    "binary": {"bytes": None},
    "date": dict.fromkeys(("date", "date64")),
    "time_of_day": {"time_of_day": None},
    "micros": dict.fromkeys(("seconds", "millis", "micros", "nanos")),
    "instant": dict.fromkeys(("instant", "berlin")),
    "decimal": {**dict.fromkeys(("decimal", "decimal_fewer")), "decimal_wide": pa.decimal128(20, 2)},
    "list": {"list_int32": None},
    "struct": {"struct": None},
    "map": {"map": None},
}
ACCEPTED: dict[tuple[str, str], pa.DataType] = {
    (source, target): kind or TARGETS[target].type
    for target, sources in _ACCEPTED.items()
    for source, kind in {**sources, "nulls": None}.items()
}
"""The type of the column after data of the one type came to a column of the other. No value changes."""
REFUSED = [(source, target) for target in TARGETS for source in SOURCES if (source, target) not in ACCEPTED]


def column(source: str, target: str) -> str:
    """The name of the column of a pair, in a table with all pairs."""
    return f"{target}__{source}"


def stored(pairs: list[tuple[str, str]]) -> pa.Table:
    """A row for a table with a column for each pair."""
    return pa.table({"id": [1], **{column(*pair): TARGETS[pair[1]] for pair in pairs}})


def data(pairs: list[tuple[str, str]], key: int = 2) -> pa.Table:
    """A row of data for that table."""
    return pa.table({"id": [key], **{column(*pair): SOURCES[pair[0]] for pair in pairs}})


def expected(pairs: list[tuple[str, str]]) -> tuple[pa.Schema, list[Any]]:
    """The columns of the table after the row of `data` was written, and the values of that row."""
    kinds = pa.schema([("id", pa.int64()), *((column(*pair), ACCEPTED[pair]) for pair in pairs)])
    return kinds, [2, *(_plain(SOURCES[source][0]) for source, _ in pairs)]


def found(rows: pa.Table, pairs: list[tuple[str, str]]) -> tuple[pa.Schema, list[Any]]:
    """What a scan of the table has, to compare with `expected`."""
    chosen = rows.select(["id", *(column(*pair) for pair in pairs)])
    row = chosen.filter(pa.compute.equal(chosen["id"], 2))
    return chosen.schema, [_plain(row.column(name)[0]) for name in chosen.schema.names]


def _plain(value: pa.Scalar) -> Any:
    """A value of which only the value counts: moments in UTC, without the nanoseconds that are zero."""
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.timestamp("us", value.type.tz)).cast(pa.int64()).as_py()
    if pa.types.is_date(value.type):
        return value.cast(pa.date32()).as_py()
    return value.as_py()
