"""Execute a planned clean: delete its files, and complete it (specification, "Cleaning").

The process has registered as the plan's executor (``transaction/plan_executors.py``). The plan lists the files to delete, so another process can
repeat the work of a dead one: a missing file counts as deleted. The metadata table's part is written before the lock, and published by the same
decision.

The plan may be old, or from another program. So it is compared with the table before a file is deleted. Files of the newest state, of savepoints and
of holds stay even if the plan lists them; the completed clean does not name them.

Base files are deleted before logs. So a reader of an older state notices the missing base file before it could miss a log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.lazy import lazy
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.file_names import split
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.savepoints.hold_files import held_files
from pyhudi_core.savepoints.savepoint_files import kept_files
from pyhudi_core.services.cleaning.clean_plan import DONE, PlannedClean
from pyhudi_core.services.cleaning.files_to_clean import view_of
from pyhudi_core.services.plan_run import PlanRun
from pyhudi_core.services.progress import Steps
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors, removal
from pyhudi_core.transaction.commit import Finished, ask_gate, finish
from pyhudi_core.transaction.companion import CompanionCommit
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import load

if TYPE_CHECKING:
    from pyhudi_core.iceberg import sync as iceberg
else:
    iceberg = lazy("pyhudi_core.iceberg.sync")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A completed execution, and what it deleted. ``why_kept``: why Iceberg metadata kept files of the plan; empty if no file was kept."""

    finished: Finished
    deleted: PlannedClean
    why_kept: str = ""


@dataclass(slots=True)
class CleaningRun(PlanRun[PlannedClean, Cleaned]):
    """One execution of a plan. ``rounds`` counts the attempts to complete it; ``snapshot`` is the state in which files are chosen.

    The next executor can repeat every step, so a crash needs no undo.
    """

    rounds: int = 0
    snapshot: Snapshot | None = None
    began_ms: int = 0

    def _carry_out(self) -> Cleaned:
        """Delete the files, and complete the clean.

        Raises `CommitConflictError` while a restore is pending, `DeletesFailedError`, and as `transaction.commit.finish`.
        """
        context = self.transaction.context
        self.began_ms = context.runtime.clock.now_ms()
        timeline = context.folder.load()
        refuse_pending_restore(context, timeline)
        refusals.at_begin(cases.at_begin(context, OperationType.CLEAN))
        if not context.prefix:
            self.snapshot = load(context)
            timeline = self.snapshot.timeline
            self._kept_metadata(self.snapshot)  # refuses the clean before anything is deleted
        done = self.work.without(self._still_needed(timeline))
        ask_gate(self.how.gate, context, "to delete files")
        plan_executors.refuse_overtaken(self.transaction)
        staying = iceberg.let_go(context, done.paths) if not context.prefix else None
        if staying is not None and staying.paths:
            done = done.without(staying.paths)
            _log.warning(
                "%s: %d files stay that a clean would delete: %s", context.table, len(staying.paths), staying.why
            )
        bases_first = sorted(done.paths, key=lambda path: (split(path)[1].startswith("."), path))
        steps = Steps(self.how.progress, "delete files", len(bases_first))
        steps.begin()
        contained = context.protections.path_containment
        removal.delete_data_files(context.storage, bases_first, contained=contained, gone=steps.add)
        return Cleaned(self._complete(done), done, "" if staying is None else staying.why)

    def _still_needed(self, timeline: Timeline) -> frozenset[str]:
        """Return the files of the plan that belong to the newest state, to a savepoint or to a hold.

        Holds are read after the plan is on the timeline: a later hold sees the plan, and is refused (`services.holds`).
        """
        context = self.transaction.context
        view = view_of(context, timeline) if self.snapshot is None else self.snapshot.view
        newest = view.all_slices(self.work.files)
        files = {file.path for piece in newest for file in piece.files}
        return frozenset(self.work.paths) & (files | kept_files(context.folder, timeline) | held_files(context))

    def _complete(self, done: PlannedClean) -> Finished:
        """Publish the completed clean. Repeat this if the metadata table was changed meanwhile."""
        with Retries(self.transaction.context) as retries:
            return retries.until_done(lambda: self._attempt(done))

    def _attempt(self, done: PlannedClean) -> Finished:
        if self.rounds and not self.transaction.context.prefix:
            markers.remove_at_companions(self.transaction.context, self.transaction.requested_time)
            self.transaction = replace(self.transaction, context=reopened(self.transaction.context))
        self.rounds += 1
        transaction = self.transaction
        context = transaction.context
        companions = () if context.prefix else self._staged(self._state(), done)
        took_ms = context.runtime.clock.now_ms() - self.began_ms
        extra = {**self.how.extra_metadata, **context.writer()}
        metadata = done.metadata(transaction.requested_time, took_ms, extra)

        def encode(_notes: Mapping[str, str]) -> bytes:
            return encode_record(DONE, metadata, sync_marker=transaction.sync_marker)

        return finish(transaction, encode, self._refuse_overtaken, companions=companions, may_remove=False)

    def _state(self) -> Snapshot:
        """Return the state on which the metadata table's part is based. In the first round it is the state in which the files were chosen."""
        found, self.snapshot = self.snapshot, None
        return load(self.transaction.context) if found is None else found

    def _staged(self, snapshot: Snapshot, done: PlannedClean) -> tuple[CompanionCommit, ...]:
        """Return the metadata table's part, if there is one."""
        return metadata_update.stage_removed(self.transaction, self._kept_metadata(snapshot), done.files, snapshot)

    def _kept_metadata(self, snapshot: Snapshot) -> MetadataSlices | None:
        """Return the metadata table; None if there is none. A clean never removes the metadata table as a side effect."""
        context = self.transaction.context
        return metadata_update.slices_to_keep(context, snapshot, snapshot.schema, OperationType.CLEAN)
