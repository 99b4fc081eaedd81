"""Clocks that are wrong, and times that are odd: nothing is lost, nothing changes its order, or the write is refused and says why (P10).

Within the bound a write goes on from the timeline's newest time. Beyond it, it goes on only where every commit is this package's own, which chooses its
times above all that are known; beside a writer that trusts its clock it is refused.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from reliability.counter_table import SCHEMA as COUNTER_SCHEMA
from reliability.counter_table import CounterWorld, increment
from reliability.stories import SCHEMA as STORY_SCHEMA
from reliability.stories import batch, rows_of
from reliability.test_two_writers import budget, nothing_is_lost
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import ClockSkewError, CorruptTimelineError, PreconditionFailedError
from pyhudi_core.formats.avro import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, format_time, time_after
from pyhudi_core.opening import create_at
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, Profile, SimOptions, SimWorld, explore
from pyhudi_core.testing.scheduler import Decision, RunBounds
from pyhudi_core.testing.sim_clock import START_MS
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, concurrent, layout
from pyhudi_core.transaction.begin import TOKEN_KEY, begin_write
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.home import TableHome

HOUR_MS = 3_600_000
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core", "reliability.test_two_writers"])


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the zone of this process."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


def table_at(location: str, clock: StandingClock, **options: object) -> HudiTable:
    """The table of a process with this clock."""
    given = {key.replace("__", "."): value for key, value in options.items()}
    return HudiTable(home_at(location, runtime_with(clock=clock), given))


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def assert_in_order(table: HudiTable) -> None:
    """Every commit began and completed after all that had completed when it began, and no time is there twice."""
    commits = list(table.timeline.commits)
    completions = [str(instant.completion_time) for instant in commits]
    assert all(instant.requested_time < str(instant.completion_time) for instant in commits)
    assert len({i.requested_time for i in commits} | set(completions)) == 2 * len(commits)
    assert completions == sorted(completions)


def foreign_commit(table: HudiTable, requested: str, completed: str | None) -> None:
    """A commit of Hudi's own writer: no reservation, no token."""
    folder = Path(table.location, ".hoodie/timeline")
    folder.mkdir(exist_ok=True)
    (folder / f"{requested}.commit.requested").touch()
    (folder / f"{requested}.inflight").touch()
    if completed is not None:
        body = encode_record(
            "HoodieCommitMetadata", CommitMetadata("UPSERT").to_avro(Action.COMMIT), sync_marker=bytes(16)
        )
        (folder / f"{requested}_{completed}.commit").write_bytes(body)


# --- skew


def skewed_world(skew_ms: int, lock_excludes: bool = True) -> CounterWorld:
    """Two writers of a counter in an object store; the clock of ``b`` is off."""
    sim = SimWorld(
        SimOptions(profile=Profile.S3, offsets_ms={"b": skew_ms}, lock_excludes=lock_excludes, one_machine=True)
    )
    home = TableHome(sim.storage, sim.runtime, {"hoodie.time.generator.max_expected_clock_skew_ms": 1}, sim.lock)
    create_at(home, COUNTER_SCHEMA, "id", name="counter")
    return CounterWorld(sim, home)


@pytest.mark.row("R8")
@pytest.mark.parametrize("skew_ms", [150, -150])
def test_skew_within_bound(skew_ms: int) -> None:
    """Every order of two writers whose clocks differ by less than the bound."""

    def world() -> CounterWorld:
        return skewed_world(skew_ms)

    report = explore(world, [increment, increment], nothing_is_lost, Bounds(preemptions=1))
    assert report.assert_clean().exhausted


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


def test_a_pending_foreign_write_far_ahead_is_refused_too(location: str) -> None:
    clock = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=clock)))
    foreign_commit(table, format_time(clock.time_ms + HOUR_MS, utc=True), None)
    with pytest.raises(ClockSkewError):
        table.upsert(orders((1, "a", 1.0)))


