"""Definitions load without Spark and pandas, and in little more time than Dagster itself takes."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from pyhudi_dagster import HudiLakeResource, hudi_asset
from pyhudi_dagster.lake.spark_session import _flat

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "pandas", "polars")
WITH_HUDI = """
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import Changes, HudiIOManager, HudiLakeResource, HudiPartitions, hudi_asset

@hudi_asset(record_key="id", partitions=HudiPartitions.daily("day", "2026-01-01"))
def orders() -> pa.Table: ...

@hudi_asset(record_key="id")
def copy(orders: Changes) -> pa.Table: ...

lake = HudiLakeResource(warehouse="lake")
defs = dg.Definitions(assets=[orders, copy], resources={"lake": lake, "hudi": HudiIOManager(lake=lake)})
"""
WITH_SERVICES = (
    WITH_HUDI
    + """
from pyhudi_dagster import Every, Services, build_hudi_services

@hudi_asset(record_key="id", services=Services(cleaning=Every(commits=5)))
def kept() -> pa.Table: ...

defs = dg.Definitions.merge(defs, dg.Definitions(assets=[kept]), build_hudi_services(lake, [kept]))
"""
)


def python(code: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "loading",
    [WITH_HUDI, WITH_SERVICES, "from definitions import defs"],
    ids=["own definitions", "services", "the demo"],
)
def test_loading_definitions_imports_neither_pyspark_nor_pandas(loading):
    names = f"import sys; print([name for name in sys.modules if name.partition('.')[0] in {HEAVY!r}][:5])"
    assert python(f"{loading}\ndefs.resolve_asset_graph()\n{names}") == "[]"


def test_loading_definitions_takes_at_most_twice_as_long_as_loading_dagster_alone():
    """Processor time in one new process: what comes after Dagster itself takes no longer than Dagster."""
    alone = "import time\nbegan = time.process_time()\nimport dagster\nimported = time.process_time()\n"
    python(f"import dagster\n{WITH_HUDI}")  # byte code and the page cache are there from now on
    dagster, hudi = map(
        float, python(f"{alone}{WITH_HUDI}\nprint(imported - began, time.process_time() - imported)").split()
    )
    assert hudi <= dagster, f"{hudi:.2f} s for pyhudi_dagster, {dagster:.2f} s for Dagster"


SIXTY = """
import pyarrow as pa
from pyhudi_dagster import (
    Every, HudiLakeResource, HudiPartitions, Keep, OnCron, Services, build_hudi_checks, build_hudi_services,
    build_hudi_timeline_sensor, checked_definitions, hudi_asset,
)

def table(number):
    @hudi_asset(
        key=["raw", f"t{number}"], record_key="id", table_type="merge_on_read",
        partitions=HudiPartitions.daily("day", "2026-01-01"),
        services=Services(compaction=Every(commits=5), cleaning=Keep(commits=20), clustering=OnCron("0 3 * * *")),
    )
    def rows() -> pa.Table: ...
    return rows

assets, lake = [table(number) for number in range(60)], HudiLakeResource(warehouse="lake")
checked_definitions(dagster.Definitions.merge(
    dagster.Definitions(assets=assets, resources={"lake": lake}),
    build_hudi_services(lake, assets),
    build_hudi_timeline_sensor(lake, assets),
    build_hudi_checks(assets, ["no_stuck_instants", "data_freshness"], cron="0 * * * *"),
)).get_repository_def()
"""


def test_definitions_of_60_tables_load_in_at_most_twice_the_import_of_dagster(tmp_path):
    """Processor time in one new process, with byte code, which this test has to make for itself if the environment writes none."""
    timed = (
        "import time\nbegan = time.process_time()\nimport dagster\nimported = time.process_time()\n"
        f"{SIXTY}\nprint(imported - began, time.process_time() - imported)"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    python(timed, environment)
    dagster, hudi = map(float, python(timed, environment).split())
    assert hudi <= 2 * dagster, f"{hudi:.2f} s for the definitions, {dagster:.2f} s for Dagster"


def test_an_asset_on_spark_without_pyspark_says_what_to_install(monkeypatch, tmp_path):
    @hudi_asset(record_key="id")
    def numbers(lake: HudiLakeResource):
        return lake.spark.range(3)

    monkeypatch.setitem(sys.modules, "pyspark", None)
    lake = HudiLakeResource(warehouse=str(tmp_path))
    ended = dg.materialize([numbers], resources={"lake": lake}, raise_on_error=False)
    (failure,) = [event for event in ended.all_events if event.is_step_failure]
    assert "pip install 'pyhudi[spark]'" in failure.step_failure_data.error.message


def test_without_pyspark_pandas_and_dagster_pyspark_the_package_is_whole():
    code = "import sys; sys.modules.update(pyspark=None, pandas=None, dagster_pyspark=None)\nimport pyhudi_dagster\n"
    assert (
        python(code + "print(len([getattr(pyhudi_dagster, name) for name in pyhudi_dagster.__all__]))").strip() != "0"
    )


def test_settings_of_a_session_may_be_nested():
    nested = {"spark": {"master": "local[2]", "ui": {"enabled": False}}, "spark.app.name": "orders"}
    assert dict(_flat(nested)) == {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.app.name": "orders"}
