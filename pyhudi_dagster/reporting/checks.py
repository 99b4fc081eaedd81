"""Health checks of tables, as asset checks. The checks read timelines and Dagster's events, and start no JVM.

The checks of a table that cannot be read fail. The result has the error, and says what to do about the error. The checks of other tables are not
affected.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

import pyhudi as hudi
from pyhudi.errors import HudiError
from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration import past_commits
from pyhudi_core.orchestration.instant_times import moment_of
from pyhudi_core.orchestration.table_services import at_one_moment
from pyhudi_dagster.lake.info import HudiAssetInfo, refuse_unfit_key, step_name
from pyhudi_dagster.lake.names import name_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.timeline.reported_commits import materialized_since

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")  # only a check that looks at a column uses pyarrow.compute

READABLE = "timeline_readable"
_EVENTS_READ = 20
_NAMED = 5


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of a check: whether it passed, the reason, and the figures."""

    passed: bool
    text: str
    entries: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Examined:
    """The input of a check."""

    info: HudiAssetInfo
    table: "hudi.HudiTable"
    instance: dg.DagsterInstance
    now: datetime
    limit: float
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of check: its promise, its limit, and its function."""

    promise: str
    limit: float
    look: Callable[[Examined], CheckVerdict]


@dataclass(frozen=True, slots=True)
class HudiCheck:
    """A health check with another limit or severity.

    Attributes:
        name: one of the names of `build_hudi_checks`.
        limit: the number up to which the check passes; None: the default limit of the check.
        column: for ``data_freshness``, a column of times or days, whose newest value counts. Without a column, the newest commit with rows counts.
        severity: the severity of a failed check.
        blocking: whether a failed check stops downstream assets of the same run.
    """

    name: str
    limit: float | None = None
    column: str | None = None
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    blocking: bool = False


def timeline_readable(examined: Examined) -> CheckVerdict:
    """Check that the table can be opened, and its timeline listed."""
    count = len(examined.table.timeline)
    return CheckVerdict(True, f"The timeline has {count} instants.", {"hudi/instants": count})


def no_stuck_instants(examined: Examined) -> CheckVerdict:
    """Check that dead writers have left nothing, and that no plan waits longer than the limit in minutes."""
    table = examined.table
    dead = table.failed_writes.plan()
    old = [
        f"the {instant.action} {instant.requested_time} waits for a process that executes it"
        for service in table.services.values()
        for instant in service.waiting()
        if _minutes_since(examined, instant.requested_time) > examined.limit
    ]
    pending = len(table.timeline.pending)
    entries = {"hudi/pending_instants": pending, "hudi/stuck_plans": len(old), **_named(dead.figures, "hudi/failed_")}
    if not dead and not old:
        return CheckVerdict(True, f"{pending} instants are pending, and none is stuck.", entries)
    text = "; ".join([*([str(dead)] if dead else []), *old[:_NAMED]])
    job = examined.info.services_job if examined.info.services else name_of("services", examined.info.lake, None, "")
    return CheckVerdict(
        False, f"{text}. The job {job} of build_hudi_services does this, or pyhudi on the command line.", entries
    )


def compaction_lag(examined: Examined) -> CheckVerdict:
    """Check the number of delta commits since the last compaction. Log compactions do not count, because they reduce the number of logs."""
    timeline = examined.table.timeline.commits
    last = max((i.requested_time for i in timeline if i.action is hudi.Action.COMMIT), default="")
    deltas = [i for i in timeline if i.action is hudi.Action.DELTACOMMIT]
    later = [i for i in deltas if (i.completion_time or i.requested_time) > last]
    waiting = sum(examined.table.commit_metadata(i).operation != hudi.OperationType.LOG_COMPACT for i in later)
    figures = examined.table.compaction.plan().figures if deltas else {}
    logs, base = figures.get("log_bytes", 0), figures.get("base_bytes", 0)
    entries = {
        "hudi/delta_commits_since_compaction": waiting,
        "hudi/log_bytes": logs,
        **({"hudi/log_to_base_ratio": round(logs / base, 3)} if base else {}),
    }
    text = f"{waiting} delta commits since the last compaction, limit {examined.limit:g}"
    return CheckVerdict(waiting <= examined.limit, text, entries)


def data_freshness(examined: Examined) -> CheckVerdict:
    """Check the age in hours of the newest commit that changed rows, or of the newest value of a column."""
    if examined.column is not None:
        return _freshness_by(examined, examined.column)
    newest = past_commits.newest_change(examined.table)
    if newest is None:
        return CheckVerdict(False, "The active timeline has no commit with rows.")
    age = _minutes_since(examined, newest.completion_time) / 60
    entries = {"hudi/data_age_hours": round(age, 3), "hudi/instant": newest.instant.requested_time}
    return CheckVerdict(
        age <= examined.limit, f"The newest rows are {age:.1f} hours old, limit {examined.limit:g}", entries
    )


def _freshness_by(examined: Examined, column: str) -> CheckVerdict:
    """Look for recent values in a column. Statistics skip files without recent values, so no row is read for a table that is late."""
    schema = examined.table.schema
    kind = schema.field(column).type if column in schema.names else None
    if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        what = f"has the type {kind}, which is no time" if kind is not None else "does not exist"
        return CheckVerdict(False, f"The column {column} {what}. Name a column of timestamps or dates.")
    window = timedelta(hours=examined.limit)

    def bound(moment: datetime) -> "pa.Scalar":
        value = moment.date() if pa.types.is_date(kind) else moment if kind.tz else moment.replace(tzinfo=None)
        return pa.scalar(value, kind)

    # A value far in the future, such as 9999-12-31, does not show how recent the rows are.
    where = (pc.field(column) >= bound(examined.now - window)) & (pc.field(column) <= bound(examined.now + window))
    found = examined.table.scan(columns=[column], where=where)
    newest = pc.max(found.to_arrow()[column]).as_py()
    if newest is None:
        return CheckVerdict(False, f"No row has a {column} of the last {examined.limit:g} hours.")
    return CheckVerdict(
        True, f"The newest {column} is {newest}, limit {examined.limit:g} hours", {"hudi/newest": str(newest)}
    )


def commit_retries(examined: Examined) -> CheckVerdict:
    """Check that no commit of the asset's last runs was planned again more often than the limit because other commits came first."""
    records = examined.instance.fetch_materializations(examined.info.key, limit=_EVENTS_READ).records
    found = {}
    for record in records:
        event = record.asset_materialization
        retries = (
            event.metadata["hudi/conflict_retries"].value if event and "hudi/conflict_retries" in event.metadata else 0
        )
        if event is not None and isinstance(retries, int):
            found[(event.tags or {}).get("hudi/instant", record.event_log_entry.run_id)] = retries
    most = max(found.values(), default=0)
    entries = {"hudi/conflict_retries_max": most, "hudi/commits_examined": len(found)}
    if most <= examined.limit:
        return CheckVerdict(True, f"At most {most} retries in {len(found)} commits, limit {examined.limit:g}", entries)
    worst = max(found, key=lambda instant: found[instant])
    hint = "Write different partitions at the same time, fewer writers at once, or raise pyhudi.commit.retries."
    return CheckVerdict(
        False, f"The commit {worst} was planned again {most} times, limit {examined.limit:g}. {hint}", entries
    )


