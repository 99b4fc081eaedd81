"""YAML for many tables: defaults, overrides, translation, external tables, and a list of all tables of a lake that is refreshed."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster.components.testing.utils import create_defs_folder_sandbox
from support.golden import OTHER_VERSIONS, unpack

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import HudiLakeComponent, HudiLakeTablesComponent
from pyhudi_dagster.lake.info import info_of

CODE = "import pyarrow as pa\n\n\ndef rows() -> pa.Table:\n    return pa.table({'id': [1]})\n"
TABLE = {"python": "tables.py:rows", "record_key": ["id"]}
DEFAULTS: dict[str, Any] = {
    "group_name": "raw",
    "owners": ["team:lake"],
    "tags": {"tier": "bronze"},
    "kinds": ["hudi", "arrow"],
    "services": {"compaction": {"every_commits": 5}, "cleaning": {"keep_commits": 20}},
    "checks": [{"name": "data_freshness", "limit": 3, "severity": "WARN", "cron": "0 * * * *"}],
    "freshness": {"fail_hours": 2, "warn_hours": 1},
    "retry": {"max_retries": 3, "delay": 10},
    "pool": "writers",
}


def loaded(folder: Path, attributes: dict[str, Any], kind: type = HudiLakeComponent) -> dg.Definitions:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.defs_folder_path / "shop"
        path.mkdir()
        (path / "tables.py").write_text(CODE)
        (path / "defs.yaml").write_text(
            json.dumps(
                {"type": f"pyhudi_dagster.{kind.__name__}", "attributes": {"warehouse": str(folder), **attributes}}
            )
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            return defs


def refusal(folder: Path, attributes: dict[str, Any]) -> str:
    with pytest.raises(Exception, match="defs.yaml") as refused:
        loaded(folder, attributes)
    error: BaseException | None = refused.value
    while error is not None and not isinstance(error, InvalidOptionError):
        error = error.__cause__ or error.__context__
    return str(error)


def specs(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


@pytest.fixture
def shop(tmp_path: Path) -> dg.Definitions:
    tables = [{"key": f"raw/t{number:02}", **TABLE} for number in range(3)]
    tables[1] |= {"table_type": "merge_on_read", "read_optimized": True}
    tables[2] |= {"group_name": "gold", "owners": [], "services": {}, "checks": [], "pool": "own"}
    external = [{"key": "web/events", "description": "Clicks", "owners": ["ann@example.org"], "deps": ["raw/t00"]}]
    return loaded(tmp_path, {"tables": tables, "external": external, "defaults": DEFAULTS, "services": {}})


def test_tables_have_what_is_said_once_and_each_replaces_it_for_itself(shop: dg.Definitions) -> None:
    found = specs(shop)
    first, last = found["raw/t00"], found["raw/t02"]
    assert (first.group_name, first.owners, first.tags["tier"]) == ("raw", ["team:lake"], "bronze")
    assert first.kinds == {"hudi", "arrow"}
    assert first.freshness_policy == dg.FreshnessPolicy.time_window(timedelta(hours=2), timedelta(hours=1))
    assert (last.group_name, last.owners, last.tags["tier"]) == ("gold", [], "bronze")
    steps = {asset.key.to_user_string(): asset for asset in shop.assets or () if isinstance(asset, dg.AssetsDefinition)}
    assert steps["raw/t00"].op.pools == {"writers"} and steps["raw/t02"].op.pools == {"own"}
    assert steps["raw/t00"].op.retry_policy == dg.RetryPolicy(max_retries=3, delay=10)
    view = found["raw/t01_ro"]
    assert (view.group_name, view.owners, view.tags["tier"]) == ("raw", ["team:lake"], "bronze")


def test_services_and_checks_of_all_tables_are_there_but_for_those_that_say_otherwise(shop: dg.Definitions) -> None:
    jobs = {job.name for job in shop.jobs or ()}
    assert {f"hudi__raw__t0{number}__services" for number in (0, 1)} <= jobs
    assert "hudi__raw__t02__services" not in jobs
    found = specs(shop)
    assert "compaction" not in str(found["raw/t00"].metadata["hudi/info"]), "a copy-on-write table has no logs"
    assert "compaction" in str(found["raw/t01"].metadata["hudi/info"])
    checked = {key.asset_key.to_user_string() for each in shop.asset_checks or () for key in each.check_keys}
    assert checked == {"raw/t00", "raw/t01", "web/events"}
    (schedule,) = [each for each in shop.schedules or () if each.name == "hudi__checks"]
    assert isinstance(schedule, dg.ScheduleDefinition) and schedule.cron_schedule == "0 * * * *"


def test_an_external_table_has_description_owners_and_dependencies(shop: dg.Definitions) -> None:
    events = specs(shop)["web/events"]
    assert (events.description, events.owners, events.group_name) == ("Clicks", ["ann@example.org"], "raw")
    assert [dep.asset_key.to_user_string() for dep in events.deps] == ["raw/t00"]


def test_a_translation_names_assets_and_the_tables_stay_where_they_are(tmp_path: Path) -> None:
    translation = {
        "key": "lake/{{ table.key }}",
        "group_name": "{{ spec.key.path[0] }}",
        "tags": {"type": "{{ table.table_type }}"},
    }
    tables, external = [{"key": "raw/orders", **TABLE}], [{"key": "web/events", "table_type": "merge_on_read"}]
    defs = loaded(tmp_path, {"tables": tables, "external": external, "translation": translation})
    found = specs(defs)
    assert set(found) == {"lake/raw/orders", "lake/web/events"}
    assert found["lake/web/events"].metadata["hudi/info"]["table"] == "web/events"
    assert {name: (spec.group_name, spec.tags["type"]) for name, spec in found.items()} == {
        "lake/raw/orders": ("raw", "copy_on_write"),
        "lake/web/events": ("web", "merge_on_read"),
    }
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(asset_selection=[dg.AssetKey(["lake", "raw", "orders"])]).success
    assert hudi.open_table(str(tmp_path / "raw" / "orders")).scan().count() == 1


@pytest.mark.parametrize(
    ("defaults", "table", "words"),
    [
        ({"services": {"compaction": {"every_commits": 5}}}, {}, "shop has defaults.services.compaction, which no table"),
        ({"group_name": "raw"}, {"group_name": "gold"}, "shop has defaults.group_name, which no table takes"),
        ({"freshness": {"fail_hours": 1, "warn_hours": 2}}, {}, "shop: The table raw/t: freshness has fail_hours=1"),
        ({"services": {"cleaning": {"keep_commits": -1}}}, {}, "shop: The asset raw/t has services=cleaning with commits=-1"),
        ({"checks": ["fresh"]}, {}, "'fresh', which does not exist"),
    ],
)  # fmt: skip
def test_a_default_that_cannot_work_is_refused_with_component_table_and_field(
    tmp_path: Path, defaults: dict[str, Any], table: dict[str, Any], words: str
) -> None:
    assert words in refusal(tmp_path, {"tables": [{"key": "raw/t", **TABLE, **table}], "defaults": defaults})


def test_a_default_of_steps_alone_is_refused_if_all_tables_are_external(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"external": [{"key": "web/events"}], "defaults": {"retry": {"max_retries": 1}}})
    assert "shop has defaults.retry, which no table takes" in said


def test_the_form_shows_defaults_and_translation() -> None:
    schema = HudiLakeComponent.get_model_cls().model_json_schema()
    assert {"defaults", "translation"} <= set(schema["properties"])
    defaults = next(each for name, each in schema["$defs"].items() if "LakeDefaults" in name)
    assert set(DEFAULTS) == set(defaults["properties"])


# --- all tables of a lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    rows = pa.table({"id": [1], "ts": [1]})
    for name, kind in {
        "sales/orders": "merge_on_read",
        "sales/lines": "copy_on_write",
        "tmp/x": "copy_on_write",
    }.items():
        hudi.create_table(str(tmp_path / "lake" / name), rows.schema, "id", table_type=kind).upsert(rows)
    return tmp_path / "lake"


def listed(lake: Path, **attributes: Any) -> HudiLakeTablesComponent:
    return HudiLakeTablesComponent(warehouse=str(lake), **attributes)


def test_all_tables_of_a_lake_are_external_assets_of_a_list_that_loading_does_not_refresh(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    component, state = listed(lake, exclude=["tmp/*"], defaults={"group_name": "sales"}), tmp_path / "state"
    component.write_state_to_path(state)
    monkeypatch.setattr(hudi, "open_table", lambda *_: pytest.fail("loading reads the list, and no table"))
    context = dg.ComponentTree.for_test().load_context
    defs = component.build_defs_from_state(context, state)
    found = specs(defs)
    assert set(found) == {"sales/orders", "sales/lines"}
    assert {spec.group_name for spec in found.values()} == {"sales"}
    columns = found["sales/orders"].metadata["dagster/column_schema"].columns
    assert [(each.name, set(each.tags)) for each in columns] == [("id", {"record_key"}), ("ts", set())]
    assert {sensor.name for sensor in defs.sensors or ()} == {"hudi__timeline"}
    assert not (component.build_defs_from_state(context, None).assets or ())


def test_a_table_that_cannot_be_opened_is_listed_with_its_error(lake: Path, tmp_path: Path) -> None:
    (lake / "tmp" / "x" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=three")
    component, state = listed(lake, include=["tmp/*"]), tmp_path / "state"
    component.write_state_to_path(state)
    found = specs(component.build_defs_from_state(dg.ComponentTree.for_test().load_context, state))
    assert "It could not be opened when the tables were listed" in (found["tmp/x"].description or "")


def test_a_table_whose_name_no_asset_can_have_is_listed_too_and_leads_to_the_table(lake: Path, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "ts": [1]})
    hudi.create_table(str(lake / "tmp" / "größe 2"), rows.schema, "id").upsert(rows)
    component, state = listed(lake, include=["tmp/*"]), tmp_path / "state"
    component.write_state_to_path(state)
    found = specs(component.build_defs_from_state(dg.ComponentTree.for_test().load_context, state))
    assert set(found) == {"tmp/x", "tmp/gr__e_2"}
    spec = found["tmp/gr__e_2"]
    info = info_of(spec.key, spec.metadata)
    assert info is not None
    assert info.table == "tmp/größe 2"
    assert [each.name for each in spec.metadata["dagster/column_schema"].columns] == ["id", "ts"]


def test_a_listed_table_of_version_6_says_what_works_on_it(tmp_path: Path) -> None:
    unpack("hudi-0.15.0/cow_plain", tmp_path / "lake" / "older", OTHER_VERSIONS)
    component, state = listed(tmp_path / "lake"), tmp_path / "state"
    component.write_state_to_path(state)
    [spec] = specs(component.build_defs_from_state(dg.ComponentTree.for_test().load_context, state)).values()
    assert "Reads of it work" in (spec.description or "")
    assert "pyhudi upgrade" in (spec.description or "")


def test_a_list_of_another_release_is_refused(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text('{"version": 2, "tables": []}')
    with pytest.raises(InvalidOptionError, match="has the version 2"):
        listed(lake).build_defs_from_state(dg.ComponentTree.for_test().load_context, tmp_path / "state")


def test_a_refreshed_list_shows_new_tables_and_leaves_those_of_a_component_to_it(lake: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        for name, kind, own in (
            ("all", "HudiLakeTablesComponent", {"timeline_sensor": None}),
            ("own", "HudiLakeComponent", {"tables": [{"key": "sales/lines", **TABLE}]}),
        ):
            path = sandbox.defs_folder_path / name
            path.mkdir()
            (path / "tables.py").write_text(CODE)
            (path / "defs.yaml").write_text(
                json.dumps({"type": f"pyhudi_dagster.{kind}", "attributes": {"warehouse": str(lake), **own}})
            )

        def assets() -> set[str]:
            with sandbox.build_all_defs() as defs:
                return set(specs(defs))

        def refresh() -> None:
            with sandbox.load_component_and_build_defs(defs_path=sandbox.defs_folder_path / "all") as (component, _):
                assert isinstance(component, HudiLakeTablesComponent)
                asyncio.run(component.refresh_state(sandbox.project_root))

        assert assets() == {"sales/lines"}
        refresh()
        assert assets() == {"sales/lines", "sales/orders", "tmp/x"}
        rows = pa.table({"id": [1]})
        hudi.create_table(str(lake / "new"), rows.schema, "id")
        assert "new" not in assets()
        refresh()
        assert "new" in assets()
