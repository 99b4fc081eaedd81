"""Interleavings of complete writes with the shipped protocol: begin, repair, slices, conflict check, commit, rollback, retry (promises P1, P2, P4 to
P7).

Every call on the timeline, the lock and on files that two writers can name is a place where the other may go on. Each test says how far it went."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from reliability.kv_table import (
    PARTITION,
    Configuration,
    KvWorld,
    Rows,
    Start,
    What,
    Wrote,
    consistent,
    kv_world,
    put,
    rows,
    stage,
)
from support.wrapping import WrappedStorage

from benchmarks.recording import record
from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, Fault, History, Report, explore, explore_all, explore_randomly
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction import heartbeat
from pyhudi_core.transaction.begin import begin_write, reserve
from pyhudi_core.transaction.rollback import repair, roll_back

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
DEEPER = FACTOR > 1
EXPIRED_S = 600
"""Longer than any heartbeat lives."""
Actor = Callable[[KvWorld], Any]


def upsert(what: What) -> Actor:
    """A complete write: repair, write, commit; it is planned again if another commit came first."""

    def act(world: KvWorld) -> tuple[Wrote, ...]:
        context = world.context()
        for _ in range(4):
            repair(context)
            staged = stage(world, context, what)
            try:
                return (staged.finish(),)
            except CommitConflictError:
                roll_back(context, staged.transaction.requested_time)
        raise AssertionError("four conflicts against so few writers")

    return act


def run(
    actors: tuple[Actor, ...],
    bounds: Bounds,
    start: Start | None = None,
    check: Callable[[KvWorld, History], None] = consistent,
    seed: int | None = None,
) -> Report:
    """Explore, say how far, and keep it for the published page.

    Without a bound on preemptions every order is tried, except of steps that do not touch each other. With a ``seed`` the schedules are random
    ones, at most 2 to 3 switches at places that chance chooses.
    """
    world = lambda: kv_world(Configuration(), start=start)  # noqa: E731
    orders = explore if bounds.preemptions is not None else explore_all
    search = orders if seed is None else partial(explore_randomly, seed=seed, priorities=True)
    started = time.process_time()
    report = search(world, actors, check, bounds)
    depth = "every order" if bounds.preemptions is None else f"at most {bounds.preemptions} preemptions"
    depth = depth if seed is None else f"{depth}, random"
    left_out = "" if report.exhausted or seed is not None else f": only the first {report.schedules:,} schedules"
    facts = {
        "actors": len(actors),
        "bound": depth + left_out,
        "crashes": bounds.crashes,
        "schedules": report.schedules,
        "states": report.states,
        "crash_points": len(report.crash_points),
        "exhausted": report.exhausted,
        "seconds": round(time.process_time() - started, 2),
    }
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].partition(" ")[0].removeprefix("test_")
    record("interleavings", {f"{name}, {depth}": facts})
    return report.assert_clean()


def all_succeed(world: KvWorld, history: History) -> None:
    """The check: all writers succeed, because a writer that loses is planned again, and no file is left over."""
    consistent(world, history)
    assert not history.of("failed"), [str(event.value) for event in history.of("failed")]
    assert not len(world.context().folder.load().pending)


@cache
def two_keys_in_one_group() -> Start:
    """A table with k1 and k2 in the first file group."""
    world = kv_world(Configuration())
    before = (put(world, "0", "k1.fg1"), put(world, "0", "k2.fg1"))
    return Start(world.sim.storage.image(), before)


@pytest.mark.row("K2")
@pytest.mark.row("T6")
def test_upsert_vs_upsert_same_group() -> None:
    """P1, P2: both keys have their new values, whoever was first, though each write replaces the whole slice."""

    def both_are_there(world: KvWorld, history: History) -> None:
        all_succeed(world, history)
        context = world.context()
        assert rows(context, context.folder.load()) == {"k1": "a1", "k2": "b1"}

    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")))
    start = two_keys_in_one_group()
    assert run(actors, Bounds(preemptions=2), start, both_are_there).exhausted


@pytest.mark.row("K7")
def test_insert_vs_insert_same_key() -> None:
    """P4: both insert one key, each into a group of its own choice; the later one finds it and updates it."""
    actors = (upsert(What("k1", "a1", "fg1")), upsert(What("k1", "b1", "fg2")))
    assert run(actors, Bounds(preemptions=3 if DEEPER else 1), check=all_succeed).exhausted


@pytest.mark.row("K5")
def test_upserts_of_different_groups_do_not_disturb_each_other() -> None:
    """Both succeed at the first attempt, in every order."""
    world = kv_world(Configuration())
    before = (put(world, "0", "k1.fg1"), put(world, "0", "k2.fg2"))
    start = Start(world.sim.storage.image(), before)

    def at_once(world: KvWorld, history: History) -> None:
        all_succeed(world, history)
        assert len(world.begun) == 2, "a write was planned anew for no reason"

    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")))
    assert run(actors, Bounds(preemptions=3 if DEEPER else 1), start, at_once).exhausted


def test_three_upserts() -> None:
    """P1, with three writers of one file group."""
    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")), upsert(What("k1", "c1")))
    start = two_keys_in_one_group()
    run(actors, Bounds(preemptions=2, schedules=120 * FACTOR), start, all_succeed, seed=1)
    if DEEPER:
        assert run(actors, Bounds(preemptions=1), start, all_succeed).exhausted
        run(actors, Bounds(preemptions=3, schedules=1000 * FACTOR), start, all_succeed)


# --- writers that died

DEATHS = ("reserved", "requested", "inflight", "slice")


@cache
def with_a_dead_writer(death: str) -> Start:
    """A table whose third writer died long ago, at one of the first steps of a write."""
    known = two_keys_in_one_group()
    world = kv_world(Configuration(), start=known)
    context = world.context()
    if death == "reserved":
        reserve(context, Action.COMMIT)
    elif death == "slice":
        stage(world, context, What("k1", "c1"))
    else:
        begun = begin_write(context, Action.COMMIT, "UPSERT")
        if death == "requested":
            context.storage.delete(context.folder.file(begun.inflight))
    return Start(world.sim.storage.image(), known.before, EXPIRED_S)


def nothing_is_left_of_the_dead(world: KvWorld, history: History) -> None:
    all_succeed(world, history)
    named = {
        stat.path for i in world.context().folder.load().commits for stat in world.context().folder.read_commit(i).stats
    }
    files = {info.path for info in world.sim.storage.list(f"{PARTITION}/") if info.path.endswith(".parquet")}
    assert files == named, "files that no commit names are left"
    assert not world.sim.storage.list(".hoodie/.heartbeat/")


@pytest.mark.one_in(3)
@pytest.mark.row("K11")
@pytest.mark.row("R9")
@pytest.mark.parametrize("death", DEATHS)
def test_upsert_vs_rollback_of_a_dead_third(death: str) -> None:
    """P7: one writer works while another process rolls the dead one back; each of them may be the one that does it."""
    actors = (upsert(What("k1", "a1")), lambda world: repair(world.context()))
    start = with_a_dead_writer(death)
    depth = 2 if DEEPER else 1
    assert run(actors, Bounds(preemptions=depth), start, nothing_is_left_of_the_dead).exhausted


def test_two_writers_find_the_same_dead_one() -> None:
    """P7: both begin with the same repair."""
    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")))
    bounds = Bounds(preemptions=2 if DEEPER else 1, schedules=600 * FACTOR)
    run(actors, bounds, with_a_dead_writer("slice"), nothing_is_left_of_the_dead)


@pytest.mark.row("R9")
def test_a_begin_that_is_not_followed_by_an_end_stops_nobody() -> None:
    """One writer begins and stays there, alive: the others commit, and leave it alone."""

    def begin_only(world: KvWorld) -> str:
        return begin_write(world.context(), Action.COMMIT, "UPSERT").requested_time

    def left_alone(world: KvWorld, history: History) -> None:
        consistent(world, history)
        assert not history.of("failed")
        pending = [instant.requested_time for instant in world.context().folder.load().pending]
        assert pending == [history.result("b")], "the instant of a living writer is gone"

    actors = (upsert(What("k1", "a1")), begin_only)
    depth = 4 if DEEPER else 2
    assert run(actors, Bounds(preemptions=depth), two_keys_in_one_group(), left_alone).exhausted


def the_next_writer_repairs(world: KvWorld, history: History) -> None:
    """What was acknowledged stays; the next write finds a table that works, and cleans up after the dead."""
    consistent(world, history)
    world.clock.advance(EXPIRED_S)
    wrote = upsert(What("k1", "z"))(world)
    world.before = (*world.before, *wrote)
    consistent(world, history)
    repair(world.context())
    assert not len(world.context().folder.load().pending)


def test_two_writers_with_a_crash_each() -> None:
    """P7: both may vanish, at any step."""
    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")))
    start = two_keys_in_one_group()
    bounds = Bounds(preemptions=2, crashes=2, schedules=200 * FACTOR)
    report = run(actors, bounds, start, the_next_writer_repairs, seed=2)
    assert len(report.crash_points) > 40
    if DEEPER:
        run(actors, Bounds(preemptions=0, crashes=2, schedules=1000 * FACTOR), start, the_next_writer_repairs)


class AtListing(WrappedStorage):
    """A storage that calls a function just before the first listing of a folder."""

    def __init__(self, storage: Any, folder: str, happens: Callable[[], None]) -> None:
        self._storage = storage
        self._folder = folder
        self._happens = [happens]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def list(self, prefix: str, start_after: str = "") -> Any:
        if prefix.startswith(self._folder) and self._happens:
            self._happens.pop()()
        return self._storage.list(prefix, start_after)


def test_a_decided_commit_is_not_swept_away_as_a_reservation_that_was_given_up() -> None:
    """A writer decides its commit and dies, all between two looks of another one that repairs: the commit must still be published."""
    world = kv_world(Configuration(), start=two_keys_in_one_group())

    def decide_and_die() -> None:
        staged = stage(world, world.context(), What("k1", "a1"))
        world.sim.storage.inject(Fault.FAIL_BEFORE, "put_if_absent", ".hoodie/timeline/*_*.commit")
        with pytest.raises(CommitStateUnknownError):
            staged.finish()
        world.clock.advance(EXPIRED_S)

    storage = AtListing(world.sim.storage, ".hoodie/.heartbeat", decide_and_die)
    known = world.context()
    repair(known.on(storage, TimelineFolder(storage, known.folder.path)))
    upsert(What("k2", "b1"))(world)
    timeline = world.context().folder.load()
    assert rows(world.context(), timeline) == {"k1": "a1", "k2": "b1"}
    assert not len(timeline.pending)


# --- readers

Reads = tuple[tuple[str, Rows], ...]


def reader(world: KvWorld) -> tuple[Reads, str, tuple[str, ...]]:
    """Reads a snapshot, reads the same one again, and follows the commits from its cursor; a second time from where it was.

    Returns the snapshots (bound and rows), the cursor, and the commits that it was given.
    """
    context = world.context()
    snapshots: list[tuple[str, Rows]] = []
    cursor = ""
    given: list[str] = []
    for _ in range(2):
        timeline = context.folder.load()
        commits = timeline.commits
        bound = commits[-1].completion_time or ""
        first = rows(context, timeline, bound)
        again = rows(context, context.folder.load(), bound)
        assert first == again, f"the snapshot at {bound} was {first}, and then {again}"
        snapshots.append((bound, first))
        given.extend(i.requested_time for i in commits if (i.completion_time or "") > cursor)
        cursor = max(cursor, bound)
    return tuple(snapshots), cursor, tuple(given)


@pytest.mark.row("L7")
@pytest.mark.row("R8")
@pytest.mark.row("R10")
def test_reader_during_everything() -> None:
    """P5, P6: a snapshot reads the same now, again, and at the end; the follower is given every commit exactly once."""

    def check(world: KvWorld, history: History) -> None:
        all_succeed(world, history)
        snapshots, cursor, given = history.result("c")
        context = world.context()
        timeline = context.folder.load()
        for bound, found in snapshots:
            assert rows(context, timeline, bound) == found, f"the snapshot at {bound} has changed"
        rest = [i.requested_time for i in timeline.commits if (i.completion_time or "") > cursor]
        assert [*given, *rest] == [i.requested_time for i in timeline.commits], "a commit was skipped, or given twice"

    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")), reader)
    start = two_keys_in_one_group()
    assert run(actors, Bounds(preemptions=1), start, check).exhausted
    run(actors, Bounds(preemptions=2, schedules=30 * FACTOR), start, check, seed=3)


def test_the_dead_are_known_by_their_heartbeats() -> None:
    """What the other tests rest on: the writers of the prepared tables count as dead, and those that have just begun do not."""
    world = kv_world(Configuration(), start=with_a_dead_writer("slice"))
    context = world.context()
    (dead,) = context.folder.load().pending
    assert heartbeat.is_dead(context, dead)
    alive = begin_write(context, Action.COMMIT, "UPSERT")
    assert not heartbeat.is_dead(context, alive.inflight)
