"""Several lakes, policies, intervals and components in one code location: names follow the lake, and what cannot be together is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster.components.testing.utils import create_defs_folder_sandbox
from support.dagster_services import do, filled, tick

import pyhudi as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import (
    Every,
    HudiLakeComponent,
    HudiLakeResource,
    OnCron,
    ServicePolicy,
    Services,
    build_hudi_checks,
    build_hudi_reconcile,
    build_hudi_services,
    build_hudi_timeline_sensor,
    checked_definitions,
    hudi_asset,
)

SERVICES = Services(compaction=Every(commits=2), clustering=OnCron("0 3 * * *"))
CODE = "import pyarrow as pa\n\n\ndef rows() -> pa.Table:\n    return pa.table({'id': [1], 'ts': [1]})\n"


def table_of(name: str, lake: str = "lake", **arguments: Any) -> dg.AssetsDefinition:
    @hudi_asset(
        name=name,
        lake=lake,
        record_key="id",
        ordering="ts",
        table_type="merge_on_read",
        **{"services": SERVICES, **arguments},
    )
    def rows() -> pa.Table:
        return pa.table({"id": [1], "amount": [1.0], "ts": [1]})

    return rows


def everything(lake: HudiLakeResource, *assets: dg.AssetsDefinition) -> list[dg.Definitions]:
    """All that this package makes for some assets of a lake."""
    (key,) = {"lake", "archive"} & assets[0].required_resource_keys
    return [
        dg.Definitions(assets=list(assets), resources={key: lake}),
        build_hudi_services(lake, list(assets)),
        build_hudi_timeline_sensor(lake, list(assets)),
        build_hudi_checks(list(assets), ["no_stuck_instants"], cron="0 * * * *"),
        build_hudi_reconcile(lake, list(assets)),
    ]


@pytest.fixture
def archive(tmp_path: Path) -> HudiLakeResource:
    return HudiLakeResource(warehouse=str(tmp_path / "archive"), options={"hoodie.metadata.enable": "false"})


@pytest.fixture
def both(lake: HudiLakeResource, archive: HudiLakeResource) -> dg.Definitions:
    """Two lakes; each has a table ``orders``, as assets of different keys."""
    old = table_of("old_orders", "archive", table="orders")
    return checked_definitions(dg.Definitions.merge(*everything(lake, table_of("orders")), *everything(archive, old)))


def names(defs: dg.Definitions) -> dict[str, set[str]]:
    found = defs.get_repository_def()
    return {
        "jobs": {job.name for job in found.get_all_jobs() if not job.name.startswith("__")},
        "sensors": {sensor.name for sensor in found.sensor_defs},
        "schedules": {schedule.name for schedule in found.schedule_defs},
    }


def assert_each_lake_has_its_sensors(found: dict[str, set[str]]) -> None:
    assert found["sensors"] == {
        "hudi__services",
        "hudi__timeline",
        "hudi__archive__services",
        "hudi__archive__timeline",
    }
    assert {"hudi__checks", "hudi__archive__checks"} <= found["schedules"]


def test_two_lakes_load_and_their_names_follow_the_lake(both: dg.Definitions) -> None:
    found = names(both)
    for what in ("services", "checks", "reconcile"):
        assert {f"hudi__{what}", f"hudi__archive__{what}"} <= found["jobs"]
    assert_each_lake_has_its_sensors(found)


def test_each_lake_runs_its_own_services(
    both: dg.Definitions, lake: HudiLakeResource, archive: HudiLakeResource, instance: dg.DagsterInstance
) -> None:
    filled(lake, table_of("orders"), 1)
    filled(archive, table_of("old_orders", "archive", table="orders"), 3)
    told = do(both, instance, "hudi__archive__services")
    done = {row.data["service"]: row.data["done"] for row in told["look_after[old_orders]"]["hudi/outcomes"].records}
    assert done["compaction"]
    assert len(lake.table("orders").timeline) == 1


def test_a_run_of_one_lake_makes_no_table_of_another_lake_busy(
    both: dg.Definitions, lake: HudiLakeResource, archive: HudiLakeResource, instance: dg.DagsterInstance
) -> None:
    filled(lake, table_of("orders"), 3)
    job = both.resolve_job_def("hudi__archive__services")
    instance.create_run_for_job(job, tags=dict(job.run_tags), status=dg.DagsterRunStatus.STARTED)
    (request,) = tick(both, instance, lake).run_requests
    assert request.job_name == "hudi__orders__services"


def test_a_reconciliation_of_one_lake_does_not_stop_the_sensor_of_another(
    both: dg.Definitions, lake: HudiLakeResource, archive: HudiLakeResource, instance: dg.DagsterInstance
) -> None:
    filled(lake, table_of("orders"), 1)
    filled(archive, table_of("old_orders", "archive", table="orders"), 1)
    job = both.resolve_job_def("hudi__archive__reconcile")
    instance.create_run_for_job(job, tags=dict(job.run_tags), status=dg.DagsterRunStatus.STARTED)
    assert tick(both, instance, lake, name="hudi__timeline").asset_events
    sensor = both.resolve_sensor_def("hudi__archive__timeline")
    with dg.build_sensor_context(instance=instance, resources={"archive": archive}, definitions=both) as context:
        told = sensor.evaluate_tick(context)
    assert not told.asset_events
    assert "a run of hudi__archive__reconcile reports its commits" in told.skip_message


def test_two_policies_and_two_intervals_of_checks_on_one_lake(lake: HudiLakeResource) -> None:
    large, small = table_of("large"), table_of("small")
    defs = checked_definitions(
        dg.Definitions.merge(
            dg.Definitions(assets=[large, small], resources={"lake": lake}),
            build_hudi_services(lake, [large], policy=ServicePolicy(interval_seconds=600), name="large_tables"),
            build_hudi_services(lake, [small]),
            build_hudi_checks([large, small], ["no_stuck_instants"], cron="*/5 * * * *"),
            build_hudi_checks([large, small], ["data_freshness"], cron="0 6 * * *", name="daily_checks"),
        )
    )
    names(defs)
    sensors = {sensor.name: sensor.minimum_interval_seconds for sensor in defs.sensors or ()}
    assert sensors == {"large_tables": 600, "hudi__services": 60}
    crons = {each.name: each.cron_schedule for each in defs.schedules or () if isinstance(each, dg.ScheduleDefinition)}
    assert (crons["hudi__checks"], crons["daily_checks"]) == ("*/5 * * * *", "0 6 * * *")


@pytest.mark.parametrize(
    ("twins", "words"),
    [
        (lambda lake, one, two: [build_hudi_services(lake, [one]), build_hudi_services(lake, [one], name="more")], "Two sensors, hudi__services and more, look after the asset one"),
        (lambda lake, one, two: [build_hudi_services(lake, [one]), build_hudi_services(lake, [two])], "have the name hudi__services. Pass name="),
        (lambda lake, one, two: [build_hudi_reconcile(lake, [one]), build_hudi_reconcile(lake, [two])], "Two jobs have the name hudi__reconcile"),
        (lambda lake, one, two: [build_hudi_checks([each], ["data_freshness"], cron="@daily") for each in (one, two)], "Two jobs have the name hudi__checks"),
        (lambda lake, one, two: [build_hudi_checks([one], ["data_freshness"]) for _ in range(2)], "The asset one has the check data_freshness twice"),
        (lambda lake, one, two: [build_hudi_timeline_sensor(lake, [each]) for each in (one, two)], "Two sensors have the name hudi__timeline"),
        (lambda lake, one, two: [build_hudi_timeline_sensor(lake, [one], name=name) for name in "ab"], "Two sensors, a and b, report the commits of the asset one"),
    ],
)  # fmt: skip
def test_what_cannot_be_together_is_refused_by_what_it_is(
    twins: Callable[..., list[dg.Definitions]], words: str, lake: HudiLakeResource
) -> None:
    one, two = table_of("one"), table_of("two")
    parts = [dg.Definitions(assets=[one, two], resources={"lake": lake}), *twins(lake, one, two)]
    with pytest.raises(InvalidOptionError) as refused:
        checked_definitions(dg.Definitions.merge(*parts))
    assert words in str(refused.value)


@pytest.mark.parametrize("other", ["a-b", "a__b"])
def test_two_assets_whose_steps_would_have_one_name_are_refused_by_both_keys(
    other: str, lake: HudiLakeResource
) -> None:
    @hudi_asset(key=["a", "b"] if "__" in other else "a_b", record_key="id")
    def one() -> None: ...

    @hudi_asset(key=other, record_key="id")
    def two() -> None: ...

    with pytest.raises(InvalidOptionError, match=f"and {other} have steps and jobs of one name"):
        checked_definitions(dg.Definitions(assets=[one, two], resources={"lake": lake}))


@pytest.mark.parametrize("name", ["large tables", "", "größe", 3])
def test_a_name_that_dagster_cannot_have_is_refused(name: Any, lake: HudiLakeResource) -> None:
    asset = table_of("one")
    for build in (
        lambda: build_hudi_services(lake, [asset], name=name),
        lambda: build_hudi_timeline_sensor(lake, [asset], name=name),
        lambda: build_hudi_checks([asset], ["data_freshness"], cron="@daily", name=name),
        lambda: build_hudi_reconcile(lake, [asset], name=name),
    ):
        with pytest.raises(InvalidOptionError, match="name="):
            build()


def orders(key: str = "sales/orders", **attributes: Any) -> dict[str, Any]:
    return {"key": key, "python": "tables.py:rows", "record_key": ["id"], "table_type": "merge_on_read", **attributes}


@contextmanager
def project(tmp_path: Path, **components: dict[str, Any]) -> Iterator[Callable[[], dg.Definitions]]:
    """A project with components by the names of their folders; a function that loads all its definitions."""
    with create_defs_folder_sandbox() as sandbox:
        for name, attributes in components.items():
            given = {"warehouse": str(tmp_path / "lake"), **attributes}
            path = sandbox.scaffold_component(
                component_cls=HudiLakeComponent,
                defs_path=name,
                scaffold_params={"warehouse": "x", "table": "orders", "record_key": "id"},
                defs_yaml_contents={"type": "pyhudi_dagster.HudiLakeComponent", "attributes": {field: value for field, value in given.items() if value is not None}},
            )  # fmt: skip
            (path / "tables.py").write_text(CODE)

        def load() -> dg.Definitions:
            with sandbox.build_all_defs() as defs:
                defs.get_repository_def()
                return defs

        yield load


UPKEEP: dict[str, Any] = {
    "services": {},
    "timeline_sensor": {},
    "checks": ["no_stuck_instants", {"name": "data_freshness", "limit": 6, "severity": "WARN", "cron": "0 6 * * *"}],
}


def test_components_of_two_lakes_load_together(tmp_path: Path) -> None:
    archive = {"lake": "archive", "warehouse": str(tmp_path / "archive"), "tables": [orders("old/orders")], **UPKEEP}
    with project(tmp_path, new={"tables": [orders()], **UPKEEP}, old=archive) as load:
        found = names(load())
    assert_each_lake_has_its_sensors(found)


def test_one_component_for_each_table_and_one_for_the_upkeep_of_all(tmp_path: Path) -> None:
    policies = [{"name": "large", "tables": ["sales/orders"], "interval_seconds": 600}, {}]
    upkeep = {**UPKEEP, "warehouse": None, "services": policies}
    reading = orders("sales/totals", changes_of={}, deps=["sales/orders"])
    with project(tmp_path, one={"tables": [orders()]}, two={"tables": [reading]}, upkeep=upkeep) as load:
        defs = load()
        found = names(defs)
    assert {"large", "hudi__services"} <= found["jobs"]
    assert found["sensors"] == {"large", "hudi__services", "hudi__timeline"}
    checks = {key.to_user_string() for each in defs.asset_checks or () for key in each.check_keys}
    assert {"sales/orders:data_freshness", "sales/totals:no_stuck_instants"} <= checks


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"tables": [orders("b")], "warehouse": "elsewhere"},
         "The components first (tables sales/orders) and second (tables b) define the lake lake differently: warehouse ("),
        ({"tables": [orders("b")], "options": {"pyhudi.lock.sql.url": "x"}}, "define the lake lake differently: options (pyhudi.lock.sql.url)"),
        ({"tables": [orders("b")], "storage_options": {"fsync": "true"}}, "define the lake lake differently: storage_options (fsync)"),
        ({"external": [{"key": "sales/orders"}], "lake": "other"}, "The components first and second both have the asset sales/orders"),
        ({"external": [{"key": "b"}, {"key": "b"}], "lake": "other"}, "The component second has the asset b twice"),
        ({"tables": [orders("b")], "lake": "other", "options": {"hoodie.write.lock.provider": "nothing"}},
         "The component second: its options cannot work: hoodie.write.lock.provider cannot be"),
        ({"tables": [orders("b")], "lake": "other", "warehouse": "hdfs://x/y"}, "The component second: its warehouse cannot work: The location"),
        ({"tables": [orders("b")], "lake": "other", "warehouse": "s3://b/x", "storage_options": {"regoin": "x"}},
         "The component second: its storage_options cannot work: Unknown storage option"),
        ({"tables": [orders()]}, "both have the table sales/orders"),
        ({"tables": [orders("sales-orders"), orders("sales_orders")]},
         "sales-orders of the component second and sales_orders of the component second have steps and jobs of one name: sales_orders"),
        ({"tables": [orders("sales__orders")]}, "have steps and jobs of one name: sales__orders. Change the key of one of them (key: in YAML)"),
        ({"tables": [orders()], "lake": "other"}, "The components first and second both have the asset sales/orders"),
        ({"tables": [orders("b")], "services": {}}, "both have services with the name of the lake lake"),
        ({"tables": [orders("b")], "timeline_sensor": {}}, "both have timeline_sensor with the name of the lake lake"),
        ({"tables": [orders("b")], "checks": [{"name": "data_freshness", "cron": "@daily"}]}, "both have checks with the name of the lake lake"),
        ({"services": {}, "lake": "other"}, "no other component has tables of the lake other"),
        ({"services": {"name": "all", "tables": ["c"]}}, "services have the table c, which the lake does not have"),
        ({"services": [{"name": "a", "tables": ["sales/orders"]}, {"name": "b"}]}, "services have no tables left"),
        ({"lake": "other", "warehouse": None, "tables": [orders("b")]}, "has no warehouse"),
        ({"tables": [orders("b"), orders("c")], "services": [{"name": "x", "tables": ["b"]}, {"name": "x", "tables": ["c"]}]},
         "The component second: Two jobs have the name x"),
    ],
)  # fmt: skip
def test_components_that_cannot_be_together_are_refused_by_their_names_and_the_field(
    second: dict[str, Any], words: str, tmp_path: Path
) -> None:
    first = {"tables": [orders()], **UPKEEP}
    with project(tmp_path, first=first, second=second) as load, pytest.raises(Exception, match="defs.yaml") as refused:
        load()
    assert words in ours(refused.value)


@pytest.mark.parametrize(
    ("upkeep", "field"),
    [
        ({"services": {"name": "x"}}, "services"),
        ({"timeline_sensor": {"name": "x"}}, "timeline_sensor"),
        ({"checks": [{"name": "data_freshness", "cron": "@daily", "name_of_job": "x"}]}, "checks"),
    ],
)
def test_components_of_two_lakes_with_one_name_are_refused_by_their_names_and_the_field(
    upkeep: dict[str, Any], field: str, tmp_path: Path
) -> None:
    second = {"tables": [orders("b")], "lake": "other", **upkeep}
    with (
        project(tmp_path, first={"tables": [orders()], **upkeep}, second=second) as load,
        pytest.raises(Exception, match="defs.yaml") as refused,
    ):
        load()
    assert f"both have {field} with the name x" in ours(refused.value)


def ours(error: BaseException | None) -> str:
    """The first of the errors that is one of this package."""
    while error is not None and not isinstance(error, InvalidOptionError):
        error = error.__cause__ or error.__context__
    return str(error)


@contextmanager
def project_of(*documents: tuple[str, str, dict[str, Any]]) -> Iterator[Any]:
    """A project with components by their folders below ``defs``, several in one folder too: folder, type and attributes."""
    with create_defs_folder_sandbox() as sandbox:
        files: dict[str, list[str]] = {}
        for folder, kind, attributes in documents:
            files.setdefault(folder, []).append(
                json.dumps({"type": f"pyhudi_dagster.{kind}", "attributes": attributes})
            )
        for folder, texts in files.items():
            path = sandbox.defs_folder_path / folder
            path.mkdir(parents=True)
            (path / "tables.py").write_text(CODE)
            (path / "defs.yaml").write_text("\n---\n".join(texts))
        yield sandbox


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"tables": [orders(owners=["nobody"])]}, "The component shop: The table sales/orders: Invalid owner 'nobody'"),
        ({"tables": [orders(tags={"a b!": "x"})]}, "The component shop: The table sales/orders: Found invalid tag keys: ['a b!']"),
        ({"tables": [orders(group_name="a b")]}, "The component shop: The table sales/orders: \"a b\" is not a valid"),
        ({"tables": [orders(deps=["sales/orders"])]}, "The component shop: The table sales/orders: Asset"),
        ({"tables": [orders(record_key=[])]}, "The component shop: The asset of table sales/orders has no record key"),
        *(({"tables": [orders()], "lake": name},
           f"The component shop: The asset sales/orders has lake={name!r}, which cannot be the key of a resource")
          for name in ("my lake", "class", "io_manager")),
        ({"tables": [orders()], "warehouse": " "}, "The component shop: HudiLakeResource has an empty warehouse"),
        ({"tables": [orders()], "services": {"interval_seconds": -5}}, "The component shop: ServicePolicy has interval_seconds=-5"),
        ({"tables": [orders()], "checks": [{"name": "data_freshness", "limit": -1}]}, "The component shop: build_hudi_checks has the check"),
        ({"tables": [orders()], "checks": [{"name": "data_freshness", "cron": "61 * * * *"}]}, "The component shop: build_hudi_checks has the cron"),
    ],
)  # fmt: skip
def test_what_dagster_or_a_builder_refuses_names_the_component_and_the_table(
    attributes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with (
        project_of(("shop", ONE, {"warehouse": str(tmp_path), **attributes})) as sandbox,
        pytest.raises(Exception, match="defs.yaml") as refused,
        sandbox.build_all_defs() as defs,
    ):
        defs.get_repository_def()
    assert words in ours(refused.value)


ONE, ALL = "HudiLakeComponent", "HudiLakeTablesComponent"


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([("shop", ONE, {"tables": [orders()]}), ("shop", ONE, {"tables": [orders("b")], "warehouse": "/x"})],
         ["shop (tables sales/orders) and shop[1] (tables b)", "warehouse"]),
        ([("eu/shop", ONE, {"tables": [orders()]}), ("us/shop", ONE, {"tables": [orders("b")], "options": {"hoodie.write.lock.provider": "sql"}})],
         ["eu/shop (tables sales/orders) and us/shop (tables b)", "options (hoodie.write.lock.provider)"]),
        ([("one", ONE, {"tables": [orders()]}), ("two", ALL, {"warehouse": "/x"})], ["two and one (tables sales/orders)", "warehouse"]),
        ([("one", ALL, {}), ("two", ALL, {"storage_options": {"fsync": "true"}})], ["one and two", "storage_options (fsync)"]),
    ],
)  # fmt: skip
def test_components_of_every_kind_and_place_that_define_a_lake_differently_are_told_apart(
    documents: list[tuple[str, str, dict[str, Any]]], words: list[str], tmp_path: Path
) -> None:
    given = [(folder, kind, {"warehouse": str(tmp_path), **attributes}) for folder, kind, attributes in documents]
    with (
        project_of(*given) as sandbox,
        pytest.raises(Exception, match="defs.yaml") as refused,
        sandbox.build_all_defs(),
    ):
        pass
    assert all(word in ours(refused.value) for word in [*words, "define the lake lake differently"])


def test_two_lists_of_one_lake_load_together_or_name_the_table_and_the_sensor_that_both_have(tmp_path: Path) -> None:
    for name in ("a/x", "b/x"):
        hudi.create_table(str(tmp_path / name), pa.schema([("id", pa.int64())]), "id")
    both = {"warehouse": str(tmp_path), "include": ["a/*"]}
    for second, words in (
        ({"include": ["b/*"]}, "The components one and two both have timeline_sensor with the name of the lake lake"),
        ({"include": ["*"], "timeline_sensor": None}, "both have the table a/x"),
        ({"include": ["b/*"], "timeline_sensor": None}, ""),
    ):
        with project_of(("one", ALL, both), ("two", ALL, {**both, **second})) as sandbox:
            for name in ("one", "two"):
                with sandbox.load_component_and_build_defs(defs_path=sandbox.defs_folder_path / name) as (component, _):
                    asyncio.run(component.refresh_state(sandbox.project_root))
            if words:
                with pytest.raises(Exception, match="defs.yaml") as refused, sandbox.build_all_defs():
                    pass
                assert words in ours(refused.value)
            else:
                with sandbox.build_all_defs() as defs:
                    assert {key.to_user_string() for key in defs.resolve_all_asset_keys()} == {"a/x", "b/x"}
