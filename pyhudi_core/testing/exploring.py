"""Explore every interleaving of a few actors, with every crash and every fault within bounds, on the real code.

The search is stateless: a greenlet cannot be copied, so each schedule is executed from the start of a new world. A state that was reached before with
the same remaining budget is not explored again. After each run, the check examines the world and its history.

Bounds: ``preemptions`` is how often an actor may be interrupted although it could continue (None: without limit); ``crashes`` is how many actors may
crash; ``faults`` is how often each fault (names of `Fault`), disturbance (such as ``expire_lock``) or ``pause`` may happen.

"Exhausted" is correct because states with different futures have different keys (see ``scheduler``). An exploration that omitted nothing and has no
completed run is refused as an error.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from pyhudi_core.naming import set_module
from pyhudi_core.testing.faults import Fault
from pyhudi_core.testing.history import History
from pyhudi_core.testing.random_choice import CoinTosses, Priorities
from pyhudi_core.testing.scheduler import (
    CRASH,
    PAUSE,
    Call,
    RunBounds,
    ScheduleChoice,
    Scheduler,
    SimulationError,
    Strategy,
)
from pyhudi_core.testing.schedules import Violation, parse_schedule, shrink

PREEMPTION = "preemption"


@set_module("pyhudi.testing")
class World(Protocol):
    """The part of a world that an exploration uses: a new scheduler, which all parts of the world share."""

    scheduler: Scheduler


W = TypeVar("W", bound=World)


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of an exploration; see the module's docstring. ``every_call`` also crashes and switches actors at calls on private objects."""

    preemptions: int | None = None
    crashes: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    every_call: bool = False
    schedules: int | None = None
    steps: int = 20_000

    def of_run(self) -> RunBounds:
        """Return the bounds of one run."""
        budgets = dict(self.faults)
        if self.crashes:
            budgets[CRASH] = self.crashes
        if self.preemptions is not None:
            budgets[PREEMPTION] = self.preemptions
        return RunBounds(budgets, self.every_call, self.steps)


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Scenario(Generic[W]):
    """The scenario of an exploration.

    Attributes:
        world: creates a new world in its starting state.
        actors: called with the world; the first has the name ``a``, the next ``b``, and so on.
        check: raises an error (such as AssertionError) if the world or the history breaks a promise.
    """

    world: Callable[[], W]
    actors: Sequence[Callable[[W], object]]
    check: Callable[[W, History], None]


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Report:
    """The result of an exploration.

    Attributes:
        schedules: number of started runs.
        complete: number of runs that reached their end and were checked.
        states: number of different states at scheduling points.
        crash_points: calls before which an actor crashed, by verb and name.
        trace_hash: hash of all events; equal explorations have equal hashes.
        exhausted: whether every schedule within the bounds was covered.
        violation: the first violation, shrunk; None if no violation was found.
        seed: the seed of a random exploration.
    """

    schedules: int
    complete: int
    states: int
    crash_points: Mapping[tuple[str, str], int]
    trace_hash: str
    exhausted: bool
    violation: Violation | None
    seed: int | None = None

    def assert_clean(self) -> Report:
        """Return the report. If there is a violation, raise AssertionError with its schedule and a test to copy."""
        if self.violation is not None:
            seed = "" if self.seed is None else f"Seed {self.seed}, run {self.schedules}. "
            raise AssertionError(seed + self.violation.text()) from self.violation.error
        return self


@set_module("pyhudi.testing")
def explore(
    world: Callable[[], W],
    actors: Sequence[Callable[[W], object]],
    check: Callable[[W, History], None],
    bounds: Bounds | None = None,
) -> Report:
    """Try every schedule within the bounds; stop at the first violation."""
    search = ScheduleSearch(Scenario(world, actors, check), bounds or Bounds())
    visited: dict[int, list[tuple[int, ...]]] = {}
    budgets = tuple(search.bounds.budgets)
    pending: list[tuple[str, ...]] = [()]
    while pending and not search.over():
        prefix = pending.pop()
        path = list(prefix)

        def choose(decision: ScheduleChoice, prefix: tuple[str, ...] = prefix, path: list[str] = path) -> str | None:
            if decision.step < len(prefix):
                return prefix[decision.step]
            used = tuple(decision.used.get(name, 0) for name in budgets)
            seen = visited.setdefault(decision.key, [])
            if any(all(u <= v for u, v in zip(before, used, strict=True)) for before in seen):
                return None
            seen.append(used)
            pending.extend((*path, other) for other in reversed(decision.options[1:]))
            path.append(decision.options[0])
            return decision.options[0]

        search.run(choose)
    return search.report(len(visited), exhausted=not pending)


@set_module("pyhudi.testing")
def explore_randomly(
    world: Callable[[], W],
    actors: Sequence[Callable[[W], object]],
    check: Callable[[W, History], None],
    bounds: Bounds,
    seed: int,
    priorities: bool = False,
) -> Report:
    """Run ``bounds.schedules`` random schedules (default: 1,000); equal seeds give equal runs.

    With ``priorities``, the actors get random priorities that change at a few random steps (probabilistic concurrency testing). This finds bugs that
    need few switches at the right steps. Without it, each step is chosen at random.
    """
    search = ScheduleSearch(Scenario(world, actors, check), bounds)
    chance = random.Random(seed)
    chooser = Priorities(chance) if priorities else CoinTosses(chance)
    for _ in range(bounds.schedules or 1000):
        if search.violation is not None:
            break
        chooser.begin()
        search.run(chooser.choose)
    return search.report(len(chooser.states), exhausted=False, seed=seed)


