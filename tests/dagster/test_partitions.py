"""Partition keys, partition values, backfills, and rows that belong elsewhere."""

import dagster as dg
import pyarrow as pa
import pytest

from pyhudi_core.orchestration.partition_values import value_of_path
from pyhudi_dagster import HudiPartitions, HudiWrite, chunked, hudi_asset

DAILY = {"start": "2026-01-01", "end_date": "2026-02-01"}
RANGE = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-03"}


def daily(asset_of, result, **arguments):
    return asset_of(result, partitions=HudiPartitions.daily("day", **DAILY), **arguments)


def days_of(table):
    return sorted(table.scan(columns=["day"]).to_arrow()["day"].to_pylist())


def test_a_key_is_a_set_of_values():
    month = HudiPartitions.monthly("day", "2026-01-01", path_granularity="day")
    values = month.values(["2026-02-01"])
    assert len(values) == 28
    assert ("2026-02-28",) in values

    hours = HudiPartitions.hourly(["day", "hour"], "2026-01-01-00:00")
    assert hours.values(["2026-01-01-05:00"]) == {("2026-01-01", "05")}


def test_two_dimensions_make_the_folders_in_the_given_order():
    parts = HudiPartitions.multi(
        {"region": HudiPartitions.static("region", ["eu", "us"]), "day": HudiPartitions.daily("day", "2026-01-01")}
    )
    assert parts.columns == ("region", "day")
    assert parts.values([dg.MultiPartitionKey({"day": "2026-01-02", "region": "eu"})]) == {("eu", "2026-01-02")}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_day_has_one_value_and_finds_its_key_again(zone):
    parts = HudiPartitions.daily("day", "2026-03-01", end_date="2026-04-01", timezone=zone)
    for key in parts.definition.get_partition_keys():
        (value,) = parts.values([key])
        assert value == (key,)
        assert parts.key_of(value) == key
    assert parts.key_of(("2030-01-01",)) is None
    assert parts.key_of(("nonsense",)) is None


def test_a_format_that_merges_neighbours_does_not_load():
    with pytest.raises(ValueError, match="one folder"):
        HudiPartitions.daily("day", "2026-01-01", fmt="%Y-%m")


@pytest.mark.parametrize("path", ["day=a%2Fb", "3f/day=a%2Fb", "a%2Fb"])
def test_paths_give_their_values_back(path):
    assert value_of_path(path, ("day",)) == ("a/b",)


@pytest.mark.row("U15")
def test_a_range_of_partitions_is_one_commit_with_figures_for_each(run, lake, orders, asset_of):
    rows = lambda context: pa.concat_tables(  # noqa: E731
        orders(index, 10 + index, day=key) for index, key in enumerate(context.partition_keys)
    )
    result = run(daily(asset_of, rows), tags=RANGE)

    assert len(list(lake.table("orders").timeline.commits)) == 1
    events = result.get_asset_materialization_events()
    counts = {event.partition: event.materialization.metadata["dagster/partition_row_count"].value for event in events}
    assert counts == {"2026-01-01": 2, "2026-01-02": 2, "2026-01-03": 2}
    assert len({event.materialization.tags["hudi/instant"] for event in events}) == 1


@pytest.mark.parametrize(
    ("mode", "policy"),
    [
        ("single_run", dg.BackfillPolicy.single_run()),
        ("per_partition", dg.BackfillPolicy.multi_run(1)),
        (chunked(7), dg.BackfillPolicy.multi_run(7)),
    ],
)
def test_the_backfill_mode_is_dagsters_policy(asset_of, orders, mode, policy):
    assert daily(asset_of, orders(1), backfill=mode).backfill_policy == policy


def test_many_events_share_the_bulky_facts(run, lake, orders, asset_of):
    last = {**RANGE, "dagster/asset_partition_range_end": "2026-01-20"}
    rows = lambda context: pa.concat_tables(orders(i, day=key) for i, key in enumerate(context.partition_keys))  # noqa: E731
    events = run(daily(asset_of, rows), tags=last).get_asset_materialization_events()
    assert len(events) == 20
    assert sum("hudi/timeline_chart" in event.materialization.metadata for event in events) == 1


