"""A restore to a time of day: the commit that it means is the one that a read as of this time would see."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from click.testing import CliRunner
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.restores import now
from support.tables import WITHOUT_METADATA_TABLE, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import InvalidOptionError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def table_of_hours(location: str) -> tuple[hudi.HudiTable, list[str]]:
    """One commit an hour, from noon on; the requested times."""
    clock = StandingClock(round(NOON.timestamp() * 1000))
    made = home_at(location, runtime_with(clock=clock, writer=lambda: {"user": "ann"}), WITHOUT_METADATA_TABLE)
    table, times = make_at(made), []
    for hour in range(4):
        clock.time_ms = round((NOON + timedelta(hours=hour)).timestamp() * 1000)
        times.append(table.upsert(orders((1, "a", float(hour)), (10 + hour, "b", 1.0))).instant)
    return table, times


def half_past(hour: int) -> datetime:
    return NOON + timedelta(hours=hour, minutes=30)


TIMES: dict[str, Callable[[datetime], Any]] = {
    "a text in UTC": lambda at: f"{at:%Y-%m-%d %H:%M:%S}+00:00",
    "a text with T and Z": lambda at: f"{at:%Y-%m-%dT%H:%M:%S}Z",
    "a text of another zone": lambda at: str(at.astimezone(timezone(timedelta(hours=1)))),
    "a datetime": lambda at: at,
    "a datetime of another zone": lambda at: at.astimezone(timezone(timedelta(hours=-5))),
}


@pytest.mark.parametrize(("said", "hour"), zip(TIMES, (0, 1, 2, 3, 1), strict=True))
def test_a_time_means_the_commit_that_a_read_as_of_it_sees(location: str, said: str, hour: int) -> None:
    table, times = table_of_hours(location)
    point = TIMES[said](half_past(hour))
    wanted = rows(table.scan(["id", "day", "price"], as_of=point))
    plan = table.restore.plan(point)
    assert plan.to is not None
    assert (plan.to.requested_time, len(plan.commits)) == (times[hour], 3 - hour)
    table.restore(point)
    assert now(table) == wanted


def test_every_other_name_of_a_commit_means_the_same_commit(location: str) -> None:
    table, times = table_of_hours(location)
    second = table.timeline.commits[1]
    token = table.snapshot_token(second)
    for point in (second, times[1], second.completion_time, token, str(token)):
        plan = table.restore.plan(point)
        assert plan.to == second, point


@pytest.mark.parametrize(
    "point", ["2026-01-01 13:30:00", "2026-01-01", "20260101", datetime(2026, 1, 1, 13), date(2026, 1, 1)]
)
def test_a_time_without_a_zone_is_refused_and_the_hint_names_what_is_taken(location: str, point: Any) -> None:
    table, _ = table_of_hours(location)
    before = table.timeline.instants
    with pytest.raises(InvalidOptionError) as caught:
        table.restore(point)
    assert "digits" not in str(caught.value.hint)
    assert "+00:00" in str(caught.value.hint)
    assert table.timeline.instants == before


@pytest.mark.parametrize("point", ["20260101133000", "20260101133000000", "20260101120000001"])
def test_digits_that_name_no_commit_are_not_taken_for_a_time(location: str, point: str) -> None:
    table, _ = table_of_hours(location)
    with pytest.raises(InvalidOptionError, match="not on the timeline"):
        table.restore(point)


def test_a_time_before_every_commit_is_refused_with_the_oldest_one(location: str) -> None:
    table, times = table_of_hours(location)
    with pytest.raises(InvalidOptionError, match="had completed by") as caught:
        table.restore(NOON - timedelta(days=1))
    assert times[0] in str(caught.value.hint)
    with pytest.raises(InvalidOptionError, match="had completed by"):
        make(f"{location}_empty").restore(NOON)


def test_the_plan_says_which_commit_it_is_and_what_goes_for_good(location: str) -> None:
    _, times = table_of_hours(location)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["restore", location, "--to", "2026-01-01 14:30:00+01:00", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    said = run("--plan")
    assert f"Go back to the commit {times[1]}, completed 2026-01-01 13:00:00 UTC: undo 2 commits" in said
    assert "bytes for good" in said
    told = json.loads(run("--plan", "--json"))
    assert (told["to"], told["completed"]) == (times[1], "2026-01-01 13:00:00 UTC")
    assert [(one["instant"], one["operation"], one["user"]) for one in told["undone"]] == [
        (time, "UPSERT", "ann") for time in (times[3], times[2])
    ]
    assert [(one["inserted"], one["updated"], one["deleted"]) for one in told["undone"]] == [(1, 1, 0)] * 2
    assert f"the state of the commit {times[1]} is back" in run()
    assert f"no commit completed after {times[1]} (completed 2026-01-01 13:00:00 UTC)" in run("--plan")
