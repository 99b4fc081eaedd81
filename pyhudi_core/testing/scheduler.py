"""Run several actors in one thread, in the order that a strategy chooses.

An actor is ordinary synchronous code in a greenlet. It runs until its next step that others can see: a call of the simulated storage, lock or clock.
There it waits, and the strategy chooses which actor continues and whether a fault happens to its call. So a run is a pure function of the world and
the choices.

Choices are texts: ``a`` (actor a makes its call), ``a!lost_ack`` (it makes its call with this fault), ``a!crash`` (it crashes before its call),
``a!pause`` (it pauses for a long time with all its timers, then makes its call), ``!expire`` (the disturbance with this name happens to the world).

Invariants: simulated time advances only in sleeps and if no actor can run. A crashed actor changes nothing more, even while its ``finally`` blocks
run. Two decisions have the same key only if their possible futures are the same. Actors may share only the parts of the world, because the key
contains nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import greenlet

from pyhudi_core.errors import HudiError
from pyhudi_core.naming import set_module
from pyhudi_core.testing.call_sites import CallSite, calling_site
from pyhudi_core.testing.hashing import stable_hash as stable_hash  # noqa: PLC0414 (values for `saw`)
from pyhudi_core.testing.history import History

CRASH = "crash"
PAUSE = "pause"


@set_module("pyhudi.testing")
class ActorCrashed(BaseException):
    """Unwinds a crashed actor; not an `Exception`, so that no ordinary handler stops it."""


@set_module("pyhudi.testing")
class SimulationError(Exception):
    """The simulation is used incorrectly, or its actors are not deterministic."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of an actor until ``ready()`` is true. If no other actor can run, the actor waits until this time."""

    ready: Callable[[], bool]
    until_ms: int


class Call(NamedTuple):
    """The next call of a waiting actor: verb, object, and the faults that may happen to it.

    ``site`` is the line of the package that makes the call; None unless the scheduler traces sites.
    """

    verb: str
    name: str
    faults: tuple[str, ...] = ()
    wait: Wait | None = None
    site: CallSite | None = None


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """A moment at which the strategy chooses.

    Attributes:
        options: the possible choices; the first one is without a preemption.
        used: numbers of preemptions, crashes, faults and disturbances so far, by name.
        step: number of choices so far.
    """

    options: tuple[str, ...]
    used: Mapping[str, int]
    step: int
    find_key: Callable[[], int]

    @property
    def key(self) -> int:
        """A hash of the state of the world and its actors; equal keys have equal futures. Valid only during this decision."""
        return self.find_key()


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Disturbance:
    """An event that may happen to the world at any time, such as the expiry of a lease."""

    possible: Callable[[], bool]
    happen: Callable[[], None]


@dataclass(frozen=True, slots=True)
class RunBounds:
    """The limits of a run: budgets by name (``preemption``, ``crash``, ``pause``, faults, disturbances), and the number of steps.

    Preemptions without an entry are not bounded; anything else without an entry does not happen. ``every_call`` makes calls on private objects
    scheduling points, too.
    """

    budgets: Mapping[str, int] = field(default_factory=dict)
    every_call: bool = False
    steps: int = 20_000


Strategy = Callable[[ScheduleChoice], str | None]
"""Chooses one of the options; returns None to end the run early."""


class _Actor:
    def __init__(self, name: str, scheduler: Scheduler, work: Callable[[], object]) -> None:
        self.name = name
        self.scheduler = scheduler
        self.digest = stable_hash(name)
        self.pending: Call | None = Call("start", "")
        self.fault = ""
        self.crashed = False
        self.greenlet = greenlet.greenlet(lambda: scheduler.body(self, work))

    @property
    def alive(self) -> bool:
        return self.pending is not None

    def is_ready(self) -> bool:
        wait = self.pending.wait if self.pending is not None else None
        return wait is None or self.scheduler.time_ms >= wait.until_ms or wait.ready()

    def wakes_ms(self) -> int:
        return self.pending.wait.until_ms if self.pending is not None and self.pending.wait is not None else 0


