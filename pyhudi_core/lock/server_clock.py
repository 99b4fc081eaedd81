"""Times of instants from a server, behind the clock protocol: the external time generator of the specification (section "Timeline").

Each call of `now_ms` returns a time above all earlier times of the same counter, in any process. If this machine's clock is ahead of the counter, the
time of the clock is used, so times stay close to real time.
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
    """The time of day comes from a server; waits use the clock of this machine."""

    counter: Counter
    machine: Clock

    def now_ms(self) -> int:
        return self.counter.next_from(self.machine.now_ms())

    def monotonic(self) -> float:
        return self.machine.monotonic()

    def sleep(self, seconds: float) -> None:
        self.machine.sleep(seconds)
