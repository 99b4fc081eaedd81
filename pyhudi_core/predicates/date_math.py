"""Days and times added to dates and times: ``date_add``, ``date_sub``, ``datediff``, ``day + INTERVAL 3 DAYS``, ``ts - INTERVAL '1' HOUR``.

An interval is one of weeks, days, hours, minutes and seconds, with a number. Months have no fixed length here. A day added to a moment (a time
with a zone) is 24 hours only where no clock is set, so the zone of the condition must be UTC for that.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.predicates.tree import FunctionCall, Literal

DAY = 86_400_000_000
"""Microseconds."""


def compute_date(call: FunctionCall, args: list[pc.Expression]) -> pc.Expression:
    """Return the Arrow expression of ``date_add``, ``datediff`` and ``shift``, whose arguments have the types that the binding gave them."""
    if call.function == "shift":
        amount = call.args[1]
        assert isinstance(amount, Literal), "the binding wrote the amount"
        micros = args[0].cast(pa.timestamp("us", call.type.tz)).cast(pa.int64())  # type: ignore[union-attr]
        return pc.add_checked(micros, pa.scalar(amount.value, pa.int64())).cast(call.type)
    days = args[0].cast(pa.int32()).cast(pa.int64())
    if call.function == "datediff":
        return pc.subtract_checked(days, args[1].cast(pa.int32()).cast(pa.int64()))
    return pc.add_checked(days, args[1].cast(pa.int64())).cast(pa.int32()).cast(pa.date32())