@set_module("pyhudi.testing")
class Scheduler:
    """Schedules the actors of a world; all its simulated parts share it. Outside of `run`, calls are executed at once.

    Attributes:
        traces_sites: every call records the line of the package that makes it.
        pause_ms: duration of a pause.
    """

    def __init__(self) -> None:
        self.traces_sites = False
        self.pause_ms = 600_000
        self.history = History()
        self.disturbances: dict[str, Disturbance] = {}
        self.time_ms = 0
        self.changes = 0
        self.on_step: Callable[[str, Call | None], None] | None = None
        self._bounds = RunBounds()
        self._digests: list[Callable[[], int]] = []
        self._actors: dict[str, _Actor] = {}
        self._current: _Actor | None = None
        self._last = ""
        self._used: dict[str, int] = {}
        self._looked_at: set[str] = set()
        self._hub: Any = None

    @property
    def actor(self) -> str:
        """Name of the running actor; empty outside of a run."""
        return self._current.name if self._current else ""

    def has_crashed(self, name: str) -> bool:
        """Say whether the actor of that name has crashed."""
        return any(event.actor == name and event.kind == "crashed" for event in self.history.events)

    def is_seen_gone(self, name: str) -> bool:
        """Say whether the running actor detects that the other actor has crashed. An actor that is alive may crash just after this check."""
        gone = self.has_crashed(name)
        if not gone and name in self._actors and name != self.actor:
            self._looked_at.add(name)
        self.saw(gone)
        return gone

    def watch(self, digest: Callable[[], int]) -> None:
        """Include a part's state in the key."""
        self._digests.append(digest)

    def may_happen(self, name: str) -> bool:
        """Say whether the budgets of the run allow the fault or disturbance."""
        return self._bounds.budgets.get(name, 0) > 0

    def visit(self, call: Call, private: bool = False) -> str:
        """Let the running actor wait before a call; returns the fault that happens to the call, or an empty text."""
        actor = self._current
        if actor is None:
            return ""
        if actor.crashed:
            raise ActorCrashed
        if private and not self._bounds.every_call:
            self.saw(stable_hash(f"{call.verb} {call.name} "))
            return ""
        actor.pending = call._replace(site=calling_site()) if self.traces_sites else call
        self._hub.switch()
        if actor.crashed:
            raise ActorCrashed
        # A step without a result for its actor (a sleep that has already ended) must still change the key.
        self.saw(stable_hash(f"{call.verb} {call.name} {actor.fault}"))
        return actor.fault

    def saw(self, value: int) -> None:
        """Add a value that the running actor has read to this actor's part of the key."""
        if self._current is not None:
            self._current.digest = hash((self._current.digest, value))

    def changed(self) -> None:
        """Wake sleeping actors, because visible state has changed."""
        self.changes += 1

    def note(self, kind: str, value: object = None) -> None:
        """Record an event of the running actor. The place of the event among the events of other actors becomes part of the key."""
        self.history.add(self.actor, kind, value)
        self.saw(stable_hash(repr((kind, self.history.order()))))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Inside the block, the calls of the running actor are executed at once: no other actor runs, and no fault happens."""
        current, self._current = self._current, None
        try:
            yield
        finally:
            self._current = current

    def crash_here(self) -> None:
        """Crash the running actor in the middle of a call (torn writes)."""
        if self._current is not None:
            self._current.crashed = True
        raise ActorCrashed

    def run(self, actors: Sequence[tuple[str, Callable[[], object]]], choose: Strategy, bounds: RunBounds) -> bool:
        """Run the actors to their ends; returns False if the strategy ended the run."""
        self._bounds = bounds
        self._hub = greenlet.getcurrent()
        self._actors = {name: _Actor(name, self, work) for name, work in actors}
        self._used = {}
        self._last = ""
        step = 0
        try:
            while any(actor.alive for actor in self._actors.values()):
                options = self._options()
                choice = choose(ScheduleChoice(options, self._used, step, self._key))
                if choice is None:
                    return False
                if choice not in options:
                    raise SimulationError(
                        f"The choice {choice!r} is not one of {options}; is an actor not deterministic?"
                    )
                self._perform(choice)
                step += 1
                if step > bounds.steps:
                    raise SimulationError(f"The run has not ended after {bounds.steps} steps")
            return True
        finally:
            self._end()

    def body(self, actor: _Actor, work: Callable[[], object]) -> None:
        """The code of an actor's greenlet."""
        self.note("invoke")
        try:
            result = work()
            if CRASH in self._bounds.budgets:
                # The work is done, but its result is not reported yet: a crash here differs from success.
                self.visit(Call("return", ""))
            self.note("ok", result)
        except ActorCrashed:
            actor.crashed = True
        except HudiError as error:
            if not actor.crashed:
                self.note("failed", error)
        except Exception as error:  # noqa: BLE001 (whatever an actor raises is for the check to judge)
            if not actor.crashed:
                self.note("broken", error)
        finally:
            actor.pending = None
            if actor.crashed:
                self.history.add(actor.name, "crashed", None)

    def _options(self) -> tuple[str, ...]:
        alive = [actor for actor in self._actors.values() if actor.pending is not None]
        ready = [actor for actor in alive if actor.is_ready()]
        running = any(actor.name == self._last for actor in ready)
        if not ready:
            # No actor can continue: time advances until the first actor wakes, or until several actors wake at the same time.
            first = min(actor.wakes_ms() for actor in alive)
            ready = [actor for actor in alive if actor.wakes_ms() == first]
        names = [actor.name for actor in ready]
        if running:
            names = [self._last] + ([n for n in names if n != self._last] if self._left("preemption", True) else [])
        left = {name for name, budget in self._bounds.budgets.items() if self._used.get(name, 0) < budget}
        return (*names, *self._events(names, left)) if left else tuple(names)

    def _events(self, names: Sequence[str], left: AbstractSet[str]) -> Iterator[str]:
        """Yield the crashes, pauses, faults and disturbances that the budgets allow before the next call of these actors."""
        for name in names:
            call = self._actors[name].pending
            yield from (f"{name}!{fault}" for fault in (call.faults if call else ()) if fault in left)
        if CRASH in left:
            yield from (f"{name}!{CRASH}" for name in self._may_crash())
        last = self._actors.get(self._last)
        if PAUSE in left and last is not None and last.alive and last.is_ready():
            # It does not matter whether a pause begins now or later, because no other actor can see the difference.
            yield f"{last.name}!{PAUSE}"
        yield from (f"!{n}" for n, d in self.disturbances.items() if n in left and d.possible())

    def _may_crash(self) -> list[str]:
        """Return the actors whose crash is tried now: the actor that has just begun to wait, and the actors of which the latest step checked whether
        they are alive.

        For all other actors, a crash now has the same effects as a later crash, because in between no actor checks whether they are alive.
        """
        names = [self._last, *sorted(self._looked_at - {self._last})]
        return [name for name in names if name in self._actors and self._actors[name].alive]

    def _left(self, name: str, unbounded: bool = False) -> bool:
        budget = self._bounds.budgets.get(name)
        return unbounded if budget is None else self._used.get(name, 0) < budget

    def _perform(self, choice: str) -> None:
        name, _, event = choice.partition("!")
        if event:
            self._used[event] = self._used.get(event, 0) + 1
        if not name:
            self._report(choice, None)
            self.disturbances[event].happen()
            self.changed()
            return
        actor = self._actors[name]
        self._report(choice, actor.pending)
        self._looked_at.clear()
        if event == CRASH:
            self._kill(actor)
            return
        if event == PAUSE:
            self._pause(actor)
            return
        if self._preempts(name):
            self._used["preemption"] = self._used.get("preemption", 0) + 1
        if not actor.is_ready():
            self.time_ms = max(self.time_ms, actor.wakes_ms())
        actor.fault = event
        self._last = name
        self._resume(actor)

    def _preempts(self, name: str) -> bool:
        last = self._actors.get(self._last)
        if last is None or name == self._last or not last.alive:
            return False
        return last.is_ready()

    def _report(self, choice: str, call: Call | None) -> None:
        if self.on_step is not None:
            self.on_step(choice, call)

    def _resume(self, actor: _Actor) -> None:
        self._current = actor
        try:
            actor.greenlet.switch()
        finally:
            self._current = None

    def _kill(self, actor: _Actor) -> None:
        actor.crashed = True
        self._current = actor
        try:
            # An actor that has not started has nothing to unwind.
            if actor.greenlet:
                actor.greenlet.throw(ActorCrashed)
            else:
                actor.pending = None
                self.history.add(actor.name, "crashed", None)
        finally:
            self._current = None
        self.changed()

    def _pause(self, actor: _Actor) -> None:
        until = self.time_ms + self.pause_ms
        call = actor.pending or Call("start", "")
        actor.pending = call._replace(wait=Wait(lambda: False, until))
        actor.digest = hash((actor.digest, stable_hash(PAUSE), until))

    def _key(self) -> int:
        actors = tuple([(a.digest, a.alive, a.crashed, a.is_ready(), a.wakes_ms()) for a in self._actors.values()])
        # The last actor determines what counts as a preemption, and which actors may crash or pause.
        counted = {"preemption", CRASH, PAUSE} & self._bounds.budgets.keys()
        who = stable_hash(" ".join((self._last, *sorted(self._looked_at)))) if counted else 0
        world = tuple([digest() for digest in self._digests])
        return hash((actors, world, self.time_ms, who))

    def _end(self) -> None:
        for actor in self._actors.values():
            if actor.alive:
                self._kill(actor)
        self._actors = {}
        self._last = ""
