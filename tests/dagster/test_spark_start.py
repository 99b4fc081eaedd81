"""Terminate while Spark starts: the step ends in seconds, no JVM stays, and the next run of the same process works.

Each case runs in a process of its own, for a session can be started once only from nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.speed import slowness

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, logging, os, signal, sys, threading, time
import dagster as dg, psutil, pyarrow as pa
from pyhudi_dagster import HudiIOManager, HudiLakeResource, SparkResource, hudi_asset

moment, how, warehouse = sys.argv[1:]
SPARK = {"spark.master": "local[1]", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1",
         "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
lake = HudiLakeResource(warehouse=warehouse, pyspark=SparkResource(spark_config=SPARK))
instance = dg.DagsterInstance.ephemeral()

@hudi_asset(record_key="id")
def orders(lake: HudiLakeResource):
    frame = lake.spark.createDataFrame([(1, 2.0)], "id long, amount double")
    entered.append("after the start")
    return frame

def javas():
    return [each for each in psutil.Process().children(recursive=True) if is_java(each)]

def is_java(process):
    try:
        return "java" in process.name() or "spark" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False

def interrupt():
    from pyspark import SparkContext
    while not javas() or (moment == "gateway" and SparkContext._gateway is None):
        time.sleep(0.01)
    told["interrupted"] = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

def materialize():
    if how == "asset":
        return dg.materialize([orders], instance=instance, resources={"lake": lake})
    lake.spark.range(1).count()

told, entered = {}, []
threading.Thread(target=interrupt, daemon=True).start()
try:
    materialize()
    told["ended"] = "as if nothing were"
except BaseException as error:
    told["ended"] = type(error).__name__
told["seconds"] = time.monotonic() - told["interrupted"]
deadline = time.monotonic() + 5
while javas() and time.monotonic() < deadline:
    time.sleep(0.1)
told["javas_left"] = len(javas())
told["threads_left"] = [each.name for each in threading.enumerate() if each.name in ("orders", "the start of Spark")]
told["table_there"] = os.path.exists(os.path.join(warehouse, "orders"))
told["entered"] = list(entered)
materialize()
told["rows"] = lake.table("orders").scan(columns=["id"]).to_arrow()["id"].to_pylist() if how == "asset" else []
told["commits"] = len(list(lake.table("orders").timeline.commits)) if how == "asset" else 0
print("TOLD" + json.dumps(told))
"""


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("process", "asset"),
        pytest.param("gateway", "asset", marks=pytest.mark.slow),
        pytest.param("process", "outside of an asset", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_while_spark_starts_ends_in_seconds_and_the_next_run_works(moment, how, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, moment, how, str(tmp_path / "lake")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.partition("TOLD")[2])
    print(told)
    assert told["ended"] in ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
    assert told["seconds"] < 10 * slowness()
    assert not told["javas_left"]
    assert not told["threads_left"]
    assert not told["entered"]
    assert not told["table_there"]
    assert told["rows"] == ([1] if how == "asset" else [])
    assert told["commits"] == (1 if how == "asset" else 0)


@pytest.mark.slow
def test_a_session_without_java_says_what_to_install(tmp_path):
    script = (
        "from pyhudi_dagster.lake.spark_session import SparkResource\n"
        "from pyhudi.errors import ConfigError\n"
        "try:\n    SparkResource(spark_config={'spark.master': 'local[1]'}).spark_session\n"
        "except ConfigError as error:\n    print('TOLD', error.hint)\n"
    )
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "nothing")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "TOLD Install Java 17" in done.stdout, done.stderr[-2000:]
