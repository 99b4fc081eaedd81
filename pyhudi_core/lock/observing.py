"""What a waiting writer has seen of the lease of others: a holder that has died does not change its mark any more.

Only the observer's monotonic clock counts, so clocks of machines may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Observed:
    """For each lock the mark that was seen last, and since when. It belongs to one lock of one table object, and is kept between its acquisitions."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def unchanged_s(self, lock: Hashable, mark: object, now: float) -> float:
        """Note the mark that was read before ``now``, a moment of the monotonic clock; returns for how many seconds it has not changed."""
        found = self._seen.get(lock)
        if found is None or found[0] != mark:
            self._seen[lock] = (mark, now)
            return 0.0
        return now - found[1]

    def forget_others(self, locks: Collection[Hashable]) -> None:
        """Forget what is not among the given locks."""
        self._seen = {lock: seen for lock, seen in self._seen.items() if lock in locks}
