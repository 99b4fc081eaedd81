"""Decide from statistics alone whether a file or a partition can hold a matching row.

The result is False only if no row can match. Unknown values, unexpected types and functions without a rule keep the file.

Statistics of floating-point columns are of little use: writers omit NaN from min and max, and NaN is greater than every number. So only
``<``, ``<=`` and ``=`` with a number use their bounds.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import type_of
from pyhudi_core.predicates.functions import ZONED, is_exact
from pyhudi_core.predicates.tree import (
    And,
    ColumnName,
    Compare,
    FunctionCall,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Or,
    text_of,
)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column of a file; None is unknown.

    Attributes:
        min, max: bounds of the values that are not null (NaN omitted), as Python values.
        null_count: number of nulls.
        rows: number of rows.
        truncated: ``min`` and ``max`` of texts or bytes may be truncated.
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None
    rows: int | None = None
    truncated: bool = False

    @property
    def all_null(self) -> bool:
        """Whether every row is known to be null."""
        return self.null_count is not None and self.rows is not None and self.null_count >= self.rows


UNKNOWN = ColumnStats()
_DAY = dt.timedelta(days=1)


def could_match(node: Node, stats: Mapping[str, ColumnStats]) -> bool:
    """Return False only if no row with these statistics makes a bound condition true."""
    if isinstance(node, And):
        return all(could_match(child, stats) for child in node.children)
    if isinstance(node, Or):
        return any(could_match(child, stats) for child in node.children)
    if isinstance(node, Literal):
        return bool(node.value)
    if isinstance(node, Compare):
        return _compare(node, stats)
    if isinstance(node, In):
        return _in(node, stats)
    if isinstance(node, Like):
        return _like(node, stats)
    if isinstance(node, IsNull):
        return _is_null(node, stats)
    return True


def partition_stats(
    fields: Sequence[str], values: Sequence[str | None] | None, schema: pa.Schema
) -> dict[str, ColumnStats]:
    """Return the statistics that a partition folder implies for its rows.

    Args:
        fields: partition columns.
        values: their texts from ``model.partition_path.parse_partition``; None if the folder does not show them.
        schema: the table's schema.
    """
    if values is None:
        return {}
    return {
        field: _partition_value(value, schema.field(field).type)
        for field, value in zip(fields, values, strict=True)
        if schema.get_field_index(field) >= 0
    }


def _partition_value(text: str | None, kind: pa.DataType) -> ColumnStats:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if text is None:
        # The default folder of a text column holds null, "" and even the folder's own name. The default folder of another column holds only nulls.
        return UNKNOWN if is_text else ColumnStats(None, None, 1, 1)
    if text == "default":
        # The name of the default partition before Hudi 0.12.
        return UNKNOWN
    value: Any = text if is_text else _typed(text, kind)
    return UNKNOWN if value is None else ColumnStats(value, value, 0, None)


def _typed(text: str, kind: pa.DataType) -> Any:
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_date(kind):
            return dt.date.fromisoformat(text)
        if pa.types.is_decimal(kind):
            return Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    return {"true": True, "false": False}.get(text) if pa.types.is_boolean(kind) else None


def _compare(node: Compare, stats: Mapping[str, ColumnStats]) -> bool:
    left, right = _bounds(node.left, stats), _bounds(node.right, stats)
    if left.all_null or right.all_null:
        return False
    op = node.op
    if pa.types.is_floating(type_of(node.left)) and not _ignores_nan(node):
        return True
    if op == "!=":
        return not (_is_one(left) and _is_one(right) and _known(left.min == right.min))
    # A truncated bound is not above the real bound: it is a valid minimum, but no valid maximum.
    if op in ("=", "<", "<="):
        low, high = left.min, _upper(right)
        if _known_less(high, low) or (op == "<" and not left.truncated and _known_equal(high, low)):
            return False
    if op in ("=", ">", ">="):
        low, high = right.min, _upper(left)
        if _known_less(high, low) or (op == ">" and _known_equal(high, low)):
            return False
    return True


def _ignores_nan(node: Compare) -> bool:
    number = node.right.value if isinstance(node.right, Literal) else math.nan
    return node.op in ("<", "<=", "=") and isinstance(number, float) and not math.isnan(number)


def _in(node: In, stats: Mapping[str, ColumnStats]) -> bool:
    bounds = _bounds(node.operand, stats)
    if bounds.all_null:
        return False
    values = [literal.value for literal in node.values]
    if node.negated and pa.types.is_floating(type_of(node.operand)):
        return True
    if node.negated:
        return not (_is_one(bounds) and any(_known_equal(bounds.min, value) for value in values))
    high = _upper(bounds)
    return not all(_known_less(value, bounds.min) or _known_less(high, value) for value in values)


def _like(node: Like, stats: Mapping[str, ColumnStats]) -> bool:
    bounds = _bounds(node.operand, stats)
    if bounds.all_null:
        return False
    prefix = literal_prefix(node.pattern)
    if node.negated or not prefix:
        return True
    low, high = bounds.min, _upper(bounds)
    above = isinstance(low, str) and low[: len(prefix)] > prefix
    below = isinstance(high, str) and high[: len(prefix)] < prefix
    return not (above or below)


def literal_prefix(pattern: str) -> str:
    """Return the text that every match of a LIKE pattern starts with."""
    prefix = ""
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        prefix += next(characters, "\\") if character == "\\" else character
    return prefix


def _is_null(node: IsNull, stats: Mapping[str, ColumnStats]) -> bool:
    if not isinstance(node.operand, ColumnName):
        return True
    found = stats.get(node.operand.name, UNKNOWN)
    return not found.all_null if node.negated else found.null_count != 0


def _bounds(node: Node, stats: Mapping[str, ColumnStats]) -> ColumnStats:
    if isinstance(node, Literal):
        return ColumnStats(node.value, node.value, 0, None)
    if isinstance(node, ColumnName):
        known = _usable(stats.get(node.name, UNKNOWN))
        if isinstance(known.min, int) and pa.types.is_floating(type_of(node)):
            # The file has whole numbers in this column; a read rounds them.
            return ColumnStats(None, None, known.null_count, known.rows)
        return known
    if not isinstance(node, FunctionCall):
        return UNKNOWN
    indexed = stats.get(text_of(node))
    if indexed is not None:
        return _usable(indexed)
    if len(node.args) != 1 and node.function not in ZONED:
        return UNKNOWN
    inner = _bounds(node.args[0], stats)
    if inner.all_null:
        return ColumnStats(None, None, inner.null_count, inner.rows)
    if node.function in ZONED:
        return _in_zone(node, inner)
    source = type_of(node.args[0])
    if node.function == "year" and isinstance(inner.min, dt.date) and isinstance(inner.max, dt.date):
        return ColumnStats(inner.min.year, inner.max.year, inner.null_count, inner.rows)
    if node.function == "cast" and _keeps_order(source, node.type):
        return ColumnStats(_cast(inner.min, node.type), _cast(inner.max, node.type), inner.null_count, inner.rows)
    return UNKNOWN


def _in_zone(node: FunctionCall, inner: ColumnStats) -> ColumnStats:
    """Return the bounds in the other kind of time. When clocks are set back, a later moment has a smaller local time, by at most a day."""
    zone = TimeZone(str(node.args[1].value)) if isinstance(node.args[1], Literal) else UTC
    convert = zone.local if node.function == "local_time" else zone.moment
    unknown = ColumnStats(None, None, inner.null_count, inner.rows)
    if not isinstance(inner.min, dt.datetime) or not isinstance(inner.max, dt.datetime):
        return unknown
    try:
        low, high = convert(inner.min) - _DAY, convert(inner.max) + _DAY
    except OverflowError:  # the time is at an end of the calendar
        return unknown
    return ColumnStats(low, high, inner.null_count, inner.rows)


def _usable(stats: ColumnStats) -> ColumnStats:
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (stats.min, stats.max)):
        return ColumnStats(None, None, stats.null_count, stats.rows)
    return stats


def _keeps_order(source: pa.DataType, target: pa.DataType) -> bool:
    test = pa.types
    numbers = all(test.is_integer(kind) or test.is_decimal(kind) for kind in (source, target)) and is_exact(
        source, target
    )
    dates = test.is_date(source) and test.is_timestamp(target)
    days = test.is_timestamp(source) and test.is_date(target)
    same_zone = test.is_timestamp(source) and test.is_timestamp(target) and (source.tz is None) == (target.tz is None)
    widened = test.is_floating(source) and test.is_float64(target)
    return bool(numbers or dates or days or same_zone or widened)


def _cast(bound: Any, target: pa.DataType) -> Any:
    if isinstance(bound, dt.datetime):
        return bound.date() if pa.types.is_date(target) else bound
    if isinstance(bound, dt.date) and pa.types.is_timestamp(target):
        return dt.datetime.combine(bound, dt.time(), dt.UTC if target.tz is not None else None)
    return bound


def _upper(bounds: ColumnStats) -> Any:
    return None if bounds.truncated else bounds.max


def _is_one(bounds: ColumnStats) -> bool:
    """Say whether all values that are not null are known to be equal."""
    return bounds.min is not None and not bounds.truncated and _known_equal(bounds.min, bounds.max)


def _known(answer: object) -> bool:
    return answer is True


def _known_less(left: Any, right: Any) -> bool:
    if left is None or right is None or isinstance(left, bool) != isinstance(right, bool):
        return False
    try:
        return _known(bool(left < right))
    except TypeError:
        return False


def _known_equal(left: Any, right: Any) -> bool:
    if left is None or right is None or isinstance(left, bool) != isinstance(right, bool):
        return False
    return _known(bool(left == right))
