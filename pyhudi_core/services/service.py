"""The protocol of table services: plan, schedule, execute, take over, and a turn after each commit (specification, "Table Services").

A service looks after one table: a data table, or a metadata table, which is a table like any other. It is made from a `TableContext`, and perhaps
what is asked for (the partitions of an indexing, the target of a restore). It keeps nothing of what it did, so any process may do any step.

- `plan` is pure: it reads a state of the table, and computes from it what would be done and why. It writes nothing. A plan that is empty because the
  service would be refused (`Refused`) is not one with nothing to do: `schedule` and `run` raise its error.
- `schedule` puts a plan on the timeline as a requested instant, decided under the table's lock (``transaction/decision.py``). From then on the plan
  belongs to the table, not to the process.
- `execute` carries a scheduled plan out, and holds the lock only at its end. It is idempotent: the work of a dead process is used or repeated, and
  it ends with a completed instant that is decided as a commit is.
- `run` does both, in the retry loop of all writes (``write/retrying.py``). Plans on the timeline that no process executes come first.
- `take_over` finishes what processes left that are known to be dead.
- `after_commit` is called after each commit of this process, on the engine that wrote it, if an option of ``turns`` is on. The commit stands whatever
  happens there.

A service whose plans are not on the timeline (archival: Hudi has no instant for it) returns None from `schedule`, and `execute` makes its own plan.
What the others share is in ``services/planned_service.py``.
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
    """What a service would do now: true if there is something. A frozen value; it prints as a sentence."""

    @property
    def why_not(self) -> str:
        """Why there is nothing to do, or what keeps the service from doing more."""
        ...

    @property
    def figures(self) -> Figures:
        """What the plan amounts to: files, bytes, instants as far as they are known, and ``estimated_seconds`` (``estimates.py``)."""
        ...

    def __bool__(self) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
@printable
class Refused:
    """That a service cannot work in a table as it is opened. This is not the same as nothing to do: its plans have it as ``refused``.

    Attributes:
        error: what `TableService.schedule` and `TableService.run` raise; its hint says what to do.
        mendable: whether an option or a repair helps. False for a kind of table that this release does not rewrite.
    """

    error: HudiError
    mendable: bool = True


def refused_by(plan: object) -> Refused | None:
    """That a plan is empty because the service would be refused; None for plans with work, and if there is nothing to do."""
    found = getattr(plan, "refused", None)
    assert found is None or isinstance(found, Refused)
    return found


@dataclass(frozen=True, slots=True)
class Turn:
    """What a service knows when it has its turn after a commit of this process.

    Attributes:
        engine: that wrote the commit; None chooses one.
        files: that the commit wrote.
        busy: whether another service has worked after this commit. Then what can wait waits, so that no commit pays for two of them.
    """

    engine: Engine | None = None
    files: Sequence[WriteStat] = ()
    busy: bool = False

    def waits(self, every: int) -> int:
        """Return for how many commits a service waits that is due after so many: half as many, so that none waits for ever."""
        return every // 2 if self.busy else 0


@dataclass(frozen=True, slots=True)
class Execution:
    """How a plan is carried out.

    Attributes:
        engine: where tasks run.
        gate: asked just before the execution is decided; it answers False or raises to give it up, as for a commit. Dagster's asks whether the
            run is still wanted.
        extra_metadata: goes into the completed instant of services that write a commit (compaction, clustering).
        progress: is called with what is done now, the number done and the number of all (``progress.py``).
    """

    engine: Engine
    gate: Gate | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    progress: ServiceProgress = silent


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class ServiceResult:
    """What an execution did: true if it did something. Each service has its own kind, with more fields.

    Attributes:
        instants: the instants that it completed, or moved.
        why_not: why nothing was done, or what kept more from being done.
    """

    service: ClassVar[str] = "service"
    instants: tuple[Instant, ...] = ()
    why_not: str = ""

    @property
    def changed(self) -> bool:
        """Whether something was done."""
        return bool(self.instants)

    @property
    def figures(self) -> Figures:
        """What was done, as numbers."""
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
    """One service of one table; see the module's text. ``name`` is its attribute of the table, ``summary`` what it does, in one line."""

    name: ClassVar[str]
    summary: ClassVar[str]
    action: ClassVar[Action | None] = None
    """The action of its plans on the timeline; None if they are not there."""
    turns: ClassVar[tuple[str, ...]] = ()
    """The options that give it a turn after each commit, as attributes of `WriteOptions`; one that is on is enough. Empty: it never has one."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def _shown(self) -> dict[str, str]:
        return {"table": self.context.table, "service": self.name, "what it does": self.summary}

    @abstractmethod
    def plan(self) -> ServicePlan:
        """Return what would be done now, and why, or why not. Changes nothing."""

    @abstractmethod
    def schedule(self) -> Instant | None:
        """Put a plan on the timeline; returns its instant, or None if there is nothing to do. Raises the error of a plan that is refused."""

    def execute(
        self,
        instant: Instant | str | None = None,
        spark: Any = None,
        gate: Gate | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        *,
        progress: ServiceProgress | None = None,
    ) -> R:
        """Execute a scheduled plan of any process: the one of ``instant``, or the oldest. ``spark`` is the session to run on.

        ``progress`` is called as ``progress(what, done, total)`` while the plan is executed, see `Execution`.
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

        A plan that is on the timeline stays there, and is what the next attempt executes. ``gate``, ``extra_metadata`` and ``progress`` as in
        `Execution`. Raises the error of a plan that is refused: without this error, a table without upkeep would look like a table that needs none.
        """
        how = self._how(spark, gate, extra_metadata, progress)
        with Retries(self.context) as retries:
            return self._run(how, retries)

    def _run(self, how: Execution, retries: Retries) -> R:
        """`run`, in the retry loop."""
        scheduled, why_not = retries.until_done(self._scheduled)
        if scheduled is None and self.action is not None:
            return self._nothing(why_not)
        return retries.until_done(lambda: self._execute(self._time_of(scheduled), how))

    def _scheduled(self) -> tuple[Instant | None, str]:
        """`schedule`, and why there is nothing to do."""
        return self.schedule(), ""

    def _how(
        self, spark: Any, gate: Gate | None, extra: Mapping[str, str] | None, progress: ServiceProgress | None
    ) -> Execution:
        engine = engine_for(None, self.context.runtime.executor, spark, self.context.table)
        return Execution(engine, gate, extra or {}, progress or silent)

    def waiting(self) -> list[Instant]:
        """Return the plans on the timeline that no process executes, oldest first, whoever made them; empty if plans are not there.

        Changes nothing.
        """
        return []

    def unattended(self) -> list[Instant]:
        """Return those of `waiting` that a program may execute although nobody asked for it now: auto mode, and sensors."""
        return self.waiting()

    def under_way(self) -> list[Instant]:
        """Return the plans on the timeline that a process executes now, or that a program began which does not show whether it is alive."""
        return []

    @abstractmethod
    def take_over(self) -> R:
        """Finish what dead processes left of this service."""

    def after_commit(self, turn: Turn) -> bool:
        """Do what is due after a commit of this process. Called only if an option of ``turns`` is on.

        Returns whether others may wait because of it: it worked, and does not work after each commit.
        """
        return False

    @abstractmethod
    def _execute(self, requested_time: str | None, execution: Execution) -> R:
        """Carry out the plan with this requested time; None: the oldest one."""

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
