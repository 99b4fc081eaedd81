"""The rules of a table on Spark: the executors measure the rows, fill columns, and refuse what this process refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyhudi as hudi
from pyhudi.errors import DataError

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("total", pa.float64())])
RULES = hudi.TableRules({"positive": "v > 0"}, ["v"], {"day": "'a'"}, {"total": "v * 2"})


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_spark_keeps_the_rules_of_a_table_as_this_process_does(location: str, spark: SparkSession, kind: str) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", table_type=kind, rules=RULES)
    frame = spark.createDataFrame([(1, 1.0), (2, 2.0)], "id long, v double")
    table.upsert(frame)
    table.upsert(frame.where("id = 2").selectExpr("id", "v * 2 AS v"))
    found = [{"id": 1, "day": "a", "v": 1.0, "total": 2.0}, {"id": 2, "day": "a", "v": 4.0, "total": 8.0}]
    assert table.to_arrow().sort_by("id").to_pylist() == found
    instants = table.timeline.instants
    for bad, message in (("-v", "'positive' is CHECK"), ("CAST(NULL AS DOUBLE)", "column v is NOT NULL")):
        with pytest.raises(DataError, match=message):
            table.upsert(frame.selectExpr("id", f"{bad} AS v"))
    with pytest.raises(DataError, match="'positive' is CHECK"):
        table.update({"v": "-v"}, spark=spark)
    assert (table.to_arrow().sort_by("id").to_pylist(), table.timeline.instants) == (found, instants)
    table.update({"v": "v + 1"}, where="id = 1", spark=spark)
    assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "day": "a", "v": 2.0, "total": 4.0}]


@pytest.mark.spark
def test_rows_of_files_that_could_stay_there_keep_the_rules(location: str, spark: SparkSession) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", rules=RULES)
    spark.range(1, 1_001).selectExpr("id", "'a' AS day", "id * 1D AS v", "id * 2D AS total").write.parquet(
        f"{location}-files"
    )
    frame = spark.read.parquet(f"{location}-files")
    with pytest.raises(DataError, match="'positive' is CHECK"):
        table.bulk_insert(frame.selectExpr("id", "day", "v - 500D AS v", "(v - 500D) * 2D AS total"))
    assert not table.timeline.instants
    table.bulk_insert(frame)
    assert table.count() == 1_000
