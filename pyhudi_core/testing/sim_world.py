"""A simulated world: clock, randomness, threads, timers, a lock and a storage that share one scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.naming import set_module
from pyhudi_core.runtime.base import Process, Runtime, UnknownProcess
from pyhudi_core.testing.hashing import stable_hash
from pyhudi_core.testing.scheduler import Call, Disturbance, Scheduler, Wait
from pyhudi_core.testing.sim_clock import START_MS, ActorClock, SimClock, SimIds, SimTimer
from pyhudi_core.testing.sim_executor import SimExecutor
from pyhudi_core.testing.sim_storage import Image, Profile, SimStorage, everything_is_shared


@set_module("pyhudi.testing")
class SimLock:
    """A lock provider whose waits are controlled by the scheduler, without polling.

    A crashed holder's lease ends after ``lease_s``. The disturbance ``expire_lock`` ends a running holder's lease at any time, as a long pause does;
    the holder does not detect it. With ``excludes=False`` every actor gets the lock at once.
    """

    def __init__(self, scheduler: Scheduler, lease_s: float = 300, excludes: bool = True) -> None:
        self._scheduler = scheduler
        self._lease_ms = round(lease_s * 1000)
        self._excludes = excludes
        self._holder = ""
        self._holdings: dict[str, int] = {}
        self._until_ms = 0
        scheduler.watch(lambda: hash((stable_hash(self._holder), self._until_ms)))
        scheduler.disturbances["expire_lock"] = Disturbance(lambda: bool(self._holder), self._expire)

    @property
    def identity(self) -> str:
        return "sim:lock"

    @property
    def holder(self) -> str:
        """The token of the current holding; empty if the lock is free."""
        return self._holder

    def acquire(self, timeout_s: float, note: str = "") -> SimLockSession:
        """Wait for the lock and acquire it; this is a scheduling point. Raises `LockTimeoutError` if it was not free in time."""
        deadline = self._scheduler.time_ms + round(timeout_s * 1000)
        self._scheduler.saw(deadline)
        while True:
            until = min(deadline, self._until_ms) if self._holder else deadline
            self._scheduler.visit(Call("acquire", "lock", wait=Wait(self._is_free, until)))
            self._scheduler.saw(stable_hash(self._holder))
            if not self._scheduler.actor and not self._is_free():
                self._scheduler.time_ms = until  # outside a run no other actor can continue; only time passes
            if self._is_free():
                return self._hold()
            if self._scheduler.time_ms >= deadline:
                raise LockTimeoutError(f"The lock was not free within {timeout_s:g} s; it is held by {self._holder}")

    def is_held_by(self, token: str) -> bool:
        """Say whether the holding with this token has the lock; this is a scheduling point."""
        self._scheduler.visit(Call("still_held", "lock"))
        held = token == self._holder
        self._scheduler.saw(held)
        return held

    def release(self, token: str) -> None:
        """Release the lock if the holding with this token has it; this is a scheduling point."""
        self._scheduler.visit(Call("release", "lock"))
        if token == self._holder:
            self._expire()
            self._scheduler.changed()

    def _is_free(self) -> bool:
        return not self._excludes or not self._holder or self._scheduler.time_ms >= self._until_ms

    def _hold(self) -> SimLockSession:
        actor = self._scheduler.actor
        self._holdings[actor] = self._holdings.get(actor, 0) + 1
        self._holder = f"{actor or 'outside'}-{self._holdings[actor]}"
        self._until_ms = self._scheduler.time_ms + self._lease_ms
        return SimLockSession(self, self._holder)

    def _expire(self) -> None:
        self._holder = ""
        self._until_ms = 0


class SimLockSession:
    """A holding of the simulated lock."""

    def __init__(self, lock: SimLock, token: str) -> None:
        self._lock = lock
        self._token = token
        self._released = False

    @property
    def token(self) -> str:
        return self._token

    def still_held(self) -> bool:
        return not self._released and self._lock.is_held_by(self._token)

    def release(self) -> None:
        if not self._released:
            self._lock.release(self._token)
            self._released = True


class SimProcess:
    """The process of an actor. All actors are processes of one machine, so each knows which actors have crashed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def identity(self) -> str:
        return self._scheduler.actor

    def is_gone(self, identity: str) -> bool:
        return bool(identity) and self._scheduler.is_seen_gone(identity)


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class SimOptions:
    """The options of a world: storage profile, shared paths, objects at the start, clocks and their tick, seed, and the lock.

    ``offsets_ms`` is a short form for clocks that have only an offset. Stale answers omit the latest ``stale_operations`` changes, slow calls take
    ``slow_s``, and a pause takes ``pause_s``. Concurrent calls are made one after the other: with ``backwards`` the last call comes first;
    ``shuffled`` is the seed of a random order. With ``one_machine`` the actors are processes of one machine, so other actors detect a crash;
    otherwise they detect it only by an expired heartbeat or lease.
    """

    profile: Profile = Profile.S3
    shared: Callable[[str], bool] = everything_is_shared
    image: Image | None = None
    start_ms: int = START_MS
    clocks: Mapping[str, ActorClock] | None = None
    offsets_ms: Mapping[str, int] | None = None
    tick_ms: int = 1
    stale_operations: int = 3
    slow_s: float = 30
    pause_s: float = 600
    seed: int = 0
    lease_s: float = 300
    lock_excludes: bool = True
    one_machine: bool = False
    backwards: bool = False
    shuffled: int = 0


@set_module("pyhudi.testing")
class SimWorld:
    """A simulated world. Explorations create a new one for every run; all actors of the run share it.

    Attributes:
        scheduler: schedules the actors; also contains the history.
        storage: the storage of the table.
        clock, ids, timer: time, identifiers and background calls.
        lock: the lock provider.
        runtime: clock, ids, executor and timer, as one value.
    """

    def __init__(self, options: SimOptions | None = None) -> None:
        chosen = options or SimOptions()
        self.scheduler = Scheduler()
        self.scheduler.pause_ms = round(chosen.pause_s * 1000)
        offsets = {actor: ActorClock(offset_ms=offset) for actor, offset in (chosen.offsets_ms or {}).items()}
        clocks = {**offsets, **(chosen.clocks or {})}
        self.clock = SimClock(self.scheduler, clocks, chosen.tick_ms, chosen.start_ms)
        self.storage = SimStorage(self.scheduler, chosen.profile, chosen.shared, chosen.image)
        self.storage.stale_operations = chosen.stale_operations
        self.storage.slow_ms = round(chosen.slow_s * 1000)
        self.ids = SimIds(self.scheduler, chosen.seed)
        self.timer = SimTimer(self.scheduler, self.clock)
        self.lock = SimLock(self.scheduler, chosen.lease_s, chosen.lock_excludes)
        process: Process = SimProcess(self.scheduler) if chosen.one_machine else UnknownProcess()
        executor = SimExecutor(
            self.scheduler, self.storage.rounds, backwards=chosen.backwards, shuffled=chosen.shuffled
        )
        self.runtime = Runtime(self.clock, self.ids, executor, self.timer, process)
