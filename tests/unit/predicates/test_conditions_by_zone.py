"""A condition on times means in its zone what DuckDB makes of it there, and no statistics skip a row of it."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.times import CONDITIONS, ROWS

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates import ColumnStats, Predicate
from pyhudi_core.predicates.local_times import LOCAL, MOMENT, local_times, moments

ZONES = ["UTC", "America/New_York", "Asia/Tokyo", "Asia/Kolkata"]
OFFSETS = {
    "UTC": ["UTC", "Z", "GMT", "+00:00", "Etc/UTC"],
    "+05:30": ["+5:30", "GMT+05:30", "UTC+0530", "+05:30:00"],
    "-03:00": ["-3", "UTC-03:00"],
}


def kept(rows: pa.Table, text: str, zone: str) -> list[int]:
    predicate = Predicate.of(text.format(moment="TIMESTAMP", local="TIMESTAMP_NTZ"), rows.schema, TimeZone.named(zone))
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
        found = connection.sql(
            f"SELECT id FROM frame WHERE {text.format(moment='TIMESTAMPTZ', local='TIMESTAMP')}"
        ).fetchall()
        ours, theirs = kept(ROWS, text, zone), sorted(number for (number,) in found)
        if ours != theirs:
            wrong[text] = (ours, theirs)
    assert not wrong


@pytest.mark.parametrize("zone", [*ZONES, "America/St_Johns", "-03:30"])
def test_the_statistics_of_a_row_never_exclude_it(zone: str) -> None:
    for text in CONDITIONS:
        predicate = Predicate.of(
            text.format(moment="TIMESTAMP", local="TIMESTAMP_NTZ"), ROWS.schema, TimeZone.named(zone)
        )
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
    assert kept(ROWS, "CAST(skipped AS TIMESTAMP) = ts", "America/New_York") == [2]


@pytest.mark.parametrize(
    "zone",
    ["America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "+05:45"],
)
def test_arrow_converts_times_of_all_years_as_the_rules_of_the_zone_say(zone: str) -> None:
    known, step = TimeZone.named(zone), dt.timedelta(days=40, hours=1, minutes=7)
    whole = [dt.datetime(1870, 1, 1, tzinfo=dt.UTC) + step * number for number in range(3000)]
    hours = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number / 2) for number in range(17520)]
    late = [dt.datetime(2190, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=997, hours=5) * number for number in range(2850)]
    times = [*whole, *hours, *late, *(dt.datetime(year, 2, 29, 12, tzinfo=dt.UTC) for year in (2036, 2040, 2436, 9996))]
    rows = pa.table({"id": pa.array(range(len(times))), "ts": pa.array(times, MOMENT)})
    local = [known.local(moment) for moment in times]
    back = [known.moment(moment.replace(tzinfo=None)) for moment in times]
    columns = {"local": pa.array(local, LOCAL), "back": pa.array(back, MOMENT), "plain": rows.column("ts").cast(LOCAL)}
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    assert rows.filter(local_times(pc.field("ts"), zone) != pc.field("local")).num_rows == 0
    assert rows.filter(moments(pc.field("plain"), zone) != pc.field("back")).num_rows == 0


def test_zones_have_the_names_of_spark_and_others_are_refused() -> None:
    for name, words in OFFSETS.items():
        assert {TimeZone.named(word).name for word in words} == {name}
    assert TimeZone.named("Etc/GMT") == UTC
    assert TimeZone.named("PST").name == "America/Los_Angeles"
    for word in ("", "Europe", "Nowhere/City", "+19:00", "../etc/passwd", "25"):
        with pytest.raises(InvalidOptionError, match="no time zone"):
            TimeZone.named(word)
