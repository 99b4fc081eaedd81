"""Days and times added to dates and times: ``date_add``, ``date_sub``, ``datediff``, ``day + INTERVAL 3 DAYS``, ``ts - INTERVAL '1' HOUR``.

An interval has weeks, days, hours, minutes and seconds, or years and months, with a number. A day is 24 hours only in a zone without clock
changes. So days and months can be added to a moment (a time with a zone) only if the zone of the condition is UTC. A month later is the same day, or
the last day of a shorter month: ``add_months(DATE '2024-01-31', 1)`` is the 29th of February.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.predicates.tree import FunctionCall, Literal

DAY = 86_400_000_000
"""The microseconds of a day."""


def compute_date(call: FunctionCall, args: list[pc.Expression]) -> pc.Expression:
    """Return the Arrow expression of ``date_add``, ``datediff`` and ``shift``. The binding has set the types of the arguments."""
    if call.function == "shift":
        amount = call.args[1]
        assert isinstance(amount, Literal), "the binding wrote the amount"
        micros = args[0].cast(pa.timestamp("us", call.type.tz)).cast(pa.int64())  # type: ignore[union-attr]
        return pc.add_checked(micros, pa.scalar(amount.value, pa.int64())).cast(call.type)
    days = args[0].cast(pa.int32()).cast(pa.int64())
    if call.function == "datediff":
        return pc.subtract_checked(days, args[1].cast(pa.int32()).cast(pa.int64()))
    return pc.add_checked(days, args[1].cast(pa.int64())).cast(pa.int32()).cast(pa.date32())


def plus_months(day: pc.Expression, months: pc.Expression) -> pc.Expression:
    """Return dates with a number of months added. Years must be from 0 to 9999."""
    whole = pa.int64()
    count = pc.add_checked(
        pc.add(pc.multiply(pc.year(day), pa.scalar(12, whole)), pc.subtract(pc.month(day), pa.scalar(1, whole))),
        months.cast(whole),
    )
    first, following = _first_day(count), _first_day(pc.add(count, pa.scalar(1, whole)))
    place = pc.min_element_wise(pc.day(day), pc.subtract(following, first), skip_nulls=False)
    return pc.subtract(pc.add(first, place), pa.scalar(1, whole)).cast(pa.int32()).cast(pa.date32())


def _first_day(months: pc.Expression) -> pc.Expression:
    """Return the first day of a month, as days since 1970. Months are counted from January of the year 0."""

    def number(value: int) -> pa.Scalar:
        return pa.scalar(value, pa.int64())

    # Here the year begins with March, so that the leap day is the last day of the year.
    since = pc.subtract(months, number(2))
    year = pc.divide(since, number(12))
    month = pc.subtract(since, pc.multiply(year, number(12)))
    days = pc.divide(pc.add(pc.multiply(month, number(153)), number(2)), number(5))
    leaps = pc.add(pc.subtract(pc.divide(year, number(4)), pc.divide(year, number(100))), pc.divide(year, number(400)))
    return pc.subtract(pc.add(pc.add(pc.multiply(year, number(365)), leaps), days), number(719468))
