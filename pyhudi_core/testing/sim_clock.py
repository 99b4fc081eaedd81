"""Time and identifiers of a simulated world: clocks that may be wrong, and timers without threads.

Every part is a pure function of the schedule: identifiers depend on the seed, the actor and its count; every actor has its own clock (with
the error in `ActorClock`, and a tick for each reading), so that a reading is no scheduling point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from uuid import UUID

from pyhudi_core.naming import set_module
from pyhudi_core.testing.hashing import stable_hash
from pyhudi_core.testing.scheduler import Call, Disturbance, Scheduler, Wait

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class ActorClock:
    """The error of one actor's clock.

    Attributes:
        offset_ms: the offset of the clock.
        zone_hours: the hours of a time zone, added to the offset: the clock is set to local time, but is read as UTC.
        drift_ppm: microseconds that the clock gains in a second of common time (negative: loses).
        jump_ms: the length of its jump (negative: back) when the disturbance ``jump_<actor>`` happens.
    """

    offset_ms: int = 0
    zone_hours: int = 0
    drift_ppm: int = 0
    jump_ms: int = 0

    def at(self, time_ms: int, start_ms: int) -> int:
        """Return the clock's time at a common time, before its jump."""
        drift = (time_ms - start_ms) * self.drift_ppm // 1_000_000
        return time_ms + self.offset_ms + self.zone_hours * 3_600_000 + drift


_RIGHT = ActorClock()


@set_module("pyhudi.testing")
class SimClock:
    """Virtual time. It does not advance while actors work. A sleep lets other actors continue; time advances if no actor can run.

    Args:
        scheduler: holds the common time.
        clocks: the actors whose clocks are wrong.
        tick_ms: how far an actor's own clock moves with each of its readings.
        start_ms: the common time at the start.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clocks: Mapping[str, ActorClock] | None = None,
        tick_ms: int = 1,
        start_ms: int = START_MS,
    ) -> None:
        self._scheduler = scheduler
        self._clocks = dict(clocks or {})
        self._tick_ms = tick_ms
        self._start_ms = start_ms
        self._readings: dict[str, int] = {}
        self._jumps: dict[str, int] = {}
        self._on_wake: list[Callable[[], None]] = []
        if scheduler.time_ms == 0:
            scheduler.time_ms = start_ms
        for actor, clock in self._clocks.items():
            if clock.jump_ms:
                scheduler.disturbances[f"jump_{actor}"] = Disturbance(lambda: True, partial(self._jump, actor))
        if any(clock.jump_ms for clock in self._clocks.values()):
            scheduler.watch(lambda: hash(tuple(sorted((stable_hash(a), n) for a, n in self._jumps.items()))))

    def now_ms(self) -> int:
        """Return the epoch milliseconds that the running actor's clock shows. Each reading advances this clock by a tick."""
        actor = self._scheduler.actor
        readings = self._readings.get(actor, 0)
        self._readings[actor] = readings + 1
        clock = self._clocks.get(actor, _RIGHT)
        now = clock.at(self._scheduler.time_ms, self._start_ms) + readings * self._tick_ms
        now += self._jumps.get(actor, 0) * clock.jump_ms
        self._scheduler.saw(now)
        return now

    def monotonic(self) -> float:
        """Seconds of common time since the start."""
        self._scheduler.saw(self._scheduler.time_ms)
        return (self._scheduler.time_ms - self._start_ms) / 1000

    def sleep(self, seconds: float) -> None:
        """Let the running actor wait; outside of a run only time passes."""
        until = self._scheduler.time_ms + max(1, round(seconds * 1000))
        if not self._scheduler.actor:
            self._scheduler.time_ms = until
            return
        # A sleeping actor that waits for other actors wakes when one of them has changed something. An earlier wake would show nothing new.
        seen = self._scheduler.changes
        self._scheduler.visit(Call("sleep", "", wait=Wait(lambda: self._scheduler.changes != seen, until)))
        self._scheduler.time_ms = max(self._scheduler.time_ms, until)
        for wake in list(self._on_wake):
            wake()

    def advance(self, seconds: float) -> None:
        """Move the common time, from outside the actors."""
        self._scheduler.time_ms += round(seconds * 1000)

    def _jump(self, actor: str) -> None:
        self._jumps[actor] = self._jumps.get(actor, 0) + 1

    def on_wake(self, call: Callable[[], None]) -> None:
        """Call the function after each sleep, in the actor that slept."""
        self._on_wake.append(call)


@set_module("pyhudi.testing")
class SimIds:
    """Identifiers that depend only on seed, actor and count."""

    def __init__(self, scheduler: Scheduler, seed: int = 0) -> None:
        self._scheduler = scheduler
        self._seed = seed
        self._taken: dict[str, int] = {}

    def uuid(self) -> str:
        """Return the running actor's next identifier."""
        return str(UUID(bytes=self._next(), version=4))

    def below(self, bound: int) -> int:
        """Return a number that is at least 0 and below the bound."""
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
        """Make no more calls."""
        self._timer.forget(self)


@set_module("pyhudi.testing")
class SimTimer:
    """Background calls without threads: a due call runs in the actor that requested it, when this actor wakes from a sleep."""

    def __init__(self, scheduler: Scheduler, clock: SimClock) -> None:
        self._scheduler = scheduler
        self._handles: list[SimTimerHandle] = []
        clock.on_wake(self.fire_due)

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> SimTimerHandle:
        """Call ``fn`` whenever the running actor wakes and this time has passed."""
        period = max(1, round(seconds * 1000))
        handle = SimTimerHandle(self, self._scheduler.actor, period, fn, self._scheduler.time_ms + period)
        self._scheduler.saw(handle.due_ms)
        self._handles.append(handle)
        return handle

    def fire_due(self) -> None:
        """Make the due calls of the running actor; an error is kept in the call's handle."""
        for handle in [h for h in self._handles if h.actor == self._scheduler.actor]:
            if handle.due_ms <= self._scheduler.time_ms:
                handle.due_ms = self._scheduler.time_ms + handle.period_ms
                self._scheduler.saw(handle.due_ms)
                try:
                    handle.fn()
                except Exception as error:  # noqa: BLE001 (as the real timer does)
                    handle.error = error

    def forget(self, handle: SimTimerHandle) -> None:
        """End a repeating call."""
        if handle in self._handles:
            self._handles.remove(handle)
