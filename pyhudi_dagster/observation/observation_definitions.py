"""`build_hudi_timeline_sensor` and `build_hudi_checks` observe tables of any writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import refuse_no_count, refuse_unfit_limit, refuse_unused
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.names import WATCHED, name_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.lake.service_settings import refuse_bad_cron
from pyhudi_dagster.reporting.checks import KINDS, READABLE, HudiCheck, checks_of, utc_now
from pyhudi_dagster.services.service_definitions import HudiAssets, tables_of, views_of_tables
from pyhudi_dagster.services.ticks import TickLake

if TYPE_CHECKING:
    from pyhudi_dagster.observation import timeline_sensor
else:
    timeline_sensor = lazy("pyhudi_dagster.observation.timeline_sensor")  # only a tick opens tables


@refuses_wrong_types
def build_hudi_timeline_sensor(
    lake: HudiLakeResource,
    assets: HudiAssets,
    *,
    name: str | None = None,
    minimum_interval_seconds: int = 30,
    max_events_per_tick: int = 200,
    running: bool = True,
) -> dg.Definitions:
    """Return definitions with a sensor that reports the instants on the timelines of the assets. Merge them with the other definitions.

    - A commit of another writer is reported as a materialization of each changed partition. A run reports its own commits; if the run died before its
      event, the sensor reports them.
    - A table service, a rollback and a commit without rows are reported as observations, which start nothing downstream.
    - A table that cannot be read fails its check ``timeline_readable``; the other tables are reported.

    No commit is skipped, even if commits complete in any order or are archived before the sensor sees them. The sensor starts no JVM and requests
    no runs: downstream assets run by `HudiAutomation.on_commit`.

    Args:
        lake: the lake resource of the assets; the definitions contain it under the assets' resource key.
        assets: assets of Hudi tables, including `hudi_external_asset`.
        name: the sensor's name. The default is ``hudi__timeline``, or ``hudi__<lake>__timeline`` if the resource key is not ``lake``.
        minimum_interval_seconds: time between two ticks.
        max_events_per_tick: number of events after which a tick ends; the next one continues. The events of one commit stay together.
        running: whether the sensor runs at once; otherwise start it in the UI.

    Raises `InvalidOptionError` as `build_hudi_services`.
    """
    infos = tables_of(assets, "build_hudi_timeline_sensor")
    views = views_of_tables(assets, "build_hudi_timeline_sensor")
    for figure, number in {
        "minimum_interval_seconds": minimum_interval_seconds,
        "max_events_per_tick": max_events_per_tick,
    }.items():
        refuse_no_count(f"build_hudi_timeline_sensor has {figure}", number)
    for info in infos:
        lake.refuse_unfit(info)
    named = name_of("timeline", infos[0].lake, name, "build_hudi_timeline_sensor")

    lake_of_ticks = TickLake(lake, infos[0].lake)

    def report(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with lake_of_ticks.of(context) as of_location:
            return timeline_sensor.tick_of(context, of_location, infos, views, max_events_per_tick)

    sensor = dg.SensorDefinition(
        name=named,
        evaluation_fn=report,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        metadata={WATCHED: [info.key.to_user_string() for info in infos]},
        description="Reports commits of other writers as materializations, and table services as observations.",
    )
    return dg.Definitions(
        sensors=[sensor],
        asset_checks=[checks_of(info, [HudiCheck(READABLE)], utc_now) for info in infos if not info.has_step],
        resources={infos[0].lake: lake},
    )


@refuses_wrong_types
def build_hudi_checks(
    assets: HudiAssets,
    checks: Sequence[str | HudiCheck],
    *,
    cron: str | None = None,
    timezone: str = "UTC",
    name: str | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> dg.Definitions:
    """Return definitions with health checks of the assets' tables. Merge them with the other definitions. The checks start no JVM.

    With ``cron``, the job of the schedule runs all checks in one process.

    | check | passes if | default limit |
    |---|---|---|
    | ``no_stuck_instants`` | no write of a dead writer is pending, and no plan waits longer than the limit, in minutes | 60 |
    | ``compaction_lag`` | at most this number of delta commits followed the last compaction | 20 |
    | ``data_freshness`` | the newest commit with rows (with ``column=`` its newest value) is at most this number of hours old | 24 |
    | ``commit_retries`` | each of the last commits was planned again at most this number of times | 5 |
    | ``events_have_commits`` | the table has every commit that a materialization of the last hours names | 24 |
    | ``timeline_readable`` | the table can be read. Each ``@hudi_asset`` has this check; `build_hudi_timeline_sensor` adds it for other tables | |

    Args:
        assets: assets of Hudi tables, including `hudi_external_asset`.
        checks: names, or `HudiCheck` with another limit or severity.
        cron: a schedule that runs the checks; without it they run with the materializations of the asset, and by hand.
        timezone: the schedule's time zone.
        name: the name of the schedule and its job. The default is ``hudi__checks``, or ``hudi__<lake>__checks`` if the resource key is not ``lake``.
            For checks at two intervals, call this function twice, and name one of them.
        clock: returns the current time; for tests.

    Raises `InvalidOptionError` for an unknown check, for a name or a time zone without ``cron``, and as `build_hudi_services`.
    """
    infos = tables_of(assets, "build_hudi_checks")
    wanted = [HudiCheck(check) if isinstance(check, str) else check for check in checks]
    _refuse_unfit_checks(wanted)
    found = [checks_of(info, own, clock) for info in infos if (own := _of_own_step(info, wanted))]
    if not found:
        raise definition_error(
            f"build_hudi_checks has only {READABLE}, which the step of each asset reports",
            "Add a check, or omit the call.",
        )
    if cron is None:
        refuse_unused(
            "build_hudi_checks",
            {"name": name, "timezone": timezone},
            "Add cron=, whose schedule has it, or leave it out.",
        )
        return dg.Definitions(asset_checks=found)
    refuse_bad_cron("build_hudi_checks", cron, timezone)
    named = name_of("checks", infos[0].lake, name, "build_hudi_checks")
    names = ", ".join(check.name for check in wanted)
    about = f"Health checks of {len(found)} tables, one after the other in one process: {names}."
    job = dg.define_asset_job(
        named,
        selection=dg.AssetSelection.checks(*found),
        executor_def=dg.in_process_executor,
        description=about,
    )
    schedule = dg.ScheduleDefinition(
        name=named,
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=about,
    )
    return dg.Definitions(asset_checks=found, jobs=[job], schedules=[schedule])


def _of_own_step(info: HudiAssetInfo, wanted: Sequence[HudiCheck]) -> list[HudiCheck]:
    """Return the checks that need their own step. The step of a decorated asset itself reports whether its timeline can be read.

    Raises `InvalidOptionError` if that check has a limit, a severity or ``blocking=True``, because the step of the asset does not support them.
    """
    for check in wanted if info.has_step else ():
        if check.name == READABLE and check != HudiCheck(READABLE):
            raise definition_error(
                f"The check {READABLE} of the asset {info.key.to_user_string()} cannot have a limit, a severity or blocking=True: "
                "the step of the asset reports it",
                "Leave them out. If the timeline cannot be read, this step fails, so that nothing downstream runs.",
            )
    return [check for check in wanted if check.name != READABLE or not info.has_step]


def _refuse_unfit_checks(wanted: Sequence[HudiCheck]) -> None:
    """Raise `InvalidOptionError` for no check at all, for an unknown or repeated check, and for a limit that is no number or is below 0."""
    if not wanted:
        raise definition_error("build_hudi_checks has no check", f"Use some of {', '.join(KINDS)}.")
    names = [check.name for check in wanted]
    for check in wanted:
        if check.column is not None and check.name != "data_freshness":
            raise definition_error(
                f"build_hudi_checks has the check {check.name!r} with column={check.column!r}",
                "Only data_freshness looks at a column.",
            )
        if check.column is not None and not str(check.column).strip():
            raise definition_error(
                f"build_hudi_checks has the check {check.name!r} with column={check.column!r}, which names no column",
                "Name a column of times or days, or leave column out: the newest commit with rows counts then.",
            )
    for number, (name, limit) in enumerate((check.name, check.limit) for check in wanted):
        if name not in KINDS:
            raise definition_error(
                f"build_hudi_checks has the check {name!r}, which does not exist", f"Use some of {', '.join(KINDS)}."
            )
        refuse_unfit_limit(f"build_hudi_checks has the check {name!r} with limit", limit)
        if name in names[:number]:
            raise definition_error(f"build_hudi_checks has the check {name!r} twice", "Pass it once.")