def events_have_commits(examined: Examined) -> CheckVerdict:
    """Check that the table has every commit that a materialization of the last hours names, active or archived."""
    since = examined.now - timedelta(hours=examined.limit)
    reported = {time for time, _ in materialized_since(examined.instance, examined.info.key, since)}
    if not reported:
        return CheckVerdict(True, f"No event of the last {examined.limit:g} hours names a commit")
    before = f"{int(min(reported)) - 1:0{len(min(reported))}d}"
    known = {instant.completion_time for instant, _ in examined.table.commits_with("", before)}
    without = sorted(reported - known)
    entries = {"hudi/commits_examined": len(reported), "hudi/events_without_commit": len(without)}
    if not without:
        return CheckVerdict(
            True, f"All {len(reported)} commits of the last {examined.limit:g} hours are in the table", entries
        )
    hint = "The table was restored, rolled back or made anew: materialize the asset again, and what has read it."
    named = f"{', '.join(without[:_NAMED])}{' ...' * (len(without) > _NAMED)}"
    return CheckVerdict(
        False, f"Events name commits that the table does not have, completed at {named}. {hint}", entries
    )


KINDS: Mapping[str, Kind] = {
    READABLE: Kind("The table can be opened and its timeline listed", 0, timeline_readable),
    "no_stuck_instants": Kind(
        "Dead writers left nothing, and no plan waits longer than the limit in minutes", 60, no_stuck_instants
    ),
    "compaction_lag": Kind("Delta commits since the last compaction, up to the limit", 20, compaction_lag),
    "data_freshness": Kind("Age of the newest rows in hours, up to the limit", 24, data_freshness),
    "commit_retries": Kind(
        "Retries of one commit because other commits came first, up to the limit", 5, commit_retries
    ),
    "events_have_commits": Kind(
        "The commits that events of so many hours name are in the table", 24, events_have_commits
    ),
}


