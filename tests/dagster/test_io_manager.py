"""Tables as outputs and inputs of ordinary assets."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import HudiAutomation, HudiIOManager

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


@pytest.mark.one_in(2)
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
    assert "orders" not in lake.tables_by_name, "it was made for these rows"


def test_batches_can_be_streamed_out(run, lake, orders):
    @dg.asset(name="orders", metadata={"record_key": "id"})
    def source() -> pa.RecordBatchReader:
        return orders(1, 2, 3).to_reader(max_chunksize=1)

    run(source)
    assert lake.table("orders").scan().to_arrow().num_rows == 3


def output_of(result):
    return result.get_asset_materialization_events()[0].materialization


def test_an_empty_output_keeps_the_data_version_of_the_rows_and_says_that_nothing_was_written(run, source, orders):
    @dg.asset(name="orders", metadata={"record_key": "id", "ordering": "ts"})
    def idle() -> pa.Table:
        return orders()

    before = [output_of(run(idle)) for _ in range(2)]
    assert before[0].tags["dagster/data_version"] == before[1].tags["dagster/data_version"]
    written = output_of(run(source))
    after = output_of(run(idle))
    assert after.tags["dagster/data_version"] == written.tags["dagster/data_version"]
    assert "no rows" in after.metadata["hudi/nothing_written"].value
    assert "hudi/nothing_written" not in written.metadata


def test_an_empty_partition_keeps_its_data_version_although_others_have_changed(run, orders):
    @dg.asset(name="orders", metadata=META, partitions_def=DAILY)
    def source(context: dg.AssetExecutionContext) -> pa.Table:
        return orders(*([] if context.run.tags.get("idle") else [1]), day=context.partition_key)

    versions = [
        output_of(run(source, partition_key=day, tags=tags)).tags["dagster/data_version"]
        for day, tags in [("2026-01-01", {}), ("2026-01-02", {}), ("2026-01-01", {"idle": "yes"})]
    ]
    assert versions[0] == versions[2] != versions[1]


def test_an_empty_output_requests_nothing_downstream(run, instance, lake, source, orders):
    @dg.asset(name="orders", metadata={"record_key": "id", "ordering": "ts"})
    def idle() -> pa.Table:
        return orders()

    @dg.asset(deps=["orders"], automation_condition=HudiAutomation.on_commit())
    def totals() -> None: ...

    defs = dg.Definitions([source, totals], resources={"io_manager": HudiIOManager(lake=lake)})
    run(source)
    run(totals)
    cursor = dg.evaluate_automation_conditions(defs, instance).cursor
    run(idle)
    ticked = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
    assert ticked.total_requested == 0
    run(source)
    assert dg.evaluate_automation_conditions(defs, instance, cursor=ticked.cursor).total_requested == 1


def test_inputs_of_a_run_can_be_pinned_to_its_start(run, lake, source, orders):
    """A commit between two steps of the run is seen by the second step only if its input is not pinned."""
    seen = {}

    @dg.asset(ins={"orders": dg.AssetIn(metadata={"as_of": "run_start"})}, metadata={"record_key": "id"})
    def first(orders: pa.Table) -> pa.Table:
        seen["first"] = orders.num_rows
        lake.table("orders").upsert(more)
        return pa.table({"id": [1]})

    @dg.asset(ins={"orders": dg.AssetIn(metadata={"as_of": "run_start"})}, deps=[first])
    def pinned(orders: pa.Table) -> None:
        seen["pinned"] = orders.num_rows

    @dg.asset(deps=[first])
    def newest(orders: pa.Table) -> None:
        seen["newest"] = orders.num_rows

    more = orders(3, 4, 5)
    run(source)
    run(source, first, pinned, newest, selection=[first, pinned, newest])
    assert seen == {"first": 2, "pinned": 2, "newest": 5}


def test_a_pinned_input_that_the_same_run_writes_is_refused(run, source):
    @dg.asset(ins={"orders": dg.AssetIn(metadata={"as_of": "run_start"})})
    def copy(orders: pa.Table) -> None: ...

    with pytest.raises(InvalidOptionError, match="but this run writes orders"):
        run(source, copy)
