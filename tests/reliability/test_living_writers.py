"""Rollback and living writers: a living writer is not rolled back, a dead writer is, and either a commit or its rollback happens, never both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reliability.counter_table import CounterWorld, counter_world, increment
from reliability.service_runs import budget
from reliability.stories import Died, Story, Writer, batch, dying, rows_of
from reliability.test_two_writers import nothing_is_lost
from reliability.test_zombies import LONG_S, PROFILES, RECORD, actions, assert_tidy, decides

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
)
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, History, Profile, explore
from pyhudi_core.testing.scheduler import Disturbance
from pyhudi_core.transaction.rollback import roll_back


def calls_of(story_of: Callable[[], tuple[Story, Writer, Callable[[], object]]]) -> int:
    """The number of calls of a writer."""
    _, writer, work = story_of()
    before = len(writer.calls)
    work()
    return len(writer.calls) - before


def pause_at(story: Story, writer: Writer, number: int, meanwhile: Callable[[], object]) -> None:
    """Call a function before the writer's n-th call from now on."""

    def pause() -> None:
        story.paused.add(writer.name)
        meanwhile()
        story.paused.discard(writer.name)

    writer.before_call(number, pause)


def stride_of(profile: Profile) -> int:
    """Before every call on the object store; on a disk, where the calls are nearly the same, before every third one unless there is time."""
    return 1 if profile is Profile.S3 or budget(1) > 1 else 3


@pytest.mark.one_in(2)
@pytest.mark.row("K11", "O9")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_heartbeat_expired_but_writer_alive_commits_or_aborts_cleanly(profile: Profile) -> None:
    """It stands still before any one call of its commit, others repair after it and write; then it goes on."""
    outcomes: set[str] = set()
    number, stride = 0, stride_of(profile)
    while True:
        story = Story(profile)
        table = story.table((1, "a", 1))
        zombie, other = story.writer("zombie"), story.writer("other")
        reached: list[int] = []

        def meanwhile(story: Story = story, other: Writer = other, reached: list[int] = reached) -> None:
            reached.append(1)
            story.pass_time(LONG_S)
            other.open().upsert(batch((2, "a", 2)))

        with zombie.open().begin("upsert") as write:
            write.write(batch((1, "a", 10)))
            pause_at(story, zombie, number, meanwhile)
            try:
                write.commit()
                outcome = "committed"
            except (CommitAbortedError, CommitConflictError):
                outcome = "aborted"
        outcomes.add(outcome)
        wanted = [(1, "a", 10 if outcome == "committed" else 1), *([(2, "a", 2)] if reached else [])]
        assert rows_of(table) == wanted, f"stopped before call {number}, {outcome}"
        assert_tidy(story, table)
        if not reached:
            break
        number += stride
    assert outcomes == {"committed", "aborted"}
    assert number > 15


