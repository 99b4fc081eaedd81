"""The explorer finds what can go wrong, leaves nothing out, and does the same thing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from reliability.counter_table import counter_world as protocol_world
from reliability.counter_table import increment
from support.counters import counter_world, file_locked, locked, naive, nothing_is_lost, nothing_is_lost_there, swapping

from pyhudi_core.errors import (
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.testing import (
    Bounds,
    History,
    Profile,
    Report,
    SimOptions,
    SimulationError,
    SimWorld,
    explore,
    explore_randomly,
    replay,
)


@pytest.mark.row("U2")
def test_a_lost_update_between_two_naive_writers_is_found() -> None:
    report = explore(counter_world, [naive, naive], nothing_is_lost)
    assert report.violation is not None
    assert isinstance(report.violation.error, AssertionError)
    with pytest.raises(AssertionError, match="put counter"):
        report.assert_clean()


def test_the_violation_comes_as_the_smallest_schedule_and_a_test_to_copy() -> None:
    report = explore(counter_world, [locked, naive, naive], nothing_is_lost)
    assert report.violation is not None
    schedule = report.violation.schedule
    assert f'replay(make_world, ACTORS, check, "{schedule}").assert_clean()' in report.violation.as_test()
    again = replay(counter_world, [locked, naive, naive], nothing_is_lost, schedule)
    assert again.violation is not None
    actors = [step[0] for step in again.violation.steps]
    assert sum(x != y for x, y in pairwise(actors)) <= 3


def test_a_found_schedule_is_clean_once_the_code_is_right() -> None:
    report = explore(counter_world, [naive, naive], nothing_is_lost)
    assert report.violation is not None
    replay(counter_world, [locked, locked], nothing_is_lost, report.violation.schedule).assert_clean()


@pytest.mark.parametrize("actor", [locked, swapping, file_locked])
def test_right_writers_are_clean_under_every_schedule(actor: object) -> None:
    report = explore(counter_world, [actor, actor], nothing_is_lost).assert_clean()  # type: ignore[list-item]
    assert report.exhausted
    assert report.complete > 1


@pytest.mark.row("U2")
def test_every_crash_of_locked_writers_is_explored_and_clean() -> None:
    report = explore(counter_world, [locked, locked], nothing_is_lost, Bounds(crashes=1)).assert_clean()
    assert report.exhausted
    assert {verb for verb, _ in report.crash_points} == {"acquire", "get", "put", "release", "return"}


def test_the_lock_file_of_a_crashed_writer_expires() -> None:
    report = explore(counter_world, [file_locked, file_locked], nothing_is_lost, Bounds(crashes=1, preemptions=1))
    report.assert_clean()
    assert ("put", "counter") in report.crash_points


def test_one_actor_alone_is_crashed_at_every_call_private_ones_too() -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(shared=lambda path: path == "pointer"))

    def write(world: SimWorld) -> None:
        world.storage.put("data/1", b"rows")
        world.storage.put("data/2", b"rows")
        world.storage.put("pointer", b"2 files")

    def old_or_new(world: SimWorld, history: History) -> None:
        if world.storage.head("pointer") is not None:
            assert [o.path for o in world.storage.list("data/")] == ["data/1", "data/2"]

    report = explore(world, [write], old_or_new, Bounds(crashes=1, every_call=True)).assert_clean()
    assert [name for _, name in report.crash_points] == ["", "pointer", "data/2", "data/1"]
    few = explore(world, [write], old_or_new, Bounds(crashes=1)).assert_clean()
    assert ("put", "data/1") not in few.crash_points


def test_an_expired_lease_breaks_writers_that_trust_the_lock_alone() -> None:
    report = explore(counter_world, [locked, locked], nothing_is_lost, Bounds(faults={"expire_lock": 1}))
    assert report.violation is not None
    assert "!expire_lock" in report.violation.choices
    explore(counter_world, [swapping, swapping], nothing_is_lost, Bounds(faults={"expire_lock": 1})).assert_clean()


def test_a_lost_acknowledgement_is_found_in_writers_that_retry_blindly() -> None:
    def retrying(world: SimWorld) -> None:
        for _ in range(2):
            try:
                return swapping(world)
            except StorageStateUnknownError:
                continue
        raise StorageError("gave up")

    def counts_exactly(world: SimWorld, history: History) -> None:
        assert int(world.storage.get("counter")) == len(history.of("ok"))

    report = explore(counter_world, [retrying], counts_exactly, Bounds(faults={"lost_ack": 1}))
    assert report.violation is not None
    assert any("lost_ack" in choice for choice in report.violation.choices)
    explore(counter_world, [retrying], counts_exactly, Bounds(faults={"unknown": 1})).assert_clean()


def test_a_preemption_bound_explores_less() -> None:
    actors = [locked, locked, locked]
    sizes = [explore(counter_world, actors, nothing_is_lost, Bounds(preemptions=n)).schedules for n in (0, 1, 2)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert explore(counter_world, [naive, naive], nothing_is_lost, Bounds(preemptions=0)).violation is None
    assert explore(counter_world, [naive, naive], nothing_is_lost, Bounds(preemptions=1)).violation is not None


def explore_something() -> Report:
    return explore(counter_world, [swapping, locked], lambda world, history: None, Bounds(crashes=1))


def test_explorer_is_deterministic() -> None:
    assert explore_something() == explore_something()
    other = explore(counter_world, [locked, swapping], lambda world, history: None, Bounds(crashes=1))
    assert other.trace_hash != explore_something().trace_hash


def test_another_process_has_the_same_trace_hash() -> None:
    code = f"import runpy; print(runpy.run_path({__file__!r})['explore_something']().trace_hash)"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == explore_something().trace_hash


def test_random_runs_with_one_seed_are_the_same_and_find_the_lost_update() -> None:
    first = explore_randomly(counter_world, [naive] * 3, nothing_is_lost, Bounds(schedules=50), seed=7)
    again = explore_randomly(counter_world, [naive] * 3, nothing_is_lost, Bounds(schedules=50), seed=7)
    assert first.trace_hash == again.trace_hash
    assert first.violation is not None
    clean = explore_randomly(counter_world, [locked] * 3, nothing_is_lost, Bounds(schedules=200), seed=7)
    assert clean.assert_clean().complete == 200


@pytest.mark.parametrize("priorities", [False, True])
def test_random_runs_say_their_seed(priorities: bool) -> None:
    bounds = Bounds(schedules=300)
    report = explore_randomly(counter_world, [naive] * 2, nothing_is_lost, bounds, 11, priorities)
    assert report.seed == 11
    with pytest.raises(AssertionError, match="Seed 11, run"):
        report.assert_clean()


def test_priorities_find_a_bug_that_needs_two_switches_in_few_runs() -> None:
    def world() -> SimWorld:
        made = SimWorld()
        made.storage.put("x", b"0")
        return made

    def slow(world: SimWorld) -> None:
        for _ in range(20):
            world.storage.head("x")
        first = world.storage.get("x")
        second = world.storage.get("x")
        assert first == second

    def writes(world: SimWorld) -> None:
        for turn in range(20):
            world.storage.head("x")
            if turn == 10:
                world.storage.put("x", b"1")

    report = explore_randomly(world, [slow, writes], lambda w, h: None, Bounds(schedules=1000), 3, priorities=True)
    assert report.violation is not None
    again = explore_randomly(world, [slow, writes], lambda w, h: None, Bounds(schedules=1000), 3, priorities=True)
    assert again.trace_hash == report.trace_hash


def noting(steps: int) -> Callable[[SimWorld], object]:
    """An actor whose every step is seen by all others, so that no two orders are one state."""

    def work(world: SimWorld) -> None:
        for _ in range(steps):
            world.storage.head("x")
            world.scheduler.note("step")

    return work


@pytest.mark.parametrize(
    ("actors", "orders"), [([noting(2), noting(2)], 20), ([noting(1)] * 3, 90), ([noting(3), noting(1)], 15)]
)
def test_an_exhaustive_exploration_completes_every_order_once(actors: list, orders: int) -> None:
    seen: list[tuple[str, ...]] = []

    def check(world: SimWorld, history: History) -> None:
        seen.append(tuple(event.actor for event in history.events if event.kind in ("invoke", "step")))

    report = explore(SimWorld, actors, check).assert_clean()
    assert report.exhausted
    assert report.complete == len(seen) == len(set(seen)) == orders


def test_orders_that_nobody_can_tell_apart_are_explored_once() -> None:
    def work(name: str) -> Callable[[SimWorld], object]:
        return lambda world: [world.storage.put(f"{name}/{n}", b"") for n in range(3)]

    report = explore(SimWorld, [work("x"), work("y")], lambda w, h: None)
    assert report.exhausted
    # Each actor stands in one of 5 places (before its start, before a put, at its end); beginnings and ends are ordered.
    assert report.complete <= 8
    assert report.states < 5 * 5 * 4


def test_a_sleeper_whose_time_has_come_may_go_on_between_the_reads_of_another() -> None:
    def reads(world: SimWorld) -> tuple[bytes, bytes]:
        world.clock.sleep(1)
        return world.storage.get("counter"), world.storage.get("counter")

    def writes(world: SimWorld) -> None:
        world.clock.sleep(1)
        world.storage.put("counter", b"1")

    seen: set[object] = set()
    report = explore(counter_world, [reads, writes], lambda w, h: seen.add(h.result("a"))).assert_clean()
    assert report.exhausted
    assert seen == {(b"0", b"0"), (b"0", b"1"), (b"1", b"1")}


def test_a_sleeper_that_has_slept_already_is_not_the_same_as_one_that_still_sleeps() -> None:
    """Its step shows it nothing and changes nothing; once that was taken for a state that was known, and given up."""

    def sleeps(world: SimWorld) -> None:
        world.clock.sleep(0.001)
        world.scheduler.note("woken")

    def puts(world: SimWorld) -> None:
        world.clock.sleep(0.001)
        world.storage.put("x", b"")
        world.scheduler.note("put")

    seen: set[tuple[str, ...]] = set()

    def check(world: SimWorld, history: History) -> None:
        seen.add(tuple(event.kind for event in history.events if event.kind in ("woken", "put")))

    report = explore(SimWorld, [sleeps, puts], check).assert_clean()
    assert report.exhausted
    assert report.complete > 0
    assert seen == {("woken", "put"), ("put", "woken")}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", [Profile.LOCAL_POSIX, Profile.S3])
def test_an_unbounded_exploration_of_the_real_protocol_completes_runs(profile: Profile) -> None:
    report = explore(
        lambda: protocol_world(profile), [increment, increment], nothing_is_lost_there, Bounds(schedules=300)
    )
    assert report.assert_clean().complete > 0


def test_an_exploration_that_completes_nothing_is_refused() -> None:
    def forgetful(world: SimWorld) -> None:
        world.storage.head("x")
        world.storage.head("y")

    class Blind(SimWorld):
        """Its states all have the same key."""

        def __init__(self) -> None:
            super().__init__()
            self.scheduler._key = lambda: 0  # type: ignore[method-assign]

    with pytest.raises(SimulationError, match="no run came to its end"):
        explore(Blind, [forgetful], lambda w, h: None)
