"""Statistics of the metadata table as values of a column's type, if both mean the same.

Avro has fewer types than a table, and releases write the same column with different types. A value whose meaning is uncertain becomes None.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.metadata_table.reader import ColumnRangeOfFile
from pyhudi_core.model.java_numbers import highest_widened, lowest_widened
from pyhudi_core.model.java_order import sorts_as_in_java
from pyhudi_core.predicates import ColumnStats

_CUT_OFF_BYTES = 64
_MOST_SCALE = 15
"""Digits behind the point that the metadata table's decimals have."""
_MAYBE_MILLISECONDS = 260_000_000_000_000
"""The maximum of statistics that may be in milliseconds.

Columns of milliseconds have statistics in milliseconds, but the records do not say so. Up to the year 10000 they are below this number, which is
eight years in microseconds. So timestamps from 1961 to 1978 are ambiguous.
"""


def typed_stats(item: ColumnRangeOfFile, kind: pa.DataType, rows: int) -> ColumnStats | None:
    """Return statistics with values of the column's type ``kind``, for this number of rows (0: unknown); None if they cannot be used."""
    if rows and item.nulls is not None and item.nulls >= rows:
        # For a column with only nulls, writers store arbitrary bounds.
        return ColumnStats(None, None, item.nulls, rows)
    low, high = _typed(item.min, kind), _typed(item.max, kind)
    if low is None or high is None:
        return None
    if any(isinstance(bound, str) and not sorts_as_in_java(bound) for bound in (low, high)):
        return None
    # Some writers truncate long texts, here and in Parquet's statistics, but never to fewer bytes than this.
    cut_off = isinstance(high, str) and len(high.encode()) >= _CUT_OFF_BYTES
    return ColumnStats(low, high, item.nulls, rows or None, truncated=cut_off)


def trusted_stats(item: ColumnRangeOfFile, kind: pa.DataType) -> ColumnStats | None:
    """Return the statistics that are valid even if Parquet had none.

    Hudi's writers record texts and bytes that are too long as null, so these cannot be distinguished from nulls. If floating-point values
    contain NaN, they record the bounds 0 and 0.
    """
    stats = typed_stats(item, kind, item.rows)
    if stats is None or (item.nulls and kind in (pa.string(), pa.binary())):
        return None
    return _real(item, stats) if pa.types.is_floating(kind) else stats


def _real(item: ColumnRangeOfFile, stats: ColumnStats) -> ColumnStats:
    """Return the reliable bounds of floating-point values.

    A file with NaN is recorded as 0 to 0, which cannot be seen in the bounds of its partition. Bounds may also come from a file that is older than a
    widening of its column.
    """
    if not item.file or stats.min == stats.max == 0 or stats.max == math.inf:
        return replace(stats, min=None, max=None)
    return replace(stats, min=lowest_widened(stats.min), max=highest_widened(stats.max))


def _typed(value: object, kind: pa.DataType) -> Any:
    """Convert a value of the metadata table to the column's type; None if it cannot be."""
    types = pa.types
    if value is None:
        return None
    if types.is_timestamp(kind):
        if isinstance(value, dt.datetime):
            return value if (value.tzinfo is None) == (kind.tz is None) else None
        return _moment(value, pa.int64(), kind) if type(value) is int and abs(value) >= _MAYBE_MILLISECONDS else None
    if types.is_date32(kind) and type(value) is int:
        return _moment(value, pa.int32(), kind)
    fits = (
        (types.is_boolean(kind) and isinstance(value, bool))
        or (types.is_integer(kind) and type(value) is int)
        or (types.is_floating(kind) and isinstance(value, float) and not math.isnan(value))
        or (types.is_string(kind) and isinstance(value, str))
        or (types.is_date32(kind) and type(value) is dt.date)
        or (types.is_decimal(kind) and isinstance(value, Decimal) and kind.scale <= _MOST_SCALE)
    )
    return value if fits else None


def _moment(value: int, number: pa.DataType, kind: pa.DataType) -> Any:
    """Convert a number of days or of microseconds to a date or timestamp; None if it is out of Python's range."""
    try:
        return pa.scalar(value, number).cast(kind).as_py()
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return None
