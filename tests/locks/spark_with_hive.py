"""Spark with Hudi's bundle and a Hive Metastore as its catalog: `spark_with_hive.py BUNDLE URIS FOLDER SQL...` by the Python of `.interop/venv`.

Prints the rows of each statement as a line of JSON. Imports nothing of this project.
"""

from __future__ import annotations

import json
import sys


def main(bundle: str, uris: str, folder: str, *statements: str) -> None:
    """Run the statements, and print what each one returned."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.extraClassPath": bundle,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home={folder}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.hadoop.hive.metastore.uris": uris,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for statement in statements:
        rows = [row.asDict() for row in spark.sql(statement).collect()]
        print(json.dumps(rows, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
