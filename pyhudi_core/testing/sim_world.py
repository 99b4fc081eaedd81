"""A simulated outside: clock, chance, threads, timers, a lock and a storage that share one scheduler.

Every part is a pure function of the schedule: identifiers depend on the seed, the actor and how many it took; every
actor has a clock of its own (an offset to the common time, and a tick for each reading), so that a reading needs no
scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.runtime.base import Process, Runtime, UnknownProcess
from pyhudi_core.runtime.executors import SerialExecutor
from pyhudi_core.testing.scheduler import Call, Disturbance, Scheduler, Wait, stable_hash
from pyhudi_core.testing.sim_storage import Image, Profile, SimStorage, everything_is_shared

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


class SimClock:
    """Virtual time. It stands still while actors work; sleeping lets others go on, and moves it when nobody else can.

    Args:
        scheduler: holds the common time.
        offsets_ms: how far the clock of an actor is off; absent is 0.
        tick_ms: how far an actor's own clock moves with each of its readings.
    """

    def __init__(self, scheduler: Scheduler, offsets_ms: Mapping[str, int] | None = None, tick_ms: int = 1) -> None:
        self._scheduler = scheduler
        self._offsets_ms = dict(offsets_ms or {})
        self._tick_ms = tick_ms
        self._readings: dict[str, int] = {}
        self._on_wake: list[Callable[[], None]] = []
        if scheduler.time_ms == 0:
            scheduler.time_ms = START_MS

    def now_ms(self) -> int:
        actor = self._scheduler.actor
        readings = self._readings.get(actor, 0)
        self._readings[actor] = readings + 1
        now = self._scheduler.time_ms + self._offsets_ms.get(actor, 0) + readings * self._tick_ms
        self._scheduler.saw(now)
        return now

    def monotonic(self) -> float:
        self._scheduler.saw(self._scheduler.time_ms)
        return (self._scheduler.time_ms - START_MS) / 1000

    def sleep(self, seconds: float) -> None:
        until = self._scheduler.time_ms + max(1, round(seconds * 1000))
        if not self._scheduler.actor:
            self._scheduler.time_ms = until
            return
        # A sleeper that is waiting for others wakes when they have changed something; waking before would show it
        # nothing new.
        seen = self._scheduler.changes
        self._scheduler.visit(Call("sleep", "", wait=Wait(lambda: self._scheduler.changes != seen, until)))
        self._scheduler.time_ms = max(self._scheduler.time_ms, until)
        for wake in list(self._on_wake):
            wake()

    def advance(self, seconds: float) -> None:
        """Move the common time, from outside of the actors."""
        self._scheduler.time_ms += round(seconds * 1000)

    def on_wake(self, call: Callable[[], None]) -> None:
        """Call after each sleep, in the actor that slept."""
        self._on_wake.append(call)


class SimIds:
    """Identifiers that depend on nothing but seed, actor and count."""

    def __init__(self, scheduler: Scheduler, seed: int = 0) -> None:
        self._scheduler = scheduler
        self._seed = seed
        self._taken: dict[str, int] = {}

    def uuid(self) -> str:
        return str(UUID(bytes=self._next(), version=4))

    def below(self, bound: int) -> int:
        return int.from_bytes(self._next()) % bound

    def _next(self) -> bytes:
        actor = self._scheduler.actor
        count = self._taken[actor] = self._taken.get(actor, 0) + 1
        return blake2b(f"{self._seed} {actor} {count}".encode(), digest_size=16).digest()


class SimTimerHandle:
    """A repeating call that is due from time to time."""

    def __init__(self, timer: SimTimer, actor: str, period_ms: int, fn: Callable[[], None], due_ms: int) -> None:
        self._timer = timer
        self.actor = actor
        self.period_ms = period_ms
        self.fn = fn
        self.due_ms = due_ms
        self.error: BaseException | None = None

    def cancel(self) -> None:
        self._timer.forget(self)


class SimTimer:
    """Background calls without threads: they run in the actor that asked for them, when it wakes from a sleep and
    they are due.
    """

    def __init__(self, scheduler: Scheduler, clock: SimClock) -> None:
        self._scheduler = scheduler
        self._handles: list[SimTimerHandle] = []
        clock.on_wake(self.fire_due)

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> SimTimerHandle:
        period = max(1, round(seconds * 1000))
        handle = SimTimerHandle(self, self._scheduler.actor, period, fn, self._scheduler.time_ms + period)
        self._handles.append(handle)
        return handle

    def fire_due(self) -> None:
        """Make the calls of the running actor that are due; what one raises is remembered in its handle."""
        for handle in [h for h in self._handles if h.actor == self._scheduler.actor]:
            if handle.due_ms <= self._scheduler.time_ms:
                handle.due_ms = self._scheduler.time_ms + handle.period_ms
                try:
                    handle.fn()
                except Exception as error:  # noqa: BLE001 (as the real timer does)
                    handle.error = error

    def forget(self, handle: SimTimerHandle) -> None:
        """End a repeating call."""
        if handle in self._handles:
            self._handles.remove(handle)


class SimLock:
    """A lock provider whose waiting is known to the scheduler, so that it costs no polling.

    A crashed holder's lease ends after ``lease_s``. The disturbance ``expire_lock`` ends a living holder's lease at
    any time, as a long pause does; the holder does not notice. With ``excludes=False`` everybody gets the lock at
    once.
    """

    def __init__(self, scheduler: Scheduler, lease_s: float = 300, excludes: bool = True) -> None:
        self._scheduler = scheduler
        self._lease_ms = round(lease_s * 1000)
        self._excludes = excludes
        self._holder = ""
        self._holdings: dict[str, int] = {}
        self._until_ms = 0
        scheduler.watch(lambda: stable_hash(f"{self._holder} {self._until_ms}"))
        scheduler.disturbances["expire_lock"] = Disturbance(lambda: bool(self._holder), self._expire)

    @property
    def identity(self) -> str:
        return "sim:lock"

    @property
    def holder(self) -> str:
        """The token of the present holding; empty when the lock is free."""
        return self._holder

    def acquire(self, timeout_s: float, note: str = "") -> SimLockSession:
        deadline = self._scheduler.time_ms + round(timeout_s * 1000)
        while True:
            until = min(deadline, self._until_ms) if self._holder else deadline
            self._scheduler.visit(Call("acquire", "lock", wait=Wait(self._is_free, until)))
            self._scheduler.saw(stable_hash(self._holder))
            if not self._scheduler.actor and not self._is_free():
                self._scheduler.time_ms = until  # outside of a run nobody else can go on; only time passes
            if self._is_free():
                return self._hold()
            if self._scheduler.time_ms >= deadline:
                raise LockTimeoutError(f"The lock was not free within {timeout_s:g} s; it is held by {self._holder}")

    def is_held_by(self, token: str) -> bool:
        """Whether the holding is the present one; a scheduling point."""
        self._scheduler.visit(Call("still_held", "lock"))
        held = token == self._holder
        self._scheduler.saw(held)
        return held

    def give_back(self, token: str) -> None:
        """Free the lock if the holding is the present one; a scheduling point."""
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
            self._lock.give_back(self._token)
            self._released = True


class SimProcess:
    """Every actor is a process of one machine; the crashed ones are known to be gone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def identity(self) -> str:
        return self._scheduler.actor

    def is_gone(self, identity: str) -> bool:
        gone = bool(identity) and self._scheduler.has_crashed(identity)
        self._scheduler.saw(gone)
        return gone


