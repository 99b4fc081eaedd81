"""Writes and reads on a standalone cluster: run by test_standalone_cluster.py. Prints one JSON object.

Arguments: the master, the folder of the run, the process of a worker that is killed while rows are written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import pyhudi_core as hudi
from pyhudi_core.engine import spark as engine

ROWS = 20_000
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64())])


def session(master: str, place: str, root: str) -> Any:
    """A session with two executors of one core."""
    made = (
        SparkSession.builder.master(master)
        .config("spark.cores.max", "2")
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", root)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", f"{place}/warehouse")
        .config("spark.local.dir", f"{place}/local")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows(spark: Any, start: int, end: int, ts: int) -> Any:
    """The rows with these numbers, of one version."""
    made = spark.range(start, end, 1, 4)
    return made.selectExpr("concat('k', id) AS id", "concat('p', id % 4) AS day", f"CAST({ts} AS LONG) AS ts")


def main(master: str, place: str, worker: int, root: str) -> dict[str, Any]:
    """Refuse executors without packages; write with others, and lose a worker."""
    found: dict[str, Any] = {}
    table = hudi.create_table(f"{place}/table", SCHEMA, "id", "day", "ts", table_type="MERGE_ON_READ")
    spark = session(master, place, root)
    spark.range(4).count()  # the executors are there
    own, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, f"{place}/bare-python"
    began = time.monotonic()
    try:
        table.insert(rows(spark, 0, 10, 1))
    except hudi.errors.ConfigError as error:
        found["refused"], found["seconds"] = error.message, time.monotonic() - began
    spark.sparkContext.pythonExec = own
    engine.GATHER_BYTES = -1  # the rows stay in the executors
    table.bulk_insert(rows(spark, 0, ROWS, 1))
    threading.Timer(1.0, lambda: os.kill(worker, signal.SIGKILL)).start()
    table.upsert(rows(spark, ROWS // 2, ROWS + 1000, 2))
    table.compaction.run(spark=spark)
    table.upsert(rows(spark, 0, 100, 3))
    frame = table.scan().to_spark(spark)
    found["rows"] = [
        frame.count(),
        frame.where("day = 'p1'").count(),
        frame.where("ts = 2").count(),
        frame.where("ts = 3").count(),
    ]
    spark.stop()
    found["damaged"] = [str(each) for each in hudi.open_table(table.location).check().findings]
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
