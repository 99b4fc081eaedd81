"""Statistics of the metadata table as values of a column's type, where both mean the same.

Avro has fewer types than a table has, and release by release other ones for the same column; what cannot be told for sure says nothing.
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
"""Columns of milliseconds have statistics in milliseconds, and nothing here says so. Up to the year 10000 they are below this number, which is
eight years in microseconds: moments from 1961 to 1978 cannot be told from them.
"""


def typed_stats(item: ColumnRangeOfFile, kind: pa.DataType, rows: int) -> ColumnStats | None:
    """Statistics with values of the column's type ``kind``, of so many rows (0: nobody counted them); None if they are of no use."""
    if rows and item.nulls is not None and item.nulls >= rows:
        # Bounds of columns that are all null are made up.
        return ColumnStats(None, None, item.nulls, rows)
    low, high = _typed(item.min, kind), _typed(item.max, kind)
    if low is None or high is None:
        return None
    if any(isinstance(bound, str) and not sorts_as_in_java(bound) for bound in (low, high)):
        return None
    # Some writers cut long texts off, here as in Parquet's statistics; never shorter ones than this.
    cut_off = isinstance(high, str) and len(high.encode()) >= _CUT_OFF_BYTES
    return ColumnStats(low, high, item.nulls, rows or None, truncated=cut_off)


def trusted_stats(item: ColumnRangeOfFile, kind: pa.DataType) -> ColumnStats | None:
    """Statistics of a column that hold also where Parquet had none: of texts and bytes that are too long Hudi's writers say that they are null, which
    cannot be told from nulls, and of real numbers with NaN among them that they are 0.
    """
    stats = typed_stats(item, kind, item.rows)
    if stats is None or (item.nulls and kind in (pa.string(), pa.binary())):
        return None
    return _real(item, stats) if pa.types.is_floating(kind) else stats


def _real(item: ColumnRangeOfFile, stats: ColumnStats) -> ColumnStats:
    """What can be told of real numbers: that of a file is 0 to 0 where there is NaN in it, which does not show in what is said of its partition; and
    bounds may be those of a file from before its column was widened.
    """
    if not item.file or stats.min == stats.max == 0:
        return replace(stats, min=None, max=None)
    return replace(stats, min=lowest_widened(stats.min), max=highest_widened(stats.max))


def _typed(value: object, kind: pa.DataType) -> Any:
    """A value of the metadata table as one of the column's type; None if it cannot be."""
    types = pa.types
    if value is None:
        return None
    if types.is_timestamp(kind):
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
    """A number of days or of microseconds as a date or a moment; None beyond what Python knows."""
    try:
        return pa.scalar(value, number).cast(kind).as_py()
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return None
