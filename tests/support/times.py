"""Rows with times around changes of clocks, and conditions on them that mean other rows in other time zones.

In a condition ``{moment}`` and ``{local}`` are the types with and without a zone, which have other names in other engines.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

# The clocks of New York change at 7:00 on 8 March and at 6:00 on 1 November; those of St John's went back over midnight in 2009.
_AROUND = ["2026-03-08 06:30", "2026-03-08 07:00", "2026-03-08 07:30", "2026-11-01 05:30", "2026-11-01 06:00", "2026-11-01 06:30", "2009-11-01 02:30",
           "2009-11-01 02:31", "2026-06-01 12:00", "2026-05-31 15:00", "2026-01-01 04:59", "2025-12-31 18:30", "1969-12-31 23:59", "2040-07-01 12:00"]  # fmt: skip
MOMENTS = [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in _AROUND]
ROWS = pa.table(
    {
        "id": pa.array(range(len(MOMENTS) + 1)),
        "ts": pa.array([*MOMENTS, None], pa.timestamp("us", "UTC")),
        "day": pa.array([*[moment.date() for moment in MOMENTS], None]),
        "plain": pa.array([*[moment.replace(tzinfo=None) for moment in MOMENTS], None], pa.timestamp("us")),
        "skipped": pa.array([dt.datetime(2026, 3, 8, 2, 30)] * (len(MOMENTS) + 1), pa.timestamp("us")),
    }
)
CONDITIONS = [
    "ts = '2026-06-01 08:00:00'", "ts = {moment} '2026-06-01 21:00:00'", "ts > '2026-03-08'", "ts < '2026-03-08 03:30:00'", "'2026-01-01' > ts",
    "ts BETWEEN '2026-03-08 03:00:00' AND '2026-11-01 02:00:00'", "ts NOT BETWEEN '2026-01-01' AND '2027-01-01'", "ts <> '2026-06-01 17:30:00'",
    "ts IN ('2026-06-01', '2026-01-01 10:29:00', '2025-12-31 13:30:00')", "ts NOT IN ('2026-06-01 12:00:00')", "ts = '2026-06-01 12:00:00+00:00'",
    "hour(ts) = 8", "hour(ts) IN (1, 2, 3)", "minute(ts) = 30", "year(ts) = 2026", "year(ts) < 2026", "month(ts) = 12", "day(ts) = 1", "CAST(ts AS DATE) = '2026-06-01'",
    "CAST(ts AS DATE) >= '2026-11-01'", "CAST(ts AS DATE) = day", "ts > day", "CAST(day AS {moment}) < ts", "CAST(plain AS {moment}) = ts",
    "CAST(ts AS {local}) = plain", "coalesce(ts, '2026-06-01') = '2026-06-01'", "NOT (ts > '2026-06-01 12:00:00' OR hour(ts) = 1)", "hour(plain) = 12",
    "plain > '2026-03-08 07:00:00'", "day = '2026-06-01'", "CAST({moment} '2026-06-01 23:00:00+00:00' AS DATE) = day", "ts >= '2040-07-01 08:00:00'",
]  # fmt: skip

SKIPPED_AND_REPEATED = [
    "ts = '2026-03-08 02:30:00'", "ts = '2026-11-01 01:30:00'", "ts > '2026-11-01 01:00:00'", "ts IN ('2026-11-01 01:00:00', '2026-03-08 02:00:00')",
    "CAST(skipped AS {moment}) = ts", "ts BETWEEN '2026-03-08 02:00:00' AND '2026-03-08 03:00:00'", "ts = '2009-11-01 00:00:00'",
]  # fmt: skip
"""Conditions with times that the clocks of New York skip or repeat; engines other than Spark have other rules."""
