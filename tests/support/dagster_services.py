"""What the tests of services share: an asset of merge-on-read orders, ticks of sensors, and what an op told."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core import orchestration
from pyhudi_dagster import Every, HudiLakeResource, Services, build_hudi_services, hudi_asset
from pyhudi_dagster.lake.info import info_of
from pyhudi_dagster.services.service_jobs import NOT_RUN, services_config
from pyhudi_dagster.services.service_runs import When

SERVICES = Services(compaction=Every(commits=2))


def orders_asset(services: Services | None = SERVICES, **arguments: Any) -> dg.AssetsDefinition:
    """An asset ``orders`` of a merge-on-read table; every run updates the same two rows."""
    runs = iter(range(1, 1000))

    @hudi_asset(**{"record_key": "id", "ordering": "ts", "table_type": "merge_on_read", **arguments}, services=services)
    def orders() -> pa.Table:
        number = next(runs)
        return pa.table({"id": [1, 2], "amount": [float(number)] * 2, "ts": [number] * 2})

    return orders


def filled(
    lake: HudiLakeResource, asset: dg.AssetsDefinition, commits: int, ids: tuple[int, ...] = (1, 2)
) -> hudi.HudiTable:
    """The table of the asset after so many commits to the same rows, which no run of Dagster made."""
    (spec,) = asset.specs
    info = info_of(spec.key, spec.metadata)
    assert info is not None
    table = None
    for number in range(commits):
        rows = pa.table({"id": list(ids), "amount": [float(number)] * len(ids), "ts": [number] * len(ids)})
        table = table or lake.table_or_new(info.table, info.settings, rows.schema)
        table.upsert(rows)
    assert table is not None
    return table


def definitions(lake: HudiLakeResource, *assets: dg.AssetsDefinition, **arguments: Any) -> dg.Definitions:
    """The assets with their services."""
    return dg.Definitions.merge(
        dg.Definitions(assets=list(assets), resources={"lake": lake}),
        build_hudi_services(lake, list(assets), **arguments),
    )


def tick(
    defs: dg.Definitions,
    instance: dg.DagsterInstance,
    lake: Any,
    cursor: str | None = None,
    name: str = "hudi__services",
) -> Any:
    """One tick of a sensor."""
    sensor = defs.resolve_sensor_def(name)
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"lake": lake}, definitions=defs
    ) as context:
        return sensor.evaluate_tick(context)


def do(defs: dg.Definitions, instance: dg.DagsterInstance, job: str, **arguments: Any) -> dict[str, dict[str, Any]]:
    """The metadata of each step of a job's run, by its key; the run has to succeed."""
    result = defs.resolve_job_def(job).execute_in_process(instance=instance, **arguments)
    assert result.success
    return told(result)


def told(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of the outputs of a run, by step; of the job of a table by service, also of those that had nothing to do."""
    found: dict[str, dict[str, Any]] = {}
    for event in result.all_events:
        if event.event_type_value == "STEP_OUTPUT":
            entries = {name: entry.value for name, entry in event.step_output_data.metadata.items()}
            for record in event.step_output_data.metadata[NOT_RUN].records if NOT_RUN in entries else ():
                found[record.data["service"]] = {"skipped_because": record.data["skipped_because"]}
            if event.step_key != "services":
                found[entries.get("hudi/service", event.step_key)] = entries
    order = [kind.name for kind in orchestration.service_kinds()]
    return dict(sorted(found.items(), key=lambda each: order.index(each[0]) if each[0] in order else len(order)))


def only(service: str, when: When = "due", dry_run: bool = False) -> dict[str, Any]:
    """The run config of a table's job for one service."""
    return services_config({service: when}, dry_run=dry_run)
