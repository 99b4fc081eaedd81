"""Read a table as a stream while it is written: each row once, also after a restart. Needs PySpark 4.2 or newer, and Java."""

import tempfile

import pyarrow as pa
from pyspark.sql import SparkSession

import pyhudi as hudi
from pyhudi.spark import register

folder = tempfile.mkdtemp()
spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
register(spark)

rows = pa.table({"id": [1, 2], "price": [9.5, 7.0]})
table = hudi.create_table(f"{folder}/orders", schema=rows.schema, record_key="id")
table.upsert(rows)
spark.read.format("pyhudi").option("columns", "id, price").load(table.location).show()


def follow() -> None:
    """Read the changes since the last call."""
    stream = spark.readStream.format("pyhudi").option("columns", "id, price").load(table.location)
    query = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.foreachBatch(
        lambda frame, number: print(number, sorted(map(tuple, frame.collect())))
    ).start().awaitTermination()


follow()
table.upsert(pa.table({"id": [1, 3], "price": [8.0, 3.0]}))
follow()
follow()
spark.stop()
