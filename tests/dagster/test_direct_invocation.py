"""An asset called directly in a user's unit test makes its commit, without an instance or a run."""

import dagster as dg
import pyarrow as pa
import pytest

from pyhudi_dagster import Changes, HudiLakeResource, HudiPartitions, hudi_asset

DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-02-01")


def ids(lake, table):
    return sorted(lake.table(table).scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path):
    return HudiLakeResource(warehouse=str(tmp_path / "lake"))


def test_an_asset_without_a_context_is_called_with_its_lake_alone(lake, orders):
    rows = orders(1, 2)

    @hudi_asset(record_key="id", ordering="ts")
    def orders() -> pa.Table:
        return rows

    (result,) = orders(lake=lake)
    (commit,) = lake.table("orders").timeline.commits
    assert result.asset_key == dg.AssetKey("orders")
    assert result.tags["hudi/instant"] == commit.requested_time
    assert result.data_version.value == commit.completion_time
    assert result.metadata["dagster/row_count"] == 2
    assert ids(lake, "orders") == [1, 2]


def test_an_asset_with_a_context_takes_one_of_build_asset_context(lake, asset_of, orders):
    (result,) = asset_of(orders(1))(dg.build_asset_context(), lake=lake)
    assert result.asset_key == dg.AssetKey("orders")
    list(asset_of(orders(2))(dg.build_asset_context(), lake=lake))
    assert ids(lake, "orders") == [1, 2]


def test_a_partitioned_asset_is_called_for_a_partition(lake, asset_of, orders):
    asset = asset_of(lambda context: orders(1, day=context.partition_key), partitions=DAYS)
    (result,) = asset(dg.build_asset_context(partition_key="2026-01-03"), lake=lake)
    assert result.metadata["dagster/partition_row_count"] == 1
    assert lake.table("orders").scan(columns=["day"]).to_arrow()["day"].to_pylist() == ["2026-01-03"]


def test_an_asset_with_changes_reads_them_from_the_lake_and_has_no_result_when_nothing_has_changed(
    lake, asset_of, orders
):
    @hudi_asset(record_key="id")
    def copy(orders: Changes) -> pa.Table:
        return orders.to_arrow()

    list(asset_of(orders(1, 2))(dg.build_asset_context(), lake=lake))
    assert len(list(copy(lake=lake))) == 1
    assert not list(copy(lake=lake))
    assert ids(lake, "copy") == [1, 2]


def test_late_rows_of_an_asset_that_is_called_directly_are_written_and_nobody_is_told(lake, asset_of, orders):
    asset = asset_of(orders(1, day="2026-01-09"), partitions=DAYS, on_foreign_rows="allow")
    list(asset(dg.build_asset_context(partition_key="2026-01-03"), lake=lake))
    assert lake.table("orders").scan(columns=["day"]).to_arrow()["day"].to_pylist() == ["2026-01-09"]