@set_module("pyhudi.testing")
def replay(
    world: Callable[[], W],
    actors: Sequence[Callable[[W], object]],
    check: Callable[[W, History], None],
    schedule: str,
    bounds: Bounds | None = None,
) -> Report:
    """Run one schedule in the form that a violation prints, then continue without preemption to the end.

    Parts that are not possible are omitted. Raises `SimulationError` for names that no schedule of this world can have.
    """
    choices = parse_schedule(schedule)
    _refuse_unknown(choices, len(actors), world)
    search = ScheduleSearch(Scenario(world, actors, check), bounds or Bounds())
    search.run_listed(choices)
    return search.report(0, exhausted=False, shrinking=False)


def _refuse_unknown(choices: Sequence[str], actors: int, world: Callable[[], World]) -> None:
    """Refuse a misspelt schedule: all its parts would be omitted, and its test would never fail."""
    names = [chr(ord("a") + number) for number in range(actors)]
    for choice in dict.fromkeys(choices):
        name, mark, event = choice.partition("!")
        events = {*(fault.value for fault in Fault), CRASH, PAUSE} if name else world().scheduler.disturbances.keys()
        if (name and name not in names) or (mark and event not in events):
            raise SimulationError(
                f"The part {choice!r} of the schedule does not exist in this world; actors are {', '.join(names)}"
            )


class ScheduleSearch(Generic[W]):
    """Runs and counts schedules, and keeps the first violation."""

    def __init__(self, scenario: Scenario[W], bounds: Bounds) -> None:
        self._scenario = scenario
        self._limit = bounds.schedules
        self.bounds = bounds.of_run()
        self.violation: Violation | None = None
        self._schedules = 0
        self._complete = 0
        self._crashes: Counter[tuple[str, str]] = Counter()
        self._trace = blake2b(digest_size=8)

    def over(self) -> bool:
        return self.violation is not None or (self._limit is not None and self._schedules >= self._limit)

    def run(self, choose: Strategy) -> None:
        """Make one run: count and trace it, and check it if it reaches its end."""
        self._schedules += 1
        violation = self._execute(choose, self.bounds)
        if violation is not None and self.violation is None:
            self.violation = violation

    def run_listed(self, choices: Sequence[str]) -> None:
        """Make one run with these choices and their faults; choices that are not possible are omitted."""
        self._schedules += 1
        self.violation = self._attempt(choices)

    def report(self, states: int, exhausted: bool, shrinking: bool = True, seed: int | None = None) -> Report:
        if exhausted and self.violation is None and self._complete == 0:
            raise SimulationError("Nothing was omitted, but no run came to its end: different states have the same key")
        found = shrink(self.violation, self._attempt) if self.violation is not None and shrinking else self.violation
        return Report(
            self._schedules,
            self._complete,
            states,
            dict(self._crashes),
            self._trace.hexdigest(),
            exhausted and self.violation is None,
            found,
            seed,
        )

    def _attempt(self, choices: Sequence[str]) -> Violation | None:
        """Run with these choices, omit impossible choices, then continue without preemption to the end."""
        wanted = list(choices)

        def choose(decision: ScheduleChoice) -> str:
            while wanted:
                choice = wanted.pop(0)
                if choice in decision.options:
                    return choice
            return decision.options[0]

        budgets = Counter(choice.partition("!")[2] for choice in choices if "!" in choice)
        return self._execute(choose, RunBounds(dict(budgets), self.bounds.every_call, self.bounds.steps))

    def _execute(self, choose: Strategy, bounds: RunBounds) -> Violation | None:
        world = self._scenario.world()
        scheduler = world.scheduler
        taken: list[str] = []
        lines: list[str] = []
        names = [chr(ord("a") + n) for n in range(len(self._scenario.actors))]
        actors = [(name, partial(actor, world)) for name, actor in zip(names, self._scenario.actors, strict=True)]

        def on_step(choice: str, call: Call | None) -> None:
            taken.append(choice)
            lines.append(f"{choice:<14} {call.verb} {call.name}" if call else choice)
            if choice.endswith("!" + CRASH) and call is not None:
                self._crashes[call.verb, call.name] += 1

        scheduler.history = History()
        scheduler.on_step = on_step
        error: BaseException | None = None
        try:
            if not scheduler.run(actors, choose, bounds):
                return None
            scheduler.on_step = None
            self._complete += 1
            broken = scheduler.history.of("broken")
            if broken and isinstance(broken[0].value, BaseException):
                raise broken[0].value
            self._scenario.check(world, scheduler.history)
        except Exception as found:  # noqa: BLE001 (what a check raises is the violation)
            error = found
        finally:
            self._trace.update("\n".join([*lines, repr(scheduler.time_ms), ""]).encode("utf-8", "replace"))
        return None if error is None else Violation(tuple(taken), error, tuple(lines))
