"""Two writers of one file group: the real protocol in every order of their steps (promises P1, P2, P3 and P7)."""

from __future__ import annotations

import pytest
from reliability.counter_table import CounterWorld, chain, counter_world, increment
from reliability.service_runs import budget

from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.testing import Bounds, History, Profile, Report, explore
from pyhudi_core.transaction.rollback import repair


def nothing_is_lost(world: CounterWorld, history: History) -> None:
    commits, values = chain(world.context())
    assert values == list(range(1, len(values) + 1)), f"a lost update: {values}"
    acknowledged = {str(event.value) for event in history.of("ok")}
    assert acknowledged <= {instant.requested_time for instant in commits}, "an acknowledged commit is not there"
    times = [instant.completion_time for instant in commits]
    assert times == sorted(set(times)), "completion times repeat or go back"


def and_the_next_writer_repairs(world: CounterWorld, history: History) -> None:
    nothing_is_lost(world, history)
    increment(world)
    nothing_is_lost(world, history)
    context = world.context()
    repair(context)
    assert not len(context.folder.load().pending), "a dead writer's instant is still pending after the next write"


def run(world, bounds: Bounds, check=nothing_is_lost, writers: int = 2) -> Report:
    report = explore(world, [increment] * writers, check, bounds)
    print(
        f"\n{report.schedules} schedules, {report.states} states, exhausted {report.exhausted}, crash points {len(report.crash_points)}"
    )
    return report


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("B5")
@pytest.mark.parametrize("profile", [Profile.LOCAL_POSIX, Profile.S3])
def test_no_order_of_two_writers_loses_an_update(profile: Profile) -> None:
    report = run(lambda: counter_world(profile), Bounds(preemptions=2))
    report.assert_clean()
    assert report.exhausted, "not every order was tried"


@pytest.mark.row("B4")
def test_no_update_is_lost_when_the_lock_excludes_nobody() -> None:
    run(lambda: counter_world(lock_excludes=False), Bounds(preemptions=2, schedules=budget(250))).assert_clean()


def test_a_crash_at_any_step_leaves_a_table_that_the_next_writer_repairs() -> None:
    report = run(counter_world, Bounds(preemptions=1, crashes=1, schedules=budget(350)), and_the_next_writer_repairs)
    report.assert_clean()
    assert len(report.crash_points) > 10


def test_without_the_conflict_check_an_update_is_lost() -> None:
    report = run(
        lambda: counter_world(protections=Protections(conflict_check=False)),
        Bounds(preemptions=2, schedules=budget(600)),
    )
    assert report.violation is not None


def test_without_lock_and_commit_record_an_update_is_lost() -> None:
    world = lambda: counter_world(protections=Protections(commit_record=False), lock_excludes=False)  # noqa: E731
    report = run(world, Bounds(preemptions=2, schedules=budget(600)))
    assert report.violation is not None


def test_the_exploration_itself_is_deterministic() -> None:
    first, second = (run(counter_world, Bounds(preemptions=1, schedules=100)) for _ in range(2))
    assert first.trace_hash == second.trace_hash


def test_a_lock_that_expires_under_its_holder_loses_no_update() -> None:
    report = run(counter_world, Bounds(preemptions=1, faults={"expire_lock": 1}, schedules=budget(350)))
    report.assert_clean()
    assert report.exhausted or budget(1) == 1


def test_without_roll_forward_an_expired_lock_loses_an_update() -> None:
    world = lambda: counter_world(protections=Protections(roll_forward=False))  # noqa: E731
    report = run(world, Bounds(preemptions=1, faults={"expire_lock": 1}))
    assert report.violation is not None


def test_an_answer_that_is_lost_after_the_work_was_done_loses_no_update() -> None:
    report = run(
        lambda: counter_world(Profile.S3), Bounds(preemptions=0, faults={"lost_ack": 1}, schedules=budget(1_000))
    )
    report.assert_clean()
