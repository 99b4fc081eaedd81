"""Waiting times between two attempts for a lock, with full jitter so that waiting writers do not try at the same moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyhudi_core.errors import LockError
from pyhudi_core.runtime.base import Clock, Ids

S = TypeVar("S")


class Patience:
    """The waiting times of one acquisition.

    Args:
        clock: measures and sleeps.
        ids: the source of jitter.
        first_ms: bound of the first wait.
        longest_ms: bound of every wait.
        growth: the factor between one bound and the next. With slow growth, the wait ends soon after the release of the lock: with 1.25 it is on
            average a sixth longer than necessary, with 2 a half longer.
    """

    def __init__(self, clock: Clock, ids: Ids, first_ms: int, longest_ms: int, growth: float = 2.0) -> None:
        self._clock = clock
        self._ids = ids
        self._bound_us = max(1, first_ms) * 1000
        self._longest_us = max(1, longest_ms) * 1000
        self._growth = growth

    def wait(self, at_most_s: float) -> None:
        """Sleep for a random time below the current bound, but at most the given time."""
        bound_us = min(self._bound_us, self._longest_us)
        self._bound_us = min(int(self._bound_us * self._growth), self._longest_us)
        self._clock.sleep(min(at_most_s, (1 + self._ids.below(bound_us)) / 1_000_000))


def acquire_patiently(
    attempt: Callable[[], S | None],
    give_up: Callable[[], LockError],
    patience: Patience,
    clock: Clock,
    timeout_s: float,
) -> S:
    """Repeat the attempt until it returns a result; when the time is over, raise the error that ``give_up`` returns."""
    started = clock.monotonic()
    while True:
        session = attempt()
        if session is not None:
            return session
        left = timeout_s - (clock.monotonic() - started)
        if left <= 0:
            raise give_up()
        patience.wait(left)
