"""Run the due services of one table or of a lake in one call, within limits, and give the reasons (auto mode).

`upkeep` examines every service of every table (``services/upkeep.py``), and then runs the due services: the most urgent table first, and within a
table in the order of the registry. After a service has run, the need of the next service of the table is computed again. A table that cannot be
opened, or a service that fails, becomes a line of the report; the other tables and services continue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lake_tables import Lake, tables_below
from pyhudi_core.model.masking import takes_options
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opening import open_table
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Clock
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.services import estimates
from pyhudi_core.services.service import Refused, TableService
from pyhudi_core.services.upkeep import Need, need_of, part_of
from pyhudi_core.services.upkeep_rules import UpkeepRules
from pyhudi_core.storage.paths import Place
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction.commit import Gate

UpkeepProgress = Callable[[str, str, int, int], object]
"""Called before each service with the table, the service, the number of finished services, and the number of all services.

The service is empty during the search for tables.
"""


_Place = tuple[str, Callable[[], HudiTable]]
"""The location of a table, and the function that opens the table."""
_ROOM_FIRST = ("sweep", "failed_writes", "restore", "cleaning", "metadata_cleaning")
"""The services that run before all others: a sweep writes nothing, and cleans free space for the others. A clean waits for restores."""


def _turn(service: str) -> int:
    return _ROOM_FIRST.index(service) if service in _ROOM_FIRST else len(_ROOM_FIRST)


class Outcome(StrEnum):
    """The outcome of one service of one table."""

    NOT_DUE = "not due"
    DUE = "due"
    RAN = "ran"
    LEFT = "left"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
@printable
class UpkeepLine:
    """One service of one table.

    Attributes:
        service: the name of the service; empty if the line is about a table that could not be opened or was skipped.
        outcome: due (with ``plan=True``), ran, left for another run because of a limit, failed, not due, or skipped. Skipped are a table that this
            release only reads, and a service that this release does not have for the table.
        reason: the reason for the outcome, or the error.
        bytes, seconds: the estimate; ``freed``: the bytes that the service would delete.
        took: seconds of the run; None if the service did not run.
        result: the result, as a sentence.
    """

    table: str
    service: str
    outcome: Outcome
    reason: str
    bytes: int = 0
    seconds: float = 0.0
    took: float | None = None
    result: str = ""
    freed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "table": self.table,
            "service": self.service,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "estimated_bytes": self.bytes,
            "freed_bytes": self.freed,
            "estimated_seconds": round(self.seconds, 3),
            "seconds": None if self.took is None else round(self.took, 3),
            "result": self.result,
        }


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class UpkeepReport:
    """The decisions and results of one call of `upkeep`. The report is false if a line failed."""

    lines: tuple[UpkeepLine, ...] = ()

    def with_outcome(self, outcome: Outcome) -> tuple[UpkeepLine, ...]:
        """Return the lines with one outcome."""
        return tuple(line for line in self.lines if line.outcome is outcome)

    @property
    def failed(self) -> tuple[UpkeepLine, ...]:
        """The services that failed, and the tables that could not be opened."""
        return self.with_outcome(Outcome.FAILED)

    def __bool__(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        counts = ((outcome, len(self.with_outcome(outcome))) for outcome in Outcome)
        return ", ".join(f"{count} {outcome}" for outcome, count in counts if count) or "no table"

    def to_json(self) -> str:
        """Return the lines as a JSON array."""
        return json.dumps([line.to_dict() for line in self.lines], indent=2)

    def _shown(self) -> list[dict[str, Any]]:
        return [line.to_dict() for line in self.lines]


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def upkeep(
    tables: Place | Lake | HudiTable | Sequence[Place | Lake | HudiTable],
    rules: UpkeepRules | None = None,
    *,
    plan: bool = False,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: Any = None,
    gate: Gate | None = None,
    progress: UpkeepProgress | None = None,
) -> UpkeepReport:
    """Run the due table services of one or several tables. Returns a line for each service of each table.

    Args:
        tables: tables, locations of tables, and folders that contain tables, as locations or as a `Lake`.
        rules: the services to examine, when they are due, and the limits of this run.
        plan: only decide; nothing is changed.
        options, storage_options: options for tables given by location, as in `open_table`. A `Lake` has its own.
        spark: a session to run on.
        gate: called before each decision, as in `TableService.run`. Dagster's gate checks whether the run is still wanted.

    An error of a table or a service is a line of the report. Raises `ConfigError` if an argument or a location is not valid.
    """
    WriteOptions.parse(options or {})  # a wrong option is no failure of a table
    clock = system_runtime().clock
    run = _Run(rules or UpkeepRules(), plan, spark, gate, progress or (lambda *_: None), clock, clock.monotonic())
    several = isinstance(tables, Sequence) and not isinstance(tables, str)
    given: list[Any] = list(tables) if several else [tables]  # type: ignore[arg-type]  # a sequence
    if not all(isinstance(one, str | Lake | HudiTable) or hasattr(one, "__fspath__") for one in given):
        raise InvalidOptionError("upkeep takes tables and locations", hint='For example upkeep(["/lake/orders"]).')

    places = [place for one in given for place in _places(one, storage_options or {}, options or {})]
    states = [run.look_at(*place) for place in places]
    for state in sorted(states, key=lambda state: -state.urgency):
        run.carry_out(state)
    return UpkeepReport(tuple(line for state in states for line in state.lines))


def _places(
    given: Place | Lake | HudiTable, storage_options: Mapping[str, str], options: Mapping[str, object]
) -> Iterator[_Place]:
    """Find the tables to examine. A location without a table is included, because opening it gives the error."""
    if isinstance(given, HudiTable):
        yield given.location, lambda: given
        return
    lake = given if isinstance(given, Lake) else Lake(str(given), storage_options, options)
    below = tables_below(lake.location, lake.storage_options, lake.options)
    for place in below if isinstance(given, Lake) else below or [lake.location]:
        yield place, partial(open_table, place, lake.storage_options, lake.options)


@dataclass(slots=True)
class _TableState:
    """One table: the needs of its services, and its lines so far."""

    location: str
    table: HudiTable | None = None
    needs: list[Need] = field(default_factory=list)
    lines: list[UpkeepLine] = field(default_factory=list)

    @property
    def urgency(self) -> float:
        return max((need.urgency for need in self.needs), default=0.0)

    def add(self, outcome: Outcome, need: Need, **more: Any) -> None:
        line = UpkeepLine(self.location, need.service, outcome, need.reason, need.bytes, need.seconds, freed=need.freed)
        self.lines.append(replace(line, **more))

    def refuse(self, need: Need, refused: Refused) -> None:
        """Add a line for a service that would be refused: failed if the user can change that, skipped if the service does not support such tables."""
        if refused.mendable:
            self.fail(need.service, refused.error)
        else:
            self.add(Outcome.SKIPPED, need, bytes=0, seconds=0.0)

    def fail(self, service: str, error: Exception) -> None:
        self.lines.append(UpkeepLine(self.location, service, Outcome.FAILED, f"{type(error).__name__}: {error}"))


@dataclass(slots=True)
class _Run:
    """One call of `upkeep`: the used part of the limits, and the durations of services compared with their estimates."""

    rules: UpkeepRules
    only_plan: bool
    spark: Any
    gate: Gate | None
    progress: UpkeepProgress
    clock: Clock
    began: float
    planned_seconds: float = 0.0
    bytes: int = 0
    _shown: dict[str, tuple[float, float]] = field(default_factory=dict)

    def look_at(self, location: str, opened: Callable[[], HudiTable]) -> _TableState:
        """Return the needs of all services of a table. A table that cannot be opened, or a service that cannot plan, becomes a line."""
        self.progress(location, "", 0, 0)
        state = _TableState(location)
        try:
            state.table = opened()
            if why := state.table.config.why_not_written:
                state.lines.append(UpkeepLine(location, "", Outcome.SKIPPED, why))
                return state
            services = {name: state.table.services[name] for name in sorted(state.table.services, key=_turn)}
        except Exception as error:  # noqa: BLE001  (whatever is wrong with one table, the others are looked after)
            state.fail("", error)
            return state
        for name, service in services.items():
            if self.rules.services is not None and name not in self.rules.services:
                continue
            try:
                state.needs.append(need_of(service, self.rules))
            except Exception as error:  # noqa: BLE001  (as above)
                state.fail(name, error)
        return state

    def carry_out(self, state: _TableState) -> None:
        """Run the due services of one table, within the limits."""
        ran = False
        for number, known in enumerate(state.needs):
            self.progress(state.location, known.service, number, len(state.needs))
            try:
                ran = self._one(state, known, look_again=ran) or ran
            except Exception as error:  # noqa: BLE001  (as above)
                state.fail(known.service, error)

    def _one(self, state: _TableState, known: Need, *, look_again: bool) -> bool:
        """Decide about one service, and run it. Returns whether it ran."""
        assert state.table is not None
        # The same values of the table serve all its services; a service that ran has changed what the next one finds.
        service = state.table.services[known.service]
        need = need_of(service, self.rules) if look_again else known
        if need.refused is not None:
            state.refuse(need, need.refused)
            return False
        if not need.due:
            state.add(Outcome.NOT_DUE, need)
            return False
        need = replace(need, seconds=need.seconds * self._slowness(need.service))
        limit = self._limit_of(need)
        if limit:
            part = self._part(service, need)
            if part is None:
                state.add(Outcome.LEFT, need, reason=f"{limit}; {need.reason}")
                return False
            service, need = part
        self.bytes += need.bytes
        if self.only_plan:
            self.planned_seconds += need.seconds
            state.add(Outcome.DUE, need)
            return False
        began = self.clock.monotonic()
        done = service.run(self.spark, self.gate)
        took = self.clock.monotonic() - began
        expected, real = self._shown.get(need.service, (0.0, 0.0))
        self._shown[need.service] = (expected + need.seconds / self._slowness(need.service), real + took)
        state.add(Outcome.RAN, need, took=took, result=str(done))
        return True

    def _part(self, service: TableService[Any], need: Need) -> tuple[TableService[Any], Need] | None:
        """Return a service that does as much of the work as the limits allow, and its need.

        Returns None if no part fits, or if a plan on the timeline comes first.
        """
        rules, slowness = self.rules, self._slowness(need.service)
        left = rules.seconds - self._spent if rules.seconds is not None else None
        bounds = [] if rules.bytes is None else [float(rules.bytes - self.bytes)]
        bounds += [] if left is None else [left / slowness * estimates.BYTES_PER_SECOND]
        part = None if service.unattended() else part_of(service, min(bounds))
        found = need_of(part, rules) if part is not None else None
        if part is None or found is None or not found.bytes:
            return None
        seconds = found.seconds * slowness
        whole = f"a part that fits into the limits, {found.bytes:,} of {need.bytes:,} bytes; {need.reason}"
        found = replace(found, due=True, seconds=seconds, reason=whole)
        return None if self._limit_of(found) else (part, found)

    @property
    def _spent(self) -> float:
        """The used seconds of the time limit."""
        return self.planned_seconds if self.only_plan else self.clock.monotonic() - self.began

    def _slowness(self, service: str) -> float:
        """Return the ratio of a service's real duration to its estimate in this run."""
        expected, real = self._shown.get(service, (0.0, 0.0))
        return real / expected if expected else 1.0

    def _limit_of(self, need: Need) -> str:
        """Return the limit that a service would exceed, as text; empty if there is none."""
        rules = self.rules
        if rules.bytes is not None and self.bytes + need.bytes > rules.bytes:
            return f"it would rewrite about {need.bytes:,} bytes, and {max(0, rules.bytes - self.bytes):,} are left of this run's limit"
        if rules.seconds is not None and self._spent + need.seconds > rules.seconds:
            left = max(0.0, rules.seconds - self._spent)
            return f"it would take about {need.seconds:.1f} s, and {left:.1f} s are left of this run's limit"
        return ""
