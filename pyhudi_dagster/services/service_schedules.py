"""The schedules of services with `OnCron`. With a shared session, each cron expression has one schedule for all its tables; otherwise each table has
its own schedules.

A tick reads tables without a JVM, and starts a run for the tables with something to do. Tables for which the tick has no time are in the run, too:
the run itself examines these tables.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import dagster as dg

from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_core.orchestration.table_services import at_one_moment, would_fail
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.lake.service_settings import OnCron
from pyhudi_dagster.services.fair_share import TableNeed, in_order, within_quotas
from pyhudi_dagster.services.service_jobs import ServiceTable, batch_config
from pyhudi_dagster.services.service_policy import TICK_SECONDS, ServicePolicy, SharedSession
from pyhudi_dagster.services.service_runs import When
from pyhudi_dagster.services.ticks import Clock, busy_tables, reasons

Time = tuple[str, str]
"""A cron expression and its time zone."""
_WORDS = {"*": "x", "/": "each", ",": "and", "-": "to", "#": "nth", " ": "_"}


def shared_schedules(
    name: str,
    tables: Sequence[ServiceTable],
    job: dg.JobDefinition,
    policy: ServicePolicy,
    how: SharedSession,
    clock: Clock,
) -> Iterator[dg.ScheduleDefinition]:
    """Yield a schedule for each cron expression. The runs of a schedule are for all tables with the expression."""
    by_time: dict[Time, list[tuple[ServiceTable, str]]] = {}
    for table in tables:
        for service, cron in _crons(table):
            by_time.setdefault((cron.cron, cron.timezone), []).append((table, service))
    for when, asked in by_time.items():
        words = ", ".join(dict.fromkeys(service for _, service in asked))
        about = f"{words} of {len({table.info.table for table, _ in asked})} tables, where there is something to do."

        def due(context: Any, asked: list[tuple[ServiceTable, str]] = asked) -> list[dg.RunRequest] | dg.SkipReason:
            tick = ScheduleTick(context, policy, clock())
            needs = tick.needs(asked)
            sizes = range(0, len(needs), how.batch)
            batches = [
                {need.table.info.table: need.when for need in needs[first : first + how.batch]} for first in sizes
            ]
            if not batches:
                return dg.SkipReason(tick.skipped())
            keys = (
                [f"{tick.now.isoformat()} {number}" for number in range(len(batches))] if len(batches) > 1 else [None]
            )
            return [
                dg.RunRequest(run_key=key, run_config=batch_config(batch))
                for key, batch in zip(keys, batches, strict=True)
            ]

        yield _schedule(f"{name}__{slug(*when)}", when, job, tables[0].info.lake, policy, about, due)


def own_schedules(
    table: ServiceTable, job: dg.JobDefinition, policy: ServicePolicy, clock: Clock
) -> Iterator[dg.ScheduleDefinition]:
    """Yield a schedule for each service of the table with `OnCron`."""
    for service, cron in _crons(table):

        def due(context: Any, service: str = service) -> dg.RunRequest | dg.SkipReason:
            tick = ScheduleTick(context, policy, clock())
            needs = tick.needs([(table, service)])
            return dg.RunRequest(run_config=table.run_config(needs[0].when)) if needs else dg.SkipReason(tick.skipped())

        name, when = f"hudi__{table.identifier}__{service}", (cron.cron, cron.timezone)
        about = f"{service} of {table.info.table}, if there is something to do."
        yield _schedule(name, when, job, table.info.lake, policy, about, due)


def slug(cron: str, timezone: str) -> str:
    """Return a cron expression for use in a name: ``0_3_x_x_x`` is ``0 3 * * *``."""
    text = "".join(_WORDS.get(letter, letter) for letter in cron.strip())
    zone = "" if timezone == "UTC" else f"_{timezone}"
    return re.sub(r"\W", "_", text + zone)


def _crons(table: ServiceTable) -> Iterator[tuple[str, OnCron]]:
    named = table.info.services.named if table.info.services is not None else {}
    for service, trigger in named.items():
        if isinstance(trigger, OnCron):
            yield service, trigger


def _schedule(
    name: str,
    when: Time,
    job: dg.JobDefinition,
    lake: str,
    policy: ServicePolicy,
    about: str,
    due: Callable[[Any], list[dg.RunRequest] | dg.RunRequest | dg.SkipReason],
) -> dg.ScheduleDefinition:
    cron, timezone = when

    @dg.schedule(
        cron_schedule=cron,
        execution_timezone=timezone,
        name=name,
        job=job,
        default_status=dg.DefaultScheduleStatus.RUNNING if policy.running else dg.DefaultScheduleStatus.STOPPED,
        required_resource_keys={lake},
        description=about,
    )
    def on_cron(context: dg.ScheduleEvaluationContext) -> Any:
        return due(context)

    return on_cron


@dataclass(slots=True)
class ScheduleTick:
    """One tick of a schedule."""

    context: Any
    policy: ServicePolicy
    now: datetime
    why_not: dict[str, str] = field(default_factory=dict)

    def needs(self, asked: Sequence[tuple[ServiceTable, str]]) -> list[TableNeed]:
        """Return the needs in the order of service, within the quotas of their groups."""
        if self.policy.quiet_at(self.now):
            return []
        tables = {table.info.table: table for table, _ in asked}
        lake_key = asked[0][0].info.lake
        instance, lake = self.context.instance, getattr(self.context.resources, lake_key)
        # Otherwise a short cron on a busy machine would collect waiting runs.
        busy = busy_tables(instance, lake_key, list(tables))
        ended = time.monotonic() + TICK_SECONDS
        found: list[TableNeed] = []
        for name, table in tables.items():
            services = [service for each, service in asked if each is table]
            if name in busy:
                self.why_not[name] = "a run of its services waits or works"
            elif time.monotonic() > ended:
                found.append(TableNeed(table, dict.fromkeys(services, "always")))
            else:
                found += self._of(lake, table, services)
        taken, waiting = within_quotas(
            in_order(instance, found), self.policy.quotas, [tables[name] for name in busy if name in tables]
        )
        self.why_not.update(waiting)
        return taken

    def skipped(self) -> str:
        """Say why nothing runs."""
        if quiet := self.policy.quiet_at(self.now):
            return f"The quiet hours {quiet} are on."
        return f"Nothing to do. {reasons(self.why_not)}"

    def _of(self, lake: HudiLakeResource, table: ServiceTable, services: Sequence[str]) -> Iterator[TableNeed]:
        """Yield the need of one table. A table that cannot be read is skipped with its error; the other tables are not affected."""
        info = table.info
        try:
            opened = at_one_moment(lake.table(info.table, info.settings))
            if why := opened.config.why_not_written:
                self.why_not[info.table] = why
                return
            when: dict[str, When] = {}
            seconds = 0.0
            for service in services:
                plan, waiting = opened.services[service].plan(), opened.services[service].waiting()
                if plan or waiting or would_fail(plan):
                    when[service] = "always"
                    seconds += plan.figures.get("estimated_seconds", 0)
                else:
                    self.why_not[info.table] = str(plan)
        except TableNotFoundError:
            self.why_not[info.table] = "the table does not exist yet"
            return
        except HudiError as error:
            self.context.log.warning("%s cannot be examined: %s", info.table, error)
            self.why_not[info.table] = f"it cannot be examined: {error}"
            return
        if when:
            yield TableNeed(table, when, seconds)
