"""Wrong clocks and unusual times: no data is lost and the order does not change, or the write is refused with the reason (P10).

Within the bound, a write continues from the latest time on the timeline. Beyond it, a write continues only if all commits are from this package, which
chooses times above all known times. If the table has commits of a writer that trusts its clock, the write is refused.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reliability.clocks import HOUR_MS, assert_in_order, foreign_commit, ms, table_at
from reliability.counter_table import SCHEMA as COUNTER_SCHEMA
from reliability.counter_table import CounterWorld, increment
from reliability.service_runs import budget
from reliability.stories import SCHEMA as STORY_SCHEMA
from reliability.stories import batch, rows_of
from reliability.test_two_writers import nothing_is_lost
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import ClockSkewError, CorruptTimelineError
from pyhudi_core.model.instant import Instant, format_time, time_after
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, Profile, SimOptions, SimWorld, explore
from pyhudi_core.transaction import begin, heartbeat

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core", "reliability.test_two_writers"])


# --- skew


def skewed_world(skew_ms: int, lock_excludes: bool = True) -> CounterWorld:
    """Two writers of a counter in an object store; the clock of ``b`` is off."""
    sim = SimWorld(
        SimOptions(profile=Profile.S3, offsets_ms={"b": skew_ms}, lock_excludes=lock_excludes, one_machine=True)
    )
    home = OpenedTable(sim.storage, sim.runtime, {"hoodie.time.generator.max_expected_clock_skew_ms": 1}, sim.lock)
    create_at(home, COUNTER_SCHEMA, "id", name="counter")
    return CounterWorld(sim, home)


@pytest.mark.one_in(2)
@pytest.mark.row("R8")
@pytest.mark.parametrize("skew_ms", [150, -150])
def test_skew_within_bound(skew_ms: int) -> None:
    """Every order of two writers whose clocks differ by less than the bound."""

    def world() -> CounterWorld:
        return skewed_world(skew_ms)

    report = explore(world, [increment, increment], nothing_is_lost, Bounds(preemptions=1))
    assert report.assert_clean().exhausted


@pytest.mark.one_in(3)
@pytest.mark.row("R8", "O9")
@pytest.mark.parametrize("skew_ms", [HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("lock_excludes", [True, False], ids=["lock", "no_lock"])
def test_skew_beyond_bound_is_safe_with_cas(skew_ms: int, lock_excludes: bool) -> None:
    """An hour of difference: both go on, no order of their steps loses anything, and nobody takes the other one for dead."""

    def world() -> CounterWorld:
        return skewed_world(skew_ms, lock_excludes)

    def both_commit(world: CounterWorld, history: Any) -> None:
        nothing_is_lost(world, history)
        assert [history.outcome(actor) for actor in "ab"] == ["ok", "ok"], [history.error(actor) for actor in "ab"]

    report = explore(world, [increment, increment], both_commit, Bounds(preemptions=1, schedules=budget(400)))
    report.assert_clean()


def test_skew_beyond_bound_is_refused_beside_a_writer_that_trusts_its_clock(location: str) -> None:
    """Hudi's next commit would get an older time than ours, and its readers would not see it as the newer one."""
    clock = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=clock)))
    table.upsert(orders((1, "a", 1.0)))
    ahead = format_time(clock.time_ms + HOUR_MS, utc=True)
    foreign_commit(table, ahead, time_after(ahead))
    before = sorted(path for path in Path(location).rglob("*"))
    with pytest.raises(ClockSkewError, match="ahead of this machine's clock"):
        table.upsert(orders((2, "a", 2.0)))
    assert sorted(path for path in Path(location).rglob("*")) == before, "nothing was written"
    clock.time_ms += HOUR_MS
    table.upsert(orders((2, "a", 2.0)))
    assert_in_order(table)


