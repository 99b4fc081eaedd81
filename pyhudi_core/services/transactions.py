"""Which transactions of a source a table holds: a watermark that is never ahead of what readers see.

Several writers that load the numbered transactions of one source finish in any order, so "the greatest number that was committed" may be
ahead of a batch that is still being written. Here each commit says in its ``extra_metadata`` which numbers it holds together with all that
were visible when it began, as a few intervals. Rows and intervals become visible in one step, and what was visible stays so; hence the union over the
visible commits is exactly what can be read. The newest commits repeat what older ones said, so archival forgets nothing.

Invariants: `transaction_watermark` never names a number whose transaction is not visible; for one table it never goes back
(except by a restore).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.timeline.active import Timeline

TRANSACTIONS_KEY = "pyhudi.transactions"

Interval = tuple[int, int]


class CommitLog(Protocol):
    """What is asked of a table."""

    @property
    def timeline(self) -> Timeline: ...

    def commit_metadata(self, instant: Instant) -> CommitMetadata: ...


def transactions(table: CommitLog, first: int, last: int) -> dict[str, str]:
    """The ``extra_metadata`` of a commit that holds the transactions ``first`` to ``last``, both included.

    Raises `InvalidOptionError` if the numbers are none.
    """
    if not 0 <= first <= last:
        raise InvalidOptionError(
            f"{first} to {last} are not transactions", hint="Give the first and the last number, from 0 upwards."
        )
    return {TRANSACTIONS_KEY: _text(_united([*held_transactions(table), (first, last)]))}


def held_transactions(table: CommitLog) -> list[Interval]:
    """The transactions that readers of the table see now, as intervals (first, last), lowest first."""
    said: list[Interval] = []
    for instant in table.timeline.commits:
        text = table.commit_metadata(instant).extra.get(TRANSACTIONS_KEY)
        if text is not None:
            said.extend(_intervals(text, instant))
    return _united(said)


def transaction_watermark(table: CommitLog, first: int = 1) -> int:
    """The number up to which every transaction from ``first`` on is visible; ``first - 1`` if there is none."""
    for low, high in held_transactions(table):
        if low <= first <= high:
            return high
    return first - 1


def _united(intervals: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _text(intervals: Iterable[Interval]) -> str:
    return ",".join(f"{low}-{high}" for low, high in intervals)


def _intervals(text: str, instant: Instant) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
            raise CorruptTimelineError(
                f"The commit's {TRANSACTIONS_KEY!r} does not hold intervals",
                instant=instant.requested_time,
                hint="Write that key with pyhudi_core.transactions() only.",
            )
        found.append((int(low), int(high)))
    return found
