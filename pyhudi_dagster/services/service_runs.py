"""Run one table service in a Dagster step: decide whether the service runs now, run it under the gate of the step, and store its events.

A service runs without the table's lock, except for the decision of the plan and the decision of the completion. The process that executes a plan
keeps the heartbeat of the plan, so a second run does nothing and names that process. A run that was terminated publishes nothing: the gate refuses
the decision of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import TableNotFoundError
from pyhudi_core.orchestration.table_services import ServiceState, state_of
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.lake.service_settings import ALWAYS, OnCron
from pyhudi_dagster.reporting import events
from pyhudi_dagster.steps import runner
from pyhudi_dagster.timeline.identity import PREFIX

When = Literal["auto", "due", "always", "planned", "never"]
"""``due``: waiting plans, and work that is due by the trigger; ``always``: also before the trigger is reached; ``planned``: only waiting plans;
``never``: nothing; ``auto``: ``due`` if the asset names the service with a trigger, otherwise ``planned``.
"""
Log = Callable[[dg.AssetObservation | dg.AssetMaterialization], None]
_MOST_ENTRIES = 30
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The request to run a service. ``until``: the moment (in UTC) after which the service does not begin. ``spark``: whether the service runs on the
    lake's Spark session.
    """

    when: When = "auto"
    dry_run: bool = False
    spark: bool = False
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The result of a service in a step.

    Attributes:
        service: the name of the service.
        plan: the plan of the service at the beginning of the step, as a sentence.
        skipped_because: why the service did nothing; empty if the service did something.
        done: the result of the service, as a sentence.
        figures: the figures of the result, in a dry run the figures of the plan.
        instants: the instants that the service completed.
        seconds: duration.
    """

    service: str
    plan: str = ""
    skipped_because: str = ""
    done: str = ""
    figures: Mapping[str, int | float] = field(default_factory=dict)
    instants: tuple[hudi.Instant, ...] = ()
    seconds: float = 0.0

    def entries(self) -> dict[str, Any]:
        """Return the metadata entries of the step's output."""
        texts = {
            "hudi/service": self.service,
            "hudi/plan": self.plan,
            "skipped_because": self.skipped_because,
            "hudi/done": self.done,
        }
        found: dict[str, Any] = {name: text for name, text in texts.items() if text}
        if self.figures:
            found["hudi/figures"] = figures_table(self.figures)
        if self.seconds:
            found["hudi/duration_total_s"] = round(self.seconds, 3)
        return found


def triggered(info: HudiAssetInfo) -> frozenset[str]:
    """Return the services of an asset's table that run as soon as their triggers are reached."""
    named = info.services.named if info.services is not None else {}
    return ALWAYS | {name for name, trigger in named.items() if not isinstance(trigger, OnCron)}


def figures_table(figures: Mapping[str, int | float]) -> dg.TableMetadataValue:
    """Return numbers by name as a table."""
    records = [dg.TableRecord({"figure": name.replace("_", " "), "number": number}) for name, number in figures.items()]
    columns = [dg.TableColumn("figure", "string"), dg.TableColumn("number", "float")]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def opened(lake: HudiLakeResource, info: HudiAssetInfo) -> hudi.HudiTable | str:
    """Return the table of an asset, or the reason why no service can work on it."""
    try:
        table = lake.table(info.table, info.settings)
    except TableNotFoundError:
        return "the table does not exist yet"
    return table.config.why_not_written or table


def why_not(table: hudi.HudiTable | str, info: HudiAssetInfo, service: str, asked: Asked) -> str:
    """Return the reason why a service of the table would not run in this mode; empty if the service would run. Only reads the table."""
    judged = _judged(table, service, _as_triggered(info, service, asked))
    return judged.skipped_because if isinstance(judged, StepOutcome) else ""


def look_after(
    step: runner.Step, lake: HudiLakeResource, info: HudiAssetInfo, service: str, asked: Asked
) -> StepOutcome:
    """Run one service of the asset's table if the service is requested. A service without work gives the reason.

    Raises the errors of the service; an error that a retry cannot fix becomes a `dagster.Failure` without retries.
    """
    asked = _as_triggered(info, service, asked)
    if asked.when == "never":
        return StepOutcome(service, skipped_because="this run was not asked for it")
    if asked.until is not None and datetime.now(UTC) >= asked.until:
        return StepOutcome(service, skipped_because=f"the time of the run was over at {asked.until:%H:%M:%S} UTC")
    started = time.monotonic()
    outcome = runner.run(step, lambda: _looked_after(step, lake, info, service, asked))
    return replace(outcome, seconds=time.monotonic() - started) if outcome.done else outcome


def _as_triggered(info: HudiAssetInfo, service: str, asked: Asked) -> Asked:
    if asked.when != "auto":
        return asked
    return replace(asked, when="due" if service in triggered(info) else "planned")


@dataclass(frozen=True, slots=True)
class _Work:
    """The current work of a service: the number of waiting plans, and, if there are none, the plan that the service would make."""

    table: hudi.HudiTable
    state: ServiceState
    plans: int


