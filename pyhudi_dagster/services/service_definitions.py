"""`build_hudi_services`: jobs, schedules and a sensor for the table services of some assets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import refuse_no_count
from pyhudi_dagster.lake.info import HudiAssetInfo, info_of
from pyhudi_dagster.lake.names import name_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services.read_optimized import Views, is_view, views_of
from pyhudi_dagster.services.service_jobs import ServiceTable, batch_job, job_of
from pyhudi_dagster.services.service_policy import PerTableJob, ServicePolicy, ServiceRunner, SharedSession
from pyhudi_dagster.services.service_schedules import own_schedules, shared_schedules
from pyhudi_dagster.services.service_sensor import service_sensor
from pyhudi_dagster.services.ticks import Clock, utc_now

HudiAssets = Sequence[dg.AssetsDefinition | dg.AssetSpec]


@refuses_wrong_types
def build_hudi_services(
    lake: HudiLakeResource,
    assets: HudiAssets,
    *,
    policy: ServicePolicy | None = None,
    runner: ServiceRunner | None = None,
    name: str | None = None,
    clock: Clock = utc_now,
) -> dg.Definitions:
    """Return definitions with the table services of the assets. Merge the returned definitions with your other definitions.

    - a job for each table whose asset has services (``hudi__orders__services``). A run has a step for each service with something to do. The config
      of a run has ``services`` (by name how each service runs: due, always, planned) and ``dry_run``, which shows the plans and writes nothing;
    - a job for many tables in one process (``hudi__services``), which also serves the tables without services;
    - a schedule for each cron expression of ``OnCron``, for all tables with the expression (``hudi__services__0_3_x_x_x``); with ``PerTableJob`` one
      for each table;
    - a sensor (``hudi__services``) that starts the other services of ``services=Services(...)`` when the services are due, rolls back writes of dead
      writers, and executes waiting plans of any service that other programs made (Hudi, ``pyhudi compact --schedule``).

    The output of a run says why the other services did nothing. The work of a service is an observation of the asset.

    Args:
        lake: the lake resource of the assets; the definitions contain it under the assets' resource key.
        assets: assets of Hudi tables.
        policy: limits of time, quiet hours, and whether sensor and schedules run at once.
        runner: ``PerTableJob()`` (a run for each table) or ``SharedSession(batch=50)`` (a run for all tables with something to do; the default).
            Tables that waited longest come first; among tables that waited equally long, tables with little work come first.
        name: the name of the job for many tables and of the sensor. The default is ``hudi__services``, or ``hudi__<lake>__services`` if the resource
            key is not ``lake``. For two policies on one lake, call this function once for each policy with its tables, and give one of the calls a
            name.
        clock: returns the current time; for tests.

    Raises `InvalidOptionError` for an asset that is not a Hudi table, for two assets of one table, for assets of several lakes, and for
    quotas without any group of the assets.

    Example:
        .. code-block:: python

            defs = dg.Definitions.merge(
                dg.Definitions(assets=[orders], resources={"lake": lake}),
                build_hudi_services(lake, [orders], policy=ServicePolicy(max_minutes=50, quiet_hours="08:00-10:00")),
            )
    """
    tables = _service_tables(lake, assets)
    named = name_of("services", tables[0].info.lake, name, "build_hudi_services")
    policy, how = policy or ServicePolicy(), _checked_runner(runner or SharedSession())
    _refuse_unknown_groups(policy, tables)
    jobs = [job_of(table, lake, policy, how) for table in tables if table.has_job]
    shared = batch_job(named, lake, tables, policy, how)
    if isinstance(how, SharedSession):
        schedules = list(shared_schedules(named, tables, shared, policy, how, clock))
    else:
        schedules = [
            schedule
            for table, job in zip([each for each in tables if each.has_job], jobs, strict=True)
            for schedule in own_schedules(table, job, policy, clock)
        ]
    sensor = service_sensor(named, lake, tables, [*jobs, shared], policy, how, clock)
    return dg.Definitions(
        jobs=[*jobs, shared], schedules=schedules, sensors=[sensor], resources={tables[0].info.lake: lake}
    )


def _service_tables(lake: HudiLakeResource, assets: HudiAssets) -> list[ServiceTable]:
    """Return the tables with their views. Raises `InvalidOptionError` for options of an asset that contradict the lake."""
    views = views_of_tables(assets, "build_hudi_services")
    groups = {spec.key: spec.group_name or "default" for spec in _specs(assets, "build_hudi_services")}
    tables = [
        ServiceTable(info, views.get(info.table), groups[info.key]) for info in tables_of(assets, "build_hudi_services")
    ]
    for table in tables:
        lake.refuse_unfit(table.info)
    return tables


def _refuse_unknown_groups(policy: ServicePolicy, tables: Sequence[ServiceTable]) -> None:
    """Refuse quotas if none of them is for a group of these assets. A policy may also have quotas for other services."""
    known = {table.group for table in tables}
    if policy.quotas and known.isdisjoint(policy.quotas):
        raise definition_error(
            f"ServicePolicy has quotas with {', '.join(map(repr, sorted(policy.quotas)))}, but no table of these services is in such a group",
            f"Use some of {', '.join(sorted(known))}: a group is the group_name of an asset.",
        )


def _checked_runner(how: ServiceRunner) -> ServiceRunner:
    if not isinstance(how, SharedSession | PerTableJob):
        raise definition_error(f"runner={how!r} cannot run services", "Pass SharedSession(batch=50) or PerTableJob().")
    if isinstance(how, SharedSession):
        refuse_no_count(f"runner={how!r} cannot run services, it has batch", how.batch)
    return how


def tables_of(assets: HudiAssets, builder: str) -> list[HudiAssetInfo]:
    """Return the tables of assets, which share a lake. Raises `InvalidOptionError` as `build_hudi_services`."""
    found = list(_infos(assets, builder))
    if not found:
        raise definition_error(f"{builder} has no asset", "Pass the assets of Hudi tables.")
    for number, info in enumerate(found):
        for other in found[:number]:
            if other.table == info.table:
                raise definition_error(
                    f"{builder} has two assets of the table {info.table}: {other.key.to_user_string()} and {info.key.to_user_string()}",
                    "Pass one of them.",
                )
            if other.lake != info.lake:
                raise definition_error(
                    f"{builder} has assets of two lakes: {other.key.to_user_string()} has lake={other.lake!r}, "
                    f"and {info.key.to_user_string()} has lake={info.lake!r}",
                    "Call it once for each lake.",
                )
    return found


def views_of_tables(assets: HudiAssets, builder: str) -> Views:
    """Return the assets of read-optimized views, by table. Raises `InvalidOptionError` for a view without the asset of its table."""
    views = views_of(_specs(assets, builder))
    tables = {info.table for info in _infos(assets, builder)}
    for table, view in views.items():
        if table not in tables:
            raise definition_error(
                f"{builder} has the read-optimized view {view.to_user_string()} without the asset of its table {table}",
                "Pass the asset of the table, too.",
            )
    return views


def _specs(assets: HudiAssets, builder: str) -> Iterator[dg.AssetSpec]:
    for asset in assets:
        for spec in list(asset.specs) if isinstance(asset, dg.AssetsDefinition) else [asset]:
            if not isinstance(spec, dg.AssetSpec):
                raise definition_error(
                    f"{builder} has {spec!r} among its assets", "Pass the assets themselves, not their names or keys."
                )
            yield spec


def _infos(assets: HudiAssets, builder: str) -> Iterator[HudiAssetInfo]:
    for spec in _specs(assets, builder):
        if not is_view(spec):
            info = info_of(spec.key, spec.metadata, spec.partitions_def)
            if info is None:
                raise definition_error(
                    f"The asset {spec.key.to_user_string()} of {builder} is no Hudi table",
                    "Pass assets of @hudi_asset, or with hudi_metadata(...).",
                )
            yield info
