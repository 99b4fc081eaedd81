"""Terminate under a real ``dagster dev`` while Spark runs."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from support.dagster_dev import DagsterDev, until

import pyhudi_core as hudi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SPARK = '''
import os, time
from pathlib import Path
import dagster as dg
from pyhudi_dagster import HudiLakeResource, SparkResource, hudi_asset

HERE = Path(os.environ["DAGSTER_HOME"])
CONFIG = {"spark.master": "local[1]", "spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}

@hudi_asset(record_key="id", retry_policy=dg.RetryPolicy(max_retries=2))
def slow(context: dg.AssetExecutionContext, lake: HudiLakeResource):
    """A Spark job of ten minutes."""
    def sleepy(batches):
        import time
        for batch in batches:
            time.sleep(600)
            yield batch
    rows = lake.spark.range(0, 10, 1, 1)
    (HERE / "begun").touch()
    return rows.mapInPandas(sleepy, rows.schema)

lake = HudiLakeResource(warehouse=str(HERE / "lake"), pyspark=SparkResource(spark_config=CONFIG))
defs = dg.Definitions(assets=[slow], resources={"lake": lake})
'''


@pytest.mark.spark
def test_terminate_while_spark_runs_ends_the_run_and_its_jvm_and_publishes_nothing(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": SPARK})
    with dev.running():
        run = dev.launch("slow")
        until(lambda: (tmp_path / "begun").exists() and any("java" in each.name() for each in dev.children()))
        time.sleep(15)  # the job runs
        began = time.monotonic()
        dev.terminate(run)
        assert dev.ended(run, 200) == "CANCELED"
        took = time.monotonic() - began
        until(
            lambda: not any("java" in each.name() and each.status() != psutil.STATUS_ZOMBIE for each in dev.children()),
            60,
            "the end of the JVM",
        )
        assert took < 120, "not by the limit of 180 s after which Dagster gives up"
        place = tmp_path / "lake" / "slow"
        if place.exists():
            table = hudi.open_table(str(place))
            assert not list(table.timeline.commits)
            assert not list(table.timeline.pending)
