"""Base files for the file groups that have logs, before a table of version 6 is raised.

Logs of version 6 are merged by another law than those of version 8 (`merge/precombine.py`). Logs after a pending compaction are named after a plan
that the new timeline does not have. So every such file group gets a base file with the rows that a reader of version 6 sees. All base files have the
same requested time, above all others. No timeline has this time yet, so nobody reads them before the upgrade is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyhudi_core.conflicts.conflict import Group
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.service import Execution
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.attempt import extra_of
from pyhudi_core.write.tasks import Written


def slices_to_settle(snapshot: Snapshot) -> tuple[FileSlice, ...]:
    """Return the newest slices of the file groups that have a log after their base file.

    Includes logs that no commit names, which a dead write may have left. In the newest slice of a group, Hudi would read such a log as soon as its
    instant is older than the timeline.
    """
    found = []
    for partition in snapshot.view.partitions():
        logged = dict(_newest_logs(snapshot, partition))
        for piece in snapshot.view.slices(partition):
            above = piece.base is not None and logged.get(piece.group, "") >= piece.base.name.requested_time
            if piece.logs or above:
                found.append(piece)
    return tuple(found)


def _newest_logs(snapshot: Snapshot, partition: str) -> Iterator[tuple[Group, str]]:
    """Yield each file group with the greatest time in the names of its logs, even of logs that no commit names."""
    names = (parse_data_file(split(info.path)[1]) for info in snapshot.view.listing.files(partition))
    logs = [(name.file_id, name.requested_time) for name in names if isinstance(name, LogFileName) and not name.is_cdc]
    for file_id, time in sorted(logs):
        yield (partition, file_id), time


@dataclass(slots=True)
class SettlingRun(CompactionRun):
    """Writes these base files. The transaction's context has the properties of the new version, the snapshot those of the present version."""

    @classmethod
    def of(
        cls, transaction: Transaction, slices: Sequence[FileSlice], snapshot: Snapshot, how: Execution
    ) -> SettlingRun:
        """Return the run for slices of a snapshot."""
        run = cls(transaction, slices, how)
        run.snapshot = run.current = snapshot
        return run

    def written(self) -> Written:
        """Write the base files. Rows keep the commits that changed them."""
        return self._write()

    def commit(self, written: Written) -> CommitMetadata:
        """Return the commit that names the files."""
        extra = extra_of(self.transaction, self.how.extra_metadata, self.snapshot, {}, self.snapshot.schema)
        return CommitMetadata(str(OperationType.COMPACT), written.stats, extra)
