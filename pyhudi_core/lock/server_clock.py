"""Times of instants from a server, behind the clock protocol: the external time generator of the specification (section "Timeline").

Each call of `now_ms` returns a time above every time that any process got from the same counter. If this machine's clock is ahead of the counter,
its time is used, so times stay close to real time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyhudi_core.runtime.base import Clock


class Counter(Protocol):
    """A number on a server that only rises."""

    def next_from(self, least: int) -> int:
        """Return a number above every number that was returned before, and at least ``least``. Raises `LockServerError`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Time of day from a server; waiting is this machine's."""

    counter: Counter
    machine: Clock

    def now_ms(self) -> int:
        return self.counter.next_from(self.machine.now_ms())

    def monotonic(self) -> float:
        return self.machine.monotonic()

    def sleep(self, seconds: float) -> None:
        self.machine.sleep(seconds)
