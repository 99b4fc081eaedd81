"""Spark sessions: which data and tables they take, and settings and paths that must not change what a table says."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import data_files
from support.spark_frames import frame, spark_rows
from support.tables import ORDERS, create_plain, make, orders, rows

from pyhudi_core.engine import spark_rows as engine
from pyhudi_core.engine.spark_settings import under_settings
from pyhudi_core.errors import HudiError, SchemaMismatchError


def test_a_table_can_be_made_from_a_data_frames_schema(spark: Any, location: str) -> None:
    source = frame(spark, orders((1, "a", 1.0)))
    table = create_plain(location, source.schema, "id", partition_by="day")
    table.upsert(source)
    assert table.schema == ORDERS


def test_arrow_data_can_run_on_a_session(spark: Any, location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)), spark=spark)
    table.delete(pa.table({"id": [1], "day": ["a"]}), spark=spark)
    assert rows(table, "id") == [(2,)]


def test_what_spark_has_no_word_for_is_refused_by_name(spark: Any, location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.time64("us"))])
    table = make(location, schema)
    table.upsert(pa.table([[1], pa.array([5], pa.time64("us"))], schema=schema))
    with pytest.raises(SchemaMismatchError, match="Column 'at' has the type time64") as caught:
        table.scan().to_spark(spark)
    assert "columns=[...]" in str(caught.value)
    assert table.scan(columns=["id"]).to_spark(spark).collect()[0]["id"] == 1


def test_memory_tables_are_refused_on_spark(spark: Any) -> None:
    table = create_plain(f"memory://spark-{time.time_ns()}", ORDERS, "id")
    with pytest.raises(HudiError, match="memory cannot be opened in another process"):
        table.upsert(frame(spark, orders((1, "a", 1.0))))


def test_settings_of_the_session_are_as_they_were(spark: Any, location: str, way: str) -> None:
    keys = ["spark.sql.adaptive.coalescePartitions.enabled", "spark.sql.sources.parallelPartitionDiscovery.parallelism"]
    before = [spark.conf.get(key) for key in keys]
    table = make(location)
    table.upsert(frame(spark, orders((1, "a", 1.0))))
    table.scan().to_spark(spark).collect()
    assert [spark.conf.get(key) for key in keys] == before


def test_two_jobs_at_once_leave_the_session_as_it_was(spark: Any) -> None:
    key = "spark.sql.adaptive.coalescePartitions.enabled"
    before = spark.conf.get(key)
    again = type(spark)(spark.sparkContext, spark._jsparkSession.sqlContext().sparkSession())
    assert again._jsparkSession is not spark._jsparkSession
    first, second = under_settings(spark, {key: "false"}), under_settings(again, {key: "false", "spark.no.such": "1"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(key) == "false"
    second.__exit__(None, None, None)
    assert spark.conf.get(key) == before == "true"


_STOPPED = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
import pyhudi as hudi
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([(1,)], "id long")
table = hudi.create_table(sys.argv[1], rows.schema, "id")
table.upsert(pa.table({"id": [1]}))
spark.stop()
for act in (lambda: table.upsert(rows), lambda: table.delete(where="id = 1", spark=spark), lambda: table.scan().to_spark(spark)):
    try:
        act()
    except hudi.errors.ConfigError as error:
        print(error)
print(table.scan().count())
"""


@pytest.mark.slow
def test_a_session_that_was_stopped_is_refused_by_name(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _STOPPED, str(tmp_path / "t")], capture_output=True, text=True, check=True, timeout=120
    )
    *errors, count = run.stdout.splitlines()
    assert len(errors) == 3
    assert all("The Spark session was stopped" in each and "getOrCreate()" in each for each in errors)
    assert count == "1"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_files_that_cannot_be_read_are_not_passed_over(spark: Any, location: str, setting: str) -> None:
    """Whatever the session does with other files: a table without some of its rows is not that table."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    found = table.scan().to_spark(spark)
    (path, *_) = data_files(location)
    spark.conf.set(f"spark.sql.files.{setting}", "true")
    try:
        if setting == "ignoreMissingFiles":
            Path(location, path).unlink()
        else:
            Path(location, path).write_bytes(b"PAR1 and no more")
        with pytest.raises(Exception, match="parquet"):
            found.collect()
    finally:
        spark.conf.unset(f"spark.sql.files.{setting}")


def test_a_path_with_characters_that_spark_takes_for_patterns(spark: Any, tmp_path: Any) -> None:
    table = make(str(tmp_path / "odd {name} [x]*"))
    table.upsert(frame(spark, orders((1, "[q]", 1.0), (2, "?", 2.0))))
    assert spark_rows(table.scan(), spark, "id", "day") == [(1, "[q]"), (2, "?")]


def test_engines_hash_integers_to_tasks_as_spark_does(spark: Any) -> None:
    from pyspark.sql import functions as F

    for tasks in (1, 2, 3, 8):
        salts = engine.salts_for(tasks)
        found = (
            spark.createDataFrame([(s,) for s in salts], "s int").select(F.pmod(F.hash("s"), F.lit(tasks))).collect()
        )
        assert [row[0] for row in found] == list(range(tasks))