@pytest.mark.row("K11")
@pytest.mark.parametrize("clock_ms", [0, 3_600_000, -3_600_000])
def test_rollback_never_touches_live_writer(clock_ms: int) -> None:
    """A slow writer that beats is left alone, also by one whose clock says that the heartbeat is an hour old."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    slow, other = story.writer("slow"), story.writer("other", clock_ms=clock_ms)
    with slow.open().begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        for value in range(5):
            story.pass_time(LONG_S)
            other.open().upsert(batch((2, "b", value)))
            assert write.instant in [instant.requested_time for instant in table.timeline.pending]
        write.commit()
    assert rows_of(table) == [(1, "a", 10), (2, "b", 4)]
    assert "rollback" not in actions(table)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_a_writer_that_died_is_rolled_back_whatever_the_clocks_say(profile: Profile) -> None:
    for clock_ms in (0, 3_600_000):
        story = Story(profile)
        table = story.table((1, "a", 1))
        victim, other = story.writer("victim"), story.writer("other", clock_ms=clock_ms)
        victim.pause_before(decides(profile), RECORD, dying(victim))
        with pytest.raises(Died):
            victim.open().upsert(batch((1, "a", 10)))
        story.pass_time(LONG_S)
        other.open().upsert(batch((2, "b", 2)))
        assert rows_of(table) == [(1, "a", 1), (2, "b", 2)]
        assert not table.timeline.pending.instants


@pytest.mark.one_in(2)
@pytest.mark.row("O9")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_rollback_of_completed_instant_impossible(profile: Profile) -> None:
    """The writer commits, with a lock that has expired, between any two calls of its rollback: one of the two happens, never both."""
    outcomes: set[tuple[bool, bool]] = set()
    number, stride = 0, stride_of(profile)
    while True:
        story = Story(profile)
        table = story.table((1, "a", 1))
        writer, undoer = story.writer("writer"), story.writer("undoer")
        acknowledged: list[hudi.Commit] = []
        reached: list[int] = []
        with writer.open().begin("upsert") as write:
            write.write(batch((1, "a", 10)))

            def commits(
                story: Story = story, write: Any = write, acknowledged: list = acknowledged, reached: list = reached
            ) -> None:
                reached.append(1)
                story.pass_time(61)  # the undoer's lock has expired
                try:
                    acknowledged.append(write.commit())
                except CommitAbortedError:
                    return

            undoing = undoer.open()
            pause_at(story, undoer, number, commits)
            rolled_back = bool(undoing.rollback(str(write.instant)))
            assert rolled_back != bool(acknowledged) or not reached, f"before call {number}: both, or neither"
            outcomes.add((rolled_back, bool(acknowledged)))
            assert rows_of(table) == [(1, "a", 10 if acknowledged else 1)], f"before call {number}"
            if acknowledged:
                assert undoer.open().rollback(acknowledged[0].instant).changed is False, "what is completed stays"
                assert rows_of(table) == [(1, "a", 10)]
        assert_tidy(story, table)
        if not reached:
            break
        number += stride
    assert outcomes == {(True, False), (False, True)}
    assert number > 15


def test_every_order_of_a_commit_and_its_rollback_is_one_of_the_two() -> None:
    """The same with a lock that excludes nobody, in every order of their steps within two interruptions."""

    def world() -> CounterWorld:
        made = counter_world(Profile.S3, lock_excludes=False)
        made.begun = []  # type: ignore[attr-defined]
        return made

    def undo(world: CounterWorld) -> bool:
        context = world.context()
        pending = [instant for instant in context.folder.load().pending if instant.action is Action.COMMIT]
        return bool(pending) and roll_back(context, pending[0].requested_time) is not None

    def check(world: CounterWorld, history: History) -> None:
        commits = [instant.requested_time for instant in world.context().folder.load().commits]
        acknowledged = [str(event.value) for event in history.of("ok") if event.actor == "a"]
        assert commits == acknowledged, history.error("a")
        assert not (commits and history.result("b")), "committed and rolled back"

    bounds = Bounds(preemptions=2, schedules=budget(200))
    explore(world, [increment, undo], check, bounds).assert_clean()


@pytest.mark.row("O9", "R13")
def test_expired_locks_and_old_heartbeats_lose_no_update() -> None:
    """Two writers; once, at any moment, so much time passes that every lock and every heartbeat is over, and the living go on."""

    def world() -> CounterWorld:
        made = counter_world(Profile.S3)
        scheduler = made.scheduler

        def long_pause() -> None:
            scheduler.time_ms += LONG_S * 1000

        scheduler.disturbances["long_pause"] = Disturbance(lambda: True, long_pause)
        return made

    report = explore(
        world,
        [increment, increment],
        nothing_is_lost,
        Bounds(preemptions=1, faults={"long_pause": 1}, schedules=budget(100)),
    )
    print(f"{report.schedules} schedules, {report.complete} complete, exhausted {report.exhausted}")
    report.assert_clean()
