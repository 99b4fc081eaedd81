"""Concurrent calls in the simulator: they are made one after the other, in an order that the exploration chooses; and the number of their rounds.

A real executor gives no order. So every promise must hold in each order of the calls, and a process may crash between any two of them.
An exploration whose ``faults`` have `OUT_OF_TURN` chooses before each call of a group whether the call waits until the rest of the group has been
made. With as many of these choices as there are calls, every order is tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyhudi_core.testing.scheduler import Call, Scheduler

T = TypeVar("T")
R = TypeVar("R")
OUT_OF_TURN = "out_of_turn"
_WIDTH = 16
"""The maximum number of concurrent calls; the capabilities of object stores have the same number."""


class RoundCount:
    """Counts the rounds of each actor: the longest chain of its storage calls that are made one after the other."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._counts: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Return the rounds of the running actor so far; outside of a run, the rounds of all calls outside of runs."""
        return self._counts.get(self._scheduler.actor, 0)

    @count.setter
    def count(self, rounds: int) -> None:
        self._counts[self._scheduler.actor] = rounds

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """Count the calls of the block as one request."""
        begun = self.count
        try:
            yield
        finally:
            self.count = min(self.count, begun + 1)

    def at_once(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return the results of the call for the items, made in the given order, and count only the longest call."""
        begun = longest = self.count
        returned = []
        for number, item in enumerate(items):
            if number and number % _WIDTH == 0:
                begun = longest
            self.count = begun
            try:
                returned.append(call(item))
            finally:
                longest = max(longest, self.count)
                self.count = longest
        return returned


class SimExecutor:
    """Runs the calls one after the other, in the thread of the caller.

    Args:
        scheduler: offers the choice of the order.
        rounds: counts the rounds.
        backwards: the last call of a group is made first.
        shuffled: a seed; each group has a random order. 0: the given order.
    """

    def __init__(self, scheduler: Scheduler, rounds: RoundCount, *, backwards: bool = False, shuffled: int = 0) -> None:
        self._scheduler = scheduler
        self._rounds = rounds
        self._backwards = backwards
        self._shuffled = shuffled
        self._groups: dict[str, int] = {}

    @property
    def workers(self) -> int:
        return 1

    def at_least(self, calls: int) -> SimExecutor:
        return self

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        waiting = list(enumerate(items))
        if self._backwards:
            waiting.reverse()
        if self._shuffled and len(waiting) > 1:
            actor = self._scheduler.actor
            self._groups[actor] = group = self._groups.get(actor, 0) + 1
            random.Random(f"{self._shuffled} {actor} {group}").shuffle(waiting)
        returned: dict[int, R] = {}

        def call_next(_: int) -> None:
            number, item = self._next(waiting)
            returned[number] = fn(item)

        self._rounds.at_once(call_next, range(len(waiting)))
        return [returned[number] for number in range(len(returned))]

    def _next(self, waiting: list[tuple[int, T]]) -> tuple[int, T]:
        """Take the call that is made next."""
        while len(waiting) > 1 and self._scheduler.may_happen(OUT_OF_TURN):
            if not self._scheduler.visit(Call("choose", "order", (OUT_OF_TURN,))):
                break
            waiting.append(waiting.pop(0))
        return waiting.pop(0)
