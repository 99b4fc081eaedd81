"""``HudiAutomation.on_commit()``: what it requests, evaluated by Dagster over an instance with real commits."""

import dagster as dg
import pyarrow as pa
import pytest

from definitions import defs as demo
from pyhudi_dagster import Changes, HudiAutomation, HudiPartitions, HudiWrite, hudi_asset

YEAR = {"start": "2026-01-01", "end_date": "2026-11-01"}
KEY, ORDERS = dg.AssetKey("totals"), dg.AssetKey("orders")


class Ticks:
    """Automation ticks over one instance, each from the cursor of the one before."""

    def __init__(self, instance, lake, assets):
        self.instance, self.cursor = instance, None
        self.defs = dg.Definitions(assets=assets, resources={"lake": lake})
        self()  # the first evaluation only takes the starting point

    def __call__(self):
        """The partition keys that this tick requests for `totals`; None stands for an asset without partitions."""
        result = dg.evaluate_automation_conditions(self.defs, self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        return sorted(result.get_requested_partitions(KEY), key=str)


@pytest.fixture
def instance():
    return dg.DagsterInstance.ephemeral()


@pytest.fixture
def upstream(asset_of, orders):
    """``orders`` by day: a run writes a row of its own day, and of each further day that its tag names (late data)."""

    def rows(context):
        days = [context.partition_key, *filter(None, context.run.tags.get("late", "").split(","))]
        return pa.concat_tables(orders(index, day=day, ts=1) for index, day in enumerate(days))

    return asset_of(rows, partitions=HudiPartitions.daily("day", **YEAR), on_foreign_rows="allow")


def totals(**arguments):
    arguments = {"record_key": "id", "automation_condition": HudiAutomation.on_commit(), **arguments}

    @hudi_asset(deps=["orders"], **arguments)
    def totals(context: dg.AssetExecutionContext):
        days = context.partition_keys if context.has_partition_key else ["-"]
        return pa.table({"id": list(range(len(days))), "day": list(days)})

    return totals


@pytest.fixture
def daily_totals():
    return totals(partitions=HudiPartitions.daily("day", **YEAR))


def test_a_commit_requests_its_partition_alone_although_the_others_are_missing(
    run, lake, instance, upstream, daily_totals
):
    tick = Ticks(instance, lake, [upstream, daily_totals])
    run(upstream, partition_key="2026-01-02")
    assert tick() == ["2026-01-02"]
    assert tick() == []


def test_an_asset_without_partitions_runs_although_most_upstream_partitions_are_missing(run, lake, instance, upstream):
    tick = Ticks(instance, lake, [upstream, totals()])
    run(upstream, partition_key="2026-01-02")
    assert tick() == [None]


def test_eager_does_not_request_it_which_is_why_on_commit_exists(run, lake, instance, upstream):
    tick = Ticks(instance, lake, [upstream, totals(automation_condition=dg.AutomationCondition.eager())])
    run(upstream, partition_key="2026-01-02")
    assert tick() == []


def test_late_rows_request_the_old_partition_as_well(run, lake, instance, upstream, daily_totals):
    run(upstream, partition_key="2026-01-01")
    tick = Ticks(instance, lake, [upstream, daily_totals])
    run(upstream, partition_key="2026-01-05", tags={"late": "2026-01-01"})
    assert tick() == ["2026-01-01", "2026-01-05"]
    assert tick() == []


def test_late_rows_of_a_partition_that_never_ran_wait_for_its_run(run, lake, instance, upstream, daily_totals):
    tick = Ticks(instance, lake, [upstream, daily_totals])
    run(upstream, partition_key="2026-01-05", tags={"late": "2026-01-01"})
    assert tick() == ["2026-01-05"]
    run(upstream, partition_key="2026-01-01")
    assert tick() == ["2026-01-01"]


def test_partitions_that_the_asset_does_not_have_are_not_requested(run, lake, instance, upstream):
    later = totals(partitions=HudiPartitions.daily("day", start="2026-03-01", end_date="2026-04-01"))
    tick = Ticks(instance, lake, [upstream, later])
    for day in ("2026-02-28", "2026-03-01", "2026-04-01"):
        run(upstream, partition_key=day)
    assert tick() == ["2026-03-01"]


def test_a_run_without_a_commit_requests_nothing(run, lake, instance, upstream, daily_totals, asset_of):
    run(upstream, partition_key="2026-01-02")
    tick = Ticks(instance, lake, [upstream, daily_totals])
    idle = asset_of(None, partitions=HudiPartitions.daily("day", **YEAR))
    assert run(idle, partition_key="2026-01-02").success
    assert tick() == []


def test_a_second_event_of_the_same_commit_requests_nothing(run, lake, instance, upstream, daily_totals):
    event = run(upstream, partition_key="2026-01-02").asset_materializations_for_node("orders")[0]
    tick = Ticks(instance, lake, [upstream, daily_totals])
    instance.report_runless_asset_event(
        dg.AssetMaterialization("orders", partition="2026-01-02", tags=dict(event.tags), metadata=event.metadata)
    )
    assert tick() == []


def test_a_commit_between_the_request_and_the_next_tick_is_not_forgotten(run, lake, instance, upstream, daily_totals):
    tick = Ticks(instance, lake, [upstream, daily_totals])
    run(upstream, partition_key="2026-01-02")
    assert tick() == ["2026-01-02"]
    run(upstream, partition_key="2026-01-02")
    assert tick() == ["2026-01-02"]
    assert tick() == []


def test_a_commit_while_the_asset_runs_is_not_forgotten(run, lake, instance, upstream, daily_totals):
    tick = Ticks(instance, lake, [upstream, daily_totals])
    run(upstream, partition_key="2026-01-02")
    tick()
    tick()
    run(upstream, partition_key="2026-01-02")  # the requested run has read the table before, and ends after
    run(daily_totals, partition_key="2026-01-02")
    assert tick() == ["2026-01-02"]
    assert tick() == []


def test_a_run_of_both_assets_is_not_followed_by_another(run, lake, instance, upstream, daily_totals):
    tick = Ticks(instance, lake, [upstream, daily_totals])
    job = dg.Definitions(
        assets=[upstream, daily_totals], resources={"lake": lake}, jobs=[dg.define_asset_job("both", "*")]
    ).resolve_job_def("both")
    keys = [ORDERS, KEY]  # the UI names them in the run, too
    assert job.execute_in_process(instance=instance, partition_key="2026-01-02", asset_selection=keys).success
    assert tick() == []


def test_what_a_late_commit_changed_is_in_the_next_incremental_run(run, lake, instance, upstream):
    @hudi_asset(record_key="day", automation_condition=HudiAutomation.on_commit())
    def totals(orders: Changes) -> pa.Table:
        return orders.to_arrow().group_by("day").aggregate([("amount", "sum")])

    run(upstream, partition_key="2026-01-01")
    tick = Ticks(instance, lake, [upstream, totals])
    run(upstream, partition_key="2026-01-05", tags={"late": "2026-01-01"})
    assert tick() == [None]
    run(totals)
    assert tick() == []
    assert set(lake.table("totals").scan(columns=["day"]).to_arrow()["day"].to_pylist()) == {"2026-01-01", "2026-01-05"}


def test_deleted_rows_are_a_commit_too(run, lake, instance, upstream, daily_totals, asset_of):
    run(upstream, partition_key="2026-01-02")
    tick = Ticks(instance, lake, [upstream, daily_totals])
    gone = asset_of(
        lambda _: HudiWrite(None, operation="delete_partitions"), partitions=HudiPartitions.daily("day", **YEAR)
    )
    run(gone, partition_key="2026-01-02")
    assert tick() == ["2026-01-02"]


@pytest.mark.parametrize(("waits", "requested"), [(True, []), (False, [None])])
def test_it_waits_for_a_running_upstream_asset_unless_told_not_to(run, lake, instance, upstream, waits, requested):
    reader = totals(automation_condition=HudiAutomation.on_commit(wait_for_upstream=waits))
    tick = Ticks(instance, lake, [upstream, reader])
    run(upstream, partition_key="2026-01-01")
    job = dg.Definitions(
        assets=[upstream], resources={"lake": lake}, jobs=[dg.define_asset_job("one", "orders")]
    ).resolve_job_def("one")
    busy = instance.create_run_for_job(
        job, tags={"dagster/partition": "2026-01-02"}, status=dg.DagsterRunStatus.STARTED, asset_selection={ORDERS}
    )
    assert tick() == requested
    instance.report_run_canceled(busy)
    assert tick() == ([None] if waits else [])


def test_the_demo_runs_daily_delays_after_a_single_day_of_flights(instance):
    (sensor,) = (each for each in demo.sensors if each.name == "automation")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    started = dg.evaluate_automation_conditions(demo, instance)
    instance.report_runless_asset_event(
        dg.AssetMaterialization("flights", partition="2013-01-01", tags={"dagster/data_version": "20130101"})
    )
    result = dg.evaluate_automation_conditions(demo, instance, cursor=started.cursor)
    assert result.get_requested_partitions(dg.AssetKey("daily_delays")) == {None}
    assert result.get_requested_partitions(dg.AssetKey("flight_conditions")) == {None}
    assert result.total_requested == 2
