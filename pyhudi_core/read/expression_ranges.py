"""Ranges from expression indexes: of ``lower(city)``, ``year(at)``, ``from_unixtime(ts, 'yyyy-MM-dd')`` and similar calls, by file.

Specification, "Expression Index". A Spark session computed the values in its own time zone, which is not recorded. Conditions are in UTC here; the
same call in another zone would have another value. So the ranges of functions that depend on the zone are widened by a day, which is correct for
every zone, unless the option ``pyhudi.expression.index.timezone`` says that the writers' sessions are in UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.metadata_table.expression_index import DEFAULT_FORMAT, JAVA_FORMAT, strftime_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.predicates import ColumnStats
from pyhudi_core.predicates.arrow import type_of
from pyhudi_core.predicates.tree import ColumnName, FunctionCall, Literal, text_of

_DAY = dt.timedelta(days=1)
# The longest time that one text describes, by the number of its parts.
_LASTS = tuple(dt.timedelta(days=n) for n in (366, 31, 1, 1, 1, 1))
# Values at least a day away from the restart of this part of a date.
_WITHIN = {"month": (2, 11), "day": (2, 27)}


@dataclass(frozen=True, slots=True)
class IndexedCall:
    """A call in a condition, and the index that has its values.

    Attributes:
        index: the partition of the metadata table.
        column: the call's column.
        name: the value's name in the condition; for an identity the column's name.
        kind: the value's type.
        shift: the function whose values depend on an unknown time zone, with the format of its texts; None if they do not.
    """

    index: str
    column: str
    name: str
    kind: pa.DataType
    shift: tuple[str, str] | None

    def known(self, stats: ColumnStats) -> ColumnStats | None:
        """Return the statistics that are valid in UTC; None if there are none."""
        if self.shift is None or stats.min is None or stats.max is None:
            return stats
        function, form = self.shift
        if function == "year":
            return replace(stats, min=stats.min - 1, max=stats.max + 1)
        if function in _WITHIN:
            low, high = _WITHIN[function]
            inside = low <= stats.min and stats.max <= high
            return replace(stats, min=stats.min - 1, max=stats.max + 1) if inside else None
        if function == "from_unixtime":
            return _widened(stats, form)
        return None


def indexed_calls(
    calls: Iterable[FunctionCall],
    columns: frozenset[str],
    definitions: Iterable[IndexDefinition],
    schema: pa.Schema,
    *,
    utc: bool,
) -> Iterator[IndexedCall]:
    """Return the indexes that can be used for a condition with these calls and columns."""
    for item in definitions:
        if not item.is_expression or item.kind != "column_stats" or item.column not in schema.names:
            continue
        if item.function == "identity" and item.column in columns:
            yield IndexedCall(item.name, item.column, item.column, schema.field(item.column).type, None)
        for call in calls:
            if _is(call, item):
                shift = None if utc or not _depends_on_zone(call) else (call.function, _format(call))
                yield IndexedCall(item.name, item.column, text_of(call), type_of(call), shift)


def _is(call: FunctionCall, item: IndexDefinition) -> bool:
    column = call.args[0]
    if call.function != item.function or not isinstance(column, ColumnName) or column.path != (item.column,):
        return False
    if call.function != "from_unixtime":
        return len(call.args) == 1
    return _format(call) == strftime_of(item.options.get("format", DEFAULT_FORMAT))


def _depends_on_zone(call: FunctionCall) -> bool:
    kind = type_of(call.args[0])
    return call.function == "from_unixtime" or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _format(call: FunctionCall) -> str:
    given = call.args[1] if len(call.args) > 1 else None
    return str(given.value) if isinstance(given, Literal) else ""


def _widened(stats: ColumnStats, form: str) -> ColumnStats | None:
    """Widen texts of times by a day; None for formats whose texts do not sort like the times."""
    parts = [ours for _, ours in JAVA_FORMAT if ours in form]
    if sorted(parts, key=form.index) != parts or parts != [ours for _, ours in JAVA_FORMAT][: len(parts)]:
        return None
    try:
        low = dt.datetime.strptime(stats.min, form) - _DAY  # noqa: DTZ007  (the zone is unknown)
        last = dt.datetime.strptime(stats.max, form) + _LASTS[len(parts) - 1]  # noqa: DTZ007
    except (ValueError, OverflowError):
        return None
    high = last + _DAY - dt.timedelta(seconds=1)
    if low.year < 1000 or high.year > 9998:
        return None
    return ColumnStats(low.strftime(form), high.strftime(form), stats.null_count, stats.rows)