@dataclass(frozen=True, slots=True)
class SimOptions:
    """What kind of world: storage profile, what is shared, objects to start with, clock offsets and tick, seed, and
    the lock.

    With ``one_machine`` the actors are processes of one machine, so that a crash can be known; else only time tells.
    """

    profile: Profile = Profile.S3
    shared: Callable[[str], bool] = everything_is_shared
    image: Image | None = None
    offsets_ms: Mapping[str, int] | None = None
    tick_ms: int = 1
    seed: int = 0
    lease_s: float = 300
    lock_excludes: bool = True
    one_machine: bool = False


class SimWorld:
    """One simulated outside. Explorations make a new one for every run; all actors share it.

    Attributes:
        scheduler: parks and resumes actors; also holds the history.
        storage: where the table lives.
        clock, ids, timer: time and chance.
        lock: the lock provider.
        runtime: clock, ids, a serial executor and the timer, as one value.
    """

    def __init__(self, options: SimOptions | None = None) -> None:
        chosen = options or SimOptions()
        self.scheduler = Scheduler()
        self.clock = SimClock(self.scheduler, chosen.offsets_ms, chosen.tick_ms)
        self.storage = SimStorage(self.scheduler, chosen.profile, chosen.shared, chosen.image)
        self.ids = SimIds(self.scheduler, chosen.seed)
        self.timer = SimTimer(self.scheduler, self.clock)
        self.lock = SimLock(self.scheduler, chosen.lease_s, chosen.lock_excludes)
        process: Process = SimProcess(self.scheduler) if chosen.one_machine else UnknownProcess()
        self.runtime = Runtime(self.clock, self.ids, SerialExecutor(), self.timer, process)
