"""The tables of the suite: rows that are few and odd rather than many, and what each Hudi is known not to do with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .lake import Case, Row, Step


def _items(numbers: Iterable[int], version: int, **more: Any) -> list[Row]:
    """Rows of the plain schema."""
    return [
        {
            "id": f"k{number:03d}",
            "region": ("eu", "us", "asia")[number % 3],
            "ts": 100 * version + number % 7,
            "qty": None if number % 11 == 5 else number * version,
            "price": number / 8 + version,
            "label": None if number % 5 == 0 else f"label {number} v{version}",
        }
        | more
        for number in numbers
    ]


PLAIN = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("qty", pa.int32()),
        ("price", pa.float64()),
        ("label", pa.string()),
    ]
)

NON_PARTITIONED = Case(
    name="non_partitioned",
    schema=PLAIN,
    key=["id"],
    partition=[],
    ordering=None,
    steps=[
        Step("insert", _items(range(600), 1)),
        Step("upsert", _items([*range(30, 50), 650], 2)),
        Step("upsert", _items(range(5), 3, ts=1)),
        Step("delete", _items(range(7, 12), 1)),
    ],
    later=[Step("upsert", _items([0, 1, 60, 61], 4)), Step("delete", _items([2, 33], 4))],
    ours=[Step("upsert", _items([0, 60, 70], 5)), Step("delete", _items([3], 5))],
    options={"hoodie.parquet.block.size": "8192"},  # several row groups, which rewrites copy
)

PARTITIONED = Case(
    name="partitioned_event_time",
    schema=PLAIN,
    key=["id"],
    partition=["region"],
    ordering="ts",
    steps=[
        Step("bulk_insert", _items(range(60), 2)),
        Step("upsert", _items(range(50, 70), 3)),
        Step("upsert", _items(range(10), 1)),  # older ordering values: the stored rows win
        Step("delete", _items(range(12, 18), 2)),
        Step("insert_overwrite", _items(range(2, 30, 3), 4)),
        Step("upsert", _items([2, 5, 101], 5)),
        Step("delete_partitions", paths=["region=us"], partitions=[("us",)]),
        Step("upsert", _items([1, 4], 6)),
    ],
    later=[Step("upsert", _items([1, 2, 3, 200, 201, 202], 7)), Step("delete", _items([5, 8], 7))],
    ours=[Step("upsert", _items([1, 200, 300], 8)), Step("delete", _items([201], 8))],
)

_FLIGHTS = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("v", pa.int64()),
    ]
)


def _flights(numbers: Iterable[int], version: int) -> list[Row]:
    return [
        {
            "carrier": ("AA", "B6")[number % 2],
            "flight": number,
            "at": dt.datetime(2013, 1, 1, number % 24, tzinfo=UTC),
            "day": dt.date(2013, 1, 1 + number % 3),
            "v": version * 10 + number,
        }
        for number in numbers
    ]


COMPLEX = Case(
    name="complex_key",
    schema=_FLIGHTS,
    key=["carrier", "flight"],
    partition=["day"],
    ordering="v",
    steps=[
        Step("insert", _flights(range(20), 1)),
        Step("upsert", _flights(range(15, 25), 2)),
        Step("delete", _flights([3, 4], 1)),
    ],
    later=[Step("upsert", _flights([0, 30], 3)), Step("delete", _flights([5], 3))],
    ours=[Step("upsert", _flights([0, 30, 31], 4)), Step("delete", _flights([6], 4))],
)


CUSTOM_SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("day", pa.date32()), ("v", pa.int64())])


def _days(numbers: Iterable[int], version: int) -> list[Row]:
    return [
        {"id": f"k{number}", "region": ("eu", "us")[number % 2], "day": dt.date(2026, 1, 1 + number % 3), "v": version}
        for number in numbers
    ]


COMPLEX_SEVERAL = Case(
    name="complex_key_several_partitions",
    schema=CUSTOM_SCHEMA,
    key=["id", "v"],
    partition=["region", "day"],
    ordering=None,
    steps=[
        Step("insert", _days(range(24), 1)),
        Step("insert", _days(range(20, 30), 2)),
        Step("delete", _days([1, 2], 1)),
    ],
    later=[Step("upsert", _days([0, 40], 1)), Step("delete", _days([5], 1))],
    ours=[Step("upsert", _days([0, 41], 1)), Step("delete", _days([6], 1))],
)

CUSTOM = Case(
    name="several_partitions",
    schema=CUSTOM_SCHEMA,
    key=["id"],
    partition=["region", "day"],
    ordering="v",
    steps=[
        Step("insert", _days(range(24), 1)),
        Step("upsert", _days(range(20, 30), 2)),
        Step("delete", _days([1, 2], 1)),
    ],
    later=[Step("upsert", _days([0, 40], 3)), Step("delete", _days([5], 3))],
    ours=[Step("upsert", _days([0, 40, 41], 4)), Step("delete", _days([6], 4))],
)

RICH_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("big", pa.decimal128(38, 9)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("millis", pa.timestamp("ms", "UTC")),
        ("micros", pa.timestamp("us", "UTC")),
        ("numbers", pa.list_(pa.int32())),
        ("words", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("point", pa.struct([("x", pa.float64()), ("y", pa.float64()), ("name", pa.string())])),
        ("nested", pa.struct([("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.int32())])))])),
    ]
)


def _rich(numbers: Iterable[int], version: int) -> list[Row]:
    rows = []
    for number in numbers:
        row = _rich_row(number, version)
        if number % 4 == 3:
            row = {name: value if name in ("id", "part") else None for name, value in row.items()}
        rows.append(row)
    return rows


def _rich_row(number: int, version: int) -> Row:
    at = dt.datetime(2026, 2, 1 + number % 20, 3, 4, 5, 123456 + number, tzinfo=UTC)
    return {
        "id": number - 2,
        "part": f"p{number % 2}",
        "flag": number % 3 == 0,
        "tiny": number % 128 - 64,
        "short": -30_000 + number,
        "int": 2**31 - 1 - number,
        "long": -(2**63) + number,
        "single": [0.5, -0.0, float("inf"), 1.1754943508222875e-38][number % 4],
        "double": [0.1, float("nan"), float("-inf"), 5e-324][number % 4],
        "money": Decimal(f"{-number}.{version:02d}"),
        "big": Decimal("12345678901234567890123456789.123456789") + number,
        "text": ["", "ünï😀", "line\nbreak", 'a,"b"'][number % 4] + str(version),
        "bytes": bytes([0, 255, number % 256, version]),
        "day": dt.date(1969, 12, 30) + dt.timedelta(days=number),
        "millis": at.replace(microsecond=123000),
        "micros": at,
        "numbers": [[], [number, None, version], [1]][number % 3],
        "words": [["a", None], [], ["", "ü"]][number % 3],
        "counts": [[("a", 1), ("b", None)], [], [("", number)]][number % 3],
        "point": {"x": number / 3, "y": None, "name": f"n{version}"},
        "nested": {"tags": [{"k": "a", "v": number}, {"k": None, "v": None}]},
    }


RICH = Case(
    name="all_types",
    schema=RICH_SCHEMA,
    key=["id"],
    partition=["part"],
    ordering=None,
    steps=[
        Step("insert", _rich(range(24), 1)),
        Step("upsert", _rich(range(20, 30), 2)),
        Step("delete", _rich([1, 2], 1)),
    ],
    later=[Step("upsert", _rich([0, 7, 40, 41], 3)), Step("delete", _rich([5, 8], 3))],
    ours=[Step("upsert", _rich([0, 40, 50, 51], 4)), Step("delete", _rich([41], 4))],
)


def _walls(numbers: Iterable[int], version: int) -> list[Row]:
    at = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    return [
        {"id": n, "wall": None if n % 5 == 4 else at + dt.timedelta(hours=n, microseconds=version), "v": version}
        for n in numbers
    ]


WALL = Case(
    name="timestamps_without_zone",
    schema=pa.schema([("id", pa.int64()), ("wall", pa.timestamp("us")), ("v", pa.int32())]),
    key=["id"],
    partition=[],
    ordering="v",
    steps=[
        Step("insert", _walls(range(12), 1)),
        Step("upsert", _walls(range(8, 16), 2)),
        Step("delete", _walls([1], 1)),
    ],
    later=[Step("upsert", _walls([0, 20], 3)), Step("delete", _walls([5], 3))],
    ours=[Step("upsert", _walls([0, 20, 21], 4)), Step("delete", _walls([6], 4))],
)

_ODD = [
    "a/b",
    "x=y",
    "50% off",
    "s p",
    "ünï",
    "a:b",
    "q?",
    "#1",
    "{c}",
    "[d]",
    "it's",
    'say "hi"',
    "back\\slash",
    "star*",
    "eu",
    None,
]


def _odd(numbers: Iterable[int], version: int) -> list[Row]:
    return [{"id": f"k{number}", "place": _ODD[number % len(_ODD)], "v": version * 100 + number} for number in numbers]


ODD = Case(
    name="odd_partition_values",
    schema=pa.schema([("id", pa.string()), ("place", pa.string()), ("v", pa.int64())]),
    key=["id"],
    partition=["place"],
    ordering="v",
    steps=[Step("insert", _odd(range(32), 1)), Step("upsert", _odd(range(8, 20), 2)), Step("delete", _odd([0, 17], 1))],
    later=[Step("upsert", _odd([1, 2, 3, 31, 48, 49], 3)), Step("delete", _odd([4, 15], 3))],
    ours=[Step("upsert", _odd([1, 48, 64, 79], 4)), Step("delete", _odd([49], 4))],
)

_NARROW = pa.schema([("id", pa.string()), ("region", pa.string()), ("n", pa.int32()), ("f", pa.float32())])
_WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("note", pa.string()),
        ("extra", pa.list_(pa.int64())),
    ]
)


def _narrow(numbers: Iterable[int]) -> list[Row]:
    return [{"id": f"k{n}", "region": f"r{n % 2}", "n": n, "f": n / 4} for n in numbers]


def _wide(numbers: Iterable[int], version: int) -> list[Row]:
    return [row | {"n": 2**40 + version, "note": f"v{version}", "extra": [version, None]} for row in _narrow(numbers)]


EVOLVED = Case(
    name="evolved_schema",
    schema=_NARROW,
    key=["id"],
    partition=["region"],
    ordering=None,
    steps=[
        Step("insert", _narrow(range(20))),
        Step("upsert", _wide([1, 2, 3, 30, 31], 1), schema=_WIDE),
        Step("delete", _wide([5], 1)),
    ],
    later=[Step("upsert", _wide([1, 40, 41], 2)), Step("delete", _wide([7], 2))],
    ours=[Step("upsert", _wide([2, 40, 50], 3)), Step("delete", _wide([41], 3))],
)

MANY_FILES = Case(
    name="many_file_groups",
    schema=PLAIN,
    key=["id"],
    partition=["region"],
    ordering="ts",
    steps=[
        *[Step("insert", _items(range(start, start + 20), 1)) for start in range(0, 100, 20)],
        Step("upsert", _items(range(0, 100, 9), 2)),
        Step("insert_overwrite_table", _items(range(60), 3)),
        *[Step("insert", _items(range(start, start + 20), 4)) for start in (100, 120)],
        Step("upsert", _items(range(100, 140, 7), 5)),
    ],
    later=[Step("upsert", _items([1, 101, 500], 6)), Step("delete", _items([2, 103], 6))],
    ours=[Step("upsert", _items([1, 101, 500, 501], 7)), Step("delete", _items([104], 7))],
    options={"hoodie.parquet.small.file.limit": "0"},
)

CASES = [NON_PARTITIONED, PARTITIONED, COMPLEX, COMPLEX_SEVERAL, CUSTOM, RICH, WALL, ODD, EVOLVED, MANY_FILES]

BY_SPARK = [PARTITIONED, RICH, CUSTOM]

# What a release cannot do with any writer's table of that kind, Hudi's own included: it fails, and says this.
CANNOT_READ = {
    (
        "hudi-rs",
        CUSTOM.name,
    ): "declared in `hoodie.table.partition.fields` is not present",  # it does not know `field:TYPE`
    ("hudi-rs", WALL.name): "not yet implemented",  # it panics at Avro's local-timestamp-micros
}
CANNOT_WRITE = {
    (
        "1.0.2",
        WALL.name,
    ): "Failed to convert struct type to avro",  # it has no timestamp_ntz; it reads the micros as a long
}
