"""A load and upserts on a Spark cluster with two executors, each a process of its own: run by test_local_cluster.py.

Prints one JSON object: the commits' counts, what a scan sees, and how many processes worked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

import pyhudi_core as hudi
from pyhudi_core.engine import spark as engine

ROWS, CHANGED, PARTS = 40_000, 10_000, 4


def main(location: str, place: str) -> dict[str, Any]:
    """Write the table on the cluster, and look at it."""
    engine.GATHER_BYTES = -1  # the rows stay in the executors
    session = (
        SparkSession.builder.master("local-cluster[2,1,768]")
        .config("spark.executor.memory", "768m")
        .config("spark.driver.memory", "768m")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", f"{place}/warehouse")
        .config("spark.local.dir", f"{place}/local")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    loaded = rows(session, 0, ROWS, 1)
    loaded.write.parquet(f"{place}/loaded")
    table = hudi.create_table(location, loaded.schema, "id", "part", "ts")
    load = table.bulk_insert(session.read.parquet(f"{place}/loaded"))
    again = hudi.open_table(location).upsert(rows(session, ROWS - CHANGED // 2, ROWS + CHANGED // 2, 2))
    hudi.open_table(location).upsert(rows(session, 0, 10, 0))
    seen = hudi.open_table(location).scan().to_spark(session)
    found = {
        "loaded": [load.stats.rows_inserted, load.stats.rows_updated],
        "upserted": [again.stats.rows_inserted, again.stats.rows_updated],
        "rows": seen.count(),
        "keys": seen.select("id").distinct().count(),
        "newer": seen.where("ts = 2").count(),
        "older": seen.where("ts = 0").count(),
        "processes": session.sparkContext.parallelize(range(8), 8).mapPartitions(executor).distinct().count(),
    }
    session.stop()
    return found


def rows(session: SparkSession, start: int, end: int, ts: int) -> Any:
    """The rows with these numbers, of one version."""
    each = session.range(start, end, 1, 4)
    return each.selectExpr("concat('k', id) AS id", f"concat('p', id % {PARTS}) AS part", f"CAST({ts} AS BIGINT) AS ts")


def executor(_: Iterator[int]) -> Iterator[int]:
    """The process that started this Python worker's daemon: an executor."""
    import psutil

    for process in psutil.Process().parents():
        if process.name() == "java":
            yield process.pid
            return


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