def test_foreign_rows_fail_and_leave_nothing(run, lake, orders, asset_of):
    rows = pa.concat_tables([orders(1, day="2026-01-01"), orders(2, day="2026-01-09")])
    result = run(daily(asset_of, rows), partition_key="2026-01-01", raise_on_error=False)

    assert "2026-01-09" in result.failure_data_for_node("orders").user_failure_data.description
    assert "orders" not in lake.tables_by_name, "it was made for these rows"


def test_foreign_rows_can_be_left_out(run, lake, orders, asset_of):
    rows = pa.concat_tables([orders(1, day="2026-01-01"), orders(2, day="2026-01-09")])
    run(daily(asset_of, rows, on_foreign_rows="drop"), partition_key="2026-01-01")
    assert days_of(lake.table("orders")) == ["2026-01-01"]


def test_the_error_about_foreign_rows_shows_what_rows_of_the_run_look_like(run, asset_of, orders):
    hours = HudiPartitions.hourly("day", start="2026-01-01-00:00")
    result = run(
        asset_of(lambda context: orders(1, day=context.partition_key), partitions=hours),
        partition_key="2026-01-01-15:00",
        raise_on_error=False,
    )
    failure = result.failure_data_for_node("orders").user_failure_data
    assert "day is 2026-01-01-15:00" in failure.description
    assert "day = 2026-01-01-15. The rows have the partition key itself" in failure.description
    assert "fmt=" in failure.description


def test_deleting_partitions_takes_those_of_the_run(run, lake, orders, asset_of):
    rows = lambda context: pa.concat_tables(orders(i, day=key) for i, key in enumerate(context.partition_keys))  # noqa: E731
    run(daily(asset_of, rows), tags=RANGE)
    run(
        daily(asset_of, lambda _: HudiWrite(None, operation="delete_partitions")),
        partition_key="2026-01-02",
    )
    assert days_of(lake.table("orders")) == ["2026-01-01", "2026-01-03"]


@pytest.mark.parametrize("paths", ["day=2026-01-02", ""])
def test_paths_of_partitions_are_a_list_and_a_text_is_not_taken_apart(run, lake, orders, asset_of, paths):
    run(asset_of(orders(1, day="2026-01-02"), partition_by="day"))
    wrong = asset_of(lambda _: HudiWrite(paths, operation="delete_partitions"), partition_by="day")
    failure = run(wrong, raise_on_error=False).failure_data_for_node("orders").user_failure_data

    assert "takes a list of partition paths" in failure.description
    assert "day=2026" in failure.metadata["hudi/hint"].value
    assert days_of(lake.table("orders")) == ["2026-01-02"]


def test_an_asset_can_name_the_partitions_that_go(run, lake, orders, asset_of):
    run(asset_of(pa.concat_tables([orders(1, day="a"), orders(2, day="b"), orders(3, day="c")]), partition_by="day"))
    paths = lambda _: HudiWrite(iter(["day=a", "day=c"]), operation="delete_partitions")  # noqa: E731
    run(asset_of(paths, partition_by="day"))
    assert days_of(lake.table("orders")) == ["b"]


def test_partitions_and_partition_by_must_agree():
    with pytest.raises(ValueError, match="partitioned by"):

        @hudi_asset(record_key="id", partition_by="other", partitions=HudiPartitions.daily("day", "2026-01-01"))
        def orders() -> None: ...


@pytest.mark.parametrize("first", [True, False], ids=["new table", "table with rows"])
def test_rows_without_the_partition_column_are_refused_with_the_value_of_the_run(run, asset_of, lake, first):
    whole = pa.table({"id": [1], "day": ["2026-01-02"], "ts": [1]})
    if not first:
        assert run(daily(asset_of, whole), partition_key="2026-01-02").success
    result = run(daily(asset_of, whole.drop_columns("day")), partition_key="2026-01-02", raise_on_error=False)
    (event,) = [event for event in result.all_node_events if event.is_step_failure]
    error = event.step_failure_data.error
    assert "no column 'day'" in (error.cause or error).message
    assert "its value in this run is 2026-01-02" in (error.cause or error).message