@pytest.mark.parametrize("ends", ["committed", "rolled back"])
def test_a_write_of_ours_that_ends_while_it_is_looked_at_is_not_taken_for_a_foreign_one(
    location: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat is gone between the look at the timeline, where it is pending, and the look at the heartbeat."""
    ahead = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=ahead)))
    ended: list[str] = []
    with table.begin("upsert") as first:
        first.write(orders((1, "a", 1.0)))

        def late(context: TableContext, instant: Instant) -> bool:
            if not ended:
                ended.append(instant.requested_time)
                first.commit() if ends == "committed" else first.rollback()
            return is_ours(context, instant)

        is_ours = heartbeat.is_ours
        monkeypatch.setattr(heartbeat, "is_ours", late)
        table_at(location, StandingClock(ahead.time_ms - HOUR_MS)).upsert(orders((2, "b", 2.0)))
    assert ended
    assert rows(table, "id") == ([(1,), (2,)] if ends == "committed" else [(2,)])
    assert_in_order(table)


def test_a_planned_clean_is_no_writer_that_trusts_its_clock(location: str) -> None:
    """Commits plan cleans by default, and the plan waits on the timeline without a heartbeat until the next commit."""
    ahead = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=ahead)))
    for price in range(14):
        table.upsert(orders((1, "a", float(price))))
    assert table.cleaning.schedule() is not None
    context = table._opened.context()
    assert not begin.has_others(context, context.folder.load(), frozenset())
    table_at(location, StandingClock(ahead.time_ms - HOUR_MS)).upsert(orders((2, "b", 2.0)))
    assert rows(table, "id") == [(1,), (2,)]


def test_a_pending_foreign_write_far_ahead_is_refused_too(location: str) -> None:
    clock = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=clock)))
    foreign_commit(table, format_time(clock.time_ms + HOUR_MS, utc=True), None)
    with pytest.raises(ClockSkewError):
        table.upsert(orders((1, "a", 1.0)))


def test_skew_beyond_bound_no_cas_refuses() -> None:
    """Where an object cannot be made on condition, the clock is all that keeps times apart."""
    sim = SimWorld(SimOptions(profile=Profile.NO_CAS))
    home = OpenedTable(sim.storage, sim.runtime, {"concurrency": "single_writer"})
    table = create_at(home, STORY_SCHEMA, "id", "part")
    table.upsert(batch((1, "a", 1)))
    sim.scheduler.time_ms -= HOUR_MS
    with pytest.raises(ClockSkewError):
        table.upsert(batch((1, "a", 2)))
    sim.scheduler.time_ms += HOUR_MS
    table.upsert(batch((1, "a", 3)))
    assert rows_of(table) == [(1, "a", 3)]


@pytest.mark.row("R7", "R8")
@pytest.mark.parametrize("back_ms", [1, 60_000, HOUR_MS])
def test_clock_jumps_back_after_commit(location: str, back_ms: int) -> None:
    clock = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=clock)))
    first = table.upsert(orders((1, "a", 1.0)))
    clock.time_ms -= back_ms
    cursor = first.completion_time
    for price in (2.0, 3.0):
        commit = table_at(location, clock).upsert(orders((1, "a", price)))
        assert commit.instant > cursor
        assert rows(table.incremental(after=cursor), "price") == [(price,)], "a consumer sees each commit once"
        cursor = commit.completion_time
    assert_in_order(table)
    assert rows(table.scan(as_of=first.completion_time), "price") == [(1.0,)]


# --- two processes


def _write_alone(location: str, writer: int, skew_ms: int, commits: int, results: Any) -> None:
    """What a process with a wrong clock does; says when each commit was asked for and acknowledged, by a clock that all processes share."""

    class SkewedClock:
        def now_ms(self) -> int:
            return time.time_ns() // 1_000_000 + skew_ms

        def monotonic(self) -> float:
            return time.monotonic()

        def sleep(self, seconds: float) -> None:
            time.sleep(seconds)

    options = {"pyhudi.commit.retries": 100, "hoodie.archive.automatic": False}  # all commits stay on the timeline
    table = HudiTable(home_at(location, runtime_with(clock=SkewedClock()), options))
    found = []
    for number in range(commits):
        asked = time.monotonic_ns()
        commit = table.upsert(orders((1000 * writer + number, f"p{writer}", 1.0), (0, "shared", float(number))))
        found.append((asked, time.monotonic_ns(), commit.instant, commit.completion_time))
    results.put((writer, found))


@pytest.mark.row("R8")
@pytest.mark.parametrize("skew_ms", [150, HOUR_MS])
def test_instants_are_monotonic_across_processes(location: str, skew_ms: int) -> None:
    """Two processes on a disk, one with a wrong clock: what is acknowledged before another begins is before it on the timeline."""
    commits = 10 * budget(1)
    table = create_plain(location, orders((0, "a")).schema, "id", "day", storage_options={"fsync": "false"})
    results = _processes.Queue()
    jobs = [(location, number, skew, commits, results) for number, skew in ((1, 0), (2, skew_ms))]
    writers = [_processes.Process(target=_write_alone, args=job) for job in jobs]
    for writer in writers:
        writer.start()
    found = dict(results.get(timeout=120) for _ in writers)
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert_in_order(table)
    done = sorted(entry for entries in found.values() for entry in entries)
    for _, acknowledged, _, completed in done:
        later = [requested for asked, _, requested, _ in done if asked > acknowledged]
        assert all(requested > completed for requested in later)
    assert len(table.timeline.commits) == 2 * commits
    assert len(rows(table, "id")) == 2 * commits + 1
    assert not table.timeline.pending.instants


def test_nobody_sleeps_under_the_lock() -> None:
    """The wait for the begin time happens before the lock is asked for; the completion time is above all others without any wait."""
    slept: list[tuple[bool, float]] = []
    sim = SimWorld(SimOptions(profile=Profile.S3))

    class Watched:
        def now_ms(self) -> int:
            return sim.clock.now_ms()

        def monotonic(self) -> float:
            return sim.clock.monotonic()

        def sleep(self, seconds: float) -> None:
            slept.append((bool(sim.lock.holder), seconds))
            sim.clock.sleep(seconds)

    runtime = replace(sim.runtime, clock=Watched())
    options = {"hoodie.time.generator.max_expected_clock_skew_ms": 200}
    table = create_at(OpenedTable(sim.storage, runtime, options, sim.lock), STORY_SCHEMA, "id", "part")
    sim.storage.put(".hoodie/timeline/20250101000000000.commit.requested", b"")  # of another program
    for value in range(3):
        table.upsert(batch((1, "a", value)))
        with table.begin("upsert") as write:
            write.write(batch((1, "a", -1)))  # rolled back
    assert [seconds for _, seconds in slept if seconds == 0.2], "the wait for the begin time"
    assert not [seconds for held, seconds in slept if held]


def test_the_completion_time_is_the_larger_of_now_and_the_high_water_mark(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)))
    for _ in range(3):
        with table.begin("upsert") as write:
            write.write(orders((1, "a", 1.0)))
            mark = table.timeline.high_water_mark
            commit = write.commit()
            assert commit.completion_time == max(format_time(clock.time_ms, utc=True), time_after(mark))
        clock.time_ms -= 5_000


# --- odd times


def test_completion_not_after_requested_rejected(location: str) -> None:
    table = make_at(home_at(location))
    commit = table.upsert(orders((1, "a", 1.0)))
    folder = Path(location, ".hoodie/timeline")
    before = format_time(ms("2026-01-01T00:00:00"), utc=True)
    for completed in (before, commit.instant):
        odd = folder / f"{commit.instant}_{completed}.commit"
        (folder / f"{commit.instant}_{commit.completion_time}.commit").rename(odd)
        with pytest.raises(CorruptTimelineError, match="completion time") as caught:
            rows(hudi.open_table(location), "id")
        assert caught.value.path is not None
        assert odd.name in caught.value.path
        odd.rename(folder / f"{commit.instant}_{commit.completion_time}.commit")
    assert rows(hudi.open_table(location), "id") == [(1,)]


def test_no_commit_of_ours_completes_at_or_before_its_request(location: str) -> None:
    """Whatever the clock does between begin and commit."""
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)))
    for jump in (0, -1, -60_000, -HOUR_MS):
        with table.begin("upsert") as write:
            write.write(orders((1, "a", 1.0)))
            clock.time_ms += jump
            commit = write.commit()
        assert commit.completion_time > commit.instant
    assert_in_order(table)


def test_instant_17_and_14_digits(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of old tables have seconds only; they sort before all of the same second, and are read and continued as others."""
    table = make_at(home_at(location, runtime_with(clock=StandingClock(ms("2026-01-01T00:00:05")))))
    with monkeypatch.context() as patch:
        patch.setattr(begin, "format_time", lambda epoch_ms, utc: "20260101000005")
        old = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    assert (old.instant, len(old.completion_time)) == ("20260101000005", 17)
    new = table.upsert(orders((1, "a", 10.0)))
    assert (len(new.instant), len(new.completion_time)) == (17, 17)
    assert_in_order(table)
    assert rows(table, "id", "price") == [(1, 10.0), (2, 2.0)]
    assert rows(table.scan(as_of=old.instant), "id", "price") == [(1, 1.0), (2, 2.0)]
    assert rows(table.scan(as_of="20260101000004999"), "id") == []
    assert rows(table.incremental(after=old.completion_time), "id") == [(1,)]
    foreign_commit(table, "20260101000007", None)
    assert table.rollback("20260101000007")
    assert table.upsert(orders((1, "a", 11.0))).instant > "20260101000007"


@pytest.mark.parametrize("newest", ["99991231235959999", "99991231235959", "99999999999999999", "99999999999999999999"])
def test_year_9999(location: str, newest: str) -> None:
    """A time above which there is none: reading goes on, writing says what is wrong."""
    table = make_at(home_at(location))
    table.upsert(orders((1, "a", 1.0)))
    foreign_commit(table, newest, None)
    assert rows(table, "id") == [(1,)]
    with pytest.raises(ClockSkewError, match="No time sorts after") as caught:
        table.upsert(orders((2, "a", 2.0)))
    assert caught.value.instant == newest
    assert rows(table, "id") == [(1,)]


def test_the_last_second_of_year_9999(location: str) -> None:
    class StandsStill(StandingClock):
        def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

        def monotonic(self) -> float:
            return time.monotonic()

    table = make_at(home_at(location, runtime_with(clock=StandsStill(ms("9999-12-31T23:59:59.980"), tick_ms=0))))
    written = 0

    def until_it_is_refused() -> None:
        nonlocal written
        for number in range(30):
            table.upsert(orders((number, "a", 1.0)))
            written += 1

    with pytest.raises(ClockSkewError, match="No time sorts after"):
        until_it_is_refused()
    assert written > 3
    assert len(rows(table, "id")) == written
    assert_in_order(table)
