"""What a write has read, and whether another commit changed it meanwhile.

Snapshot isolation lets two writes stand that each read what the other one changes (write skew; Berenson et al., "A Critique of ANSI SQL
Isolation Levels", 1995). Serializable isolation does not: a write whose reads would give other rows now is given up (backward validation of
optimistic concurrency control; Kung and Robinson, 1981). The unit is the partition, new ones included, so that rows which did not
exist when they were looked for (phantoms) count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.concurrent import conflict_error, since
from pyhudi_core.transaction.conflict import Concurrent, Conflict, ConflictKind
from pyhudi_core.transaction.context import TableContext


class Read(Protocol):
    """One read of a table."""

    def may_read(self, partition: str) -> bool:
        """Whether rows of the partition could be part of the result, as far as the read's condition says."""
        ...


def refuse_changed_reads(
    context: TableContext, start: Timeline, found: Timeline, own: str, reads: Sequence[Read]
) -> None:
    """Raise `CommitConflictError` if a commit that completed after ``start`` was read has changed what the reads saw."""
    conflict = changed_read(reads, since(context, start, found, own))
    if conflict is not None:
        raise conflict_error(context, conflict, own)


def changed_read(reads: Sequence[Read], concurrent: Concurrent) -> Conflict | None:
    """The first concurrent commit that changed rows of a partition that was read; table services change none."""
    for instant, commit in concurrent.completed:
        if commit.operation in SERVICE_OPERATIONS:
            continue
        seen = tuple(sorted(p for p in _changed(commit) if any(read.may_read(p) for read in reads)))
        if seen:
            return Conflict(ConflictKind.READ_SET, instant, (), seen)
    return None


def _changed(commit: CommitMetadata) -> set[str]:
    return {stat.partition for stat in commit.stats} | {partition for partition, ids in commit.replaced.items() if ids}
