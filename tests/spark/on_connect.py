"""Reads and writes on a session of Spark Connect, whose server PySpark starts: run by test_connect.py.

Every result is compared with what this process reads by itself. Prints one JSON object: by case "ok", or the error.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi_core as hudi
from pyhudi_core.engine import spark as engine

CASES: list[Callable[[Any, str], None]] = []
SCHEMA = "id string, day string, price double, ts long"


def case(run: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    """Note a case."""
    CASES.append(run)
    return run


def rows(spark: Any, start: int, end: int, ts: int) -> Any:
    """The rows with these numbers."""
    made = spark.range(start, end, 1, 3)
    return made.selectExpr(
        "concat('k', id) AS id",
        "concat('2026-01-0', id % 3 + 1) AS day",
        "id / 2 AS price",
        f"CAST({ts} AS LONG) AS ts",
    )


def made(spark: Any, location: str, **more: Any) -> hudi.HudiTable:
    """A table with logs, if it can have some."""
    table = hudi.create_table(location, rows(spark, 0, 1, 0).schema, "id", "day", "ts", **more)
    table.insert(rows(spark, 0, 60, 1))
    table.upsert(rows(spark, 50, 70, 2))
    return table


def compare(found: Any, expected: pa.Table) -> None:
    """The rows of a DataFrame are these."""
    own = found.toArrow()
    assert own.schema.names == expected.schema.names, own.schema
    assert sorted(map(str, own.to_pylist())) == sorted(map(str, expected.to_pylist()))


def both(spark: Any, location: str, kind: str) -> None:
    """Read it by `to_spark` in all ways."""
    table = made(spark, location, table_type=kind)
    first = table.timeline.commits[0]
    compare(table.scan().to_spark(spark), table.scan().to_arrow())
    assert table.scan().count() == 70
    frame = table.scan(meta=False).to_spark(spark)
    compare(
        frame.where("day = '2026-01-02' AND ts = 2"),
        table.scan(meta=False, where="day = '2026-01-02' AND ts = 2").to_arrow(),
    )
    compare(table.scan(as_of=first).to_spark(spark), table.scan(as_of=first).to_arrow())
    after = first.completion_time
    compare(table.incremental(after=after).to_spark(spark), table.incremental(after=after).to_arrow())
    assert table.changes(after=after).to_spark(spark).count() == table.changes(after=after).count()
    assert table.delete(where="id = 'k1'", spark=spark).stats.rows_deleted == 1
    assert table.delete(spark.createDataFrame([("k2", "2026-01-03")], "id string, day string")).stats.rows_deleted == 1
    assert hudi.open_table(location).scan().count() == 68


@case
def copy_on_write(spark: Any, location: str) -> None:
    """Small batches, which come to this process."""
    both(spark, location, "COPY_ON_WRITE")


@case
def merge_on_read(spark: Any, location: str) -> None:
    """The same with logs; and its services."""
    both(spark, location, "MERGE_ON_READ")
    table = hudi.open_table(location)
    before = table.scan(meta=False).to_arrow()
    table.compaction.run(spark=spark)
    compare(table.scan(meta=False).to_spark(spark), before)


@case
def rows_that_stay_at_the_server(spark: Any, location: str) -> None:
    """Large batches."""
    kept, engine.GATHER_BYTES = engine.GATHER_BYTES, -1
    try:
        both(spark, location, "COPY_ON_WRITE")
        both(spark, f"{location}-logs", "MERGE_ON_READ")
    finally:
        engine.GATHER_BYTES = kept


@case
def more_bytes_than_the_estimate(spark: Any, location: str) -> None:
    """The bytes that come are counted, and the job is ended."""
    wide = rows(spark, 0, 40, 1).withColumn("note", F.expr("repeat('x', 1000000)"))
    table = hudi.create_table(location, wide.schema, "id", "day", "ts")
    assert table.insert(wide).stats.rows_inserted == 40


@case
def merges_overwrites_and_clusters(spark: Any, location: str) -> None:
    """Other verbs."""
    table = made(spark, location)
    table.insert_overwrite(rows(spark, 0, 3, 5))
    assert table.scan().count() == 3
    table.bulk_insert(rows(spark, 100, 130, 5))
    table.clustering.run(spark=spark)
    compare(table.scan().to_spark(spark), table.scan().to_arrow())


@case
def the_data_source(spark: Any, location: str) -> None:
    """``format("pyhudi")`` at the server."""
    from pyhudi_core.spark import register

    table = made(spark, location)
    register(spark)
    compare(spark.read.format("pyhudi").load(location), table.scan().to_arrow())
    rows(spark, 200, 203, 1).write.format("pyhudi").mode("append").save(location)
    assert hudi.open_table(location).scan().count() == 73


@case
def errors_of_tasks_keep_their_type(spark: Any, location: str) -> None:
    """And failures of the rows say what failed."""
    table = made(spark, location)
    refused(
        hudi.errors.InvalidRecordKeyError,
        lambda: table.upsert(rows(spark, 0, 2, 1).withColumn("id", F.lit(None).cast("string"))),
    )
    broken = rows(spark, 0, 2, 1).withColumn("price", F.expr("raise_error('broken source')").cast("double"))
    assert "broken source" in str(refused(hudi.errors.CommitAbortedError, lambda: table.upsert(broken)))
    assert table.scan().count() == 70


@case
def what_cannot_work_is_refused_by_name(spark: Any, location: str) -> None:
    """The sink of a stream whose query nobody names."""
    from pyhudi_core.spark import StreamSink

    made(spark, location)
    error = refused(hudi.errors.ConfigError, lambda: StreamSink(location, "s")(rows(spark, 0, 1, 1), 0))
    assert "Spark Connect" in str(error), error


@case
def a_condition_in_another_zone_is_refused(spark: Any, location: str) -> None:
    """Also where nobody names the session."""
    table = made(spark, location)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        where = "hour(at) = 8"
        at = table.scan().to_spark(spark).selectExpr("id", "day", "TIMESTAMP'2026-06-01 12:00:00' AS at")
        zoned = hudi.create_table(f"{location}-zoned", at.schema, "id", "day")
        zoned.upsert(at)
        refused(hudi.errors.PredicateError, lambda: zoned.scan(where=where).to_spark(spark))
        refused(hudi.errors.PredicateError, lambda: zoned.delete(where=where))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@case
def a_stream_is_written_once(spark: Any, location: str) -> None:
    """Its function runs at the server."""
    from pyhudi_core.spark import StreamSink

    table = made(spark, location)
    before = len(table.timeline.commits)
    rows(spark, 300, 305, 1).write.parquet(f"{location}-source")
    source = spark.readStream.schema(SCHEMA).parquet(f"{location}-source")
    sink = StreamSink(location, "s")

    def write(frame: Any, number: int) -> None:
        for _ in range(2):
            sink.write(frame, number, query_id="mine")

    started = source.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{location}-checkpoint")
    started.foreachBatch(write).start().awaitTermination()
    assert hudi.open_table(location).scan().count() == 75
    assert len(hudi.open_table(location).timeline.commits) == before + 1


@case
def a_session_that_was_stopped(spark: Any, location: str) -> None:
    """It ends the server, so this is the last case."""
    table = made(spark, location)
    frame = rows(spark, 0, 1, 1)
    spark.stop()
    refused(hudi.errors.ConfigError, lambda: table.scan().to_spark(spark))
    refused(hudi.errors.ConfigError, lambda: table.upsert(frame))


def refused(kind: type[Exception], act: Callable[[], object]) -> Exception:
    """The error that it raises."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def main(place: str, chosen: set[str]) -> dict[str, str]:
    """Run the cases in one session."""
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", f"{place}/local")
        .config("spark.sql.warehouse.dir", f"{place}/warehouse")
        .getOrCreate()
    )
    found = {}
    for run in CASES:
        name = run.__name__
        if chosen and name not in chosen:
            continue
        try:
            run(spark, f"{place}/{name}")
            found[name] = "ok"
        except Exception:
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], set(sys.argv[2:]))))
