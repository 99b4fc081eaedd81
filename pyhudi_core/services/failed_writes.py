"""Failed writes: the pending writes and rollbacks of dead writers, as a service (specification, "Rollback of failed writes").

Every writer rolls back failed writes before its own write (``transaction/rollback.py``, `repair_by_policy`). With this service, any process can show,
schedule and execute these rollbacks. The plan of a rollback is decided under the lock; from then on the failed write can no longer commit. The
execution deletes files and completes the rollback; every step can be repeated.

If no process executes a scheduled rollback within the limit of the heartbeat, the next writer executes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.savepoints.savepoints import half_made, remove_half_made
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService
from pyhudi_core.transaction import heartbeat, requested_rollbacks, rollback
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.write.retrying import Retries


@dataclass(frozen=True, slots=True)
@printable
class FailedWritesPlan:
    """The failed writes of dead writers.

    Attributes:
        writes: pending writes to roll back, newest first.
        rollbacks: scheduled or begun rollbacks that no living process executes, oldest first.
        why_not: why there is nothing to roll back, or what else is pending.
        savepoints: half made or half deleted savepoints of dead processes, which are removed.
    """

    writes: tuple[Instant, ...] = ()
    rollbacks: tuple[Instant, ...] = ()
    why_not: str = ""
    savepoints: tuple[Instant, ...] = ()

    @property
    def figures(self) -> Figures:
        """Numbers of writes, rollbacks and savepoints, and seconds. The number of files is known only after the rollbacks."""
        figures = {"writes": len(self.writes), "rollbacks": len(self.rollbacks), "savepoints": len(self.savepoints)}
        return with_seconds(figures, instants=sum(figures.values()))

    def __bool__(self) -> bool:
        return bool(self.writes or self.rollbacks or self.savepoints)

    def __str__(self) -> str:
        if not self:
            return f"Nothing to roll back: {self.why_not}"
        writes = [f"roll back {instant.requested_time}" for instant in self.writes]
        rollbacks = [f"finish the rollback {instant.requested_time}" for instant in self.rollbacks]
        left = [f"remove the half-made savepoint of {instant.requested_time}" for instant in self.savepoints]
        return "; ".join([*writes, *rollbacks, *left])


@dataclass(frozen=True, slots=True)
class FailedWritesResult(ServiceResult):
    """The result of a run: ``instants`` are the failed writes that were rolled back."""

    service: ClassVar[str] = "failed_writes"


class FailedWrites(TableService[FailedWritesResult]):
    """Rolls back the failed writes of dead writers."""

    name = "failed_writes"
    summary = "roll back the pending writes of writers that are dead"
    action = Action.ROLLBACK

    def plan(self) -> FailedWritesPlan:
        """Return the failed writes of dead writers. Changes nothing."""
        context = self.context
        timeline = context.folder.load()
        pending = timeline.pending.instants
        writes = [i for i in pending if i.action in DATA_ACTIONS]
        rollbacks = [i for i in pending if i.action is Action.ROLLBACK]
        dead = tuple(i for i in reversed(writes) if heartbeat.is_dead(context, i))
        free = tuple(i for i in rollbacks if requested_rollbacks.is_free(context, i))
        others = len(writes) + len(rollbacks) - len(dead) - len(free)
        why_not = f"the processes of {others} pending instants are alive, or keep no heartbeat" if others else ""
        left = half_made(context, timeline, context.runtime.clock.now_ms())
        return FailedWritesPlan(dead, free, why_not if writes or rollbacks else "no write is pending", left)

    def schedule(self) -> Instant | None:
        """Decide the rollback of the newest failed write; from then on this write cannot commit. Return None if there is no failed write."""
        for write in self.plan().writes:
            if not heartbeat.is_dead(self.context, write, ask_storage=True):
                continue
            scheduled = requested_rollbacks.schedule(self.context, write.requested_time)
            if scheduled is not None:
                return scheduled
        return None

    def _run(self, how: Execution, retries: Retries) -> FailedWritesResult:
        """Roll back all failed writes of dead writers, and remove their unannounced leftovers."""
        return retries.until_done(lambda: self._roll_back(how.gate, how.progress))

    def _roll_back(self, gate: Gate | None, progress: ServiceProgress) -> FailedWritesResult:
        planned = self.plan()
        progress("roll back", 0, len(planned.writes) + len(planned.rollbacks))
        ask_gate(gate, self.context, "to roll failed writes back")
        rollback.repair(self.context)
        remove_half_made(self.context)
        return self._ended((*planned.writes, *planned.rollbacks, *planned.savepoints), planned.why_not)

    def take_over(self) -> FailedWritesResult:
        """Finish scheduled rollbacks, and rollbacks of dead processes."""
        planned = self.plan().rollbacks
        for instant in planned:
            requested_rollbacks.execute(self.context, instant.requested_time)
        return self._ended(planned, "no rollback is left")

    def _execute(self, requested_time: str | None, execution: Execution) -> FailedWritesResult:
        free = {instant.requested_time: instant for instant in self.plan().rollbacks}
        if requested_time is None:
            requested_time = min(free, default=None)
        if requested_time is None:
            return self._nothing("no rollback is scheduled")
        if requested_time not in free:
            return self._nothing(f"the rollback {requested_time} is not pending, or a living process executes it")
        victim = requested_rollbacks.execute(self.context, requested_time, execution.gate)
        return FailedWritesResult((victim,)) if victim is not None else self._nothing("its write has ended already")

    def _ended(self, planned: tuple[Instant, ...], why_not: str) -> FailedWritesResult:
        pending = {(i.requested_time, i.action) for i in self.context.folder.load().pending}
        ended = tuple(i for i in planned if (i.requested_time, i.action) not in pending)
        return FailedWritesResult(ended, "" if ended else why_not)

    def _nothing(self, why_not: str) -> FailedWritesResult:
        return FailedWritesResult(why_not=why_not)
