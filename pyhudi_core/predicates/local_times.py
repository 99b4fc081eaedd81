"""The way between moments and local times as Arrow expressions, with the rules of `model.time_zone`.

Arrow knows no changes of clocks after 2037. So later years are computed in an earlier year with the same calendar: the rules of a zone name days of
the week in a month. (Morocco and Gaza, whose clocks follow Ramadan until 2086, are computed as in the earlier year.)
"""

from __future__ import annotations

import datetime as dt
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_FAR, _DAY = 2037, 24 * 3600 * 1_000_000


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
    """Return times of later years in a year that has the same days of the week from March on, other times as they are."""
    january = pc.floor_temporal(pc.subtract(ticks, _until_march(ticks.cast(LOCAL))).cast(LOCAL), unit="year")
    march = pc.add(january.cast(pa.int64()), _until_march(january))
    moved = pc.add(pc.subtract(ticks, march), pc.choose(pc.day_of_week(march.cast(LOCAL)), *_marches()))
    return pc.if_else(pc.greater_equal(ticks, _ticks(_FAR, 1)), moved, ticks)


def _until_march(times: pc.Expression) -> pc.Expression:
    return pc.if_else(pc.is_leap_year(times), 60 * _DAY, 59 * _DAY)


@cache
def _marches() -> list[int]:
    """The first of March of the last known years, by the day of the week."""
    by_day = {dt.date(year, 3, 1).weekday(): _ticks(year, 3) for year in range(_FAR - 11, _FAR)}
    return [by_day[day] for day in range(7)]


def _ticks(year: int, month: int) -> int:
    return int(dt.datetime(year, month, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
