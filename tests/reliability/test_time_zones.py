"""Timelines in local time: their times, and the effects of a writer in another time zone and of clock changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from reliability.clocks import assert_in_order, foreign_commit, ms, table_at
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import orders, rows

from pyhudi_core.errors import ClockSkewError
from pyhudi_core.model.instant import time_after
from pyhudi_core.table import HudiTable


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the zone of this process."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


def local_table(location: str, clock: StandingClock) -> HudiTable:
    options = {"hoodie.table.timeline.timezone": "LOCAL"}
    return make_at(home_at(location, runtime_with(clock=clock), options))


def test_local_timezone_timeline_read(location: str, zone: Any) -> None:
    """A timeline in the writers' own zone (Hudi's default) shows their wall clock, and is asked with it."""
    zone("Asia/Kolkata")
    clock = StandingClock(ms("2026-03-01T00:00:00"))
    table = local_table(location, clock)
    first = table.upsert(orders((1, "a", 1.0)))
    assert first.instant.startswith("20260301053000"), "five hours and a half ahead of UTC"
    clock.time_ms += 60_000
    table.upsert(orders((1, "a", 2.0)))
    points: list[Any] = [
        "20260301053030",
        "2026-03-01T05:30:30+05:30",
        datetime(2026, 3, 1, 5, 30, 30).astimezone(),
        datetime(2026, 3, 1, 0, 0, 30, tzinfo=UTC),
    ]
    for point in points:
        assert rows(table.scan(as_of=point), "price") == [(1.0,)]
        assert rows(table.incremental(after=point), "price") == [(2.0,)]
    zone("UTC")
    assert rows(table.scan(as_of=first.completion_time), "price") == [(1.0,)], "digits are compared as they stand there"
    assert rows(table, "price") == [(2.0,)]


def test_a_timeline_in_utc_does_not_depend_on_the_zone(location: str, zone: Any) -> None:
    clock = StandingClock(ms("2026-03-01T00:00:00"))
    zone("Pacific/Auckland")
    table = make_at(home_at(location, runtime_with(clock=clock)))
    assert table.upsert(orders((1, "a", 1.0))).instant.startswith("20260301000000")
    zone("America/Los_Angeles")
    assert table_at(location, clock).upsert(orders((1, "a", 2.0))).instant.startswith("20260301000000")


@pytest.mark.row("R8")
def test_writer_in_wrong_timezone(location: str, zone: Any) -> None:
    """Among our own writers the times go on from the one that is ahead; beside Hudi's, the write is refused and the zone named."""
    clock = StandingClock(ms("2026-03-01T00:00:00"))
    zone("Asia/Kolkata")
    table = local_table(location, clock)
    first = table.upsert(orders((1, "a", 1.0)))
    zone("UTC")
    second = table_at(location, clock).upsert(orders((1, "a", 2.0)))
    assert first.completion_time < second.instant
    zone("America/Los_Angeles")
    third = table_at(location, clock).upsert(orders((1, "a", 3.0)))
    assert rows(table.incremental(after=first.completion_time, until=second.completion_time), "price") == [(2.0,)]
    assert rows(table.incremental(after=second.completion_time), "price") == [(3.0,)]
    assert_in_order(table)
    ahead = time_after(third.completion_time)
    foreign_commit(table, ahead, time_after(ahead))
    with pytest.raises(ClockSkewError, match="one time zone"):
        table_at(location, clock).upsert(orders((1, "a", 4.0)))


@pytest.mark.row("R8")
def test_dst_fold_in_local_timezone(location: str, zone: Any) -> None:
    """The hour that comes twice: no commit of its second half gets a time of the first half, or one before it."""
    zone("Europe/Berlin")
    # 00:30 UTC is 02:30 in summer; an hour later it is 02:30 again, in winter.
    clock = StandingClock(ms("2026-10-25T00:30:00"))
    table = local_table(location, clock)
    cursor, seen = "", []
    for price in range(12):
        commit = table_at(location, clock).upsert(orders((1, "a", float(price))))
        seen += rows(table.incremental(after=cursor or None), "price")
        cursor = commit.completion_time
        clock.time_ms += 600_000
    assert seen == [(float(price),) for price in range(12)]
    assert_in_order(table)
    assert table.timeline[0].requested_time.startswith("202610250230")
    assert table.timeline[-1].requested_time.startswith("202610250259") is False, "after the fold the clock leads again"
    assert table.timeline[-1].requested_time < "20261025033000000"


def test_the_hour_that_does_not_exist_in_local_timezone(location: str, zone: Any) -> None:
    zone("Europe/Berlin")
    clock = StandingClock(ms("2026-03-29T00:59:59.990"))
    table = local_table(location, clock)
    for price in range(4):
        table_at(location, clock).upsert(orders((1, "a", float(price))))
        clock.time_ms += 5
    assert_in_order(table)
    foreign_commit(table, "20260329023000000", "20260329023000001")
    assert rows(table, "price") == [(3.0,)], "a time that no clock ever showed is a time all the same"
