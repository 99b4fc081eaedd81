"""An asset called directly in a user's unit test makes its commit, without an instance or a run."""

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_dagster import Changes, HudiLakeResource, HudiPartitions, hudi_asset, hudi_multi_asset, hudi_output

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

    result = orders(lake=lake)
    (commit,) = lake.table("orders").timeline.commits
    assert result.asset_key == dg.AssetKey("orders")
    assert result.tags["hudi/instant"] == commit.requested_time
    assert result.data_version.value == commit.completion_time
    assert result.metadata["dagster/row_count"] == 2
    assert ids(lake, "orders") == [1, 2]


def test_an_asset_with_a_context_takes_one_of_build_asset_context(lake, asset_of, orders):
    result = asset_of(orders(1))(dg.build_asset_context(), lake=lake)
    assert result.asset_key == dg.AssetKey("orders")
    asset_of(orders(2))(dg.build_asset_context(), lake=lake)
    assert ids(lake, "orders") == [1, 2]


def test_a_partitioned_asset_is_called_for_a_partition(lake, asset_of, orders):
    asset = asset_of(lambda context: orders(1, day=context.partition_key), partitions=DAYS)
    result = asset(dg.build_asset_context(partition_key="2026-01-03"), lake=lake)
    assert result.metadata["dagster/partition_row_count"] == 1
    assert lake.table("orders").scan(columns=["day"]).to_arrow()["day"].to_pylist() == ["2026-01-03"]


def test_an_asset_with_changes_reads_them_from_the_lake_and_has_no_result_when_nothing_has_changed(
    lake, asset_of, orders
):
    @hudi_asset(record_key="id")
    def copy(orders: Changes) -> pa.Table:
        return orders.to_arrow()

    asset_of(orders(1, 2))(dg.build_asset_context(), lake=lake)
    assert copy(lake=lake).metadata["dagster/row_count"] == 2
    assert copy(lake=lake).metadata["skipped_because"] == "nothing has changed in the inputs"
    assert ids(lake, "copy") == [1, 2]


def test_late_rows_of_an_asset_that_is_called_directly_are_written_and_nobody_is_told(lake, asset_of, orders):
    asset = asset_of(orders(1, day="2026-01-09"), partitions=DAYS, on_foreign_rows="allow")
    asset(dg.build_asset_context(partition_key="2026-01-03"), lake=lake)
    assert lake.table("orders").scan(columns=["day"]).to_arrow()["day"].to_pylist() == ["2026-01-09"]


def test_a_call_does_the_work_although_nobody_looks_at_what_it_returns(lake, asset_of, orders):
    asset_of(orders(1))(dg.build_asset_context(), lake=lake)
    assert ids(lake, "orders") == [1]


@pytest.mark.parametrize("validators", [[], [hudi.not_null("id")], [hudi.not_null("id"), hudi.unique("id")]])
def test_a_call_returns_one_value_whatever_validators_it_has_and_says_when_nothing_was_written(
    lake, orders, validators
):
    given = [orders(1), None, orders()]

    @hudi_asset(record_key="id", pre_commit=validators)
    def rows():
        return given.pop(0)

    made = rows(lake=lake)
    assert isinstance(made, dg.MaterializeResult)
    for _ in range(2):
        skipped = rows(lake=lake)
        assert isinstance(skipped, dg.ObserveResult)
        assert skipped.metadata["skipped_because"] == "there are no rows to write"
        assert [len(each.check_results) for each in (made, skipped)] == [len(validators) + 1] * 2, (
            "and that the timeline was read"
        )
    assert len(lake.table("rows").timeline) == 1


def test_a_call_that_fails_raises_at_the_call(lake, asset_of):
    asset = asset_of(7)
    with pytest.raises(dg.Failure, match="returned int"):
        asset(dg.build_asset_context(), lake=lake)


def test_a_call_of_a_function_for_several_tables_returns_a_result_for_each(lake, orders):
    tables = {name: hudi_output(record_key="id") for name in ("one", "two")}

    @hudi_multi_asset(tables=tables)
    def both() -> dict[str, pa.Table]:
        return {"two": orders(1)}

    one, two = both(lake=lake)
    assert one.metadata["skipped_because"] == "there are no rows to write"
    assert two.asset_key == dg.AssetKey("two")
    assert ids(lake, "two") == [1]


def test_a_call_of_a_function_for_several_tables_of_which_there_is_one(lake, orders):
    @hudi_multi_asset(tables={"one": hudi_output(record_key="id", pre_commit=[hudi.not_null("id")])})
    def alone() -> dict[str, pa.Table]:
        return {"one": orders(1)}

    assert alone(lake=lake).asset_key == dg.AssetKey("one")