def test_skew_beyond_bound_no_cas_refuses() -> None:
    """Where an object cannot be made on condition, the clock is all that keeps times apart."""
    sim = SimWorld(SimOptions(profile=Profile.NO_CAS))
    home = TableHome(sim.storage, sim.runtime, {"concurrency": "single_writer"})
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

    table = HudiTable(home_at(location, runtime_with(clock=SkewedClock()), {"pyhudi.commit.retries": 100}))
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
    table = hudi.create_table(location, orders((0, "a")).schema, "id", "day", storage_options={"fsync": "false"})
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
    table = create_at(TableHome(sim.storage, runtime, options, sim.lock), STORY_SCHEMA, "id", "part")
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


# --- zones


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
        "2026-03-01 05:30:30",
        datetime(2026, 3, 1, 5, 30, 30),
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
    assert table.rollback("20260101000007") is not None
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


# --- many writers


class CountsCollisions:
    """A storage that counts the requested times which two writers wanted."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.collisions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put_if_absent(self, path: str, data: bytes) -> Any:
        try:
            return self._storage.put_if_absent(path, data)
        except PreconditionFailedError:
            self.collisions += path.startswith(layout.HEARTBEATS)
            raise


def any_of(chance: random.Random, decision: Decision) -> str:
    return chance.choice(decision.options)


def append(world: CounterWorld, group: str) -> str:
    """One commit that makes a file group of its own."""
    context = world.context()
    transaction = begin_write(context, Action.COMMIT, "UPSERT")
    name = f"{group}_0-0-0_{transaction.requested_time}.parquet"
    commit = CommitMetadata("UPSERT", (WriteStat(group, name, "", rows=1),), {TOKEN_KEY: transaction.token})
    body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=transaction.sync_marker)

    def check(found: Timeline) -> None:
        own, mine = transaction.requested_time, Touched.by(commit)
        concurrent.refuse_conflicts(context, transaction.start, found, own, mine)

    return finish(transaction, lambda notes: body, check).instant.requested_time


@pytest.mark.row("R1", "R8")
def test_collision_birthday() -> None:
    """Twenty writers that commit once a minute, in virtual time. In a day two of them choose one millisecond in 98.6 of 100 cases; here all clocks
    show the same one in every minute, the writers' steps come in any order, and nothing is lost.
    """
    writers, minutes = 20, 2
    counters: list[CountsCollisions] = []
    total: list[int] = []

    def world() -> CounterWorld:
        sim = SimWorld(SimOptions(profile=Profile.S3, tick_ms=0))
        counters.append(CountsCollisions(sim.storage))
        options = {"hoodie.time.generator.max_expected_clock_skew_ms": 1, "hoodie.write.lock.wait_time_ms": HOUR_MS}
        home = TableHome(counters[-1], sim.runtime, options, sim.lock)  # type: ignore[arg-type]
        create_at(home, COUNTER_SCHEMA, "id", name="birthday")
        return CounterWorld(sim, home)

    def once_a_minute(world: CounterWorld, number: int) -> list[str]:
        acknowledged = []
        for minute in range(minutes):
            clock = world.sim.clock
            while clock.now_ms() < START_MS + (minute + 1) * 60_000:
                clock.sleep((START_MS + (minute + 1) * 60_000 - clock.now_ms()) / 1000)
            acknowledged.append(append(world, f"fg-{number}-{minute}"))
        return acknowledged

    def check(world: CounterWorld, history: History) -> None:
        acknowledged = sorted(time for event in history.of("ok") for time in event.value)  # type: ignore[attr-defined]
        commits = list(world.context().folder.load().commits)
        assert len(acknowledged) == writers * minutes, [str(event.value) for event in history.of("failed")]
        assert acknowledged == sorted(instant.requested_time for instant in commits), (
            "a commit is lost, or two share a time"
        )
        assert len(set(acknowledged)) == len(acknowledged)
        completions = [instant.completion_time for instant in commits]
        assert completions == sorted(set(completions))
        total.append(len(commits))

    for seed in range(budget(3)):
        chance = random.Random(seed)
        made = world()
        actors = [(f"w{number}", partial(once_a_minute, made, number)) for number in range(writers)]
        made.scheduler.history = History()
        made.scheduler.run(actors, partial(any_of, chance), RunBounds(steps=200_000))
        check(made, made.scheduler.history)
    collisions = sum(counter.collisions for counter in counters)
    print(f"{sum(total)} commits, {collisions} wanted a time that another one had")
    assert collisions > sum(total) / 10
