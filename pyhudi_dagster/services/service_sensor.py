"""The sensor and the schedules of table services: they start a run only if a service has something to do. They read tables without a JVM.

A look of the sensor costs one listing for a table without a new instant: the reason of its last look is kept in the cursor. The cursor is only that
memory; without it every table is examined again.
"""

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_core.orchestration.table_services import state_of, would_fail
from pyhudi_dagster.lake.names import LAKE_TAG, SERVICES_TAG, TABLE_TAG
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.lake.service_settings import OnCron
from pyhudi_dagster.services.service_jobs import (
    TABLES_OP,
    ServiceTable,
    batch_config,
)
from pyhudi_dagster.services.service_policy import TICK_SECONDS, ServicePolicy, ServiceRunner, SharedSession
from pyhudi_dagster.services.service_runs import When, triggered

Clock = Callable[[], datetime]
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_TABLES_SHOWN, _LETTERS_SHOWN = 20, 200
_VERSION = 1


@dataclass(slots=True)
class Look:
    """What the sensor knows of a table: its timeline as a checksum, when it was examined (seconds since 1970), and why nothing was started."""

    timeline: int = 0
    at: float = 0.0
    why: str = ""


@dataclass(slots=True)
class Memory:
    """The cursor of the sensor."""

    tables: dict[str, Look] = field(default_factory=dict)

    @classmethod
    def read(cls, cursor: str | None) -> "Memory":
        """From a cursor; empty if there is none or it cannot be read, which costs one examination of every table."""
        try:
            found = json.loads(cursor or "{}")
            if found.get("v") != _VERSION:
                return cls()
            return cls({name: Look(**look) for name, look in found["t"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()

    def text(self, names: Sequence[str]) -> str:
        """The cursor, with these tables only."""
        kept = {name: asdict(self.tables[name]) for name in names if name in self.tables}
        return json.dumps({"v": _VERSION, "t": kept}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Found:
    """What is to run for one table, by service; if it is nothing, why."""

    when: Mapping[str, When]
    why_not: str


def examine(table: ServiceTable, lake: HudiLakeResource) -> Found:
    """Plan every service that Dagster runs for the table by its trigger, and look for plans on the timeline that nobody executes."""
    info = table.info
    opened = lake.table(info.table, info.settings)
    if why := opened.config.why_not_written:
        return Found({}, why)
    when: dict[str, When] = {}
    why_not = []
    for name, service in opened.services.items():
        if name in triggered(info):
            state = state_of(name, service)
            if state.due or state.waiting:
                when[name] = "due"
            else:
                why_not.append(f"{name}: {state.reason}")
        elif service.unattended():
            when[name] = "planned"
    return Found(when, "; ".join(why_not) or "no service runs by a trigger, and no plan waits")


@dataclass(slots=True)
class Tick:
    """One tick of the sensor over all tables."""

    tables: Sequence[ServiceTable]
    lake: HudiLakeResource
    policy: ServicePolicy
    memory: Memory
    busy: frozenset[str]
    now: datetime
    log: Any
    why_not: dict[str, str] = field(default_factory=dict)

    def due(self) -> dict[str, Mapping[str, When]]:
        """The tables with something to do; those that were examined longest ago come first."""
        ended = time.monotonic() + TICK_SECONDS
        found: dict[str, Mapping[str, When]] = {}
        for table in sorted(self.tables, key=lambda each: self._look(each).at):
            name = table.info.table
            if time.monotonic() > ended:
                self.why_not[name] = "the tick had no time left; the next one begins here"
            elif name in self.busy:
                self.why_not[name] = "a run of its services is under way"
            elif when := self._when(table):
                found[name] = when
        return found

    def _look(self, table: ServiceTable) -> Look:
        return self.memory.tables.setdefault(table.info.table, Look())

    def _when(self, table: ServiceTable) -> Mapping[str, When]:
        """What is to run for one table. A table that cannot be read is skipped with its error, and the others go on."""
        look, name = self._look(table), table.info.table
        try:
            timeline = _checksum(self.lake.table(name, table.info.settings).timeline)
            age = self.now.timestamp() - look.at
            if timeline == look.timeline and age < self.policy.again_minutes * 60:
                self.why_not[name] = look.why
                return {}
            found = examine(table, self.lake)
        except TableNotFoundError:
            self.why_not[name] = "the table does not exist yet"
            return {}
        except HudiError as error:
            self.log.warning("%s cannot be examined: %s", name, error)
            look.timeline, look.at = 0, self.now.timestamp()  # else it would come first in every tick
            self.why_not[name] = f"it cannot be examined: {error}"
            return {}
        again = f"asked for {', '.join(found.when)} at {self.now:%H:%M} UTC; nothing is new since"
        self.why_not[name] = found.why_not
        look.timeline, look.at = timeline, self.now.timestamp()
        look.why = (again if found.when else found.why_not)[:_LETTERS_SHOWN]
        return found.when

    def reasons(self) -> str:
        """Why nothing runs, table by table; only the first ones if there are many."""
        lines = [f"{name}: {why}" for name, why in self.why_not.items()]
        more = [f"and {len(lines) - _TABLES_SHOWN} more tables"] if len(lines) > _TABLES_SHOWN else []
        return "; ".join([*lines[:_TABLES_SHOWN], *more])


def service_sensor(
    name: str,
    tables: Sequence[ServiceTable],
    jobs: Sequence[dg.JobDefinition],
    policy: ServicePolicy,
    how: ServiceRunner,
    clock: Clock,
) -> dg.SensorDefinition:
    """The sensor of all tables."""
    lake_key = tables[0].info.lake
    names = [table.info.table for table in tables]

    def services(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        now = clock()
        if quiet := policy.quiet_at(now):
            return dg.SkipReason(f"The quiet hours {quiet} are on.")
        memory, lake = Memory.read(context.cursor), getattr(context.resources, lake_key)
        busy = busy_tables(context.instance, lake_key, names)
        tick = Tick(tables, lake, policy, memory, busy, now, context.log)
        due = tick.due()
        requests = list(_requests(name, due, tables, how))
        reasons = tick.reasons()
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else f"Nothing to do. {reasons}",
            cursor=memory.text(names),
        )

    return dg.SensorDefinition(
        name=name,
        evaluation_fn=services,
        jobs=list(jobs),
        minimum_interval_seconds=policy.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if policy.running else dg.DefaultSensorStatus.STOPPED,
        required_resource_keys={lake_key},
        description="Starts the table services that are due, and plans on the timeline that nobody executes.",
    )


def _requests(
    job: str, due: Mapping[str, Mapping[str, When]], tables: Sequence[ServiceTable], how: ServiceRunner
) -> Iterator[dg.RunRequest]:
    if isinstance(how, SharedSession) and len(due) > 1:
        names = list(due)
        for first in range(0, len(names), how.batch):
            work = {name: due[name] for name in names[first : first + how.batch]}
            yield dg.RunRequest(job_name=job, run_config=batch_config(work))
        return
    by_name = {table.info.table: table for table in tables}
    for name, when in due.items():
        table = by_name[name]
        yield dg.RunRequest(job_name=table.job_name, run_config=table.run_config(when))


def busy_tables(instance: dg.DagsterInstance, lake: str, names: Sequence[str]) -> frozenset[str]:
    """Those of these tables of a lake for which a run of services waits or runs. A batch run without tables in its config is for all."""
    found: set[str] = set()
    for kind in ("table", "batch"):
        for run in instance.get_runs(dg.RunsFilter(tags={SERVICES_TAG: kind, LAKE_TAG: lake}, statuses=ACTIVE)):
            if TABLE_TAG in run.tags:
                found.add(run.tags[TABLE_TAG])
            else:
                config: Any = run.run_config
                given = config.get("ops", {}).get(TABLES_OP, {}).get("config", {}).get("tables", {})
                found.update(given or names)
    return frozenset(found)


def schedules_of(
    table: ServiceTable, job: dg.JobDefinition, policy: ServicePolicy, clock: Clock
) -> Iterator[dg.ScheduleDefinition]:
    """A schedule for each service of the table with `OnCron`."""
    named = table.info.services.named if table.info.services is not None else {}
    for service, trigger in named.items():
        if isinstance(trigger, OnCron):
            yield _schedule(table, job, policy, clock, service, trigger)


def _schedule(
    table: ServiceTable, job: dg.JobDefinition, policy: ServicePolicy, clock: Clock, service: str, cron: OnCron
) -> dg.ScheduleDefinition:
    info = table.info

    @dg.schedule(
        cron_schedule=cron.cron,
        execution_timezone=cron.timezone,
        name=f"hudi__{table.identifier}__{service}",
        job=job,
        default_status=dg.DefaultScheduleStatus.RUNNING if policy.running else dg.DefaultScheduleStatus.STOPPED,
        required_resource_keys={info.lake},
        description=f"{service} of {info.table}, if there is something to do.",
    )
    def on_cron(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if quiet := policy.quiet_at(clock()):
            return dg.SkipReason(f"The quiet hours {quiet} are on.")
        if info.table in busy_tables(
            context.instance, info.lake, [info.table]
        ):  # with a short cron and a busy machine, runs would pile up
            return dg.SkipReason("A run of the table's services waits or works.")
        lake = getattr(context.resources, info.lake)
        try:
            opened = lake.table(info.table, info.settings)
        except TableNotFoundError:
            return dg.SkipReason("The table does not exist yet.")
        if why := opened.config.why_not_written:
            return dg.SkipReason(f"{info.table}: {why}.")
        plan, waiting = opened.services[service].plan(), opened.services[service].waiting()
        if not plan and not waiting and not would_fail(plan):
            return dg.SkipReason(f"{plan}")
        return dg.RunRequest(run_config=table.run_config({service: "always"}))

    return on_cron


def utc_now() -> datetime:
    """The time now, with its zone."""
    return datetime.now(UTC)


def _checksum(timeline: hudi.Timeline) -> int:
    return zlib.crc32("\n".join(instant.file_name() for instant in timeline).encode())
