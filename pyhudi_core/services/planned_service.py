"""Services whose plans are on the timeline, so that any process can execute them: compaction, log compaction, clustering, cleaning, indexing and
restores of a table, compaction and cleaning of its metadata table. Other services, such as expiry and sweep, have no plans there, and extend
`TableService`.

They share three steps: putting a plan on the timeline, choosing the pending plan to execute, and running inline after a commit. Each service defines
its plan, the check of the plan under the lock, the decoding of a requested file, and the execution (``services/plan_run.py``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import CommitError, HudiError, LockError, ObjectNotFoundError
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.outdated import Outdating, refuse_outdated
from pyhudi_core.services.service import Execution, Figures, ServicePlan, ServiceResult, TableService, refused_by
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction, look, reserve
from pyhudi_core.transaction.plan_executors import Groundwork, Refusal
from pyhudi_core.transaction.record import Publication
from pyhudi_core.transaction.requested_plans import give_back, put_plan
from pyhudi_core.write.checks import checked_extra
from pyhudi_core.write.retrying import Retries

_IN_ONE = 5
"""A service that is due after at most this number of commits is planned and executed after the same commit."""


class TimelinePlan(ServicePlan, Protocol):
    """A plan that can be put on the timeline."""

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedResult(ServiceResult):
    """The result of executing one or more plans. A service adds counts as fields of type int."""

    def and_then(self, later: Self) -> Self:
        """Return the sum of both results. A token names one commit, so the result of two commits has no token."""
        if not self:
            return later
        if not later:
            return self
        sums: dict[str, Any] = {name: count + getattr(later, name) for name, count in self._counts().items()}
        alone = {"token": ""} if "token" in (field.name for field in fields(self)) else {}
        return replace(later, instants=self.instants + later.instants, **sums, **alone)

    @property
    def figures(self) -> Figures:
        """The number of instants, and every count."""
        return {"instants": len(self.instants), **self._counts()}

    def _counts(self) -> dict[str, int]:
        found = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in found if isinstance(value, int)}


P = TypeVar("P", bound=TimelinePlan)
W = TypeVar("W")
R = TypeVar("R", bound=PlannedResult)


class PlannedService(TableService[R], Generic[P, W, R]):
    """A service with plans on the timeline. ``P`` is its plan, ``W`` the work that a requested file describes, ``R`` its result."""

    action: ClassVar[Action]
    noun: ClassVar[str]
    """The name of one plan in sentences."""

    def plan(self, *, triggered: bool = False) -> P:
        """Return what `schedule` would plan now. With ``triggered``, the plan is empty until the trigger of the options is reached."""
        return self._planned(self.context.folder.load(), triggered=triggered)

    def schedule(self, *, triggered: bool = False) -> Instant | None:
        """Put a plan on the timeline; None if there is nothing to do.

        Raises `CommitConflictError` if a writer committed first; in this case, plan again. If the plan is refused, raises its error.
        """
        return self._scheduled(triggered=triggered)[0]

    def _scheduled(self, *, triggered: bool = False) -> tuple[Instant | None, str]:
        context = self.context
        timeline = context.folder.load()
        plan = self._foreseen(timeline, triggered=triggered)
        if plan is not None and not plan:
            return _nothing_planned(plan)
        transaction = reserve(context, self.action, look(context, timeline))
        try:
            if plan is None or not self._is_current(timeline, transaction.start):
                plan = self._planned(transaction.start, triggered=triggered)
        except BaseException:
            give_back(transaction)
            raise
        if not plan:
            give_back(transaction)
            return _nothing_planned(plan)
        try:
            body, before = plan.encode(transaction.sync_marker), self._published_before(transaction, plan)
        except BaseException:
            give_back(transaction)
            raise
        outdated = partial(refuse_outdated, transaction, self._outdating(transaction, plan))
        return put_plan(transaction, body, outdated, before), ""

    def waiting(self) -> list[Instant]:
        """Return the plans on the timeline that no process executes, oldest first."""
        return self._free(self._pending())

    def under_way(self) -> list[Instant]:
        """Return the plans on the timeline that a process executes."""
        return [plan for plan in self._pending() if not plan_executors.is_free(self.context, plan)]

    def take_over(self) -> R:
        """Finish the executions that dead processes began."""
        begun = [i for i in self.waiting() if i.state is State.INFLIGHT]
        return self._execute_all(begun, f"no dead process has left a {self.noun}", None)

    def _run(self, how: Execution, retries: Retries) -> R:
        """Execute the pending plans that no process executes; then plan and execute."""
        done = self._nothing("")
        for plan in self.waiting():
            done = done.and_then(retries.until_done(partial(self._execute, plan.requested_time, how)))
        return done.and_then(super()._run(how, retries))

    def _is_current(self, seen: Timeline, start: Timeline) -> bool:
        """Say whether ``seen`` and ``start`` (the timeline after the reservation) lead to the same plan."""
        return seen.instants == start.instants

    def _foreseen(self, timeline: Timeline, *, triggered: bool) -> P | None:
        """Return the plan before a time is reserved for it. None means that there is a plan, which is made after the reservation."""
        return self._planned(timeline, triggered=triggered)

    @abstractmethod
    def _planned(self, timeline: Timeline, *, triggered: bool) -> P:
        """Return the plan for the state of a timeline."""

    @abstractmethod
    def _outdating(self, transaction: Transaction, plan: P) -> Outdating:
        """Return the changes by other processes that make the plan outdated."""

    def _published_before(self, transaction: Transaction, plan: P) -> Sequence[Publication]:
        """Stage and return the files that the decision of the plan publishes before the requested file."""
        return ()

    @abstractmethod
    def _decode(self, data: bytes, path: str) -> W:
        """Return the work that a requested file with these bytes describes."""

    @abstractmethod
    def _run_plan(self, transaction: Transaction, work: W, how: Execution) -> R:
        """Write and commit as the plan's executor."""

    def _execute(self, requested_time: str | None, how: Execution) -> R:
        """Execute one plan: choose it, register as its executor, execute it. The execution ends with the decision of its commit."""
        chosen, why_not = self._chosen(requested_time)
        if chosen is None:
            return self._nothing(why_not)
        how = replace(how, extra_metadata=checked_extra(how.extra_metadata))
        work = self._read(chosen)
        if work is None:
            return self._nothing(f"the {self.noun} {chosen.requested_time} has ended")
        ground = self._groundwork(chosen, work, how)
        begun = plan_executors.begin_execution(
            self.context, chosen, by_name=requested_time is not None, groundwork=ground
        )
        if isinstance(begun, Refusal):
            return self._nothing(begun.why_not)
        try:
            return self._run_plan(begun, work, how)
        except (CommitError, LockError):
            raise  # these errors report the state of the plan, or another attempt follows
        except HudiError as error:
            known = f"{error.hint.rstrip('.')}. " if error.hint else ""
            error.hint = known + self._stays(chosen.requested_time)
            raise

    def _stays(self, time: str) -> str:
        """Return a sentence about the plan after a failed execution."""
        removed = f", and table.{self.name}.cancel({time!r}) removes it" if hasattr(self, "cancel") else ""
        return f"The plan of the {self.noun} {time} stays on the timeline: the next run executes it{removed}."

    def _groundwork(self, plan: Instant, work: W, how: Execution) -> Groundwork | None:
        """Return the preconditions of the execution; None for most services."""
        return None

    def _chosen(self, requested_time: str | None) -> tuple[Instant | None, str]:
        """Return the plan to execute; or None, and the reason."""
        pending = self._pending()
        if requested_time is not None:
            found = next((i for i in pending if i.requested_time == requested_time), None)
            return found, f"the {self.noun} {requested_time} is not pending"
        free = self._free(pending)
        if free or not pending:
            return (free[0] if free else None), f"no {self.noun} is planned"
        return None, f"other processes execute the {len(pending)} planned {self.noun}s"

    def _step(self, engine: Engine | None, found: Timeline, every: int) -> R | None:
        """Do one part of the due work: plan after one commit, and execute the plan after the next commit, so that no commit pays for both.

        A service that is due after few commits (``every``) plans and executes at once, as its user expects. ``found`` is the timeline that the commit
        found. Returns the result of the execution or the planning; None if there was nothing to do.
        """
        if every <= _IN_ONE:
            return self._inline(engine) or None
        if any(i.action is self.action for i in found.pending):
            return self._execute_all(self.waiting(), "", engine)
        return None if self.schedule(triggered=True) is None else self._nothing("it is planned")

    def _inline(self, engine: Engine | None) -> R:
        """Execute the plans that no process executes, then plan and execute the due work."""
        done = self._execute_all(self.waiting(), "", engine)
        scheduled = self.schedule(triggered=True)
        return done if scheduled is None else done.and_then(self._execute_all([scheduled], "", engine))

    def _execute_all(self, plans: list[Instant], why_not: str, engine: Engine | None) -> R:
        done = self._nothing(why_not)
        how = Execution(engine or engine_for(None, self.context.runtime.executor, None))
        for plan in plans:
            done = done.and_then(self._execute(plan.requested_time, how))
        return done

    def _pending(self) -> list[Instant]:
        """Return the plans on the timeline that are not completed, the oldest first."""
        return [i for i in self.context.folder.load().pending if i.action is self.action]

    def _free(self, plans: list[Instant]) -> list[Instant]:
        """Return the plans that no process executes."""
        return [i for i in plans if plan_executors.is_free(self.context, i)]

    def _read(self, plan: Instant) -> W | None:
        """Return the content of the requested file; None if the file is gone."""
        path = self.context.folder.file(Instant(plan.requested_time, plan.action, State.REQUESTED))
        try:
            return self._decode(self.context.storage.get(path), path)
        except ObjectNotFoundError:
            return None


def _nothing_planned(plan: ServicePlan) -> tuple[None, str]:
    """Say why nothing is planned. Raises the error of a plan that is refused."""
    refused = refused_by(plan)
    if refused is not None:
        raise refused.error
    return None, plan.why_not
