"""The sensor of table services: the sensor starts a run only if a service has something to do. The sensor reads tables without a JVM.

For an unchanged table, a tick costs one request, because the cursor stores the result of the last look. The cursor has no other content. Without the
cursor, every table is examined again.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import dagster as dg

from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration.table_match import described_differences
from pyhudi_core.orchestration.table_services import at_one_moment, state_of
from pyhudi_dagster.lake.names import SERVED
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services.fair_share import TableNeed, in_order, within_quotas
from pyhudi_dagster.services.service_jobs import ServiceTable, batch_config
from pyhudi_dagster.services.service_policy import TICK_SECONDS, ServicePolicy, ServiceRunner, SharedSession
from pyhudi_dagster.services.service_runs import When, triggered
from pyhudi_dagster.services.ticks import Clock, TickLake, busy_tables, reasons

if TYPE_CHECKING:
    import pyhudi as hudi
    from pyhudi_core.orchestration import table_looks
else:
    table_looks = lazy("pyhudi_core.orchestration.table_looks")  # only a tick opens tables

_LETTERS_SHOWN = 200
_NEAREST = 3
_DIFFERENT = (
    "The table was made with other settings, perhaps by another code location, so runs of this one refuse to write it."
)
_VERSION = 2


@dataclass(slots=True)
class Look:
    """The sensor's memory of a table: the last look (`table_looks`), the time of the examination (seconds since 1970), why nothing was started, and
    the service nearest to its trigger (``progress``: 1 is due).
    """

    seen: str = ""
    at: float = 0.0
    why: str = ""
    near: str = ""
    progress: float = 0.0


@dataclass(slots=True)
class Memory:
    """The cursor of the sensor."""

    tables: dict[str, Look] = field(default_factory=dict)

    @classmethod
    def read(cls, cursor: str | None) -> "Memory":
        """Parse a cursor. A missing or unreadable cursor is empty, which costs one examination of every table."""
        try:
            found = json.loads(cursor or "{}")
            if found.get("v") != _VERSION:
                return cls()
            return cls({name: Look(**look) for name, look in found["t"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()

    def text(self, names: Sequence[str]) -> str:
        """Return the cursor with only these tables."""
        kept = {name: asdict(self.tables[name]) for name in names if name in self.tables}
        return json.dumps({"v": _VERSION, "t": kept}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Found:
    """The services to run for one table, and the estimated time. Without such services: the reason, and the service nearest to its trigger."""

    when: Mapping[str, When]
    why_not: str
    seconds: float = 0.0
    near: str = ""
    progress: float = 0.0


def examine(table: ServiceTable, opened: "hudi.HudiTable") -> Found:
    """Examine each service of the table.

    If a trigger starts the service, ask whether the service is due. For every other service, look for plans on the timeline that wait to be executed.
    """
    info = table.info
    if why := opened.config.why_not_written:
        return Found({}, why)
    when: dict[str, When] = {}
    why_not, seconds, nearest = [], 0.0, (0.0, "")
    for name, service in opened.services.items():
        if name in triggered(info):
            state = state_of(name, service)
            if state.due or state.waiting:
                when[name] = "due"
                seconds += state.figures.get("estimated_seconds", 0)
            else:
                why_not.append(f"{name}: {state.reason}")
                nearest = max(nearest, (state.progress, f"{name}: {state.reason}"))
        elif service.unattended():
            when[name] = "planned"
    why = "; ".join(why_not) or "no service runs by a trigger, and no plan waits"
    return Found(when, why, seconds, nearest[1] if nearest[0] else "", nearest[0])


@dataclass(slots=True)
class Tick:
    """One tick of the sensor over all tables. Dagster's instance is opened only if a table must be examined."""

    tables: Sequence[ServiceTable]
    lake: HudiLakeResource
    policy: ServicePolicy
    memory: Memory
    context: dg.SensorEvaluationContext
    now: datetime
    why_not: dict[str, str] = field(default_factory=dict)
    _busy: frozenset[str] | None = None

    @property
    def busy(self) -> frozenset[str]:
        """The tables for which a run of services waits or works."""
        if self._busy is None:
            names = [table.info.table for table in self.tables]
            self._busy = busy_tables(self.context.instance, self.tables[0].info.lake, names)
        return self._busy

    def due(self) -> list[TableNeed]:
        """Return the needs of the tables, in the order of service. Tables that were examined longest ago are examined first."""
        ended = time.monotonic() + TICK_SECONDS
        found: list[TableNeed] = []
        for table in sorted(self.tables, key=lambda each: self._look(each).at):
            name = table.info.table
            if time.monotonic() > ended:
                self.why_not[name] = "the tick had no time left; the next one begins here"
            else:
                found += self._need(table)
        if not found:
            return []
        busy = [table for table in self.tables if table.info.table in self.busy]
        taken, waiting = within_quotas(in_order(self.context.instance, found), self.policy.quotas, busy)
        for name in waiting:
            self.memory.tables[name].seen = ""  # the table is examined again in the next tick
        self.why_not.update(waiting)
        return taken

    def nearest(self) -> str:
        """Return a text about the tables nearest to a service, nearest first."""
        looks = [(self._look(table), table.info.table) for table in self.tables]
        near = sorted((look for look in looks if look[0].near), key=lambda each: (-each[0].progress, each[1]))
        said = "; ".join(f"{name}, {look.near}" for look, name in near[:_NEAREST])
        return f"Nearest: {said}. " if said else ""

    def _look(self, table: ServiceTable) -> Look:
        return self.memory.tables.setdefault(table.info.table, Look())

    def _need(self, table: ServiceTable) -> list[TableNeed]:
        """Return the need of one table. A table that cannot be read is skipped with its error; the other tables are not affected."""
        look, name = self._look(table), table.info.table
        try:
            if self._is_unchanged(name, look):
                self.why_not[name] = look.why
                return []
            opened = self.lake.table(name, table.info.settings)
            if name in self.busy:
                self.why_not[name] = "a run of its services is under way"
                return []
            opened = at_one_moment(opened)
            _, seen = table_looks.seen_now(opened)
            found = examine(table, opened)
            unlike = described_differences(opened, table.info.settings) if table.info.has_step else ""
        except TableNotFoundError:
            self.why_not[name] = "the table does not exist yet"
            return []
        except HudiError as error:
            self.context.log.warning("%s cannot be examined: %s", name, error)
            look.seen, look.at = "", self.now.timestamp()  # otherwise the table would come first in every tick
            self.why_not[name] = f"it cannot be examined: {error}"
            return []
        if unlike:
            unlike = f"{_DIFFERENT} {unlike}. "
            self.context.log.warning("%s: %s", name, unlike)
        again = f"asked for {', '.join(found.when)} at {self.now:%H:%M} UTC; nothing is new since"
        self.why_not[name] = unlike + found.why_not
        look.seen, look.at = seen, self.now.timestamp()
        look.near, look.progress = found.near[:_LETTERS_SHOWN], round(found.progress, 3)
        look.why = (unlike + (again if found.when else found.why_not))[: _LETTERS_SHOWN + len(unlike)]
        return [TableNeed(table, found.when, found.seconds)] if found.when else []

    def _is_unchanged(self, name: str, look: Look) -> bool:
        """Say whether nothing has changed since the last look, and the look is recent enough."""
        if not look.seen or self.now.timestamp() - look.at >= self.policy.again_minutes * 60:
            return False
        same = table_looks.unchanged(self.lake.location(name), dict(self.lake.storage_options), look.seen)
        look.seen = same or look.seen
        return same is not None


