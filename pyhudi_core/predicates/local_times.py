"""The way between moments and local times as Arrow expressions, with the rules of `model.time_zone`.

Arrow knows no changes of clocks after 2037. So later years are computed in an earlier year with the same calendar: the rules of a zone name days of
a week in a month.
"""

from __future__ import annotations

import datetime as dt
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_FAR = 2037


def local_times(moments: pc.Expression, zone: str) -> pc.Expression:
    """Return the local times (type `LOCAL`) of moments."""
    ticks = moments.cast(MOMENT).cast(pa.int64())
    near = _in_known_years(ticks)
    return pc.add(_local_ticks(near, zone), pc.subtract(ticks, near)).cast(LOCAL)


def moments(local: pc.Expression, zone: str) -> pc.Expression:
    """Return the moments (type `MOMENT`) of local times."""
    ticks = local.cast(LOCAL).cast(pa.int64())
    near = _in_known_years(ticks)
    # For a time that the clocks skip this is the last moment before it, so the offset is the one before the change.
    found = pc.assume_timezone(near.cast(LOCAL), timezone=zone, ambiguous="earliest", nonexistent="earliest")
    found = found.cast(pa.int64())
    return pc.subtract(ticks, pc.subtract(_local_ticks(found, zone), found)).cast(MOMENT)


def _local_ticks(ticks: pc.Expression, zone: str) -> pc.Expression:
    return pc.local_timestamp(ticks.cast(pa.timestamp("us", zone))).cast(pa.int64())


def _in_known_years(ticks: pc.Expression) -> pc.Expression:
    """Return times of later years in a year with the same calendar, other times as they are."""
    january = pc.floor_temporal(ticks.cast(LOCAL), unit="year")
    kind = pc.add(pc.day_of_week(january), pc.multiply(pc.is_leap_year(january).cast(pa.int64()), 7))
    moved = pc.add(pc.subtract(ticks, january.cast(pa.int64())), pc.choose(kind, *_years_by_calendar()))
    return pc.if_else(pc.greater_equal(ticks, _ticks(_FAR)), moved, ticks)


@cache
def _years_by_calendar() -> list[int]:
    """The first moments of 14 years: by the day of the week on which a year begins, and then the same for leap years."""
    years = {dt.date(y, 1, 1).weekday() + 7 * (y % 4 == 0): _ticks(y) for y in range(_FAR - 28, _FAR)}
    return [years[kind] for kind in range(14)]


def _ticks(year: int) -> int:
    return int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
