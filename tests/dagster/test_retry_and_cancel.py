"""A commit is made once an attempt, and never after the run is no longer wanted."""

import signal
import threading

import dagster as dg
import pytest

import pyhudi_dagster.reporting.events
from pyhudi_core.orchestration.incremental import Reader, changes_since, refuse_if_consumed
from pyhudi_dagster import Changes, RunEndedError, hudi_asset
from pyhudi_dagster.lake.interrupts import is_abandoned
from pyhudi_dagster.timeline.identity import attempt_of


def commits(table):
    return list(table.timeline.commits)


@pytest.fixture
def crash_once_before_the_event(monkeypatch):
    """The process dies, as far as Dagster can tell, between the commit and its event: once."""
    real, pending = pyhudi_dagster.reporting.events.report, [True]

    def crash(*arguments):
        if pending and pending.pop():
            raise ConnectionError("the worker is gone")
        return real(*arguments)

    monkeypatch.setattr(pyhudi_dagster.reporting.events, "report", crash)


@pytest.mark.row("U4")
def test_a_retry_of_the_step_adopts_the_commit_that_is_there(run, lake, orders, asset_of, crash_once_before_the_event):
    ran = []
    result = run(asset_of(lambda _: ran.append(1) or orders(1), retry_policy=dg.RetryPolicy(max_retries=1)))

    (commit,) = commits(lake.table("orders"))
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.tags["hudi/instant"] == commit.requested_time
    assert event.materialization.metadata["hudi/adopted"].value is True
    assert ran == [1]


def test_a_resumed_run_adopts_the_commit_and_a_fresh_one_does_not(
    run, lake, instance, orders, asset_of, crash_once_before_the_event
):
    asset = asset_of(orders(1))
    failed = run(asset, raise_on_error=False)
    assert not failed.success
    assert len(commits(lake.table("orders"))) == 1

    def again(strategy):
        parent = instance.get_run_by_id(failed.run_id)
        tags = {"dagster/parent_run_id": parent.run_id, "dagster/root_run_id": parent.run_id}
        if strategy == "resume":
            tags["dagster/is_resume_retry"] = "true"
        return run(asset, tags=tags)

    resumed = again("resume")
    assert len(commits(lake.table("orders"))) == 1
    assert resumed.asset_materializations_for_node("orders")[0].metadata["hudi/adopted"].value is True

    anew = again("all")
    assert len(commits(lake.table("orders"))) == 2
    assert "hudi/adopted" not in anew.asset_materializations_for_node("orders")[0].metadata


def test_an_attempt_reaches_parents_only_through_resume_tags(run, instance, orders, asset_of):
    first = run(asset_of(orders(1))).run_id
    resumed = run(
        asset_of(orders(1)), tags={"dagster/parent_run_id": first, "dagster/is_asset_resume_retry": "true"}
    ).run_id
    anew = run(asset_of(orders(1)), tags={"dagster/parent_run_id": resumed}).run_id

    assert attempt_of(instance, instance.get_run_by_id(resumed)) == {first, resumed}
    assert attempt_of(instance, instance.get_run_by_id(anew)) == {anew}


def test_nothing_becomes_visible_once_the_run_is_cancelled(run, lake, instance, orders, asset_of):
    run(asset_of(orders(1)))

    def cancelled_meanwhile(context):
        instance.report_run_canceling(context.run)
        return orders(2)

    result = run(asset_of(cancelled_meanwhile), raise_on_error=False)
    assert not result.success
    table = lake.table("orders")
    assert len(commits(table)) == 1
    assert not list(table.timeline.pending)
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]


def test_an_interrupt_rolls_the_write_back_and_goes_on(run, lake, orders, asset_of, monkeypatch):
    run(asset_of(orders(1)))
    ended = threading.Event()

    def slow_rows():
        try:
            yield from orders(2).to_batches()
            signal.raise_signal(signal.SIGINT)
            while not is_abandoned():  # the stream is still being read when the interrupt comes
                assert not ended.wait(0.01)
            yield from orders(3).to_batches()
        finally:
            ended.set()

    with pytest.raises((KeyboardInterrupt, dg.DagsterExecutionInterruptedError)):
        run(asset_of(lambda _: slow_rows()))

    assert ended.is_set()
    table = lake.table("orders")
    assert len(commits(table)) == 1
    assert not list(table.timeline.pending)
    assert not [thread for thread in threading.enumerate() if thread.name == "orders"]


def test_two_runs_cannot_consume_the_same_changes(run, lake, orders, asset_of):
    @hudi_asset(record_key="id")
    def copy(orders: Changes):
        return orders.to_arrow()

    run(asset_of(orders(1)))
    stale = changes_since("orders", lake.table("orders"), None, Reader("copy"))
    run(copy)
    with pytest.raises(RunEndedError, match="consumed"):
        refuse_if_consumed(stale, lake.table("copy"))
