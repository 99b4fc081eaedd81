"""Expiry: partitions that are older than the limit of the table's options are deleted (Hudi's "partition TTL").

``plan`` shows the partitions, their rows and bytes. ``run`` deletes them by one commit of Hudi's operation DELETE_PARTITION; older states can be read
until a clean. Hudi has no plan of an expiry on the timeline, so ``schedule`` returns None. If a writer changes a partition in the meantime, the
partition is checked again, and stays if it is no longer expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.expiry.partitions_to_expire import ExpiryPlan, plan_expiry
from pyhudi_core.services.progress import Steps
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService, Turn
from pyhudi_core.write.checks import checked_extra
from pyhudi_core.write.handle import Write
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import WriteSpec


@dataclass(frozen=True, slots=True)
class ExpiryResult(ServiceResult):
    """The result of expiry. ``instants`` has the commit.

    Attributes:
        partitions: the paths of the deleted partitions.
        bytes: size of their newest file slices, which a clean deletes later.
        rows: number of their rows; None if unknown.
        token: the commit's token, for ``table.commit_status``.
    """

    service: ClassVar[str] = "expiry"
    partitions: tuple[str, ...] = ()
    bytes: int = 0
    rows: int | None = None
    token: str = ""

    @property
    def figures(self) -> Figures:
        """Numbers of partitions and bytes, and of rows if known."""
        known = {} if self.rows is None else {"rows": self.rows}
        return {"instants": len(self.instants), "partitions": len(self.partitions), "bytes": self.bytes, **known}


class Expiry(TableService[ExpiryResult]):
    """Deletes the expired partitions of one table."""

    name = "expiry"
    summary = "delete partitions that are older than the options say"
    turns = ("upkeep.ttl_inline",)

    def plan(self) -> ExpiryPlan:
        """Return what `run` would delete now. Changes nothing."""
        return plan_expiry(self.context, self.context.folder.load())

    def schedule(self) -> Instant | None:
        """Return None: Hudi has no scheduled expiry. Use `run`, in any process."""
        return None

    def take_over(self) -> ExpiryResult:
        """Do nothing: the write of a dead process is rolled back as any write is (``table.failed_writes``)."""
        return self._nothing("the next write rolls back what a dead process has left")

    def after_commit(self, turn: Turn) -> bool:
        """Delete expired partitions, if ``hoodie.partition.ttl.inline`` is on."""
        with Retries(self.context) as retries:
            self._run(Execution(engine_for(turn.engine, self.context.runtime.executor, None)), retries)
        return False

    def _run(self, how: Execution, retries: Retries) -> ExpiryResult:
        """Plan and delete. Repeat this if another commit came first. Raises `CommitConflictError` after too many attempts, and as a write."""
        extra = checked_extra(how.extra_metadata)
        return retries.until_done(lambda: self._attempt(how, extra))

    def _attempt(self, how: Execution, extra: dict[str, str]) -> ExpiryResult:
        planned = self.plan()
        if not planned:
            return self._nothing(planned.why_not)
        steps = Steps(how.progress, "delete partitions", len(planned.paths))
        steps.begin()
        with Write(WriteSpec(self.context, OperationType.DELETE_PARTITION, extra)) as write:
            write.drop(planned.paths, missing_ok=True)
            # Commits that completed after the plan and before this write began do not conflict with the write.
            if not set(planned.paths) <= set(self.plan().paths):
                raise CommitConflictError(
                    "A partition that had expired was written to while its deletion began",
                    table=self.context.table,
                    hint="Nothing was deleted; run the expiry again.",
                )
            steps.end()
            commit = write.commit(how.gate)
        if not commit:
            return self._nothing(commit.reason)
        instant = Instant(commit.instant, Action.REPLACECOMMIT, State.COMPLETED, commit.completion_time)
        rows, size = planned.rows, int(planned.figures["bytes"])
        return ExpiryResult((instant,), planned.why_not, planned.paths, size, rows, commit.token)

    def _execute(self, requested_time: str | None, execution: Execution) -> ExpiryResult:
        with Retries(self.context) as retries:
            return self._run(execution, retries)

    def _nothing(self, why_not: str) -> ExpiryResult:
        return ExpiryResult(why_not=why_not)
