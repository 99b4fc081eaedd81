"""Iceberg, MERGE: `python -m benchmarks.peers.iceberg RELEASE HEAP`. Copy-on-write, unless the command of the load has another `mode`. Its defaults,
with the codec of all contestants; the condition names the partition.

Its hadoop catalog keeps a table under the folder that is its warehouse; the command's `table` is that folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.peers.serve import (
    ROOT,
    Verb,
    cleared,
    found,
    measured,
    scanned,
    serve,
    session,
)

MATCH = "t.id = s.id AND t.part = s.part"
MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")
PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
}
WAREHOUSE = ROOT / ".data" / "bench" / "iceberg"


def start(release: str, heap: str) -> dict[str, Verb]:
    """The verbs of one release of Iceberg."""
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.bench": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.bench.type": "hadoop",
        "spark.sql.catalog.bench.warehouse": str(WAREHOUSE),
    }
    spark = session("iceberg", heap, [f"iceberg-spark-runtime-3.5_2.12-{release}.jar"], settings)

    def load(command: dict[str, Any]) -> dict[str, Any]:
        spark.sql(f"DROP TABLE IF EXISTS {_name(command)}")
        cleared(str(WAREHOUSE / "db" / Path(command["table"]).name))
        return measured(lambda: _create(spark, command))

    def merge(command: dict[str, Any], actions: str) -> None:
        spark.read.parquet(command["data"]).createOrReplaceTempView("batch")
        spark.sql(f"MERGE INTO {_name(command)} t USING batch s ON {MATCH} {actions}")

    upsert = "WHEN MATCHED AND s.ts >= t.ts THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    return {
        "load": load,
        "upsert": lambda command: measured(lambda: merge(command, upsert)),
        "delete": lambda command: measured(lambda: merge(command, "WHEN MATCHED THEN DELETE")),
        "scan": lambda command: scanned(lambda: spark.table(_name(command))),
        "lookup": lambda command: found(lambda: spark.table(_name(command)).where(command["where"])),
        "count": lambda command: {"rows": spark.table(_name(command)).count()},
    }


def _name(command: dict[str, Any]) -> str:
    return "bench.db." + Path(command["table"]).name


def _create(spark: SparkSession, command: dict[str, Any]) -> None:
    writer = spark.read.parquet(command["data"]).writeTo(_name(command)).using("iceberg")
    modes = dict.fromkeys(MODES, command.get("mode", "copy-on-write"))
    for key, value in {**modes, **PROPERTIES}.items():
        writer = writer.tableProperty(key, value)
    writer.partitionedBy(_column("part")).create()


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(name)


if __name__ == "__main__":
    serve(lambda: start(sys.argv[1], sys.argv[2]))
