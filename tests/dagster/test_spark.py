"""DataFrames through Spark: commits, partitions, and a clean cancel."""

import os
import signal
import sys
import threading
import time

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource
from pyspark import SparkContext
from support.waiting import until

from pyhudi_dagster import HudiPartitions, hudi_asset, hudi_multi_asset, hudi_output

pytestmark = pytest.mark.spark
DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-02-01")
RANGE = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-03"}


@pytest.fixture(scope="module", autouse=True)
def session(spark_config):
    """A session that is there before the runs; the resource finds it and leaves it running."""
    had_one = SparkContext._active_spark_context is not None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    before = signal.getsignal(signal.SIGINT)
    session = LazyPySparkResource(spark_config=spark_config).spark_session
    signal.signal(signal.SIGINT, before)
    yield session
    if not had_one:
        session.stop()


@pytest.fixture
def days():
    def rows(lake, *days, ts=1):
        values = [(index, 1.0, day, ts) for index, day in enumerate(days)]
        return lake.spark.createDataFrame(values, "id long, amount double, day string, ts long")

    return rows


def test_a_dataframe_becomes_one_commit_for_all_partitions_of_a_run(run, lake, days):
    @hudi_asset(record_key="id", ordering="ts", partitions=DAYS)
    def orders(context: dg.AssetExecutionContext, lake):
        return days(lake, *context.partition_keys)

    result = run(orders, tags=RANGE)
    assert len(list(lake.table("orders").timeline.commits)) == 1
    assert {event.partition for event in result.get_asset_materialization_events()} == {
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
    }


def test_foreign_rows_of_a_dataframe_can_be_left_out(run, lake, days):
    @hudi_asset(record_key="id", partitions=DAYS, on_foreign_rows="drop")
    def orders(lake):
        return days(lake, "2026-01-01", "2026-01-09")

    run(orders, partition_key="2026-01-01")
    assert lake.table("orders").scan(columns=["day"]).to_arrow()["day"].to_pylist() == ["2026-01-01"]


def test_dataframes_of_a_function_for_two_tables_are_a_commit_for_each(run, lake, days):
    @hudi_multi_asset(
        tables={"orders": hudi_output(record_key="id"), "customers": hudi_output(record_key="id", partitions=None)},
        partitions=DAYS,
    )
    def load(context: dg.AssetExecutionContext, lake):
        rows = days(lake, *context.partition_keys)
        return {"orders": rows, "customers": rows.withColumn("name", rows.day)}

    result = run(load, tags=RANGE)
    for name in ("orders", "customers"):
        assert len(list(lake.table(name).timeline.commits)) == 1
        assert lake.table(name).scan().count() == 3
    assert len(result.get_asset_materialization_events()) == 6


def test_a_dataframe_that_fails_for_the_second_table_publishes_nothing_of_the_first(run, lake, days):
    @hudi_multi_asset(tables={"orders": hudi_output(record_key="id"), "customers": hudi_output(record_key="id")})
    def load(lake):
        rows = days(lake, "2026-01-01")
        return {"orders": rows, "customers": rows.selectExpr("raise_error('no') AS id")}

    assert not run(load, raise_on_error=False).success
    assert not list(lake.tables_by_name.list()), "both were made for rows that were refused"


def test_an_empty_dataframe_is_no_commit_and_no_event(run, lake, days):
    @hudi_asset(record_key="id")
    def orders(lake):
        return days(lake, "2026-01-01").where("false")

    assert not run(orders).get_asset_materialization_events()


def test_a_session_that_was_there_outlives_the_run(run, days):
    @hudi_asset(record_key="id")
    def orders(lake):
        return days(lake, "2026-01-01")

    run(orders)
    assert SparkContext._active_spark_context is not None


def test_an_interrupt_cancels_the_steps_own_spark_jobs_and_rolls_back(run, lake, days, session, tmp_path):
    began, went_on = tmp_path / "began", tmp_path / "went on"

    def slow(batches):
        began.touch()
        time.sleep(100)
        went_on.touch()
        yield from batches

    @hudi_asset(record_key="id")
    def orders(lake):
        frame = days(lake, "2026-01-01")
        return frame.mapInArrow(slow, frame.schema)

    def interrupt():
        until(began.exists)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises((KeyboardInterrupt, dg.DagsterExecutionInterruptedError)):
        run(orders)

    assert not went_on.exists(), "the step waited for its job"
    until(lambda: not session.sparkContext.statusTracker().getActiveJobsIds())
    assert not went_on.exists(), "the job ended by itself"
    timeline = lake.table("orders").timeline
    assert not list(timeline.commits)
    assert not list(timeline.pending)
