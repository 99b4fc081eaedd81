"""What actors of an exploration may do, and what becomes of their errors, crashes, pauses and results."""

from __future__ import annotations

import pytest
from support.counters import counter_world, naive, nothing_is_lost, swapping

from pyhudi_core.errors import (
    ObjectNotFoundError,
)
from pyhudi_core.testing import (
    Bounds,
    History,
    Profile,
    SimOptions,
    SimulationError,
    SimWorld,
    explore,
    format_schedule,
    parse_schedule,
    replay,
)


def test_a_crash_right_after_somebody_saw_the_actor_alive_is_explored() -> None:
    seen: set[tuple[bool, ...]] = set()

    def world() -> SimWorld:
        return SimWorld(SimOptions(one_machine=True))

    def work(world: SimWorld) -> None:
        world.storage.head("x")

    def look(world: SimWorld) -> tuple[bool, ...]:
        found = []
        for _ in range(2):
            world.storage.head("y")
            found.append(world.runtime.process.is_gone("a"))
        return tuple(found)

    def check(world: SimWorld, history: History) -> None:
        if history.outcome("b") == "ok":
            seen.add(history.result("b"))  # type: ignore[arg-type]

    report = explore(world, [work, look], check, Bounds(crashes=1)).assert_clean()
    assert report.exhausted
    assert seen == {(False, False), (False, True), (True, True)}


def test_a_long_pause_lets_the_others_go_first_and_time_leap() -> None:
    seen: set[tuple[str, bool]] = set()

    def work(world: SimWorld) -> bool:
        before = world.clock.monotonic()
        world.storage.get("counter")
        world.scheduler.note("read")
        return world.clock.monotonic() - before >= 600

    def check(world: SimWorld, history: History) -> None:
        first = history.of("read")[0].actor
        seen.add((first, bool(history.result("a"))))

    report = explore(counter_world, [work, work], check, Bounds(preemptions=0, faults={"pause": 1})).assert_clean()
    assert report.exhausted
    assert {("b", True), ("a", False)} <= seen
    assert ("a", True) not in seen


def test_a_limit_on_schedules_is_kept_and_said() -> None:
    report = explore(counter_world, [swapping] * 3, nothing_is_lost, Bounds(schedules=5))
    assert (report.schedules, report.exhausted) == (5, False)


def test_an_error_that_is_not_the_packages_own_is_a_violation() -> None:
    def broken(world: SimWorld) -> None:
        raise TypeError("a bug")

    report = explore(counter_world, [broken], lambda world, history: None)
    assert report.violation is not None
    assert isinstance(report.violation.error, TypeError)


def test_an_error_of_the_package_is_an_outcome_that_the_check_judges() -> None:
    def missing(world: SimWorld) -> None:
        world.storage.get("nothing")

    def check(world: SimWorld, history: History) -> None:
        assert history.outcome("a") == "failed"
        assert isinstance(history.error("a"), ObjectNotFoundError)

    explore(counter_world, [missing], check).assert_clean()


def test_a_run_without_end_is_a_violation() -> None:
    def forever(world: SimWorld) -> None:
        while True:
            world.clock.sleep(1)

    report = explore(counter_world, [forever], nothing_is_lost, Bounds(steps=50))
    assert report.violation is not None
    assert isinstance(report.violation.error, SimulationError)


def test_a_private_object_that_is_shared_after_all_is_noticed() -> None:
    def world() -> SimWorld:
        world = SimWorld(SimOptions(shared=lambda path: False))
        world.storage.put("counter", b"0")
        return world

    report = explore(world, [naive, naive], nothing_is_lost)
    assert report.violation is not None
    assert "it is shared" in str(report.violation.error)


def test_private_objects_of_a_crashed_actor_may_be_cleaned_up() -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(shared=lambda path: path == "pointer"))

    def write(world: SimWorld) -> None:
        world.storage.put("data", b"")
        world.storage.put("pointer", b"")

    def clean(world: SimWorld) -> None:
        world.clock.sleep(1000)
        if world.storage.head("pointer") is None:
            world.storage.delete("data")

    def check(world: SimWorld, history: History) -> None:
        if history.outcome("a") == "crashed":
            assert world.storage.head("data") is None or world.storage.head("pointer") is not None

    replay(world, [write, clean], check, "a*2 a!crash b*9").assert_clean()


def test_a_crashed_actor_does_nothing_more_not_even_in_its_clean_up() -> None:
    def tidy(world: SimWorld) -> None:
        try:
            world.storage.put("a", b"")
        finally:
            world.storage.put("b", b"")

    def check(world: SimWorld, history: History) -> None:
        if history.of("crashed") and world.storage.head("b") is not None:
            assert world.storage.head("a") is not None

    explore(SimWorld, [tidy], check, Bounds(crashes=1)).assert_clean()


def test_an_output_of_a_crashed_actor_never_appears() -> None:
    def write(world: SimWorld) -> None:
        output = world.storage.open_output("data")
        try:
            output.stream.write(b"x")
            world.storage.head("something")
        finally:
            output.close()

    def check(world: SimWorld, history: History) -> None:
        if world.storage.head("data") is None:
            assert history.of("crashed")

    report = explore(SimWorld, [write], check, Bounds(crashes=1)).assert_clean()
    assert {("open_output", "data"), ("send_output", "data"), ("close_output", "data")} <= set(report.crash_points)


def test_results_and_own_events_are_in_the_history() -> None:
    def work(world: SimWorld) -> str:
        world.scheduler.note("begun", 7)
        return "done"

    def check(world: SimWorld, history: History) -> None:
        assert (history.result("a"), history.outcome("a")) == ("done", "ok")
        assert [event.value for event in history.of("begun")] == [7]

    explore(SimWorld, [work], check).assert_clean()


def test_one_after_the_other_and_overlapping_are_both_checked() -> None:
    orders: set[bool] = set()

    def work(world: SimWorld) -> None:
        world.storage.get("counter")

    def check(world: SimWorld, history: History) -> None:
        kinds = [(event.actor, event.kind) for event in history.events]
        orders.add(kinds.index(("a", "ok")) < kinds.index(("b", "invoke")))

    explore(counter_world, [work, work], check).assert_clean()
    assert orders == {True, False}


def test_a_world_without_conditional_create_lets_two_writers_win() -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(profile=Profile.NO_CAS))

    def create(world: SimWorld) -> None:
        world.storage.put_if_absent("once", b"")

    def one_wins(world: SimWorld, history: History) -> None:
        assert len(history.of("ok")) == 1

    assert explore(world, [create, create], one_wins).violation is not None
    explore(SimWorld, [create, create], one_wins).assert_clean()


@pytest.mark.parametrize("schedule", ["c", "a*x", "a*-1", "a*0", "*2", "a!boom", "!boom", "a b*2 A", "a!"])
def test_a_schedule_that_no_run_can_have_is_refused(schedule: str) -> None:
    """Else a test with a misspelt schedule would pass for ever."""
    with pytest.raises(SimulationError, match="schedule"):
        replay(counter_world, [naive, naive], nothing_is_lost, schedule)


def test_schedules_are_written_and_read() -> None:
    choices = ["a", "a", "b!lost_ack", "!expire_lock", "b", "a!crash"]
    assert format_schedule(choices) == "a*2 b!lost_ack !expire_lock b a!crash"
    assert parse_schedule(format_schedule(choices)) == choices
