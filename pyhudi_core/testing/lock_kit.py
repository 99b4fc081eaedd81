"""The conformance suite of lock providers, as tests to inherit from.

Subclass `LockKit` in a test module under a name that starts with ``Test``, and give it a fixture ``providers`` that returns a function. Each call of
this function creates another provider for the same table, like the provider of another handle. The suite runs with threads and the real clock.

`SharedLockKit` is for providers whose lock is stored in a storage: processes crash, clocks differ and responses get lost. It runs the providers in
the simulated world, in every order of their storage calls within its bounds. Subclass it and override ``provider``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from pyhudi_core.errors import HudiError, LockTimeoutError, StorageError
from pyhudi_core.lock.base import LockProvider, LockSession
from pyhudi_core.naming import set_module
from pyhudi_core.testing.exploring import Bounds, Report, explore
from pyhudi_core.testing.history import Event, History
from pyhudi_core.testing.sim_clock import ActorClock
from pyhudi_core.testing.sim_storage import Profile
from pyhudi_core.testing.sim_world import SimOptions, SimWorld

Providers = Callable[[], LockProvider]
_BUSY_MACHINE_S = 300


@set_module("pyhudi.testing")
class LockKit:
    """The conformance suite; see the module's docstring."""

    def test_a_free_lock_is_acquired_at_once(self, providers: Providers) -> None:
        session = providers().acquire(0)
        assert session.still_held()
        session.release()
        assert not session.still_held()

    def test_handles_of_one_table_have_one_identity(self, providers: Providers) -> None:
        assert providers().identity == providers().identity

    def test_a_held_lock_excludes_others(self, providers: Providers) -> None:
        session = providers().acquire(1)
        with pytest.raises(LockTimeoutError):
            providers().acquire(0)
        with pytest.raises(LockTimeoutError):
            providers().acquire(0.05)
        assert session.still_held()
        session.release()
        providers().acquire(0).release()

    def test_a_lock_is_not_reentrant(self, providers: Providers) -> None:
        provider = providers()
        session = provider.acquire(1)
        with pytest.raises(LockTimeoutError):
            provider.acquire(0)
        session.release()

    def test_a_time_out_names_the_holder(self, providers: Providers) -> None:
        session = providers().acquire(1, note="upsert 20260101000000000")
        with pytest.raises(LockTimeoutError, match="upsert 20260101000000000"):
            providers().acquire(0)
        session.release()

    def test_two_holdings_never_share_a_token(self, providers: Providers) -> None:
        tokens = set()
        for _ in range(20):
            session = providers().acquire(1)
            tokens.add(session.token)
            session.release()
        assert len(tokens) == 20

    def test_release_may_be_called_twice(self, providers: Providers) -> None:
        session = providers().acquire(1)
        session.release()
        session.release()
        providers().acquire(0).release()

    def test_a_late_release_spares_the_next_holder(self, providers: Providers) -> None:
        first = providers().acquire(1)
        first.release()
        second = providers().acquire(0)
        first.release()
        assert not first.still_held()
        assert second.still_held()
        with pytest.raises(LockTimeoutError):
            providers().acquire(0)
        second.release()

    def test_a_waiting_handle_gets_the_lock_when_it_is_released(self, providers: Providers) -> None:
        first = providers().acquire(1)
        got: list[bool] = []

        def wait() -> None:
            session = providers().acquire(20)
            got.append(session.still_held())
            session.release()

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.05)
        assert got == []
        first.release()
        waiting.join(20)
        assert got == [True]

    def test_only_one_thread_holds_the_lock_at_a_time(self, providers: Providers) -> None:
        inside = 0
        most = 0
        count = 0
        errors: list[HudiError] = []

        def work() -> None:
            try:
                take_turns(providers())
            except HudiError as error:
                errors.append(error)

        def take_turns(provider: LockProvider) -> None:
            nonlocal inside, most, count
            for _ in range(10):
                # Long, because the case is about mutual exclusion, not about the speed of a busy machine.
                session = provider.acquire(_BUSY_MACHINE_S)
                inside += 1
                most = max(most, inside)
                seen = count
                time.sleep(0.0005)
                count = seen + 1
                inside -= 1
                session.release()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_BUSY_MACHINE_S)
        assert not errors, errors
        assert (most, count) == (1, 40), f"{most} held the lock at the same time, and {count} of 40 turns were counted"

    def test_a_lock_can_be_taken_again_and_again(self, providers: Providers) -> None:
        provider = providers()
        for _ in range(30):
            session = provider.acquire(1)
            assert session.still_held()
            session.release()
            assert not session.still_held()

    def test_an_error_inside_does_not_keep_the_lock(self, providers: Providers) -> None:
        session = providers().acquire(1)
        try:
            with pytest.raises(ValueError, match="inside"):
                raise ValueError("inside")
        finally:
            session.release()
        providers().acquire(0).release()

    def test_a_provider_that_acquires_repeatedly_does_not_starve_others(self, providers: Providers) -> None:
        done = threading.Event()

        def take_all() -> None:
            provider = providers()
            while not done.is_set():
                session = provider.acquire(30)
                time.sleep(0.001)
                session.release()

        greedy = threading.Thread(target=take_all)
        greedy.start()
        try:
            modest = providers()
            for _ in range(4):
                modest.acquire(30).release()
        finally:
            done.set()
            greedy.join(30)


