"""Record which transactions of a source a table contains. Readers see every transaction up to the watermark.

Suppose that several writers load the numbered transactions of one source. They finish in any order, so the greatest committed number may be ahead of
a batch that is still being written. Here each commit stores a few intervals in its ``extra_metadata``: its own numbers, and all numbers that were
visible when it began. Rows and intervals become visible in one step, and visible rows stay visible. So the union of the intervals of all visible
commits is exactly what can be read. A commit also stores the completion time up to which it repeats the intervals of older commits. So only archived
commits that completed later are read. If no commit of the active timeline has intervals, archived commits are read, from the newest one to the first
one with intervals.

Invariants: every transaction up to `transaction_watermark` is visible; for one table the watermark never decreases (except by a restore).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.shared_commits import extras_of
from pyhudi_core.naming import set_module
from pyhudi_core.timeline.active import Timeline

TRANSACTIONS_KEY = "pyhudi.transactions"
SEEN_KEY = "pyhudi.transactions.seen"
"""The completion time up to which a commit repeats the intervals of older commits."""

Interval = tuple[int, int]


class CommitLog(Protocol):
    """The methods of a table that this module uses."""

    @property
    def timeline(self) -> Timeline: ...

    def commit_metadata(self, instant: Instant) -> CommitMetadata: ...

    def archived_commits(self, after: str = "") -> Iterator[CommitMetadata]: ...


@set_module("pyhudi")
@refuses_wrong_types
def transactions(table: CommitLog, first: int, last: int) -> dict[str, str]:
    """Return the ``extra_metadata`` for a commit with the transactions ``first`` to ``last``, both included.

    Raises `InvalidOptionError` if the numbers are not valid.
    """
    if not 0 <= first <= last:
        raise InvalidOptionError(
            f"{first} to {last} are not transactions", hint="Give the first and the last number, from 0 upwards."
        )
    # First, so that a commit that completes meanwhile is repeated rather than missed.
    seen = table.timeline.newest_completion
    return {TRANSACTIONS_KEY: _text(_united([*held_transactions(table), (first, last)])), SEEN_KEY: seen}


@set_module("pyhudi")
def held_transactions(table: CommitLog) -> list[Interval]:
    """Return the transactions that readers of the table see now, as intervals (first, last), lowest first."""
    timeline = table.timeline
    saying = list(_saying(map(table.commit_metadata, timeline.commits)))
    if timeline.has_history:
        if not saying:
            saying = list(islice(_saying(table.archived_commits()), 1))
        seen = max((extra.get(SEEN_KEY, "") for extra in saying), default=None)
        if seen is not None:
            saying.extend(_saying(table.archived_commits(seen)))
    return _united(interval for extra in saying for interval in _intervals(extra[TRANSACTIONS_KEY]))


def _saying(commits: Iterable[CommitMetadata]) -> Iterator[Mapping[str, str]]:
    """Yield the extra metadata with transactions: of commits, and of the batches that share a commit."""
    return (extra for commit in commits for extra in extras_of(commit) if TRANSACTIONS_KEY in extra)


@set_module("pyhudi")
@refuses_wrong_types
def transaction_watermark(table: CommitLog, first: int = 1) -> int:
    """Return the number up to which every transaction from ``first`` on is visible; ``first - 1`` if there is none."""
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


def _intervals(text: str) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
            raise CorruptTimelineError(
                f"A commit's {TRANSACTIONS_KEY!r} does not hold intervals: {text[:100]!r}",
                hint="Write that key with pyhudi.transactions() only.",
            )
        found.append((int(low), int(high)))
    return found
