"""The choices of random explorations.

Priorities follow probabilistic concurrency testing (Burckhardt et al., 2010): each run of n actors and k steps finds a bug that needs d ordering
constraints with a probability of at least 1 / (n k^(d-1)).
"""

from __future__ import annotations

from random import Random

from pyhudi_core.testing.scheduler import ScheduleChoice

_STAY = 0.6
_EVENTS_IN_A_RUN = 2


class CoinTosses:
    """Usually continues the running actor; this reaches deeper orders than an equal chance for all actors at every step."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.states: set[int] = set()

    def begin(self) -> None:
        """A new run begins."""

    def choose(self, decision: ScheduleChoice) -> str:
        """Return one of the options."""
        self.states.add(decision.key)
        if len(decision.options) == 1 or self._chance.random() < _STAY:
            return decision.options[0]
        return self._chance.choice(decision.options)


class Priorities:
    """Runs the actor with the highest priority; at ``depth`` - 1 random steps the running actor gets the lowest priority.

    Crashes, faults and disturbances happen at random steps, on average two in a run, within the bounds.
    """

    def __init__(self, chance: Random, depth: int = 3) -> None:
        self._chance = chance
        self._depth = depth
        self._length = 50
        self._priorities: dict[str, float] = {}
        self._changes: set[int] = set()
        self.states: set[int] = set()

    def begin(self) -> None:
        """A new run begins."""
        self._priorities = {}
        self._changes = {self._chance.randrange(self._length) for _ in range(self._depth - 1)}

    def choose(self, decision: ScheduleChoice) -> str:
        """Return one of the options."""
        self.states.add(decision.key)
        self._length = max(self._length, decision.step + 1)
        events = [option for option in decision.options if "!" in option]
        if events and self._chance.random() < _EVENTS_IN_A_RUN / self._length:
            return self._chance.choice(events)
        names = [option for option in decision.options if "!" not in option]
        for name in names:
            self._priorities.setdefault(name, self._chance.random())
        best = max(names, key=lambda name: self._priorities[name])
        if decision.step in self._changes:
            self._priorities[best] = min(self._priorities.values()) - 1
            best = max(names, key=lambda name: self._priorities[name])
        return best
