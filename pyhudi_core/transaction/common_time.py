"""The completion time that all tables of one transaction get.

Invariant: this time is above the completion time of every earlier commit in each of the tables. It is chosen above the times of the first table.
Each other table refuses the time if the table has a later commit; then all tables are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pyhudi_core.model.instant import epoch_ms, format_time
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction.begin import completion_time_after

_AHEAD_MS, _MOST_AHEAD_MS = 20, 10_000
"""The least and the greatest distance of the time from now. A commit that completes before the last table is prepared should have an earlier time."""
_ROUNDS = 6
"""The preparation of a table takes about as long as this many looks at its timeline."""


@dataclass(slots=True)
class CommonTime:
    """The common completion time of one attempt: above every time on the timelines, and later than now by about the time that the preparation of the
    other tables takes. It is chosen under the lock of the first table, so that transactions over the same tables get their times in the order of
    their turns.

    Attributes:
        highest: the greatest time on the timelines; the common time is above it.
        ahead_ms: the distance of the time from now. The estimate is the duration of six looks at the timelines; after an attempt whose time was too
            early, it is twice the duration of that attempt.
        time: the chosen time; empty if it is not chosen yet.
        at: the moment of the choice, by the monotonic clock.
    """

    context: TableContext
    highest: str
    ahead_ms: int
    time: str = ""
    at: float = 0.0

    @classmethod
    def of(cls, contexts: Sequence[TableContext], late_ms: int, *, held: bool) -> Self:
        """Look at the timelines.

        Args:
            contexts: the tables; the first is prepared first.
            late_ms: the duration of the last attempt, if it lost because its time was too early.
            held: whether the transaction holds the locks of all tables, so that no other commit can complete meanwhile.
        """
        clock = contexts[0].runtime.clock
        began = clock.monotonic()
        marks = [
            place.folder.load().high_water_mark for context in contexts for place in (context, *context.companions)
        ]
        looks_ms = int((clock.monotonic() - began) * 1000)
        ahead_ms = min(max(_AHEAD_MS, _ROUNDS * looks_ms, 2 * late_ms), _MOST_AHEAD_MS)
        return cls(contexts[0], max(marks), 0 if held else ahead_ms)

    def choose(self, least: str) -> str:
        """Choose the time under the lock of the first table, not below ``least``."""
        runtime = self.context.runtime
        self.at = runtime.clock.monotonic()
        soon = format_time(runtime.instant_ms() + self.ahead_ms, utc=self.context.utc)
        self.time = completion_time_after(self.context, max(soon, self.highest, least))
        return self.time

    def chosen(self, least: str) -> str:
        """Return the chosen time, for another table. The caller checks that the time is not below ``least``."""
        return self.time

    def late_ms(self) -> int:
        """Return how long ago the time was chosen; 0 if the time is still in the future."""
        if not self.time or self.context.now() <= self.time:
            return 0
        return int((self.context.runtime.clock.monotonic() - self.at) * 1000)

    def wait(self) -> None:
        """Wait until the clock shows the time, so that no commit has a time in the future."""
        ahead_ms = (epoch_ms(self.time, utc=self.context.utc) or 0) - self.context.runtime.instant_ms()
        if 0 < ahead_ms <= _MOST_AHEAD_MS:
            self.context.runtime.clock.sleep(ahead_ms / 1000)
