"""Validators of an asset are asset checks that are asked before anything is visible."""

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import hudi_asset

pytestmark = pytest.mark.row("N14")


def not_all(candidate):
    """A rule of a user."""
    return "everything" if candidate.written().to_arrow().num_rows > 2 else None


def results(result):
    return {
        each.check_name: each.passed
        for each in result.get_asset_check_evaluations()
        if each.check_name != "timeline_readable"
    }


def test_a_refused_commit_leaves_a_failed_check_no_event_and_no_row(run, lake, instance, orders, asset_of):
    rules = [hudi.not_null("amount"), not_all]
    first = run(asset_of(orders(1), pre_commit=rules))
    assert results(first) == {"not_null_amount": True, "not_all": True}

    calls = []

    def null(context):
        calls.append(1)
        return orders(2).set_column(1, "amount", pa.array([None], pa.float64()))

    refused = run(asset_of(null, pre_commit=rules, retry_policy=dg.RetryPolicy(max_retries=3)), raise_on_error=False)
    assert not refused.success and len(calls) == 1
    assert results(refused) == {"not_null_amount": False, "not_all": True}
    assert not refused.get_asset_materialization_events()
    table = lake.table("orders")
    assert table.scan().to_arrow()["id"].to_pylist() == [1] and not table.timeline.pending
    (failed,) = [each for each in refused.get_asset_check_evaluations() if not each.passed]
    assert "This commit was not published" in failed.description

    with_three = run(asset_of(orders(3, 4, 5), pre_commit=rules), raise_on_error=False)
    assert results(with_three) == {"not_null_amount": True, "not_all": False}


def test_a_run_that_publishes_nothing_passes_its_checks_and_says_so(run, orders, asset_of):
    result = run(asset_of(None, pre_commit=[hudi.not_null("id")]))
    check, _ = result.get_asset_check_evaluations()
    assert check.passed and check.description == "The run published no rows."


def test_a_direct_call_gives_one_result_with_its_checks(lake, orders):
    @hudi_asset(record_key="id", pre_commit=[hudi.not_null("id")])
    def called() -> pa.Table:
        return orders(1)

    result = called(lake=lake)
    assert isinstance(result, dg.MaterializeResult)
    assert {check.check_name: check.passed for check in result.check_results} == {
        "not_null_id": True,
        "timeline_readable": True,
    }
    assert result.metadata["dagster/row_count"] == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (hudi.not_null("id"), "cannot take pre_commit="),
        (["not_null"], "cannot be called"),
        ([not_all, not_all], "two validators with the name not_all"),
        ([hudi.not_null("elsewhere")], "not_null('elsewhere') in pre_commit, which cannot work"),
    ],
)
def test_validators_that_cannot_work_fail_at_load(asset_of, rules, message):
    with pytest.raises(InvalidOptionError, match="The asset orders has|hudi_asset cannot take") as refused:
        asset_of(None, pre_commit=rules, schema=pa.schema([("id", pa.int64()), ("ts", pa.int64())]))
    assert message in str(refused.value)
