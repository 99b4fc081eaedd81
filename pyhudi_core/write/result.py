"""The result of a write, or of its check, as values that print well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi_core.conflicts.explanation import ConflictExplanation
from pyhudi_core.errors import HudiError
from pyhudi_core.index.choice import INDEX_KEY
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.storage.base import NOT_WAITED, Waited
from pyhudi_core.transaction import metadata_removal

_FROM_NOW_ON = "from now on a write whose rows lack them is refused, except upsert(rows, partial=True)"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class CommitStats:
    """Counts of one commit: rows, files, bytes. ``files`` has every written file; ``replaced`` the removed file groups.

    ``rows_replaced``: the number of rows in the removed groups; None if another writer's commit does not say it. Rows of a dropped partition are in
    ``rows_deleted``, too. ``rows_combined``: the number of batch rows that were combined with another row of their key before the write (Hudi's
    ``hoodie.combine.before.upsert``), so that only one row of the key was written. ``index``: the index that found the keys, and why it was chosen;
    empty if no key was looked up. ``store_waits`` and ``store_wait_ms``: how often, and how long in total, requests of this process waited because
    the object store was busy (429, 503).
    """

    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_written: int
    bytes_written: int
    files: tuple[WriteStat, ...]
    replaced: tuple[tuple[str, str], ...]
    rows_replaced: int | None = 0
    index: str = ""
    rows_combined: int = 0
    store_waits: int = 0
    store_wait_ms: int = 0

    @classmethod
    def of(cls, commit: CommitMetadata, waited: Waited = NOT_WAITED) -> CommitStats:
        """Add up the metadata of a commit. ``waited``: the waits for the store; the metadata does not have them."""
        stats = commit.stats
        dropped = commit.rows_replaced or 0 if commit.operation == OperationType.DELETE_PARTITION else 0
        return cls(
            rows_inserted=sum(stat.inserts for stat in stats),
            rows_updated=sum(stat.updates for stat in stats),
            rows_deleted=sum(stat.deletes for stat in stats) + dropped,
            rows_written=sum(stat.rows for stat in stats),
            bytes_written=sum(stat.size for stat in stats),
            files=stats,
            replaced=tuple(sorted((partition, name) for partition, ids in commit.replaced.items() for name in ids)),
            rows_replaced=commit.rows_replaced,
            index=commit.extra.get(INDEX_KEY, ""),
            rows_combined=sum(stat.combined for stat in stats),
            store_waits=waited.times,
            store_wait_ms=waited.ms,
        )

    @property
    def rows_said(self) -> str:
        """Return the counts of rows, in words."""
        return f"{self.rows_inserted:,} inserted, {self.rows_updated:,} updated, {self.rows_deleted:,} deleted"

    @property
    def write_amplification(self) -> float:
        """Return the number of written rows per changed row. The other written rows were only copied with a rewritten file. 0 if no row changed."""
        changed = self.rows_inserted + self.rows_updated + self.rows_deleted
        return self.rows_written / changed if changed else 0.0

    @property
    def files_written(self) -> int:
        """How many data files the commit wrote."""
        return len(self.files)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Every partition with written or removed file groups; sorted."""
        return tuple(sorted({stat.partition for stat in self.files} | {partition for partition, _ in self.replaced}))


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class CommitVerdict:
    """Whether a write would commit now, and why not. True or false as a condition; a conflict has its explanation.

    ``error``: the error that a commit would raise now; None if it would commit, and if there is nothing to change.
    """

    commits: bool
    reason: str
    explanation: ConflictExplanation | None = None
    error: HudiError | None = None

    def __bool__(self) -> bool:
        return self.commits


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Commit:
    """The result of a write: a commit, or nothing, because there was nothing to change.

    As a condition it is true if there is a commit. If there was nothing to change, ``changed`` is False, ``reason`` says why, all counts are zero,
    instant and token are empty, and ``completion_time`` is the time of the unchanged state.

    Attributes:
        instant: the requested time of the commit (Hudi's commit time), 17 digits.
        completion_time: the time when the commit became visible, 17 digits; the cursor for `incremental`.
        token: names the attempt; ``table.commit_status(token)`` answers for it.
        operation: the operation, in Hudi's words.
        retries: how often the write was planned again because another commit came first.
        stats: counts of rows and files.
        lock_wait, lock_held: seconds spent waiting for the table's lock, and holding it.
        notes: entries of the protocol in the commit's extra metadata.
        bytes_saved: about how many bytes lost attempts did not write, because they detected the conflict early.
        extra_metadata: the caller's entries in the commit.
        columns_added: dotted paths of columns that the rows added to the table. Later writes whose rows lack these columns are refused.
        made_again: partitions of the metadata table that became wrong by the change of the columns, and were made again after the commit.
    """

    instant: str
    completion_time: str
    token: str
    operation: str
    retries: int
    stats: CommitStats
    lock_wait: float
    lock_held: float
    notes: tuple[tuple[str, str], ...] = ()
    bytes_saved: int = 0
    changed: bool = True
    reason: str = ""
    extra_metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    made_again: tuple[str, ...] = ()
    columns_added: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, operation: str, reason: str, completion_time: str, retries: int = 0) -> Commit:
        """Return the result of a write that had nothing to change."""
        stats = CommitStats.of(CommitMetadata(operation))
        return cls("", completion_time, "", operation, retries, stats, 0.0, 0.0, changed=False, reason=reason)

    def __bool__(self) -> bool:
        return self.changed

    def _shown(self) -> dict[str, str]:
        stats = self.stats
        if not self.changed:
            return {
                "operation": self.operation,
                "reason": self.reason,
                "as of": self.completion_time or "the beginning",
            }
        saved = f", about {self.bytes_saved:,} bytes saved" if self.bytes_saved else ""
        return {
            "operation": self.operation,
            "instant": self.instant,
            "completed": self.completion_time,
            "rows": stats.rows_said,
            **(
                {"combined": f"{stats.rows_combined:,} rows repeated the key of another row of the batch"}
                if stats.rows_combined
                else {}
            ),
            **({"new columns": f"{', '.join(self.columns_added)}; {_FROM_NOW_ON}"} if self.columns_added else {}),
            "files": f"{stats.files_written:,} in {len(stats.partitions):,} partitions, {stats.bytes_written:,} bytes",
            **({"index": stats.index} if stats.index else {}),
            "retries": f"{self.retries}{saved}",
            **(
                {"store": f"busy, {stats.store_waits:,} requests waited {stats.store_wait_ms:,} ms together"}
                if stats.store_waits
                else {}
            ),
            "lock": f"waited {self.lock_wait * 1000:.1f} ms, held {self.lock_held * 1000:.1f} ms",
            **dict(self._note_line(name, value) for name, value in self.notes),
        }

    def _note_line(self, note: str, value: str) -> tuple[str, str]:
        if note != metadata_removal.NOTE:
            return note, value
        if self.made_again:
            return "statistics", f"made anew for the changed columns, after the commit ({', '.join(self.made_again)})"
        listed = ", ".join(value.split(","))
        return (
            "metadata",
            f"the metadata table was removed ({listed}); `pyhudi metadata LOCATION create` makes it again",
        )

    def __str__(self) -> str:
        return ("Commit\n" if self.changed else "No commit: nothing to change\n") + "\n".join(
            f"  {name:11} {value}" for name, value in self._shown().items()
        )

    def __repr__(self) -> str:
        if not self.changed:
            return f"Commit: none, {self.operation} had nothing to change: {self.reason}"
        return f"Commit {self.instant}: {self.operation}, {self.stats.rows_said}"
