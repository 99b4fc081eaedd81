"""What expression indexes say about files: ranges of ``lower(city)``, ``year(at)``, ``from_unixtime(ts, 'yyyy-MM-dd')`` and the like.

Specification, "Expression Index". An index holds what a Spark session computed, in that session's time zone, which is recorded nowhere; conditions
here are computed in UTC. So the ranges of functions that depend on the zone are widened by a day, which holds for every zone, unless the
table was opened with the assurance that its writers' sessions are in UTC (``pyhudi.expression.index.timezone``).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.predicates import ColumnStats
from pyhudi_core.predicates.arrow import type_of
from pyhudi_core.predicates.tree import Call, Column, Literal, text_of

_JAVA_FORMAT = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))
_DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_DAY = dt.timedelta(days=1)
# How long the moments last that one text stands for, by the number of its parts, at most.
_LASTS = tuple(dt.timedelta(days=n) for n in (366, 31, 1, 1, 1, 1))
# Values that are a day or more away from where the part of a date starts anew.
_WITHIN = {"month": (2, 11), "day": (2, 27)}


@dataclass(frozen=True, slots=True)
class IndexedCall:
    """A call in a condition, and the index that knows its values.

    Attributes:
        index: the partition of the metadata table.
        column: the call's column.
        name: what the condition calls the value; the column's name for an identity.
        kind: the value's type.
        shift: the function whose values depend on a time zone nobody knows, with the format of its texts; None if they do not.
    """

    index: str
    column: str
    name: str
    kind: pa.DataType
    shift: tuple[str, str] | None

    def known(self, stats: ColumnStats) -> ColumnStats | None:
        """The statistics as they hold in UTC; None if they say nothing there."""
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
    calls: Iterable[Call],
    columns: frozenset[str],
    definitions: Iterable[IndexDefinition],
    schema: pa.Schema,
    *,
    utc: bool,
) -> Iterator[IndexedCall]:
    """The indexes that are of use for a condition with these calls and columns."""
    for item in definitions:
        if not item.is_expression or item.kind != "column_stats" or item.column not in schema.names:
            continue
        if item.function == "identity" and item.column in columns:
            yield IndexedCall(item.name, item.column, item.column, schema.field(item.column).type, None)
        for call in calls:
            if _is(call, item):
                shift = None if utc or not _depends_on_zone(call) else (call.function, _format(call))
                yield IndexedCall(item.name, item.column, text_of(call), type_of(call), shift)


def _is(call: Call, item: IndexDefinition) -> bool:
    column = call.args[0]
    if call.function != item.function or not isinstance(column, Column) or column.path != (item.column,):
        return False
    if call.function != "from_unixtime":
        return len(call.args) == 1
    return _format(call) == _strftime(item.options.get("format", _DEFAULT_FORMAT))


def _depends_on_zone(call: Call) -> bool:
    kind = type_of(call.args[0])
    return call.function == "from_unixtime" or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _format(call: Call) -> str:
    given = call.args[1] if len(call.args) > 1 else None
    return str(given.value) if isinstance(given, Literal) else ""


def _strftime(java: str) -> str:
    for part, ours in _JAVA_FORMAT:
        java = java.replace(part, ours)
    return java


def _widened(stats: ColumnStats, form: str) -> ColumnStats | None:
    """Texts of moments, a day further apart; None for formats whose texts do not sort as the moments do."""
    parts = [ours for _, ours in _JAVA_FORMAT if ours in form]
    if sorted(parts, key=form.index) != parts or parts != [ours for _, ours in _JAVA_FORMAT][: len(parts)]:
        return None
    try:
        low = dt.datetime.strptime(stats.min, form) - _DAY  # noqa: DTZ007  (the zone is what is not known)
        last = dt.datetime.strptime(stats.max, form) + _LASTS[len(parts) - 1]  # noqa: DTZ007
    except (ValueError, OverflowError):
        return None
    high = last + _DAY - dt.timedelta(seconds=1)
    if low.year < 1000 or high.year > 9998:
        return None
    return ColumnStats(low.strftime(form), high.strftime(form), stats.null_count, stats.rows)
