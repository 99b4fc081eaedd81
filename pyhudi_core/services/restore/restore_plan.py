"""The plan of a restore, as a value and as Hudi's Avro record (`HoodieRestorePlan`): which instants are undone.

Specification, "Restore". The record names the commits and the pending plans, in the order in which they are undone.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures
from pyhudi_core.timeline.restored import PLAN

VERSION = 2
"""The version of the record. Version 2 also names the restore point, and the restore keeps the point's commit."""


@dataclass(frozen=True, slots=True)
@printable
class UndoneCommit:
    """A commit that a restore undoes: its files (paths relative to the table), their size, its operation, its writer, and the changed rows.

    ``tables``: the other tables of its transaction, which keep their parts.
    """

    instant: Instant
    files: tuple[str, ...] = ()
    size: int = 0
    operation: str = ""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    user: str | None = None
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
@printable
class RestorePlan:
    """What a restore would undo. If it would undo nothing, or is refused, the plan is false and has the reason.

    Attributes:
        to: the commit whose state is restored.
        commits: the commits that completed after it, newest first.
        plans: pending compactions and clusterings, newest first. They are removed, because they name files that are deleted.
        cleans: planned cleans that no process has begun, which are removed for the same reason.
        metadata_partitions: the partitions of the metadata table, which is removed, and built again at the end.
        why_not: why nothing would be done.
        trigger, due: a restore has no trigger, so it is never due.
        completed: when the commit ``to`` completed, as a text for people.
    """

    to: Instant | None = None
    commits: tuple[UndoneCommit, ...] = ()
    plans: tuple[Instant, ...] = ()
    cleans: tuple[Instant, ...] = ()
    metadata_partitions: tuple[str, ...] = ()
    why_not: str = ""
    trigger: str = ""
    due: bool = False
    completed: str = ""

    @property
    def tables(self) -> tuple[str, ...]:
        """The other tables that keep their parts of undone transactions. Such a transaction is torn until these tables are restored, too."""
        return tuple(sorted({table for commit in self.commits for table in commit.tables}))

    @property
    def figures(self) -> Figures:
        """Numbers of commits, plans, files and bytes to delete, and seconds (without those for building the metadata table again)."""
        files, plans = sum(len(commit.files) for commit in self.commits), len(self.plans) + len(self.cleans)
        figures = {
            "commits": len(self.commits),
            "plans": plans,
            "files": files,
            "bytes": sum(commit.size for commit in self.commits),
        }
        return with_seconds(figures, files=files, instants=len(self.commits) + plans)

    def __bool__(self) -> bool:
        return bool(self.commits)

    def __str__(self) -> str:
        if not self or self.to is None:
            return f"Nothing to restore: {self.why_not}"
        figures = self.figures
        plans = f" and {figures['plans']} planned services" if figures["plans"] else ""
        again = f"; build {', '.join(self.metadata_partitions)} again" if self.metadata_partitions else ""
        torn = (
            f"; of undone transactions these tables keep their parts: {', '.join(self.tables)}" if self.tables else ""
        )
        return (
            f"Go back to the commit {self.to.requested_time}, completed {self.completed}: undo {figures['commits']} commits{plans},"
            f" delete {figures['files']:,} files, {figures['bytes']:,} bytes for good{again}{torn}"
        )

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file."""
        undone = (*self.plans, *(commit.instant for commit in self.commits))
        record = {
            "instantsToRollback": [{"commitTime": i.requested_time, "action": str(i.action)} for i in undone],
            "version": VERSION,
            "savepointToRestoreTimestamp": self.to.requested_time if self.to is not None else None,
        }
        return encode_record(PLAN, record, sync_marker=sync_marker)


@dataclass(frozen=True, slots=True)
@printable
class PlannedRestore:
    """A plan of this package or of Hudi on the timeline: the requested time of the point, and the requested time and action of each instant."""

    to: str
    undone: tuple[tuple[str, str], ...]


def decode(data: bytes, path: str) -> PlannedRestore:
    """Read a plan. Raises `CorruptionError`."""
    record = decode_record(data, PLAN, path=path)
    undone = tuple((entry["commitTime"], entry["action"]) for entry in record["instantsToRollback"])
    return PlannedRestore(record["savepointToRestoreTimestamp"] or "", undone)
