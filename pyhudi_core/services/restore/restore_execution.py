"""Execute a restore (specification, "Restore").

After the process has registered as the plan's executor (``transaction/plan_executors.py``), the inflight file exists. From then on, readers of this
project omit the instants that the plan names. So they see the restored state even during the deletion of files. The properties no longer list the
metadata table.

The instants are undone one after the other, the newest first. For each instant, first its completed file is deleted, so that Hudi's readers no longer
see it, then its data files, then its other files. So a program that does not know pending restores always sees the state of some commit. Every step
can be repeated, even by a process that was considered dead: a deleted file is never created again, because no requested time is used twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.index.hashing_metadata import forget
from pyhudi_core.lazy import lazy
from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.plan_run import PlanRun
from pyhudi_core.services.progress import Steps
from pyhudi_core.services.restore import restore_work
from pyhudi_core.services.restore.restore_plan import PlannedRestore
from pyhudi_core.services.restore.restore_work import RestoreWork, Undone
from pyhudi_core.timeline.restored import DONE
from pyhudi_core.transaction import layout, markers, plan_executors, removal
from pyhudi_core.transaction.commit import Finished, finish
from pyhudi_core.transaction.instant_removal import files_of_instant, remove_files, remove_instant
from pyhudi_core.transaction.rollback_plans import metadata_record

if TYPE_CHECKING:
    from pyhudi_core.iceberg import retention
    from pyhudi_core.iceberg import sync as iceberg
else:
    retention = lazy("pyhudi_core.iceberg.retention")
    iceberg = lazy("pyhudi_core.iceberg.sync")


@dataclass(frozen=True, slots=True)
class Restored:
    """A completed execution, and the files that it deleted."""

    finished: Finished
    work: RestoreWork


@dataclass(slots=True)
class RestoreRun(PlanRun[PlannedRestore, Restored]):
    """One execution of a plan."""

    began_ms: int = field(default=0)

    def _carry_out(self) -> Restored:
        context = self.transaction.context
        self.began_ms = context.runtime.clock.now_ms()
        work = restore_work.read(context, self.transaction.requested_time)
        if work is None:
            raise CommitAbortedError(
                "The list of what this restore deletes is gone: another process has ended the restore",
                table=context.table,
                instant=self.transaction.requested_time,
                hint="Nothing was changed; look at table.timeline.",
            )
        retention.undo(context, [undone.requested_time for undone in work.undone])
        for time in work.cleans:
            remove_instant(context.folder, time, {Action.CLEAN})
            _forget(context, time)
        for undone in Steps(self.how.progress, "undo instants", len(work.undone)).over(work.undone):
            undo(context, undone)
        done = Restored(self._complete(work), work)
        iceberg.follow(context)
        return done

    def _complete(self, work: RestoreWork) -> Finished:
        transaction = self.transaction
        took_ms = transaction.context.runtime.clock.now_ms() - self.began_ms
        metadata = _metadata(transaction.context, transaction.requested_time, work, took_ms)

        def encode(_notes: Mapping[str, str]) -> bytes:
            return encode_record(DONE, metadata, sync_marker=transaction.sync_marker)

        return finish(transaction, encode, self._refuse_overtaken, kept=None)


def undo(context: TableContext, undone: Undone) -> None:
    """Remove one instant and its files."""
    action = Action(undone.action).completes_as
    states = {other for other in Action if other.completes_as is action}  # a completed compaction is a commit
    files = files_of_instant(context.folder, undone.requested_time, states)
    remove_files(context.folder, [file for file in files if file.is_completed])
    removal.delete_given_up(context.storage, undone.files, contained=context.protections.path_containment)
    if action is Action.REPLACECOMMIT and has_consistent_hashing(context):
        # Hudi's writers would use the ranges of hashes as soon as one of the buckets has a base file.
        partitions = {path.rpartition("/")[0] for path in undone.files}
        for partition in partitions:
            forget(context.storage, partition, undone.requested_time)
    remove_files(context.folder, [file for file in files if file.is_pending])
    _forget(context, undone.requested_time)


def _forget(context: TableContext, requested_time: str) -> None:
    """Remove the files that only the process of an instant needed."""
    markers.remove(context.storage, requested_time)
    plan_executors.forget(context, requested_time)
    context.root.delete(layout.heartbeat(requested_time))


def _metadata(context: TableContext, requested_time: str, work: RestoreWork, took_ms: int) -> dict[str, Any]:
    """Return the content of a completed restore: for each instant, the content of its rollback."""
    return {
        "startRestoreTime": requested_time,
        "timeTakenInMillis": took_ms,
        "instantsToRollback": [undone.requested_time for undone in work.undone],
        "hoodieRestoreMetadata": {
            undone.requested_time: [metadata_record(context, undone.instant, list(undone.files))]
            for undone in work.undone
        },
        "restoreInstantInfo": [
            {"commitTime": undone.requested_time, "action": undone.action} for undone in work.undone
        ],
    }
