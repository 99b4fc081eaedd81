"""Conflict strategies: small turns of the conflict table (``conflict_matrix``), chosen by ``hoodie.write.lock.conflict.resolution.strategy``.

The names are those of Hudi's strategy classes. A change of columns beside another write is always checked (``concurrent``), whichever is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

_BUCKET_DIGITS = 8

Group = tuple[str, str]
"""(partition, file id)."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the table is applied.

    Attributes:
        name: the option's word.
        by_bucket: two file ids with the same bucket number in front are one file group.
        writers_yield_to_plans: a pending clustering plan keeps its groups for itself.
        services_yield_to_writers: a table service also gives way to writes that are still running.
    """

    name: str
    by_bucket: bool = False
    writers_yield_to_plans: bool = True
    services_yield_to_writers: bool = False

    def key(self, group: Group) -> Group:
        """What two names of one file group have in common."""
        partition, file_id = group
        bucket = file_id[:_BUCKET_DIGITS]
        if self.by_bucket and len(bucket) == _BUCKET_DIGITS and bucket.isascii() and bucket.isdigit():
            return partition, bucket
        return group

    def shared(self, mine: frozenset[Group], theirs: frozenset[Group]) -> frozenset[Group]:
        """Those of mine that the others have too."""
        if not self.by_bucket:
            return mine & theirs
        known = {self.key(group) for group in theirs}
        return frozenset(group for group in mine if self.key(group) in known)


SIMPLE = Strategy("simple")
PREFER_WRITER = Strategy("prefer_writer", writers_yield_to_plans=False, services_yield_to_writers=True)
BUCKET = Strategy("bucket", by_bucket=True)

STRATEGIES = {strategy.name: strategy for strategy in (SIMPLE, PREFER_WRITER, BUCKET)}
