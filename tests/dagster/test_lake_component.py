"""A lake as a component: YAML makes the same definitions as the functions, and what cannot work is refused at load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster.components.core.package_entry import get_package_objects_in_module
from dagster.components.resolved.errors import ResolutionException
from dagster.components.testing.utils import create_defs_folder_sandbox
from dagster_shared.libraries import DagsterLibraryRegistry

import pyhudi_core as hudi
import pyhudi_dagster
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import HudiLakeComponent, HudiLakeResource
from pyhudi_dagster.component.scaffolding import LakeScaffolder
from pyhudi_dagster.component.table_attributes import function_of
from pyhudi_dagster.lake.info import info_of

CODE = """
import pyarrow as pa
from pyhudi_dagster import Changes


def orders(context) -> pa.Table:
    return pa.table({"id": [1, 2], "day": [context.partition_key] * 2, "ts": [1, 1]})


def totals(orders: Changes) -> pa.Table:
    return orders.to_arrow(columns=["day"]).group_by("day").aggregate([([], "count_all")])
"""
ORDERS = {
    "key": "sales/orders",
    "python": "tables.py:orders",
    "record_key": ["id"],
    "ordering": "ts",
    "table_type": "merge_on_read",
    "partitions": {"type": "daily", "column": "day", "start": "2026-01-01"},
    "services": {
        "compaction": {"every_commits": 2},
        "cleaning": {"keep_commits": 20},
        "clustering": {"cron": "0 3 * * *"},
    },
    "pre_commit": {"not_null": ["id"], "satisfies": ["id > 0"]},
    "read_optimized": True,
}
TOTALS = {"key": "sales/totals", "python": "tables.py:totals", "record_key": ["day"]}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dagster_component"
WEB = {"key": "web/events", "partitions": {"type": "static", "column": "site", "values": ["a", "b"]}}


def lake_of(folder: Path, **attributes: Any) -> dg.Definitions:
    (folder / "tables.py").write_text(CODE)
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=HudiLakeComponent,
            scaffold_params={"warehouse": str(folder / "lake"), "table": "sales/orders", "record_key": "id"},
            defs_yaml_contents={
                "type": "pyhudi_dagster.HudiLakeComponent",
                "attributes": {"warehouse": str(folder / "lake"), **attributes},
            },
        )
        (path / "tables.py").write_text(CODE)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, HudiLakeComponent)
            return defs


def test_a_lake_in_yaml_has_assets_services_a_sensor_and_checks(tmp_path: Path) -> None:
    defs = lake_of(
        tmp_path,
        tables=[ORDERS],
        external=[WEB],
        timeline_sensor={},
        services={"quiet_hours": ["08:00-10:00"]},
        checks=["no_stuck_instants"],
    )
    keys = {key.to_user_string() for key in defs.resolve_all_asset_keys()}
    assert keys == {"sales/orders", "sales/orders_ro", "web/events"}
    assert {"hudi__services", "hudi__sales__orders__services"} <= {job.name for job in defs.resolve_all_job_defs()}
    assert {sensor.name for sensor in defs.sensors or ()} == {"hudi__services", "hudi__timeline"}
    assert [schedule.cron_schedule for schedule in defs.schedules or ()] == ["0 3 * * *"]  # type: ignore[union-attr]
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        partition_key="2026-01-02", asset_selection=[dg.AssetKey(["sales", "orders"])]
    )
    assert result.success
    table = HudiLakeResource(warehouse=str(tmp_path / "lake")).table("sales/orders")
    assert table.scan().count() == 2
    assert {each.check_name for each in result.get_asset_check_evaluations() if each.passed} >= {"not_null_id"}


def test_what_is_scaffolded_loads_and_materializes(tmp_path: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=HudiLakeComponent,
            scaffold_params={"warehouse": str(tmp_path), "table": "sales/orders", "record_key": "id"},
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            result = defs.resolve_implicit_global_asset_job_def().execute_in_process()
            assert result.success
    assert HudiLakeResource(warehouse=str(tmp_path)).table("sales/orders").scan().count() == 1


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.defs_folder_path / "lake"
        shutil.copytree(EXAMPLE, path)
        with (
            sandbox.load_component_and_build_defs(defs_path=path) as (_, defs),
            dg.DagsterInstance.ephemeral() as instance,
        ):
            job = defs.resolve_implicit_global_asset_job_def()
            for name, key in (("orders", "2026-01-02"), ("orders", "2026-01-03"), ("totals", None)):
                selection = [dg.AssetKey(["sales", name])]
                done = job.execute_in_process(instance=instance, partition_key=key, asset_selection=selection)
                assert done.success
    lake = HudiLakeResource(warehouse=str(tmp_path / "lake"))
    assert lake.table("sales/orders").scan().count() == 4
    totals = lake.table("sales/totals").scan(columns=["day", "amount_sum"]).to_arrow().to_pylist()
    assert sorted(row["day"] for row in totals) == ["2026-01-02", "2026-01-03"]
    assert {row["amount_sum"] for row in totals} == {30.0}


def flights_lake(sandbox: Any) -> Any:
    path = sandbox.defs_folder_path / "lake"
    shutil.copytree(EXAMPLE.with_name("flights_component"), path)
    return sandbox.load_component_and_build_defs(defs_path=path)


def test_the_flights_in_yaml_are_the_lake_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    from definitions import defs as demo

    with create_defs_folder_sandbox() as sandbox, flights_lake(sandbox) as (_, defs):
        tables = {spec.key for spec in demo.resolve_all_asset_specs()} - {dg.AssetKey("flight_messages")}
        assert {spec.key for spec in defs.resolve_all_asset_specs()} == tables
        crons = {
            each.name: each.cron_schedule for each in demo.schedules or () if each.name.startswith("hudi__services")
        }  # type: ignore[union-attr]
        assert {each.name: each.cron_schedule for each in defs.schedules or ()} == crons  # type: ignore[union-attr]
        assert {"hudi__services", "hudi__timeline"} == {sensor.name for sensor in defs.sensors or ()}


@pytest.mark.slow
def test_the_flights_in_yaml_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with create_defs_folder_sandbox() as sandbox, flights_lake(sandbox) as (_, defs):
        job = defs.resolve_implicit_global_asset_job_def()
        with dg.DagsterInstance.ephemeral() as instance:
            for name in ("weather", "planes"):
                assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(name)]).success
            for day in ("2013-01-01", "2013-01-02"):
                for name, key in (("flights", day), ("daily_delays", None), ("flight_conditions", None)):
                    selection = [dg.AssetKey(name)]
                    done = job.execute_in_process(instance=instance, partition_key=key, asset_selection=selection)
                    assert done.success
    lake = HudiLakeResource(warehouse=str(tmp_path / ".data" / "flights"))
    scanned = lake.table("flights").scan(columns=["flight_date"]).to_arrow()["flight_date"].to_pylist()
    first, second = scanned.count(date(2013, 1, 1)), scanned.count(date(2013, 1, 2))
    assert (first, second) == (842, 943), "of the data: each flight once"
    assert lake.table("flight_conditions").scan().count() == len(scanned)
    assert lake.table("daily_delays").scan().count() >= 24


PARTITIONS: dict[str, dict[str, Any]] = {
    "static": {"values": ["a"]},
    "dynamic": {"name": "days"},
    **{kind: {"start": "2026-01-01"} for kind in ("daily", "weekly", "monthly")},
    "hourly": {"start": "2026-01-01-00:00"},
}
UNUSED: dict[str, dict[str, Any]] = {
    "start": {"start": "2026-01-01"},
    "values": {"values": ["b"]},
    "name": {"name": "others"},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "tables.py:nothing"}, "no function 'nothing'"),
        ({"python": "absent.py:orders"}, "names no function"),
        ({"python": "../tables.py:orders"}, "names no function"),
        ({"partitions": {"type": "daily", "column": "day"}}, "have no start"),
        ({"services": {"compaction": {}}}, "does not say when"),
        ({"services": {"compaction": {"every_commits": 2, "cron": "0 3 * * *"}}}, "does not say when"),
        ({"services": {"compactoin": {"every_commits": 2}}}, "no table service"),
        ({"table_type": "copy_on_write", "read_optimized": False}, "no log files"),
        ({"partitions": {"type": "daily", "column": "day", "start": "yesterday"}}, "start='yesterday'"),
        ({"services": {"clustering": {"cron": "never"}}}, "cron expression 'never'"),
        ({"services": {"cleaning": {"keep_commits": -1}}}, "commits=-1"),
        ({"pre_commit": {"satisfies": ["id >"]}}, "satisfies('id >')"),
        ({"changes_of": {"context": "sales/ordres"}}, "changes_of=context"),
        ({"options": {"hoodie.write.lock.provider": "in_process"}}, "excludes only the writers of one process"),
        ({"record_key": ["id", "id"]}, "record_key names a column twice"),
        ({"ordering": ""}, "ordering names the column ''"),
        ({"kinds": ["a b!"]}, "the kind 'a b!'"),
        ({"freshness": {"fail_hours": 1e12}}, "fail_hours=1000000000000.0"),
        ({"freshness": {"fail_hours": float("inf")}}, "fail_hours=inf"),
        ({"freshness": {"fail_hours": 2, "warn_hours": 0}}, "warn_hours=0"),
        ({"retry": {"max_retries": -1}}, "max_retries=-1"),
        ({"retry": {"delay": float("nan")}}, "delay=nan"),
        *[
            ({"partitions": {"type": kind, "column": "day", **given, **other}}, f"by day has {name}=")
            for kind, given in PARTITIONS.items()
            for name, other in UNUSED.items()
            if name not in given
        ],
        ({"partitions": {"type": "static", "column": "day", "values": ["a", ""]}}, "by day have an empty value"),
        ({"partitions": {"type": "static", "column": "", "values": ["a"]}}, "names the column ''"),
        ({"services": {"cleaning": {"keep_commits": 3, "by": ["id"]}}}, "service cleaning has by=['id']"),
        ({"services": {"cleaning": {"keep_commits": 3, "timezone": "Asia/Tokyo"}}}, "timezone='Asia/Tokyo'"),
        ({"services": {"compaction": {"every_commits": 3, "timezone": "Asia/Tokyo"}}}, "timezone='Asia/Tokyo'"),
        ({"checks": [{"name": "compaction_lag", "name_of_job": "often"}]}, "compaction_lag has name_of_job='often'"),
    ],
)
def test_what_cannot_work_is_refused_at_load_with_what_to_do(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match="defs.yaml") as refused:
        lake_of(tmp_path, tables=[{**ORDERS, **change}])
    said = next(str(each) for each in chain_of(refused.value) if isinstance(each, InvalidOptionError))
    assert words in said
    assert "sales/orders" in said or "python" in change


@pytest.mark.parametrize(
    ("lake", "words"),
    [
        ({"services": {"quiet_hours": ["soon"]}}, "quiet_hours='soon'"),
        ({"timeline_sensor": {"minimum_interval_seconds": 0}}, "minimum_interval_seconds=0"),
        ({"checks": ["freshness"]}, "'freshness', which does not exist"),
        ({"checks": [{"name": "compaction_lag", "limit": float("inf")}]}, "limit=inf"),
        ({"checks": [{"name": "timeline_readable", "severity": "WARN"}]}, "the step of the asset reports it"),
        ({"lake": "two words"}, "lake='two words'"),
        ({"checks": [{"name": "data_freshness", "column": ""}]}, "'data_freshness' with column=''"),
        ({"checks": [{"name": "data_freshness", "name_of_job": "often"}]}, "data_freshness has name_of_job='often'"),
        ({"checks": [{"name": "data_freshness", "timezone": "Asia/Tokyo"}]}, "timezone='Asia/Tokyo'"),
        ({"services": {"timezone": "Asia/Tokyo"}}, "timezone='Asia/Tokyo'"),
        ({"tables": [{**TOTALS, "key": "sales/orders_ro"}]}, "has the asset sales/orders_ro twice"),
        (
            {
                "external": [
                    {"key": "sales-orders", "services": {"cleaning": {"keep_commits": 3}}},
                    {"key": "sales_orders", "services": {"cleaning": {"keep_commits": 3}}},
                ],
                "services": {},
            },
            "sales-orders and sales_orders have steps and jobs of one name",
        ),
        ({"options": {"hoodie.write.lock.provider": "sql"}}, "needs the option pyhudi.lock.sql.url"),
        ({"tables": [{**TOTALS, "changes_of": {"orders": "sales/ordres"}}]}, "Did you mean sales/orders"),
    ],
)
def test_a_lake_that_cannot_work_is_refused_at_load(tmp_path: Path, lake: dict[str, Any], words: str) -> None:
    tables = [ORDERS, *lake.pop("tables", [])]
    with pytest.raises(Exception, match="defs.yaml") as refused:
        lake_of(tmp_path, tables=tables, **lake)
    assert words in next(str(each) for each in chain_of(refused.value) if isinstance(each, InvalidOptionError))


def test_a_table_may_have_another_path_than_its_key(tmp_path: Path) -> None:
    defs = lake_of(
        tmp_path,
        tables=[{**TOTALS, "changes_of": {"orders": "web/events"}, "table": "sales/größe"}],
        external=[{**WEB, "table": "web/events 2"}],
    )
    found = {
        spec.key.to_user_string(): info.table
        for spec in defs.resolve_all_asset_specs()
        if (info := info_of(spec.key, spec.metadata))
    }
    assert found == {"sales/totals": "sales/größe", "web/events": "web/events 2"}


@pytest.mark.parametrize(
    ("table", "lake", "field"),
    [
        ({}, {"checks": [{"name": "compaction_lag", "limit": True}]}, "limit"),
        ({"services": {"compaction": {"every_commits": True}}}, {}, "every_commits"),
        ({"retry": {"max_retries": True}}, {}, "max_retries"),
        ({}, {"services": {"max_minutes": True}}, "max_minutes"),
        ({}, {"services": {"quotas": {"raw": True}}}, "quotas"),
        ({}, {"timeline_sensor": {"minimum_interval_seconds": False}}, "minimum_interval_seconds"),
    ],
)
def test_true_is_no_number_in_yaml(tmp_path: Path, table: dict[str, Any], lake: dict[str, Any], field: str) -> None:
    with pytest.raises(Exception, match="defs.yaml") as refused:
        lake_of(tmp_path, tables=[{**ORDERS, **table}], **lake)
    said = str(list(chain_of(refused.value))[-1])
    assert field in said
    assert "is no number" in said


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("table", "lake"),
    [
        ({"deps": ["/rates"]}, {}),
        ({"key": "sales//orders", "table": "orders"}, {}),
        ({"changes_of": {"rows": "web/"}}, {}),
        ({"pool": " "}, {}),
        ({}, {"external": [{"key": "web/events", "deps": ["web/"]}]}),
        ({}, {"external": [{"key": "web/events", "deps": ["web/events"]}]}),
        ({}, {"services": {"quotas": {"raw": 3}}}),
    ],
)
def test_a_name_of_nothing_in_yaml_is_refused(tmp_path: Path, table: dict[str, Any], lake: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="defs.yaml") as refused:
        lake_of(tmp_path, tables=[{**ORDERS, **table}], **lake)
    assert any(isinstance(each, InvalidOptionError) for each in chain_of(refused.value))


def test_a_typo_in_an_attribute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="defs.yaml") as refused:
        lake_of(tmp_path, tables=[{**ORDERS, "recordkey": ["id"]}])
    assert any("recordkey" in str(each) for each in chain_of(refused.value))


def test_the_ui_has_a_form_for_a_lake() -> None:
    schema = HudiLakeComponent.get_model_cls().model_json_schema()
    assert schema["title"] == "Hudi lake"
    assert schema["x-app-managed"] is True
    assert {"warehouse", "tables", "services", "timeline_sensor", "checks"} <= set(schema["properties"])
    triggers = [each for each in schema["$defs"].values() if "every_commits" in each.get("properties", {})]
    assert [each["properties"]["cron"]["ui:widget"] for each in triggers] == ["cron"]
    tables = next(each for each in schema["$defs"].values() if "record_key" in each.get("properties", {}))
    assert set(tables["required"]) == {"key", "python", "record_key"}


def test_dg_finds_the_package_and_its_component_by_its_conventions() -> None:
    project = tomllib.loads((EXAMPLE.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["dagster_dg_cli.registry_modules"] == {"pyhudi_dagster": "pyhudi_dagster"}
    assert DagsterLibraryRegistry.get()["pyhudi-dagster"] == pyhudi_dagster.__version__ == project["version"]
    # `dg` looks at what dir() says, and the package imports its names on first use.
    assert [name for name, _ in get_package_objects_in_module(pyhudi_dagster)] == [
        "HudiLakeComponent",
        "HudiLakeTablesComponent",
    ]
    spec = HudiLakeComponent.get_spec()
    assert spec.description
    assert set(spec.produces or ()) == {"asset", "asset_check", "job", "schedule", "sensor"}


@pytest.mark.slow
def test_dg_lists_the_package_and_the_component(tmp_path: Path) -> None:
    """In a project of its own, with the real command. The package is beside it with the entry point of its distribution."""
    dg_command = str(Path(sys.executable).with_name("dg"))
    package = tmp_path / "lakehouse"
    (package / "defs").mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "lakehouse"\nversion = "1"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "lakehouse"\nregistry_modules = ["pyhudi_dagster"]\n'
    )
    installed = tmp_path / "pyhudi-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pyhudi\nVersion: 0.1.0\n")
    project = tomllib.loads((EXAMPLE.parents[1] / "pyproject.toml").read_text())["project"]
    group = "dagster_dg_cli.registry_modules"
    lines = [f"{name} = {module}" for name, module in project["entry-points"][group].items()]
    (installed / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    environment = {**os.environ, "PYTHONPATH": f"{EXAMPLE.parents[1]}:{tmp_path}"}

    def said(*words: str) -> str:
        command = [dg_command, *words]
        return subprocess.run(
            command, check=True, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ).stdout

    assert "pyhudi_dagster.HudiLakeComponent" in said("list", "components", "--json")
    scaffold = ("scaffold", "defs", "pyhudi_dagster.HudiLakeComponent", "shop")
    said(*scaffold, "--warehouse", "lake", "--table", "sales/orders", "--record-key", "id,region")
    written = yaml.safe_load((package / "defs" / "shop" / "defs.yaml").read_text())
    assert written["attributes"]["tables"][0]["record_key"] == ["id", "region"]


def test_the_scaffolder_asks_for_what_a_lake_needs_and_leaves_code_of_people_alone(tmp_path: Path) -> None:
    asked = LakeScaffolder.get_scaffold_params().model_fields
    assert set(asked) == {"warehouse", "table", "record_key", "from_table"}
    assert not any(each.is_required() for each in asked.values())
    with create_defs_folder_sandbox() as sandbox:
        params = {"warehouse": str(tmp_path), "table": "sales/orders", "record_key": "id, region"}
        path = sandbox.scaffold_component(component_cls=HudiLakeComponent, scaffold_params=params, defs_path="lake")
        (table,) = yaml.safe_load((path / "defs.yaml").read_text())["attributes"]["tables"]
        assert table == {"key": "sales/orders", "python": "tables.py:orders", "record_key": ["id", "region"]}
        (path / "tables.py").write_text(CODE)
        sandbox.scaffold_component(component_cls=HudiLakeComponent, scaffold_params=params, defs_path="lake")
        assert (path / "tables.py").read_text() == CODE


def test_a_lake_is_scaffolded_from_the_properties_of_a_table_and_its_asset_writes_that_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("region", pa.string()), ("day", pa.string()), ("ts", pa.int64())])
    table = hudi.create_table(
        str(tmp_path / "sales"), schema, ["id", "region"], "day", ordering="ts", table_type="merge_on_read"
    )
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=HudiLakeComponent, scaffold_params={"from_table": table.location}
        )
        (path / "tables.py").write_text(
            "import pyarrow as pa\n\n\ndef sales():\n"
            "    return pa.table({'id': [1], 'region': ['eu'], 'day': ['2026-01-01'], 'ts': [1]})\n"
        )
        written = yaml.safe_load((path / "defs.yaml").read_text())["attributes"]
        assert (written["warehouse"], written["tables"][0]) == (
            str(tmp_path),
            {
                "key": "sales",
                "python": "tables.py:sales",
                "record_key": ["id", "region"],
                "ordering": "ts",
                "table_type": "merge_on_read",
                "partition_by": ["day"],
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            assert defs.resolve_implicit_global_asset_job_def().execute_in_process().success
    assert table.scan().count() == 1


def test_a_file_of_functions_is_executed_once_for_all_its_tables_and_again_if_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "tables.py"
    file.write_text(CODE)
    orders, totals = function_of("tables.py:orders", tmp_path), function_of("tables.py:totals", tmp_path)
    assert orders.__globals__ is totals.__globals__
    later = file.stat().st_mtime_ns + 1_000_000
    os.utime(file, ns=(later, later))
    assert function_of("tables.py:orders", tmp_path) is not orders


@pytest.mark.parametrize("warehouse", ["{{ env.NO_LAKE }}", "{{ env.NO_LAKE }}/tables", "{{ env('NO_LAKE') }}"])
def test_a_variable_that_is_not_set_is_named_and_no_folder_none_is_made(tmp_path: Path, warehouse: str) -> None:
    with pytest.raises(ResolutionException, match=r"NO_LAKE is not set. Set it, or give a default: env\('NO_LAKE'"):
        template({"warehouse": warehouse})


@pytest.mark.parametrize("warehouse", ["{{ env('NO_LAKE', 'x') }}", "{{ env.NO_LAKE or 'x' }}", "{{ env.A_LAKE }}"])
def test_a_variable_with_a_default_or_a_value_has_it(monkeypatch: pytest.MonkeyPatch, warehouse: str) -> None:
    monkeypatch.setenv("A_LAKE", "x")
    assert template({"warehouse": warehouse}) == {"warehouse": "x"}


def template(attributes: dict[str, str]) -> dict[str, str]:
    """The attributes as Dagster renders them for the component."""
    scope = dg.ResolutionContext.default().with_scope(**HudiLakeComponent.get_additional_scope())
    return dict(scope.resolve_value(attributes))
