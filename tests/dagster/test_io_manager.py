"""Tables as outputs and inputs of ordinary assets."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from pyhudi_dagster import HudiIOManager

DAILY = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")
META = {"record_key": "id", "ordering": "ts", "partition_by": "day"}
RANGE = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-02"}


@pytest.fixture
def run(lake, instance):
    def materialize(*assets, **arguments):
        return dg.materialize(
            list(assets), instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}, **arguments
        )

    return materialize


@pytest.fixture
def source(orders):
    @dg.asset(name="orders", metadata={"record_key": "id", "ordering": "ts"})
    def source() -> pa.Table:
        return orders(1, 2)

    return source


def test_an_output_is_one_commit_with_the_same_facts_as_the_decorator(run, lake, source):
    result = run(source)

    table = lake.table("orders")
    (commit,) = table.timeline.commits
    event = result.get_asset_materialization_events()[0].materialization
    assert event.metadata["hudi/instant"].value == commit.requested_time
    assert event.tags["dagster/data_version"] == commit.completion_time
    assert event.metadata["dagster/row_count"].value == 2
    assert table.commit_metadata(commit).extra["dagster.run_id"] == result.run_id


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatchReader, pd.DataFrame])
def test_the_annotation_decides_how_an_input_comes(run, source, kind):
    seen = []

    def body(orders):
        seen.append(orders)

    body.__annotations__ = {"orders": kind, "return": None}
    reader = dg.asset(name="reader")(body)
    run(source, reader)
    (value,) = seen
    assert isinstance(value, kind)
    rows = value.read_all() if kind is pa.RecordBatchReader else value
    assert list(rows["id"].to_pylist() if kind is not pd.DataFrame else rows["id"]) == [1, 2]


def test_an_input_can_name_its_columns_and_condition(run, source):
    seen = []

    @dg.asset(ins={"orders": dg.AssetIn(metadata={"columns": ["id"], "where": "id > 1"})})
    def reader(orders: pa.Table) -> None:
        seen.append(orders)

    run(source, reader)
    assert seen[0].to_pydict() == {"id": [2]}


def test_partitions_are_written_in_one_commit_and_read_as_a_set(run, lake, orders):
    seen = {}

    @dg.asset(name="orders", metadata=META, partitions_def=DAILY, backfill_policy=dg.BackfillPolicy.single_run())
    def source(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.concat_tables(orders(index, day=key) for index, key in enumerate(context.partition_keys))

    @dg.asset(partitions_def=DAILY)
    def reader(context: dg.AssetExecutionContext, orders: pa.Table) -> None:
        seen[context.partition_key] = orders["id"].to_pylist()

    run(source, tags=RANGE)
    assert len(list(lake.table("orders").timeline.commits)) == 1
    run(source, reader, partition_key="2026-01-02", selection=["reader"])
    assert seen == {"2026-01-02": [1]}


def test_foreign_rows_are_refused(run, lake, orders):
    @dg.asset(name="orders", metadata=META, partitions_def=DAILY)
    def source() -> pa.Table:
        return orders(1, day="2026-01-09")

    assert not run(source, partition_key="2026-01-01", raise_on_error=False).success
    assert not list(lake.table("orders").timeline.commits)


def test_batches_can_be_streamed_out(run, lake, orders):
    @dg.asset(name="orders", metadata={"record_key": "id"})
    def source() -> pa.RecordBatchReader:
        return orders(1, 2, 3).to_reader(max_chunksize=1)

    run(source)
    assert lake.table("orders").scan().to_arrow().num_rows == 3
