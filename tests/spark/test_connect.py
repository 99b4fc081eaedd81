"""A session of Spark Connect reads and writes as a classic one does. It needs a process of its own: PySpark's functions belong to one kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.spark_connect_server import OF_SPARK, connect_server

IN_DAGSTER = """
import sys
import dagster as dg
import pyhudi_core as hudi
from pyhudi_dagster import HudiLakeResource, SparkResource, hudi_asset

place, server = sys.argv[1:]
lake = HudiLakeResource(warehouse=place, pyspark=SparkResource(remote=server))

@hudi_asset(record_key="id")
def orders(lake: HudiLakeResource):
    return lake.spark.range(30).selectExpr("cast(id AS string) AS id", "id * 2 AS doubled")

@hudi_asset(record_key="id")
def copies(lake: HudiLakeResource):
    return lake.table("orders").scan(meta=False).to_spark(lake.spark)

with dg.DagsterInstance.ephemeral() as instance:
    for asset in (orders, copies):
        assert dg.materialize([asset], instance=instance, resources={"lake": lake}).success
found = hudi.open_table(f"{place}/copies").scan().to_arrow()
print("found", found.num_rows, sum(found["doubled"].to_pylist()))
"""


@pytest.mark.slow
def test_two_runs_of_dagster_write_and_read_on_a_server_of_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.connect", reason="PySpark 3.5 has no toArrow, and its clients are not supported")
    (tmp_path / "lake").mkdir()
    with connect_server(tmp_path) as port:
        command = [sys.executable, "-c", IN_DAGSTER, str(tmp_path / "lake"), f"sc://127.0.0.1:{port}"]
        ended = subprocess.run(
            command, env=os.environ | OF_SPARK, capture_output=True, text=True, timeout=600, check=False
        )
    assert "found 30 870" in ended.stdout, ended.stderr[-4000:]


@pytest.mark.slow
def test_reads_and_writes_work_on_spark_connect_or_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.connect", reason="PySpark 3.5 has no toArrow, and its clients are not supported")
    script = Path(__file__).with_name("on_connect.py")
    command = [sys.executable, str(script), str(tmp_path)]
    ended = subprocess.run(command, env=os.environ | OF_SPARK, capture_output=True, text=True, timeout=600, check=False)
    # Without grpcio, PySpark ends the process with the code 0.
    assert ended.stdout, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found
    assert {name: said for name, said in found.items() if said != "ok"} == {}
