"""Rows of the tables with a bucket index."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.int64()), ("day", pa.string()), ("ts", pa.int64())])


def rows(first: int, last: int, ts: int, days: str = "ab") -> pa.Table:
    numbers = range(first, last)
    columns = (
        [f"k{n}" for n in numbers],
        [n % 7 for n in numbers],
        [days[n % len(days)] for n in numbers],
        [ts] * len(numbers),
    )
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)
