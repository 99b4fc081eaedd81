"""The command ``pyhudi-dagster``, on a project in a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result

import pyhudi_core as hudi
from pyhudi_dagster.command.command_line import main

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import *

@hudi_asset(record_key="id", ordering="ts", table_type="merge_on_read", services=Services(compaction=Every(commits=2)))
def orders(context: dg.AssetExecutionContext):
    return pa.table({"id": [1], "ts": [int(context.run.tags.get("ts", "1"))]})

@hudi_asset(record_key="id")
def copy(orders: Changes):
    return orders.to_arrow()

lake = HudiLakeResource(warehouse=dg.EnvVar("LAKE"))
defs = dg.Definitions.merge(
    dg.Definitions(assets=[orders, copy], resources={"lake": lake}), build_hudi_services(lake, [orders, copy])
)
"""


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Run the command in a project with two tables, three materializations and a commit of another program."""
    (tmp_path / "definitions.py").write_text(PROJECT)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("definitions", None)
    from definitions import copy, lake, orders  # of this project

    with dg.DagsterInstance.get() as instance:
        for assets, ts in (([orders], "1"), ([orders], "2"), ([copy], "2")):
            dg.materialize(assets, selection=assets, resources={"lake": lake}, instance=instance, tags={"ts": ts})
    hudi.open_table(str(tmp_path / "lake" / "orders")).upsert(pa.table({"id": [5], "ts": [3]}))
    yield lambda *words: CliRunner().invoke(main, words)
    sys.modules.pop("definitions", None)


@pytest.mark.slow
def test_people_see_the_timeline_the_plans_and_the_reasons_and_make_events_agree(say, tmp_path):
    lines = say("timeline", "orders").output.splitlines()
    assert ["no event" in line for line in lines] == [True, False, False]
    assert "another program" in lines[0]

    plan = say("plan", "orders").output
    assert "compaction           due      Compact 1 file groups" in plan
    dry = say("services", "run", "orders", "--dry-run").output
    assert "Compact 1 file groups" in dry
    assert not [
        i for i in hudi.open_table(str(tmp_path / "lake" / "orders")).timeline if i.action is hudi.Action.COMMIT
    ]
    assert "compaction" in say("services", "run", "orders").output
    assert [i for i in hudi.open_table(str(tmp_path / "lake" / "orders")).timeline if i.action is hudi.Action.COMMIT]

    assert "orders: 1 commits without events, 0 events stored" in say("reconcile", "--dry-run").output
    assert "orders: 1 commits without events, 1 events stored" in say("reconcile").output
    assert "orders: 0 commits without events" in say("reconcile").output

    why = say("why", "copy").output
    assert "SUCCESS" in why
    assert "had read    orders up to" in why
    doctor = say("doctor")
    assert "BAD  pools" in doctor.output, "the instance of this test has no settings"
    assert "ok   table orders" in doctor.output
    assert doctor.exit_code == 1


@pytest.mark.slow
def test_a_wrong_command_says_what_to_do(say, tmp_path):
    for words, message in [
        (("why", "nothing"), "There are copy, orders"),
        (("why", "copy", "2026-01-01"), "has no partitions"),
        (("reconcile", "--since", "yesterday"), "2026-01-31"),
        (("-f", "absent.py", "plan"), "Pass -f FILE"),
        (("adopt-table", str(tmp_path)), "no Hudi table"),
        (
            ("adopt-table", str(tmp_path / "lake" / "orders"), "--write", str(tmp_path / "definitions.py")),
            "exists already",
        ),
    ]:
        result = say(*words)
        assert result.exit_code == 2
        assert message.lower() in result.output.lower(), result.output


def test_the_asset_of_a_table_that_exists_is_code_that_loads(tmp_path):
    rows = pa.table({"id": [1], "day": ["a"], "ts": [1]})
    place = tmp_path / "web-events"
    hudi.create_table(
        str(place), schema=rows.schema, record_key="id", partition_by="day", ordering="ts", table_type="merge_on_read"
    ).upsert(rows)
    code = CliRunner().invoke(main, ["adopt-table", str(place), "--write", str(tmp_path / "adopted.py")])
    assert code.exit_code == 0, code.output
    found: dict = {}
    exec(compile((tmp_path / "adopted.py").read_text(), "adopted.py", "exec"), found)
    (asset,) = found["defs"].assets
    info = next(iter(asset.specs)).metadata["hudi/info"].info
    assert found["lake"].table(info.table, info.settings).scan().count() == 1
    from pyhudi_core.orchestration.table_match import refuse_mismatch

    refuse_mismatch(found["lake"].table(info.table), info.settings)


def test_the_instance_that_it_exports_has_the_settings_of_the_projects_own():
    exported = yaml.safe_load(CliRunner().invoke(main, ["export-dagster-yaml"]).output)
    own = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    assert exported
    assert exported == {name: own[name] for name in exported}
    assert set(own) - set(exported) == {"storage", "local_artifact_storage", "compute_logs"}


@pytest.mark.slow
def test_assets_without_services_are_passed_over(say, tmp_path):
    (tmp_path / "definitions.py").write_text(
        PROJECT.replace("build_hudi_services(lake, [orders, copy])", "build_hudi_services(lake, [orders])")
    )
    sys.modules.pop("definitions", None)
    found = say("services", "run", "--dry-run")
    assert found.exit_code == 0, found.output
    assert (
        "copy has no job of its own for services: it has no services=, or was not passed to build_hudi_services"
        in found.output
    )
    assert "Compact 1 file groups" in found.output
    named = say("services", "run", "copy")
    assert named.exit_code != 0
    assert "Give the asset services=, and pass it to build_hudi_services" in named.output
    assert "Traceback" not in named.output
