"""The protocol of table services: plan, schedule, execute, take over, and run after commits (specification, "Table Services").

A service maintains one table: a data table, or a metadata table, which is a table like any other. It is made from a `TableContext`, and in some cases
from a request (the partitions of an indexing, the target of a restore). A service object has no state, so any process may do any step.

- `plan` is pure: it reads a state of the table, and computes what would be done and why. It writes nothing. If the service would be refused
  (`Refused`), the plan is empty, and `schedule` and `run` raise its error.
- `schedule` puts a plan on the timeline as a requested instant, decided under the table's lock (``transaction/decision.py``). From then on the plan
  belongs to the table, not to the process.
- `execute` executes a scheduled plan, and holds the lock only at its end. It is idempotent: it uses or repeats the work of a dead process. It ends
  with a completed instant, which is decided like a commit.
- `run` does both, in the retry loop of all writes (``write/retrying.py``). Plans on the timeline that no process executes come first.
- `take_over` finishes the work of dead processes.
- `after_commit` is called after each commit of this process, on the engine that wrote it, if an option of ``turns`` is on. A failure there does not
  affect the commit.

A service whose plans are not on the timeline (archival: Hudi has no instant for it) returns None from `schedule`, and `execute` makes its own plan.
The shared code of the other services is in ``services/planned_service.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import HudiError, InvalidOptionError
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.instant import Action, Instant, is_time
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.write.retrying import Retries

Figures = Mapping[str, int | float]
"""Counts, bytes and seconds by name, for events, tables and JSON."""


@set_module("pyhudi")
class ServicePlan(Protocol):
    """What a service would do now; true if there is work. A frozen value that prints as a sentence."""

    @property
    def why_not(self) -> str:
        """The reason why there is nothing to do, or why the service does not do more."""
        ...

    @property
    def figures(self) -> Figures:
        """The size of the plan: the known numbers of files, bytes and instants, and ``estimated_seconds`` (``estimates.py``)."""
        ...

    def __bool__(self) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
@printable
class Refused:
    """The reason why a service cannot work on a table as opened. This differs from a service without work. Plans have it as ``refused``.

    Attributes:
        error: the error of `TableService.schedule` and `TableService.run`; its hint says what to do.
        mendable: whether an option or a repair helps. False for a kind of table that this release does not rewrite.
    """

    error: HudiError
    mendable: bool = True


def refused_by(plan: object) -> Refused | None:
    """Return the refusal of a plan; None if the plan has work, or is empty because there is nothing to do."""
    found = getattr(plan, "refused", None)
    assert found is None or isinstance(found, Refused)
    return found


@dataclass(frozen=True, slots=True)
class Turn:
    """The input of a service that runs after a commit of this process.

    Attributes:
        engine: the engine that wrote the commit; None chooses one.
        files: the files that the commit wrote.
        busy: whether another service has worked after this commit. If so, services that can wait do not run, so that no commit waits for two
            services.
    """

    engine: Engine | None = None
    files: Sequence[WriteStat] = ()
    busy: bool = False

    def waits(self, every: int) -> int:
        """Return the number of commits that a service waits if it is due every ``every`` commits: half of ``every``, so that no service waits
        endlessly.
        """
        return every // 2 if self.busy else 0


@dataclass(frozen=True, slots=True)
class Execution:
    """How a plan is executed.

    Attributes:
        engine: where tasks run.
        gate: called just before the execution is decided. To cancel the execution, it returns False or raises, as for a commit. The gate of Dagster
            asks whether the run is still wanted.
        extra_metadata: goes into the completed instant of services that write a commit (compaction, clustering).
        progress: called with the current work, the number of finished steps, and the number of all steps (``progress.py``).
    """

    engine: Engine
    gate: Gate | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    progress: ServiceProgress = silent


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class ServiceResult:
    """The result of the execution of a table service; true if the execution changed something. Each service has a subclass with more fields.

    Attributes:
        instants: the instants that the execution completed or moved.
        why_not: why nothing was done, or why not more was done.
    """

    service: ClassVar[str] = "service"
    instants: tuple[Instant, ...] = ()
    why_not: str = ""

    @property
    def changed(self) -> bool:
        """Whether the execution changed something."""
        return bool(self.instants)

    @property
    def figures(self) -> Figures:
        """The figures of the execution."""
        return {"instants": len(self.instants)}

    def __bool__(self) -> bool:
        return self.changed

    def __str__(self) -> str:
        if not self:
            return f"{self.service}: nothing was done, {self.why_not}"
        shown = ", ".join(f"{name} {number:,}" for name, number in self.figures.items() if number)
        return f"{self.service}: {shown}"

    def __init_subclass__(cls) -> None:
        printable(cls)


R = TypeVar("R", bound=ServiceResult)


@set_module("pyhudi")
@printable
class TableService(OfTable, ABC, Generic[R]):
    """One table service of one table; see the module's docstring. ``name`` is its attribute of the table, ``summary`` describes it in one line."""

    name: ClassVar[str]
    summary: ClassVar[str]
    action: ClassVar[Action | None] = None
    """The action of its plans on the timeline; None if its plans are not on the timeline."""
    turns: ClassVar[tuple[str, ...]] = ()
    """The options that run the service after each commit, as attributes of `WriteOptions`; one enabled option is enough.

    Empty: the service never runs after a commit.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def _shown(self) -> dict[str, str]:
        return {"table": self.context.table, "service": self.name, "what it does": self.summary}

    @abstractmethod
    def plan(self) -> ServicePlan:
        """Return the work that would be done now, with the reason. Changes nothing."""

    @abstractmethod
    def schedule(self) -> Instant | None:
        """Put a plan on the timeline, and return its instant; None if there is nothing to do. If the plan is refused, raises its error."""

    def execute(
        self,
        instant: Instant | str | None = None,
        spark: Any = None,
        gate: Gate | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        *,
        progress: ServiceProgress | None = None,
    ) -> R:
        """Execute a scheduled plan of any process: the plan ``instant``, or the oldest one. ``spark`` is the session to run on.

        ``progress`` is called as ``progress(what, done, total)`` during the execution, see `Execution`.
        """
        return self._execute(self._time_of(instant), self._how(spark, gate, extra_metadata, progress))

    def run(
        self,
        spark: Any = None,
        gate: Gate | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        *,
        progress: ServiceProgress | None = None,
    ) -> R:
        """Schedule a plan and execute it; if another commit comes first, try again, as often as the table's options say.

        A plan on the timeline stays there; the next attempt executes it. ``gate``, ``extra_metadata`` and ``progress`` as in `Execution`. If the plan
        is refused, raises its error: otherwise a table without upkeep would look like a table that needs none.
        """
        how = self._how(spark, gate, extra_metadata, progress)
        with Retries(self.context) as retries:
            return self._run(how, retries)

    def _run(self, how: Execution, retries: Retries) -> R:
        """Run the service as `run`, inside the retry loop."""
        scheduled, why_not = retries.until_done(self._scheduled)
        if scheduled is None and self.action is not None:
            return self._nothing(why_not)
        return retries.until_done(lambda: self._execute(self._time_of(scheduled), how))

    def _scheduled(self) -> tuple[Instant | None, str]:
        """Schedule a plan, and return it or the reason why there is nothing to do."""
        return self.schedule(), ""

    def _how(
        self, spark: Any, gate: Gate | None, extra: Mapping[str, str] | None, progress: ServiceProgress | None
    ) -> Execution:
        engine = engine_for(None, self.context.runtime.executor, spark, self.context.table)
        return Execution(engine, gate, extra or {}, progress or silent)

    def waiting(self) -> list[Instant]:
        """Return the plans on the timeline that no process executes, oldest first, also plans of other programs; empty for services without such
        plans. Changes nothing.
        """
        return []

    def unattended(self) -> list[Instant]:
        """Return the plans of `waiting` that auto mode and sensors may execute without a request by a user."""
        return self.waiting()

    def under_way(self) -> list[Instant]:
        """Return the plans on the timeline that a process executes now, and the plans that another program has begun and may still be executing."""
        return []

    @abstractmethod
    def take_over(self) -> R:
        """Finish the work of this service that dead processes left."""

    def after_commit(self, turn: Turn) -> bool:
        """Do the due work after a commit of this process. Called only if an option of ``turns`` is on.

        Returns True if this service worked and does not work after each commit; then other services may wait.
        """
        return False

    @abstractmethod
    def _execute(self, requested_time: str | None, execution: Execution) -> R:
        """Execute the plan with this requested time; None: the oldest plan."""

    @abstractmethod
    def _nothing(self, why_not: str) -> R:
        """Return the result of an execution that had nothing to do."""

    def _time_of(self, instant: Instant | str | None) -> str | None:
        if instant is None:
            return None
        time = instant.requested_time if isinstance(instant, Instant) else instant
        if self.action is None or not isinstance(time, str) or not is_time(time):
            raise InvalidOptionError(
                f"{str(instant)[:80]!r} is not a scheduled plan of {self.name}",
                table=self.context.table,
                hint=f"Give what table.{self.name}.schedule() returned, or nothing for the oldest plan."
                if self.action is not None
                else f"Plans of {self.name} are not on the timeline; leave the instant out.",
            )
        return time
