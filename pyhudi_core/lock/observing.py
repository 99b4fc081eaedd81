"""A waiting writer observes the leases of other writers: the mark of a dead holder no longer changes. Only the monotonic clock of the observer is
used, so clocks of machines may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Observed:
    """For each lock, the last observed mark, and the time of its first observation. One lock of one table object keeps this between acquisitions."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def unchanged_s(self, lock: Hashable, mark: object, now: float) -> float:
        """Note the mark that was read before ``now`` (by the monotonic clock). Return for how many seconds it has not changed."""
        found = self._seen.get(lock)
        if found is None or found[0] != mark:
            self._seen[lock] = (mark, now)
            return 0.0
        return now - found[1]

    def forget_others(self, locks: Collection[Hashable]) -> None:
        """Forget all locks except the given ones."""
        self._seen = {lock: seen for lock, seen in self._seen.items() if lock in locks}
