"""The rollback of one instant that the caller names: a pending write, or the newest commit (specification, "Rollback").

A pending write is rolled back like a write of a dead process (``transaction/rollback.py``). A completed commit may have been read, so undoing it is a
restore to the commit before it (``services/restore/restores.py``). Only the newest commit can be undone alone: later commits may depend on its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.argument_types import OfTable
from pyhudi_core.errors import at_table
from pyhudi_core.model.instant import DATA_ACTIONS, Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.savepoints.savepoints import CommitPoint, time_of
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.restore.commits_to_undo import Target, not_alone
from pyhudi_core.services.restore.restore_plan import RestorePlan
from pyhudi_core.services.restore.restores import Restores
from pyhudi_core.services.service import Figures
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, markers
from pyhudi_core.transaction.requested_rollbacks import Rollback, roll_back_on_request, what_ends


@dataclass(frozen=True, slots=True)
@printable
class RollbackPlan:
    """What a rollback would do. If there is nothing to roll back, or the rollback is refused, the plan is false and has the reason.

    Attributes:
        of: the requested time of the instant.
        pending: the pending write; None if the instant is not pending.
        files: number of data files for which the pending write has made markers.
        alive: whether its writer seems to be alive.
        restore: for a completed commit, the restore that undoes it.
        why_not: why nothing would be done.
    """

    of: str
    pending: Instant | None = None
    files: tuple[str, ...] = ()
    alive: bool = False
    restore: RestorePlan | None = None
    why_not: str = ""

    @property
    def figures(self) -> Figures:
        """Numbers of files and seconds; for a completed commit also of commits, plans and bytes."""
        if self.restore is not None:
            return self.restore.figures
        return with_seconds({"files": len(self.files)}, files=len(self.files), instants=self.pending is not None)

    def __bool__(self) -> bool:
        return self.pending is not None or bool(self.restore)

    def __str__(self) -> str:
        if not self:
            return f"Nothing to roll back: {self.why_not}"
        if self.pending is None:
            return f"Undo the commit {self.of}. {self.restore}"
        alive = "; its writer seems to be alive" if self.alive else ""
        return f"Roll the pending {self.pending.action} {self.of} back, delete {len(self.files)} files{alive}"


@printable
class Rollbacks(OfTable):
    """Rollbacks of one table on request. Writes of dead writers need no request: `FailedWrites` rolls them back."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def __repr__(self) -> str:
        return f"Rollbacks of {self.context.table}"

    def plan(self, instant: CommitPoint) -> RollbackPlan:
        """Return what a rollback of this instant would do. Changes nothing."""
        with at_table(self.context.table):
            time = time_of(instant)
        timeline = self.context.folder.load()
        found = timeline.find(time)
        if found is not None and found.is_pending and found.action in DATA_ACTIONS:
            files = tuple(markers.announced(self.context.storage, time))
            beats = heartbeat.read(self.context, time) != b""
            return RollbackPlan(time, found, files, beats and not heartbeat.is_dead(self.context, found))
        if found is None or not found.is_completed or found.action not in DATA_ACTIONS:
            what = "it is not on the timeline" if found is None else f"it is a {found.state} {found.action}"
            ends = what_ends(found) if found is not None and found.is_pending else ""
            return RollbackPlan(time, why_not=f"{what}; {ends}" if ends else what)
        later = _later(timeline, found)
        if later:
            return RollbackPlan(time, why_not=not_alone(self.context, time, later).message)
        plan = Restores(self.context).plan(before=found)
        return RollbackPlan(time, restore=plan, why_not=plan.why_not)

    def __call__(self, instant: CommitPoint, *, completed: bool = False) -> Rollback:
        """Roll back a pending write of any writer; with ``completed`` also the newest commit. The result is false, with a reason, if there was
        nothing to do.

        Call it only if the writer of the instant has ended. Raises `InvalidOptionError` for a wrong time, and for a commit with later ones; and as
        `Restores.schedule` for a completed commit, for example if a restore with another target is planned.
        """
        with at_table(self.context.table):
            time = time_of(instant)
            timeline = self.context.folder.load()
            if completed and Restores(self.context, Target(before=time)).has_begun():
                begun = Restores(self.context).take_over()  # left by a process that died
                if begun:
                    return Rollback(time, begun.instants[-1], begun.why_not)
            found = timeline.find(time) if completed else None
            if found is None or not found.is_completed or found.action not in DATA_ACTIONS:
                return roll_back_on_request(self.context, time)
            later = _later(timeline, found)
            if later:
                raise not_alone(self.context, time, later)
            # A writer may commit after this check. Then the plan is made again, and refused: the caller did not name that commit, and it stays.
            done = Restores(self.context, Target(before=found, alone=True)).run()
            return Rollback(time, done.instants[-1] if done else None, done.why_not)


def _later(timeline: Timeline, commit: Instant) -> list[str]:
    """Return the requested times of commits that completed later."""
    return [i.requested_time for i in timeline.commits if (i.completion_time or "") > (commit.completion_time or "")]
