"""What a run's log and its failures say about the steps of a commit."""

import dagster as dg
import pyarrow as pa
import pytest
from support.tables import create_plain

from pyhudi_dagster import HudiIOManager, hudi_metadata
from pyhudi_dagster.steps import runner


@pytest.fixture
def told(instance):
    """What the steps of the newest run said, in order."""

    def messages():
        (newest,) = instance.get_run_records(limit=1)
        said = [entry.user_message for entry in instance.all_logs(newest.dagster_run.run_id)]
        return [text.removeprefix("orders: ") for text in said if text.startswith("orders: ")]

    return messages


def test_the_runs_log_follows_a_commit(run, lake, orders, asset_of, told):
    run(asset_of(orders(1, 2)))

    (commit,) = lake.table("orders").timeline.commits
    began, planned, published = told()
    assert began == "began"
    assert planned == f"planned as instant {commit.requested_time}: 2 rows inserted, 1 files, 1 partitions"
    assert published == f"published instant {commit.requested_time}, completed at {commit.completion_time}"


def test_the_runs_log_tells_of_a_write_that_is_rolled_back(run, lake, instance, orders, asset_of, told):
    def ends_its_run(context):
        instance.report_run_canceling(instance.get_run_by_id(context.run.run_id))
        return orders(1)

    run(asset_of(ends_its_run), raise_on_error=False)
    assert told()[-1].startswith("rolled back instant")
    assert told()[-1].endswith("after RunEndedError")
    assert not lake.table("orders").timeline.commits


def test_the_runs_log_tells_of_a_conflict_and_the_commit_that_came_after_it(
    run, lake, orders, asset_of, told, monkeypatch
):
    run(asset_of(orders(1)))
    real, pending = runner._amount, [True]

    def another_commit_comes_first(stats):
        if pending and pending.pop():
            lake.table("orders").upsert(orders(1, ts=3, amount=3.0))
        return real(stats)

    monkeypatch.setattr(runner, "_amount", another_commit_comes_first)
    result = run(asset_of(orders(1, 2, ts=2, amount=2.0)))
    facts = result.asset_materializations_for_node("orders")[0].metadata
    assert facts["hudi/conflict_retries"].value == 1
    assert any("another commit came first; planning again" in line for line in told())
    assert sorted(lake.table("orders").scan(columns=["amount"]).to_arrow()["amount"].to_pylist()) == [2.0, 3.0]


def test_the_io_manager_gives_up_at_once_on_bad_data_as_the_decorator_does(lake, instance):
    ran = []

    @dg.asset(metadata=hudi_metadata(record_key="id"), retry_policy=dg.RetryPolicy(max_retries=3))
    def broken() -> pa.Table:
        ran.append(1)
        return pa.table({"id": pa.array([None], pa.int64())})

    result = dg.materialize(
        [broken], instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}, raise_on_error=False
    )
    assert len(ran) == 1
    assert "InvalidRecordKeyError" in result.failure_data_for_node("broken").user_failure_data.description


def test_a_commit_names_the_action_that_made_it(run, lake, orders, asset_of):
    run(asset_of(orders(1)))
    table = lake.table("orders")
    (commit,) = table.timeline.commits
    assert table.commit_metadata(commit).extra["dagster.action"] == "write"


def test_every_further_gate_can_refuse_the_commit(lake, orders):
    asked = []
    other = create_plain(lake.location("other"), schema=orders().schema, record_key="id")

    def refuse(_):
        raise PermissionError("not today")

    @dg.asset
    def gated(context: dg.AssetExecutionContext) -> None:
        step = runner.step_of(context, context.asset_key).with_gates(asked.append, refuse)
        begun = other.begin("upsert")
        with pytest.raises(PermissionError):
            runner.publish(step, other, begun, lambda: begun.write(orders(1)))

    assert dg.materialize([gated]).success
    assert len(asked) == 1
    assert not other.timeline.commits