@set_module("pyhudi.testing")
class SharedLockKit:
    """The conformance suite for a lock that lives in a storage; see the module's docstring.

    Attributes:
        profile: the kind of storage.
        lease_s: the maximum number of seconds until other writers can take an abandoned lock.
        effort: a factor of the number of tried schedules.
    """

    profile = Profile.S3
    lease_s = 300.0
    effort = 1

    def provider(self, world: SimWorld) -> LockProvider:
        """Return one more provider for the world's table, as another process would have. To be overridden."""
        raise NotImplementedError

    def world(self, options: SimOptions | None = None) -> SimWorld:
        """Return a new world of the profile; a pause is longer than a lease."""
        given = options or SimOptions()
        return SimWorld(
            SimOptions(profile=self.profile, pause_s=3 * self.lease_s, clocks=given.clocks, offsets_ms=given.offsets_ms)
        )

    def work(self, world: SimWorld) -> None:
        """Do the work of an actor: acquire the lock, make a step that others can see, release the lock. The history shows the order."""
        session = self.provider(world).acquire(20 * self.lease_s, "work")
        world.scheduler.note("in", session.token)
        with suppress(StorageError):
            world.storage.put("counter", b"1")
        world.scheduler.note("out", session.still_held())
        release_with_retries(session)

    def run(self, bounds: Bounds, actors: int = 2, check: Callable[[SimWorld, History], None] | None = None) -> Report:
        """Explore ``actors`` actors; the default check is `exclusive`."""
        report = explore(self.world, [self.work] * actors, check or self.exclusive, bounds)
        print(f"{report.schedules} schedules, {report.states} states, exhausted {report.exhausted}")
        return report.assert_clean()

    def exclusive(self, world: SimWorld, history: History) -> None:
        """Check that no holding times overlapped, that every actor without a crash held the lock, and that the lock is free at the end."""
        assert not overlapping_holders(history), "two actors held the lock at the same time"
        assert not history.of("broken")
        for actor in ("a", "b"):
            assert history.outcome(actor) in ("ok", "crashed"), history.error(actor)
        release_with_retries(self.provider(world).acquire(3 * self.lease_s, "afterwards"))

    def free_at_once(self, world: SimWorld, history: History) -> None:
        """Make the check of `exclusive`, and check that no actor left the lock behind."""
        release_with_retries(self.provider(world).acquire(0, "at once"))
        self.exclusive(world, history)

    def test_two_actors_never_hold_the_lock_together(self) -> None:
        report = self.run(Bounds(preemptions=2), check=self.free_at_once)
        assert report.exhausted
        assert report.schedules > 5

    def test_of_three_actors_two_never_hold_the_lock_together(self) -> None:
        self.run(Bounds(preemptions=1, schedules=400 * self.effort), actors=3, check=self.free_at_once)

    @pytest.mark.parametrize("fault", ["lost_ack", "unknown", "false_precondition"])
    def test_an_unclear_answer_keeps_the_exclusion_and_leaves_no_lock_behind(self, fault: str) -> None:
        def check(world: SimWorld, history: History) -> None:
            assert world.clock.monotonic() < self.lease_s, "an actor waited for the expiry of its own lock"
            self.free_at_once(world, history)

        self.run(Bounds(preemptions=1, faults={fault: 1}, schedules=800 * self.effort), check=check)

    @pytest.mark.parametrize("fault", ["throttled", "conflict", "fail_before"])
    def test_a_storage_that_refuses_once_leaves_no_lock_behind(self, fault: str) -> None:
        def check(world: SimWorld, history: History) -> None:
            assert not overlapping_holders(history)
            assert not history.of("broken")
            release_with_retries(self.provider(world).acquire(3 * self.lease_s, "afterwards"))

        self.run(Bounds(preemptions=1, faults={fault: 1}, schedules=800 * self.effort), check=check)

    def test_a_crash_anywhere_costs_others_a_lease_at_most(self) -> None:
        report = self.run(Bounds(preemptions=1, crashes=1, schedules=800 * self.effort))
        assert len(report.crash_points) > 3

    def test_a_lock_file_that_was_half_written_by_a_crash_costs_others_a_lease_at_most(self) -> None:
        self.run(Bounds(preemptions=1, faults={"torn": 1}, schedules=800 * self.effort))

    def test_a_holder_that_paused_past_its_lease_detects_it_and_spares_the_next_holder(self) -> None:
        def check(world: SimWorld, history: History) -> None:
            for intruder, loser in overlapping_holders(history):
                said = [event.value for event in history.of("out") if event.actor == loser]
                assert said == [False], f"{loser} did not detect that {intruder} had taken the lock over"
            assert not history.of("failed") + history.of("broken")
            release_with_retries(self.provider(world).acquire(3 * self.lease_s, "afterwards"))

        self.run(Bounds(preemptions=1, faults={"pause": 1}, schedules=800 * self.effort), check=check)

    def test_clocks_that_differ_a_little_change_nothing(self) -> None:
        clocks = {"a": ActorClock(offset_ms=-200), "b": ActorClock(offset_ms=250)}
        world = lambda: self.world(SimOptions(clocks=clocks))  # noqa: E731
        explore(world, [self.work] * 2, self.free_at_once, Bounds(preemptions=1)).assert_clean()

    def test_a_clock_that_is_hours_ahead_does_not_mislead_the_holder(self) -> None:
        def late(world: SimWorld) -> None:
            session = self.provider(world).acquire(20 * self.lease_s, "hours ahead")
            world.scheduler.note("in", session.token)
            world.scheduler.note("out", session.still_held())
            release_with_retries(session)

        def check(world: SimWorld, history: History) -> None:
            for _, loser in overlapping_holders(history):
                said = [event.value for event in history.of("out") if event.actor == loser]
                assert said == [False], f"{loser} believes that it still holds the lock"
            assert not history.of("failed") + history.of("broken")

        world = lambda: self.world(SimOptions(clocks={"b": ActorClock(offset_ms=7_200_000)}))  # noqa: E731
        explore(world, [self.work, late], check, Bounds(preemptions=1)).assert_clean()

    def test_a_release_after_a_takeover_spares_the_new_holder(self) -> None:
        world = self.world()
        first = self.provider(world).acquire(0)
        world.clock.advance(2 * self.lease_s)
        second = self.provider(world).acquire(0)
        assert not first.still_held()
        first.release()
        first.release()
        assert second.still_held()
        second.release()
        release_with_retries(self.provider(world).acquire(0))


def release_with_retries(session: LockSession) -> None:
    """Release as a writer does: repeat the request if the storage refuses it."""
    for _ in range(3):
        with suppress(HudiError):
            session.release()
            return


def overlapping_holders(history: History) -> list[tuple[str, str]]:
    """Return the pairs of lock holders whose holding times overlapped."""
    inside: list[str] = []
    found: list[tuple[str, str]] = []
    for event in history.events:
        if event.kind == "in":
            found += [(event.actor, other) for other in inside]
            inside.append(event.actor)
        elif event.actor in inside and _leaves(event):
            inside.remove(event.actor)
    return found


def _leaves(event: Event) -> bool:
    return event.kind in ("out", "crashed", "failed", "broken")
