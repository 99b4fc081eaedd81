"""The clock of `kv_table`: it hands out the times that a configuration chooses."""

from __future__ import annotations

from typing import Any

from pyhudi_core.testing import SimClock


class KvClock(SimClock):
    """A clock that stands one minute after all possible begin times; ``next_begin`` is the next time that an actor reads."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.next_begin: dict[str, int] = {}
        self.given = 0

    def now_ms(self) -> int:
        chosen = self.next_begin.pop(self._scheduler.actor, None)
        return super().now_ms() + 60_000 if chosen is None else chosen

    def next_time(self) -> int:
        """The provider's next time."""
        return self.given + 1

    def sleep(self, seconds: float) -> None:
        # Waits for the clock skew end at once: others may go on at every call anyway.
        if seconds > 0.01 or not self._scheduler.actor:
            super().sleep(seconds)