def checks_of(
    info: HudiAssetInfo, wanted: Sequence[HudiCheck], clock: Callable[[], datetime]
) -> dg.AssetChecksDefinition:
    """Return the checks of one asset, as one op. Dagster may run only some of the checks."""
    refuse_unfit_key(info.key)
    by_name = {check.name: check for check in wanted}
    specs = [
        dg.AssetCheckSpec(name, asset=info.key, description=f"{KINDS[name].promise}.", blocking=check.blocking)
        for name, check in by_name.items()
    ]

    @dg.multi_asset_check(
        name=f"hudi__{step_name(info.key)}__{'_and_'.join(by_name)}"[:200],
        specs=specs,
        can_subset=True,
        required_resource_keys={info.lake},
    )
    def examine(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        lake = getattr(context.resources, info.lake)
        for key in sorted(context.selected_asset_check_keys, key=lambda key: list(by_name).index(key.name)):
            yield result_of(by_name[key.name], info, lake, context.instance, clock())

    return examine


def result_of(
    check: HudiCheck, info: HudiAssetInfo, lake: HudiLakeResource, instance: dg.DagsterInstance, now: datetime
) -> dg.AssetCheckResult:
    """Examine the table of an asset."""
    limit = KINDS[check.name].limit if check.limit is None else check.limit
    try:
        table = at_one_moment(lake.table(info.table, info.settings))
        found = KINDS[check.name].look(Examined(info, table, instance, now, limit, check.column))
    except HudiError as error:
        entries = {"hudi/error": type(error).__name__, "hudi/hint": error.hint or ""}
        found = CheckVerdict(False, f"The table cannot be examined: {error}", entries)
    return dg.AssetCheckResult(
        passed=found.passed,
        check_name=check.name,
        asset_key=info.key,
        description=found.text,
        metadata=dict(found.entries),
        severity=check.severity,
    )


def readable_spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    """Return the check that each decorated asset has in its own step, which reads the timeline anyway."""
    return dg.AssetCheckSpec(READABLE, asset=key, description=f"{KINDS[READABLE].promise}.")


def read_by_run(key: dg.AssetKey, published: str = "") -> dg.AssetCheckResult:
    """Return the check's result for a step that has read the timeline. ``published``: the instant that the step has published, if any.

    Reads nothing again.
    """
    said = f"published {published}" if published else "published nothing"
    return dg.AssetCheckResult(
        passed=True, check_name=READABLE, asset_key=key, description=f"The run has read it, and {said}."
    )


def _minutes_since(examined: Examined, time: str) -> float:
    moment = moment_of(examined.table, time)
    return (examined.now - moment).total_seconds() / 60 if moment is not None else 0.0


def _named(figures: Mapping[str, int | float], prefix: str) -> dict[str, int | float]:
    return {f"{prefix}{name}": number for name, number in figures.items()}


def utc_now() -> datetime:
    """Return the current time, with its zone."""
    return datetime.now(UTC)
