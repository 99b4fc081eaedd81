"""A restore that can be undone (``restore(to, keep=True)``): the rows of an earlier state become a new commit, and no commit is undone.

Hudi's restore removes the later commits from the timeline and deletes their files. Its format has no commits that leave the timeline and return. So
the later state stays under a savepoint, and the earlier state is written again by an INSERT OVERWRITE of the complete table. This is an ordinary
replacecommit, which every Hudi reader knows. A restore to the savepoint undoes that commit, and so restores the later state.

The savepoint is made after the rows are checked and written, and before their commit. This commit requires that the savepoint's commit is still the
newest one. So no savepoint is left if the rows are refused, for example by a newer rule of the table. If the process dies in between, or if another
commit comes first, the table is unchanged except for a savepoint, which stays until it is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.conflicts.requirement import LatestInstantIs
from pyhudi_core.errors import UnsupportedTableError, at_table, columns_named
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read import reads
from pyhudi_core.read.snapshots import snapshot
from pyhudi_core.savepoints.savepoint_files import Savepoint
from pyhudi_core.savepoints.savepoints import Savepoints, known_savepoint
from pyhudi_core.services.restore.commits_to_undo import Target
from pyhudi_core.services.service import Figures
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit
from pyhudi_core.write.states import WriteSpec, load

NOTE = "pyhudi.restore.to"
"""The key under which the commit names the commit whose state it has written again."""
_BY = "pyhudi restore"


@dataclass(frozen=True, slots=True)
@printable
class KeepingRestorePlan:
    """What a restore with ``keep=True`` would do. If it would do nothing, the plan is false and has the reason.

    Attributes:
        to: the commit whose state is written again.
        kept: the newest commit, whose state stays under a savepoint.
        files, bytes: number and size of the base files and logs to read.
        why_not: why nothing would be done.
    """

    to: Instant
    kept: Instant
    files: int = 0
    bytes: int = 0
    why_not: str = ""

    @property
    def figures(self) -> Figures:
        """Numbers of files and bytes that are read and written again; no file is deleted."""
        return {"files": self.files, "bytes": self.bytes, "deleted": 0}

    def __bool__(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if not self:
            return f"Nothing to restore: {self.why_not}"
        return (
            f"Write the state of the commit {self.to.requested_time} again, {self.files:,} files, {self.bytes:,} bytes; delete nothing: the state of"
            f" {self.kept.requested_time} stays under a savepoint"
        )


def plan_keeping(context: TableContext, target: Target) -> KeepingRestorePlan:
    """Return what `restore_keeping` would do. Changes nothing.

    Raises `InvalidOptionError` if the point is no commit, `SnapshotExpiredError` if files of its state are gone, and `UnsupportedTableError` if
    columns of that state are gone.
    """
    timeline = context.folder.load()
    refuse_pending_restore(context, timeline)
    point = target.point(context, timeline)
    newest = max(timeline.commits, key=lambda commit: commit.completion_time or "")
    if point == newest:
        return KeepingRestorePlan(point, newest, why_not=f"no commit completed after {point.requested_time}")
    state = snapshot(context, point)
    gone = [name for name in state.schema.names if name not in load(context).schema.names]
    if gone:
        raise UnsupportedTableError(
            f"The state of {point.requested_time} has {columns_named(gone)}, which the table has no more",
            table=context.table,
            instant=point.requested_time,
            hint="Restore without keep=True, or add the columns again by table.alter. Nothing was changed.",
        )
    pieces = list(state.view.all_slices())
    files = sum(sum(1 for _ in piece.files) for piece in pieces)
    return KeepingRestorePlan(point, newest, files, sum(piece.size for piece in pieces))


def restore_keeping(
    context: TableContext, target: Target, spark: Any, gate: Gate | None
) -> tuple[Commit, Savepoint] | str:
    """Write the state of a commit again, and keep the newest state under a savepoint. If nothing was done, return the reason as a text.

    Raises as `plan_keeping`, `UnsupportedTableError` if the savepoint of the newest commit is a tag, `CommitRequirementError` if another commit came
    first, and as a write.
    """
    with at_table(context.table):
        planned = plan_keeping(context, target)
        if not planned:
            return planned.why_not
        to, kept = planned.to.requested_time, planned.kept.requested_time
        saved: list[Savepoint] = []

        def keep() -> None:
            saved[:] = [Savepoints(context).create(kept, f"before the restore to {to}", _BY)]

        known_savepoint(context, context.folder.load(), kept, _BY)  # refuses a tag, before rows are read
        schema, generated = load(context).schema, context.config.rules.generated
        there = [name for name in snapshot(context, planned.to).schema.names if name not in generated]
        scan = reads.scan(context, there, None, planned.to, None, meta=False)
        lacking = [field for field in schema if field.name not in (*there, *generated)]
        rows: object = scan if spark is None else scan.to_spark(spark)
        if lacking:
            filled = scan.to_arrow()
            for field in lacking:
                filled = filled.append_column(field, pa.nulls(len(filled), field.type))
            rows = filled
        wanted = (LatestInstantIs(kept),)
        spec = WriteSpec(
            context, OperationType.INSERT_OVERWRITE_TABLE, {NOTE: to}, spark, wanted, makes_metadata_table=False
        )
        with Write(spec) as write:
            return write.until_committed(UserRows(rows), gate, look=keep), saved[0]