def _judged(table: hudi.HudiTable | str, name: str, asked: Asked) -> StepOutcome | _Work:
    """Return the current work of a service, or the outcome with the reason why the service does nothing."""
    if isinstance(table, str):
        return StepOutcome(name, skipped_because=table)
    service = table.services[name]
    if asked.when == "planned" and not asked.dry_run and not service.unattended():
        others = ", ".join(plan.requested_time for plan in service.under_way())
        why = f"another process executes {others}" if others else "no plan on the timeline waits to be executed"
        return StepOutcome(name, skipped_because=why)
    state = state_of(name, service)
    if asked.dry_run:
        return StepOutcome(name, _planned(state), "it is a dry run", figures=state.figures)
    attended = bool(service.waiting()) and not state.waiting  # the process that planned a restore executes it
    runs = not attended and (asked.when == "always" or (asked.when == "due" and state.due))
    if not runs and not state.waiting:
        return StepOutcome(name, _planned(state), state.reason)
    return _Work(table, state, 0 if runs else len(state.waiting))


def _looked_after(
    step: runner.Step, lake: HudiLakeResource, info: HudiAssetInfo, name: str, asked: Asked
) -> StepOutcome:
    work = _judged(opened(lake, info), name, asked)
    if isinstance(work, StepOutcome):
        return work
    table, state = work.table, work.state
    step.log.info("%s: %s: %s", info.table, name, _planned(state))
    results = _run(step, lake, table, table.services[name], asked, work.plans)
    done = [result for result in results if result]
    if not done:
        return StepOutcome(name, _planned(state), state.reason if state.under_way else results[-1].why_not)
    return StepOutcome(
        name,
        _planned(state),
        done="; ".join(map(str, done)),
        figures=_sums([result.figures for result in done]),
        instants=tuple(instant for result in done for instant in result.instants),
    )


def _run(
    step: runner.Step,
    lake: HudiLakeResource,
    table: hudi.HudiTable,
    service: hudi.TableService[Any],
    asked: Asked,
    plans: int,
) -> list[hudi.ServiceResult]:
    """Execute this number of waiting plans. If the number is 0, let the service execute all waiting plans, make its own plan, and execute it."""
    how: dict[str, Any] = {
        "spark": lake.spark if asked.spark else None,
        "gate": runner.gate(step, table),
        "extra_metadata": step.identity.extra(),
        "progress": _ProgressLines(step, service.name),
    }
    return [service.execute(**how) for _ in range(plans)] if plans else [service.run(**how)]


@dataclass(slots=True)
class _ProgressLines:
    """Writes the progress of a service to the log of the run: a line when a new step begins, and later at most a line every ten seconds.

    The threads of the service's tasks call this object. Two threads may write the same line, which is harmless.
    """

    step: runner.Step
    service: str
    what: str = ""
    written: float = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what == self.what and now - self.written < _SECONDS_BETWEEN_LINES:
            return
        self.what, self.written = what, now
        number = f": {done:,} of {total:,}" if total else ""
        self.step.log.info("%s: %s%s", self.service, what, number)


def _planned(state: ServiceState) -> str:
    waiting = f"Execute {', '.join(state.waiting)}, which no process executes. " if state.waiting else ""
    seconds = state.figures.get("estimated_seconds", 0)
    return waiting + state.plan + (f" (about {seconds:,.1f} s)" if seconds else "")


def _sums(all_figures: list[Mapping[str, int | float]]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for figures in all_figures:
        for name, number in figures.items():
            found[name] = found.get(name, 0) + number
    return found


def report(step: runner.Step, lake: HudiLakeResource, info: HudiAssetInfo, outcome: StepOutcome, log: Log) -> None:
    """Store the events of a service: observations of the asset, because no row has changed."""
    if not outcome.done:
        if outcome.plan:  # without a plan, the service was not examined
            step.log.info("%s: %s did nothing: %s", info.table, outcome.service, outcome.skipped_because)
        return
    step.log.info("%s: %s", info.table, outcome.done)
    table = lake.table(info.table, info.settings)
    completed = set(table.timeline.completed)
    on_timeline = [instant for instant in outcome.instants if instant in completed]
    own = _event_entries(step, outcome)
    for instant in on_timeline:
        event = events.commit_event(table, instant, info)
        entries = {**own, **{name: value for name, value in event.metadata.items() if name not in own}}
        shown = dict(list(entries.items())[:_MOST_ENTRIES])
        log(dg.AssetObservation(info.key, metadata=shown, tags=event.tags))
    # Archival and rollbacks leave no instant of their own; services of the metadata table have their own timeline.
    if not on_timeline:
        place = {"dagster/uri": table.location, "dagster/table_name": info.table}
        log(dg.AssetObservation(info.key, metadata={**own, **place}))


def _event_entries(step: runner.Step, outcome: StepOutcome) -> dict[str, Any]:
    numbers = {f"hudi/{outcome.service}_{name}": number for name, number in outcome.figures.items()}
    entries = {
        "hudi/service": outcome.service,
        "hudi/plan": outcome.plan,
        "hudi/done": outcome.done,
        **numbers,
        "hudi/duration_total_s": round(outcome.seconds, 3),
    }
    run_id = step.identity.extra().get(PREFIX + "run_id")
    return {**entries, "hudi/run": dg.MetadataValue.dagster_run(run_id)} if run_id else entries
