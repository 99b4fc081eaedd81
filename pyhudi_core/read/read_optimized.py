"""Read-optimized queries read only base files, and report what they omit.

Specification, "Query Types". Such a query is as fast as Parquet, and shows each file group as of its last compaction. So it can show a combination of
rows that the table never had at one time, and deleted rows. The result shows how much is missing, and a caller can refuse to read while deletes are
pending.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi_core.errors import PendingDeletesError
from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.formats.log.blocks import BlockType
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.printing import printable
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage


@dataclass(slots=True)
class ReadOptimizedView(FileGroupView):
    """File groups without their logs; groups with only logs are omitted."""

    def _assemble(self, partition: str) -> tuple[FileSlice, ...]:
        return tuple(replace(piece, logs=()) for piece in self.base_slices(partition))


@dataclass(frozen=True, slots=True)
@printable
class Staleness:
    """What a read-optimized query omits.

    Attributes:
        slices: slices that have logs.
        all_slices: all slices, including those with only logs.
        log_files, log_bytes: the omitted logs.
        deletes: number of deletes in the omitted logs; their rows are still visible if a base file has the keys.
        oldest: completion time of the oldest omitted commit; empty if nothing is omitted.
    """

    slices: int
    all_slices: int
    log_files: int
    log_bytes: int
    deletes: int
    oldest: str

    @property
    def is_current(self) -> bool:
        """Whether nothing is omitted."""
        return self.log_files == 0

    def __str__(self) -> str:
        if self.is_current:
            return "nothing is left out"
        return (
            f"{self.slices:,} of {self.all_slices:,} slices have logs that are left out: {self.log_files:,} files, "
            f"{self.log_bytes:,} bytes, {self.deletes:,} deletes, since {self.oldest}"
        )


def without_logs(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as a read-optimized query sees it."""
    view = snapshot.view
    return replace(snapshot, view=ReadOptimizedView(view.listing, view.visibility, view.table))


def staleness(snapshot: Snapshot, storage: Storage) -> Staleness:
    """Return what the base files of a snapshot omit. Reads the delete blocks of the logs."""
    view = snapshot.view
    whole = FileGroupView(view.listing, view.visibility, view.table)
    left_out: list[LogFile] = []
    slices = groups = 0
    for partition in whole.partitions():
        groups += len(whole.slices(partition))
        with_base = {piece.file_id: piece.logs for piece in whole.base_slices(partition)}
        for piece in whole.slices(partition):
            logs = with_base.get(piece.file_id, piece.logs)
            slices += bool(logs)
            left_out.extend(logs)
    times = [view.visibility.completed_at(log.name.requested_time) for log in left_out]
    deletes = sum(_deletes(storage, log) for log in left_out)
    return Staleness(slices, groups, len(left_out), sum(log.size for log in left_out), deletes, min(times, default=""))


def refuse_pending_deletes(snapshot: Snapshot, storage: Storage) -> None:
    """Raise `PendingDeletesError` if the omitted logs hold deletes."""
    found = staleness(snapshot, storage)
    if found.deletes:
        raise PendingDeletesError(
            f"{found.deletes:,} deletes are in logs that a read-optimized query does not read",
            table=storage.location,
            hint="Compact the table first, or read a snapshot.",
        )


def _deletes(storage: Storage, log: LogFile) -> int:
    with storage.open_input(log.path) as source:
        reader = LogReader(source, log.path)
        return sum(
            len(deletes)
            for block in reader.blocks()
            if block.type is BlockType.DELETE
            for deletes in read_delete_columns(reader.content(block), log.path)
        )
