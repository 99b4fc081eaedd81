"""After Dagster's database was deleted, the job and the command of reconciliation restore what it said of every asset."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner

from pyhudi_dagster.command.command_line import main

PROJECT = """
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import *

DAYS = HudiPartitions.daily("day", start="2026-01-01")

@hudi_asset(record_key="id", ordering="ts", table_type="merge_on_read", services=Services(compaction=Every(commits=2)))
def orders(context: dg.AssetExecutionContext):
    return pa.table({"id": [1, 2], "ts": [int(context.run.tags["ts"])] * 2})

orders_ro = hudi_read_optimized_asset(orders)

@hudi_asset(record_key="id", partitions=DAYS, backfill="single_run")
def days(context: dg.AssetExecutionContext):
    keys = list(context.partition_keys)
    return pa.table({"id": keys, "day": keys})

@hudi_asset(record_key="id")
def copy(orders: Changes):
    return orders.to_arrow()

web = hudi_external_asset("web/events", partitions=HudiPartitions.dynamic("site", "sites"))
assets = [orders, orders_ro, days, copy, web]
lake = HudiLakeResource(warehouse="lake")
defs = dg.Definitions.merge(
    dg.Definitions(assets=assets, resources={"lake": lake}),
    build_hudi_services(lake, assets),
    build_hudi_timeline_sensor(lake, assets),
    build_hudi_reconcile(lake, assets),
)
"""
FIGURES = (
    "hudi/rows",
    "hudi/files",
    "hudi/bytes",
    "hudi/file_groups",
    "hudi/small_files",
    "dagster/row_count",
    "dagster/size_bytes",
)
"""The figures of a commit and of its table. Durations and the run are known to the run alone."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A project in a folder, after runs, compactions, and commits of another program that the sensor reported."""
    (tmp_path / "definitions.py").write_text(PROJECT)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("definitions", None)
    import definitions as module

    with dg.DagsterInstance.get() as instance:

        def run(asset: dg.AssetsDefinition, ts: str = "1", **arguments: Any) -> None:
            given = {"resources": {"lake": module.lake}, "instance": instance, "tags": {"ts": ts}}
            assert dg.materialize(module.assets[:4], selection=[asset], **given, **arguments).success

        for ts in ("1", "2", "3"):
            run(module.orders, ts)
            run(module.copy)
        run(module.days, partition_key="2026-01-02")
        run(module.days, partition_key="2026-01-01")
        assert module.defs.resolve_job_def("hudi__services").execute_in_process(instance=instance).success
        rows = pa.table({"id": ["a", "b"], "site": ["north", "south"]})
        web = module.lake.table_or_new("web/events", _settings(module, "web/events"), rows.schema)
        web.upsert(rows)
        web.upsert(rows.slice(0, 1))
        orders = module.lake.table("orders")
        for ts in (8, 9):
            orders.upsert(pa.table({"id": [3], "ts": [ts]}))
        orders.compaction.run()
        tick(module, instance)
    yield module
    sys.modules.pop("definitions", None)


def _settings(module: ModuleType, table: str) -> Any:
    from pyhudi_core.orchestration.settings import TableSettings

    return TableSettings(record_key=("id",), partition_by=("site",))


def tick(module: ModuleType, instance: dg.DagsterInstance) -> None:
    sensor = module.defs.resolve_sensor_def("hudi__timeline")
    with dg.build_sensor_context(
        instance=instance, resources={"lake": module.lake}, definitions=module.defs
    ) as context:
        done = sensor.evaluate_tick(context)
    for request in done.dynamic_partitions_requests:
        instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    for event in done.asset_events:
        instance.report_runless_asset_event(event)


def known(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[tuple[Any, ...]]:
    """What the database says of the commits of an asset, by commit and partition."""
    found = []
    records = [
        *(record.asset_materialization for record in instance.fetch_materializations(key, limit=1000).records),
        *(record.event_log_entry.asset_observation for record in instance.fetch_observations(key, limit=1000).records),
    ]
    for event in records:
        assert event is not None
        tags = dict(event.tags or {})
        if "hudi/completion" not in tags:
            continue  # an archival, which leaves no instant
        entries = {name: entry.value for name, entry in event.metadata.items() if name.startswith(FIGURES)}
        found.append(
            (
                type(event).__name__,
                tags["hudi/completion"],
                event.partition or "",
                tags.get("dagster/data_version", ""),
                entries,
            )
        )
    return sorted(found, key=lambda each: each[:3])


def everything(module: ModuleType, instance: dg.DagsterInstance) -> dict[str, Any]:
    keys = [spec.key for spec in module.defs.resolve_all_asset_specs()]
    facts: dict[str, Any] = {key.to_user_string(): known(instance, key) for key in keys}
    facts["partitions"] = {key.to_user_string(): sorted(instance.get_materialized_partitions(key)) for key in keys}
    facts["newest"] = {
        key.to_user_string(): event.asset_materialization.tags.get("hudi/completion")
        for key in keys
        if (event := instance.get_latest_materialization_event(key)) and event.asset_materialization
    }
    facts["sites"] = sorted(instance.get_dynamic_partitions("sites"))
    return facts


@pytest.mark.parametrize("how", ["command", "job"])
def test_all_that_the_database_said_of_the_assets_comes_back(how: str, project: ModuleType, tmp_path: Path) -> None:
    with dg.DagsterInstance.get() as instance:
        before = everything(project, instance)
    assert len(before["orders_ro"]) == 2
    assert before["partitions"]["web/events"] == ["north", "south"]
    for folder in (tmp_path / "home").iterdir():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    with dg.DagsterInstance.get() as instance:
        assert everything(project, instance)["newest"] == {}
    if how == "command":
        told = CliRunner().invoke(main, ["reconcile"])
        assert told.exit_code == 0, told.output
    else:
        with dg.DagsterInstance.get() as instance:
            assert project.defs.resolve_job_def("hudi__reconcile").execute_in_process(instance=instance).success
    with dg.DagsterInstance.get() as instance:
        after = everything(project, instance)
    for asset, facts in before.items():
        assert after[asset] == facts, asset
