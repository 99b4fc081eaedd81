"""Spark with Iceberg's runtime, which knows nothing of Hudi: `iceberg_with_spark.py JAR TARGET FOLDER...` by the Python of `.interop/venv`.

Writes the rows of each table's folder as Parquet to ``TARGET/<number>``. Imports nothing of this project.
"""

from __future__ import annotations

import sys


def main(jar: str, target: str, *folders: str) -> None:
    """Read each folder as an Iceberg table, by its version hint."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for number, folder in enumerate(folders):
        spark.read.format("iceberg").load(folder).coalesce(1).write.parquet(f"{target}/{number}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
