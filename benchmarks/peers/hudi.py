"""Apache Hudi through its own Spark bundle: `python -m benchmarks.peers.hudi RELEASE HEAP`.

Copy-on-write, unless the command's `options` say otherwise. Hudi's defaults, with the codec of all contestants, its automatic services off (no
contestant pays for cleaning or compaction here), the parallelism of this machine, and the serializer that its guide asks for. The load is sorted by
partition, so that there is one file for each.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers.serve import (
    Verb,
    cleared,
    found,
    measured,
    scanned,
    serve,
    session,
)

OPTIONS = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION_AND_SORT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.datasource.compaction.async.enable": "false",
}
# A merge-on-read table with the index that finds a row by its key, its logs left alone.
MERGE_ON_READ = OPTIONS | {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.record.index.enable": "true",
}


def start(release: str, heap: str) -> dict[str, Verb]:
    """The verbs of one release of Hudi."""
    settings = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    }
    spark = session(f"hudi-{release}", heap, [f"hudi-spark3.5-bundle_2.12-{release}.jar"], settings)

    def write(command: dict[str, Any], operation: str, mode: str, base: dict[str, str] = OPTIONS) -> None:
        options = base | command.get("options", {}) | {"hoodie.datasource.write.operation": operation}
        spark.read.parquet(command["data"]).write.format("hudi").options(**options).mode(mode).save(command["table"])

    def load(command: dict[str, Any]) -> dict[str, Any]:
        cleared(command["table"])
        return measured(lambda: write(command, "bulk_insert", "overwrite"))

    def load_mor(command: dict[str, Any]) -> dict[str, Any]:
        cleared(command["table"])
        return measured(lambda: write(command, "bulk_insert", "overwrite", MERGE_ON_READ))

    return {
        "load": load,
        "load_mor": load_mor,
        "upsert_mor": lambda command: measured(lambda: write(command, "upsert", "append", MERGE_ON_READ)),
        "upsert": lambda command: measured(lambda: write(command, "upsert", "append")),
        "delete": lambda command: measured(lambda: write(command, "delete", "append")),
        "scan": lambda command: scanned(lambda: spark.read.format("hudi").load(command["table"])),
        "lookup": lambda command: found(
            lambda: spark.read.format("hudi").load(command["table"]).where(command["where"])
        ),
        "count": lambda command: {"rows": spark.read.format("hudi").load(command["table"]).count()},
    }


if __name__ == "__main__":
    serve(lambda: start(sys.argv[1], sys.argv[2]))
