"""Explore every interleaving of a few actors without a bound, but only one of the orders that differ in independent steps.

The method is sleep sets with stored states (P. Godefroid, Partial-Order Methods, chapters 5 and 6). After a step of one actor was explored, the same
step is not explored again after steps of others that are independent of it; it "sleeps" until a dependent step. Every end state of any schedule is
still reached. What a step reads and changes is observed while it runs.

Invariants: two steps are independent only if they share no object that one of them changes (a listing reads all names below it), do not both add to
the history, and none of them lets time pass, has a fault or writes a file in parts. Only choices may be counted, because a sleeping step was tried
with another number of preemptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyhudi_core.naming import set_module
from pyhudi_core.testing.exploring import PREEMPTION, Bounds, Report, Scenario, ScheduleSearch, World
from pyhudi_core.testing.history import History
from pyhudi_core.testing.scheduler import CRASH, PAUSE, Call, ScheduleChoice, Scheduler, SimulationError

W = TypeVar("W", bound=World)

_LOOKS = frozenset({"get", "head", "open_input"})
_CHANGES = frozenset({"put", "put_if_absent", "put_if_match", "delete", "delete_if_match"})
_OF_ONE_OBJECT = frozenset({"acquire", "still_held", "release", "next_time"})
_OF_NONE = frozenset({"start", "return", "choose"})


@dataclass(slots=True)
class StepFootprint:
    """The objects that one step read and changed. ``all_of_it``: unknown, so the step may have touched everything."""

    looked: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    all_of_it: bool = False

    def add(self, call: Call, fault: str) -> None:
        """Record a call of the step, and its fault."""
        if call.verb in _OF_NONE:
            return
        if fault:
            self.all_of_it = True
        elif call.verb in _LOOKS:
            self.looked.add(call.name)
        elif call.verb in _CHANGES or call.verb in _OF_ONE_OBJECT:
            self.changed.add(call.name)
        elif call.verb == "list":
            self.listed.add(call.name)
        else:
            self.all_of_it = True

    def is_apart_from(self, other: StepFootprint) -> bool:
        """Say whether the two steps have the same effect in either order."""
        if self.all_of_it or other.all_of_it:
            return False
        return not (self._disturbs(other) or other._disturbs(self))

    def _disturbs(self, other: StepFootprint) -> bool:
        if self.changed & other.changed or self.changed & other.looked:
            return True
        return any(path.startswith(prefix) for path in self.changed for prefix in other.listed)


class _Observer:
    """Observes what each step of one run reads and changes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._touched = StepFootprint()
        visit, note = scheduler.visit, scheduler.note

        def seen_visit(call: Call, private: bool = False) -> str:
            before = scheduler.time_ms
            fault = visit(call, private)
            self._touched.add(call, fault)
            if call.wait is not None and scheduler.time_ms != before:
                self._touched.all_of_it = True
            return fault

        def seen_note(kind: str, value: object = None) -> None:
            self._touched.changed.add("history")
            note(kind, value)

        scheduler.visit = seen_visit  # type: ignore[method-assign]
        scheduler.note = seen_note  # type: ignore[method-assign]

    def take(self) -> StepFootprint:
        """Return the reads and changes since the last call."""
        taken, self._touched = self._touched, StepFootprint()
        return taken


Sleeping = dict[str, StepFootprint]
"""Choices that need not be tried, and what their steps touch."""


@dataclass(slots=True)
class _Seen:
    """A visit of a state. ``used``: the budgets that were used before the visit. ``asleep``: the choices that were not tried in the state."""

    used: tuple[int, ...]
    asleep: frozenset[str]


class _Run:
    """One run. The run follows a path whose last step is new, and continues as long as it reaches new states."""

    def __init__(self, tree: _Tree, path: list[str], before: Sleeping) -> None:
        self._tree = tree
        self._path = path
        self._given = len(path)
        # The choices that need not be tried in the state before the path's last step. Each step that is tried in this state is added.
        self._before = before

    def choose(self, decision: ScheduleChoice) -> str | None:
        """Return the strategy of this run."""
        touched = self._tree.observer.take()
        if decision.step < self._given:
            return self._path[decision.step]
        asleep = self._still_asleep(touched) if self._path else {}
        todo = self._tree.untried(decision, asleep)
        if not todo:
            return None
        self._tree.pending.extend(([*self._path, other], asleep) for other in reversed(todo[1:]))
        self._before = asleep
        self._path.append(todo[0])
        return todo[0]

    def _still_asleep(self, touched: StepFootprint) -> Sleeping:
        """Return the steps that sleep after the latest step. Before the latest step they slept or were tried in its place, and they are independent
        of it."""
        latest = self._path[-1]
        others = {choice: step for choice, step in self._before.items() if _actor(choice) != _actor(latest)}
        self._before[latest] = touched
        return {choice: step for choice, step in others.items() if step.is_apart_from(touched)}


def _actor(choice: str) -> str:
    return choice.partition("!")[0]


class _Tree:
    """The explored and the unexplored states."""

    def __init__(self, budgets: Sequence[str]) -> None:
        self.pending: list[tuple[list[str], Sleeping]] = [([], {})]
        self.seen: dict[int, list[_Seen]] = {}
        self.observer: _Observer
        self._budgets = tuple(budgets)

    def untried(self, decision: ScheduleChoice, asleep: Sleeping) -> list[str]:
        """Return the choices to try in this state; none if all were tried, or sleep."""
        awake = [choice for choice in decision.options if choice not in asleep]
        used = tuple(decision.used.get(name, 0) for name in self._budgets)
        known = self.seen.setdefault(decision.key, [])
        for before in known:
            if all(u <= v for u, v in zip(before.used, used, strict=True)):
                untried = before.asleep - asleep.keys()
                before.asleep = before.asleep & asleep.keys()
                return [choice for choice in awake if choice in untried]
        known.append(_Seen(used, frozenset(asleep)))
        return awake


@set_module("pyhudi.testing")
def explore_all(
    world: Callable[[], W],
    actors: Sequence[Callable[[W], object]],
    check: Callable[[W, History], None],
    bounds: Bounds | None = None,
) -> Report:
    """Try every schedule; of schedules that differ only in the order of independent steps, try one.

    Args:
        bounds: the budgets of choices that are no failures (in ``faults``), and ``schedules``.

    Raises `SimulationError` for bounds on anything else.
    """
    limits = bounds or Bounds()
    budgets = tuple(limits.of_run().budgets)
    tree = _Tree(budgets)

    def observed() -> W:
        made = world()
        if {PREEMPTION, CRASH, PAUSE, *made.scheduler.disturbances} & set(budgets):
            raise SimulationError("Steps cannot be omitted if preemptions, crashes, pauses or disturbances are counted")
        tree.observer = _Observer(made.scheduler)
        return made

    search = ScheduleSearch(Scenario(observed, actors, check), limits)
    while tree.pending and not search.over():
        search.run(_Run(tree, *tree.pending.pop()).choose)
    return search.report(len(tree.seen), exhausted=not tree.pending)
