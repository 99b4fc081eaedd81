"""Convert between moments and local times by Arrow expressions, with the rules of `model.time_zone`.

Arrow knows no clock changes after 2037. So a later year is computed as an earlier year with the same calendar: the rules of a zone refer to days of
the week in a month. (Morocco and Gaza, whose clocks follow Ramadan until 2086, are computed as in the earlier year.)
"""

from __future__ import annotations

import datetime as dt
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_DAY = 24 * 3600 * 1_000_000
_FAR, _FIRST = 2037, 2036
_CYCLE = 146_097 * _DAY
"""400 years: then the calendar repeats, including the days of the week. The first cycle begins in March of the year ``_FIRST``."""


def local_times(moments: pc.Expression, zone: str) -> pc.Expression:
    """Return the local times (type `LOCAL`) of moments."""
    ticks = moments.cast(MOMENT).cast(pa.int64())
    near = _in_known_years(ticks)
    return pc.add(_local_ticks(near, zone), pc.subtract(ticks, near)).cast(LOCAL)


def moments(local: pc.Expression, zone: str) -> pc.Expression:
    """Return the moments (type `MOMENT`) of local times."""
    ticks = local.cast(LOCAL).cast(pa.int64())
    near = _in_known_years(ticks)
    # If the clocks skip the time, the result is the last moment before the skip, so the offset is the offset before the change.
    found = pc.assume_timezone(near.cast(LOCAL), timezone=zone, ambiguous="earliest", nonexistent="earliest")
    found = found.cast(pa.int64())
    return pc.subtract(ticks, pc.subtract(_local_ticks(found, zone), found)).cast(MOMENT)


def _local_ticks(ticks: pc.Expression, zone: str) -> pc.Expression:
    return pc.local_timestamp(ticks.cast(pa.timestamp("us", zone))).cast(pa.int64())


def _in_known_years(ticks: pc.Expression) -> pc.Expression:
    """Move times of later years to a year with the same days of the week from March on. Other times do not change.

    Arrow computes repeated parts of the expression again for every row, so integers are used if they suffice.
    """
    cycles = pc.divide(pc.subtract(ticks, _ticks(_FIRST, 3)), _CYCLE)
    within = pc.subtract(ticks, pc.multiply(cycles, _CYCLE))
    # January and February have 59 days, and belong to the year before. The 29th of February of a leap year may be the first or the last day of the
    # year.
    year = pc.subtract(pc.year(pc.subtract(within, 59 * _DAY).cast(LOCAL)), _FIRST)
    moved = pc.subtract(within, pc.choose(pc.max_element_wise(year, 0), *_distances()))
    return pc.if_else(pc.greater_equal(ticks, _ticks(_FAR, 1)), moved, ticks)


@cache
def _distances() -> list[int]:
    """Return for each year of a cycle the time from the first of March of a known year to the first of March of the year. Both are on the same day of
    the week."""
    by_day = {dt.date(year, 3, 1).weekday(): _ticks(year, 3) for year in range(_FAR - 11, _FAR)}
    years = range(_FIRST, _FIRST + 401)
    return [_ticks(year, 3) - by_day[dt.date(year, 3, 1).weekday()] for year in years]


def _ticks(year: int, month: int) -> int:
    return int(dt.datetime(year, month, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
