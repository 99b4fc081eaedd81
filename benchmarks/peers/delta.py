"""Delta, MERGE: `python -m benchmarks.peers.delta RELEASE HEAP`. Its defaults, with the codec of all contestants; the merge condition names the
partition too.
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

MATCH = "t.id = s.id AND t.part = s.part"


def start(release: str, heap: str) -> dict[str, Verb]:
    """The verbs of one release of Delta."""
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    spark = session(
        "delta",
        heap,
        [f"delta-spark_2.12-{release}.jar", f"delta-storage-{release}.jar"],
        settings,
    )

    def load(command: dict[str, Any]) -> dict[str, Any]:
        cleared(command["table"])
        rows = spark.read.parquet(command["data"])
        return measured(
            lambda: (
                rows.repartition("part")
                .write.format("delta")
                .partitionBy("part")
                .mode("overwrite")
                .save(command["table"])
            )
        )

    def merge(command: dict[str, Any], actions: str) -> None:
        spark.read.parquet(command["data"]).createOrReplaceTempView("batch")
        spark.sql(f"MERGE INTO delta.`{command['table']}` t USING batch s ON {MATCH} {actions}")

    upsert = "WHEN MATCHED AND s.ts >= t.ts THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    return {
        "load": load,
        "upsert": lambda command: measured(lambda: merge(command, upsert)),
        "delete": lambda command: measured(lambda: merge(command, "WHEN MATCHED THEN DELETE")),
        "scan": lambda command: scanned(lambda: spark.read.format("delta").load(command["table"])),
        "lookup": lambda command: found(
            lambda: spark.read.format("delta").load(command["table"]).where(command["where"])
        ),
        "count": lambda command: {"rows": spark.read.format("delta").load(command["table"]).count()},
    }


if __name__ == "__main__":
    serve(lambda: start(sys.argv[1], sys.argv[2]))
