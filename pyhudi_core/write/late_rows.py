"""From which file groups a write keeps late rows out: rows that are older than the delete of their key in the logs of the slice.

Readers do not see such a row, until a compaction removes the delete. If the compaction was planned before the row's commit completed, the row's log
belongs to the slice after it, so the row would come back: the compaction would change results, and neither the record index nor a secondary index
would know the row. To leave it out, the write must read the logs of the slice. Therefore it does so only where it matters (decision 0039):

- in a table with a record index always, because a compaction may be planned after the write began (not if the record
  index itself found the file groups: then the keys have rows, so no delete is their last version);
- in other tables if a compaction of the file group is pending when the write begins;
- never if no log of the slice has deletes, as the commits of the logs say, which the write has read anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import pending_plans
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.index.base import Group
from pyhudi_core.index.choice import IndexType
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import IS_DELETED
from pyhudi_core.model.properties import MergeMode
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LateRows:
    """Answers for the slices of one snapshot.

    Attributes:
        groups: the file groups for which it matters; None: all.
        counted: the commits count all deletes in logs. Rows that say they are deleted, and those of a merger, are not counted by every writer.
    """

    visibility: Visibility
    groups: frozenset[Group] | None
    counted: bool

    @classmethod
    def of(
        cls, context: TableContext, snapshot: Snapshot, schema: pa.Schema, index: IndexType | None, *, keeps_keys: bool
    ) -> Self:
        """For an upsert or an insert. ``index`` found its keys; ``keeps_keys``: it keeps a record index."""
        config = snapshot.config
        groups: frozenset[Group] | None = frozenset()
        if ordering_of(config) and index is not IndexType.RECORD_INDEX:
            groups = None if keeps_keys else _to_be_compacted(context, snapshot)
        counted = IS_DELETED not in schema.names and config.merge_mode is not MergeMode.CUSTOM
        return cls(snapshot.visibility, groups, counted)

    def are_kept_out(self, piece: FileSlice) -> bool:
        """Whether rows that are older than their deletes are not appended to a slice."""
        if not piece.logs or (self.groups is not None and piece.group not in self.groups):
            return False
        if not self.counted:
            return True
        stats = (self.visibility.stat(log.name.requested_time, log.path) for log in piece.logs)
        return any(stat is None or stat.deletes > 0 for stat in stats)


def _to_be_compacted(context: TableContext, snapshot: Snapshot) -> frozenset[Group]:
    """The file groups of pending compactions; the plans are read only if there are any."""
    if not any(instant.action is Action.COMPACTION for instant in snapshot.timeline.pending):
        return frozenset()
    plans = pending_plans(context, snapshot.timeline)
    return frozenset().union(*(named for plan, named in plans if plan.action is Action.COMPACTION))
