"""A condition on times means in its zone what DuckDB makes of it there, and no statistics skip a row of it."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates import ColumnStats, Predicate
from pyhudi_core.predicates.local_times import LOCAL, MOMENT, local_times, moments

ZONES = ["UTC", "America/New_York", "Asia/Tokyo", "Asia/Kolkata"]
# The clocks of New York change at 7:00 on 8 March and at 6:00 on 1 November; those of St John's went back over midnight in 2009.
_AROUND = ["2026-03-08 06:30", "2026-03-08 07:00", "2026-03-08 07:30", "2026-11-01 05:30", "2026-11-01 06:00", "2026-11-01 06:30", "2009-11-01 02:30",
           "2009-11-01 02:31", "2026-06-01 12:00", "2026-05-31 15:00", "2026-01-01 04:59", "2025-12-31 18:30", "1969-12-31 23:59", "2040-07-01 12:00"]  # fmt: skip
MOMENTS = [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in _AROUND]
ROWS = pa.table(
    {
        "id": pa.array(range(len(MOMENTS) + 1)),
        "ts": pa.array([*MOMENTS, None], MOMENT),
        "day": pa.array([*[moment.date() for moment in MOMENTS], None]),
        "plain": pa.array([*[moment.replace(tzinfo=None) for moment in MOMENTS], None], LOCAL),
    }
)
CONDITIONS = [
    "ts = '2026-06-01 08:00:00'", "ts = TIMESTAMPTZ '2026-06-01 21:00:00'", "ts > '2026-03-08'", "ts < '2026-03-08 03:30:00'", "'2026-01-01' > ts",
    "ts BETWEEN '2026-03-08 03:00:00' AND '2026-11-01 02:00:00'", "ts NOT BETWEEN '2026-01-01' AND '2027-01-01'", "ts <> '2026-06-01 17:30:00'",
    "ts IN ('2026-06-01', '2026-01-01 10:29:00', '2025-12-31 13:30:00')", "ts NOT IN ('2026-06-01 12:00:00')", "ts = '2026-06-01 12:00:00+00:00'",
    "hour(ts) = 8", "hour(ts) IN (1, 2, 3)", "minute(ts) = 30", "year(ts) = 2026", "year(ts) < 2026", "month(ts) = 12", "day(ts) = 1", "CAST(ts AS DATE) = '2026-06-01'",
    "CAST(ts AS DATE) >= '2026-11-01'", "CAST(ts AS DATE) = day", "ts > day", "CAST(day AS TIMESTAMPTZ) < ts", "CAST(plain AS TIMESTAMPTZ) = ts",
    "CAST(ts AS {local}) = plain", "coalesce(ts, '2026-06-01') = '2026-06-01'", "NOT (ts > '2026-06-01 12:00:00' OR hour(ts) = 1)", "hour(plain) = 12",
    "plain > '2026-03-08 07:00:00'", "day = '2026-06-01'", "CAST(TIMESTAMPTZ '2026-06-01 23:00:00+00:00' AS DATE) = day", "ts >= '2040-07-01 08:00:00'",
]  # fmt: skip


OFFSETS = {
    "UTC": ["UTC", "Z", "GMT", "+00:00", "Etc/UTC"],
    "+05:30": ["+5:30", "GMT+05:30", "UTC+0530", "+05:30:00"],
    "-03:00": ["-3", "UTC-03:00"],
}


def kept(rows: pa.Table, text: str, zone: str) -> list[int]:
    predicate = Predicate.of(text.replace("{local}", "TIMESTAMP_NTZ"), rows.schema, TimeZone.named(zone))
    assert predicate is not None
    found: list[int] = rows.filter(predicate.expression).column("id").to_pylist()
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_a_condition_keeps_the_rows_that_duckdb_keeps_in_the_zone(zone: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone='{zone}'")
    connection.register("frame", ROWS)
    wrong = {}
    for text in CONDITIONS:
        found = connection.sql(f"SELECT id FROM frame WHERE {text.replace('{local}', 'TIMESTAMP')}").fetchall()
        ours, theirs = kept(ROWS, text, zone), sorted(number for (number,) in found)
        if ours != theirs:
            wrong[text] = (ours, theirs)
    assert not wrong


@pytest.mark.parametrize("zone", [*ZONES, "America/St_Johns", "-03:30"])
def test_the_statistics_of_a_row_never_exclude_it(zone: str) -> None:
    for text in CONDITIONS:
        predicate = Predicate.of(text.replace("{local}", "TIMESTAMP_NTZ"), ROWS.schema, TimeZone.named(zone))
        assert predicate is not None
        for number in kept(ROWS, text, zone):
            row = ROWS.slice(number, 1).to_pylist()[0]
            stats = {name: ColumnStats(value, value, int(value is None), 1) for name, value in row.items()}
            assert predicate.could_match(stats), (text, row)


@pytest.mark.parametrize(
    "text",
    [
        "CAST(ts AS DATE) = '2026-06-05'",
        "year(ts) = 2025",
        "ts > '2026-06-03'",
        "CAST(day AS TIMESTAMP) > '2026-06-03'",
    ],
)
def test_statistics_of_other_days_exclude_a_file_in_every_zone(text: str) -> None:
    first, last = dt.datetime(2026, 6, 1, tzinfo=dt.UTC), dt.datetime(2026, 6, 1, 23, tzinfo=dt.UTC)
    stats = {"ts": ColumnStats(first, last, 0, 5), "day": ColumnStats(first.date(), last.date(), 0, 5)}
    for zone in ZONES:
        predicate = Predicate.of(text, ROWS.schema, TimeZone.named(zone))
        assert predicate is not None
        assert not predicate.could_match(stats), zone


def test_a_time_that_the_clocks_repeat_is_the_earlier_one_and_one_that_they_skip_is_moved_on() -> None:
    assert kept(ROWS, "ts = '2026-11-01 01:30:00'", "America/New_York") == [3]
    assert kept(ROWS, "ts = '2026-03-08 02:30:00'", "America/New_York") == [2]
    skipped = ROWS.set_column(3, "plain", pa.array([dt.datetime(2026, 3, 8, 2, 30)] * len(ROWS), LOCAL))
    assert kept(skipped, "CAST(plain AS TIMESTAMP) = ts", "America/New_York") == [2]


@pytest.mark.parametrize(
    "zone",
    ["America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "+05:45"],
)
def test_arrow_converts_times_of_all_years_as_the_rules_of_the_zone_say(zone: str) -> None:
    known, step = TimeZone.named(zone), dt.timedelta(days=40, hours=1, minutes=7)
    whole = [dt.datetime(1870, 1, 1, tzinfo=dt.UTC) + step * number for number in range(3000)]
    hours = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number / 2) for number in range(17520)]
    rows = pa.table({"id": pa.array(range(len(whole + hours))), "ts": pa.array(whole + hours, MOMENT)})
    local = [known.local(moment) for moment in whole + hours]
    back = [known.moment(moment.replace(tzinfo=None)) for moment in whole + hours]
    columns = {"local": pa.array(local, LOCAL), "back": pa.array(back, MOMENT), "plain": rows.column("ts").cast(LOCAL)}
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    assert rows.filter(local_times(pc.field("ts"), zone) != pc.field("local")).num_rows == 0
    assert rows.filter(moments(pc.field("plain"), zone) != pc.field("back")).num_rows == 0


def test_zones_have_the_names_of_spark_and_others_are_refused() -> None:
    for name, words in OFFSETS.items():
        assert {TimeZone.named(word).name for word in words} == {name}
    assert TimeZone.named("Etc/GMT") == UTC
    for word in ("", "Europe", "Nowhere/City", "+19:00", "../etc/passwd", "25"):
        with pytest.raises(InvalidOptionError, match="no time zone"):
            TimeZone.named(word)