def service_sensor(
    name: str,
    lake: HudiLakeResource,
    tables: Sequence[ServiceTable],
    jobs: Sequence[dg.JobDefinition],
    policy: ServicePolicy,
    how: ServiceRunner,
    clock: Clock,
) -> dg.SensorDefinition:
    """Return the sensor of all tables."""
    names = [table.info.table for table in tables]
    lake_of_ticks = TickLake(lake, tables[0].info.lake)

    def services(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        now = clock()
        if quiet := policy.quiet_at(now):
            return dg.SkipReason(f"The quiet hours {quiet} are on.")
        memory = Memory.read(context.cursor)
        with lake_of_ticks.of(context) as of_location:
            tick = Tick(tables, of_location, policy, memory, context, now)
            due = tick.due()
        requests = list(_requests(name, due, how))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else f"Nothing to do. {tick.nearest()}{reasons(tick.why_not)}",
            cursor=memory.text(names),
        )

    return dg.SensorDefinition(
        name=name,
        evaluation_fn=services,
        jobs=list(jobs),
        minimum_interval_seconds=policy.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if policy.running else dg.DefaultSensorStatus.STOPPED,
        metadata={SERVED: [table.info.key.to_user_string() for table in tables]},
        description="Starts the table services that are due, and plans on the timeline that nobody executes.",
    )


def _requests(job: str, due: Sequence[TableNeed], how: ServiceRunner) -> Iterator[dg.RunRequest]:
    batch = how.batch if isinstance(how, SharedSession) else 1
    for first in range(0, len(due), batch):
        needs = due[first : first + batch]
        if (len(due) > 1 and isinstance(how, SharedSession)) or not needs[0].table.has_job:
            work = {need.table.info.table: need.when for need in needs}
            yield dg.RunRequest(job_name=job, run_config=batch_config(work))
        else:
            yield dg.RunRequest(job_name=needs[0].table.job_name, run_config=needs[0].table.run_config(needs[0].when))
