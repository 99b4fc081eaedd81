"""The sensor and the schedules of services start a run only if there is something to do, and otherwise say why."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import psutil
import pytest
from support.dagster_services import SERVICES, definitions, do, filled, only, orders_asset, tick
from support.golden import OTHER_VERSIONS, unpack

from pyhudi_dagster import (
    Every,
    Keep,
    OnCron,
    PerTableJob,
    ServicePolicy,
    Services,
    SharedSession,
    hudi_external_asset,
)

pytestmark = pytest.mark.row("U11")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def asked(result):
    """The services that a tick asks for, by job; of the job for many tables by table."""
    return {
        request.job_name: next(
            op["config"].get("services") or op["config"]["tables"] for op in request.run_config["ops"].values()
        )
        for request in result.run_requests
    }


def test_a_run_starts_only_when_a_service_is_due_and_until_then_the_tick_gives_the_reason(lake, instance, clock):
    asset = orders_asset(Services(compaction=Every(commits=3)))
    defs = definitions(lake, asset, clock=clock)
    assert tick(defs, instance, lake).skip_message == "Nothing to do. orders: the table does not exist yet"

    filled(lake, asset, 2)
    waiting = tick(defs, instance, lake)
    assert not waiting.run_requests
    assert "compaction: 2 of 3 delta commits" in waiting.skip_message

    filled(lake, asset, 1)
    assert asked(tick(defs, instance, lake, waiting.cursor)) == {"hudi__orders__services": {"compaction": "due"}}


def test_the_tick_and_its_cursor_say_which_tables_are_nearest_to_a_service(lake, instance):
    commits = {"first": 1, "second": 4, "third": 2}
    assets = [orders_asset(Services(compaction=Every(commits=5)), key=name) for name in commits]
    for asset, count in zip(assets, commits.values(), strict=True):
        filled(lake, asset, count)
    result = tick(definitions(lake, *assets), instance, lake)
    said = "Nothing to do. Nearest: second, compaction: 4 of 5 delta commits; third, compaction: 2 of 5 delta commits. first: "
    assert result.skip_message.startswith(said)
    assert {name: look["progress"] for name, look in json.loads(result.cursor)["t"].items()} == {
        "first": 0.0,  # a table without log files is not on its way
        "second": 0.8,
        "third": 0.4,
    }
    again = tick(definitions(lake, *assets), instance, lake, result.cursor)
    assert again.skip_message.startswith(said), "from the cursor, without a new examination"


def test_a_plan_that_another_program_made_is_executed_although_no_trigger_names_its_service(lake, instance):
    asset = orders_asset(None)
    table = filled(lake, asset, 2)
    assert not tick(definitions(lake, asset), instance, lake).run_requests
    table.compaction.schedule()
    assert asked(tick(definitions(lake, asset), instance, lake)) == {
        "hudi__services": {"orders": {"compaction": "planned"}}
    }


def test_while_a_run_of_the_tables_services_waits_or_works_no_other_is_started(lake, instance):
    asset = orders_asset(SERVICES)
    filled(lake, asset, 3)
    defs = definitions(lake, asset)
    instance.create_run_for_job(
        defs.resolve_job_def("hudi__orders__services"),
        status=dg.DagsterRunStatus.STARTED,
        tags={"hudi/table": "orders", "hudi/services": "table"},
    )
    assert "a run of its services is under way" in tick(defs, instance, lake).skip_message


def test_while_a_run_of_the_tables_services_waits_or_works_a_schedule_starts_no_other(lake, kept):
    asset = orders_asset(Services(clustering=OnCron("0 3 * * *")))
    filled(lake, asset, 3)
    defs = definitions(lake, asset)
    tags = {"hudi/table": "orders", "hudi/services": "table"}
    job = defs.resolve_job_def("hudi__orders__services")
    kept.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
    assert scheduled(defs, kept, lake).skip_message == "Nothing to do. orders: a run of its services waits or works"


@pytest.mark.slow
def test_a_run_for_many_tables_counts_for_each_of_its_tables(lake, instance):
    asset = orders_asset(SERVICES)
    filled(lake, asset, 3)
    defs = definitions(lake, asset)
    config = {"ops": {"tables": {"config": {"tables": {"orders": {"compaction": "due"}}}}}}
    instance.create_run_for_job(
        defs.resolve_job_def("hudi__services"),
        status=dg.DagsterRunStatus.STARTING,
        run_config=config,
        tags={"hudi/services": "batch"},
    )
    assert "a run of its services is under way" in tick(defs, instance, lake).skip_message


def test_what_a_run_did_not_end_is_asked_for_again_later_and_not_in_every_tick(lake, instance, clock):
    asset = orders_asset(SERVICES)
    filled(lake, asset, 3)
    defs = definitions(lake, asset, clock=clock, policy=ServicePolicy(again_minutes=10))
    first = tick(defs, instance, lake)
    assert first.run_requests
    second = tick(defs, instance, lake, first.cursor)
    assert second.skip_message == "Nothing to do. orders: asked for compaction at 12:00 UTC; nothing is new since"
    clock.now += timedelta(minutes=10)
    assert tick(defs, instance, lake, second.cursor).run_requests


@pytest.mark.parametrize(
    "cursor",
    [
        '{"v": 2, "t": {"orders": {"other": 1}}}',
        *(pytest.param(text, marks=pytest.mark.slow) for text in ("no JSON", "[]", '{"v": 99, "t": {}}')),
    ],
)
def test_a_cursor_that_cannot_be_read_costs_an_examination_and_nothing_else(lake, instance, cursor):
    asset = orders_asset(SERVICES)
    filled(lake, asset, 3)
    assert tick(definitions(lake, asset), instance, lake, cursor).run_requests


def test_in_quiet_hours_neither_sensor_nor_schedule_starts_anything(lake, instance, clock):
    asset = orders_asset(Services(compaction=Every(commits=2), clustering=OnCron("0 3 * * *")))
    filled(lake, asset, 3)
    defs = definitions(lake, asset, clock=clock, policy=ServicePolicy(quiet_hours="11:00-13:00"))
    assert tick(defs, instance, lake).skip_message == "The quiet hours 11:00-13:00 UTC are on."
    assert scheduled(defs, instance, lake).skip_message == "The quiet hours 11:00-13:00 UTC are on."
    clock.now += timedelta(hours=1)
    assert tick(defs, instance, lake).run_requests


@pytest.mark.parametrize(
    ("hours", "zone", "quiet"),
    [
        ("11:59-12:01", "UTC", True),
        ("12:00-13:00", "UTC", True),
        ("11:00-12:00", "UTC", False),
        ("22:00-06:00", "UTC", False),
        ("22:00-13:00", "UTC", True),
        (["01:00-02:00", "11:30-12:30"], "UTC", True),
        ("13:00-14:00", "Europe/Berlin", True),
    ],
)
def test_quiet_hours_begin_inclusively_end_exclusively_and_may_pass_midnight(hours, zone, quiet):
    assert bool(ServicePolicy(quiet_hours=hours, timezone=zone).quiet_at(NOON)) is quiet


def scheduled(defs, instance, lake, name="hudi__services__0_3_x_x_x"):
    with dg.build_schedule_context(instance=instance, resources={"lake": lake}) as context:
        return defs.resolve_schedule_def(name).evaluate_tick(context)


def test_a_schedule_starts_its_service_only_if_there_is_something_to_do(lake, kept):
    asset = orders_asset(Services(clustering=OnCron("0 3 * * *", by="id", timezone="Europe/Berlin")))
    defs = definitions(lake, asset)
    name = "hudi__services__0_3_x_x_x_Europe_Berlin"
    schedule = defs.resolve_schedule_def(name)
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "Europe/Berlin")
    assert scheduled(defs, kept, lake, name).skip_message == "Nothing to do. orders: the table does not exist yet"

    table = filled(lake, asset, 2)
    (request,) = scheduled(defs, kept, lake, name).run_requests
    assert request.run_config["ops"]["tables"]["config"]["tables"] == {"orders": {"clustering": "always"}}
    table.clustering.run()
    assert scheduled(defs, kept, lake, name).skip_message.startswith("Nothing to do. orders: Nothing to cluster")


def test_a_service_on_a_schedule_is_not_started_by_the_sensor(lake, instance):
    asset = orders_asset(Services(clustering=OnCron("0 3 * * *", by="id")))
    filled(lake, asset, 5)
    assert not tick(definitions(lake, asset), instance, lake).run_requests


def test_a_shared_session_looks_after_many_tables_in_one_run_and_a_batch_has_a_limit(lake, instance):
    assets = [orders_asset(SERVICES, key=name) for name in ("a", "b", "c")]
    for asset in assets:
        filled(lake, asset, 3)
    requests = tick(definitions(lake, *assets, runner=SharedSession(batch=2)), instance, lake).run_requests
    assert {request.job_name for request in requests} == {"hudi__services"}
    batches = [request.run_config["ops"]["tables"]["config"]["tables"] for request in requests]
    assert [sorted(batch) for batch in batches] == [["a", "b"], ["c"]]
    assert batches[0]["a"] == {"compaction": "due"}

    own = tick(definitions(lake, *assets, runner=PerTableJob()), instance, lake).run_requests
    assert [request.job_name for request in own] == [f"hudi__{name}__services" for name in ("a", "b", "c")]


def test_a_table_that_cannot_be_read_does_not_keep_the_sensor_from_the_others(lake, instance):
    broken, well = orders_asset(SERVICES, key="broken"), orders_asset(SERVICES, key="well")
    filled(lake, broken, 1), filled(lake, well, 3)
    Path(lake.location("broken"), ".hoodie/hoodie.properties").write_text("hoodie.table.version=three")
    result = tick(definitions(lake, broken, well), instance, lake)
    assert asked(result) == {"hudi__well__services": {"compaction": "due"}}

    alone = tick(definitions(lake, broken), instance, lake)
    assert alone.skip_message.startswith("Nothing to do. broken: it cannot be examined:")


@pytest.mark.slow
def test_a_tick_without_time_continues_with_the_tables_that_waited_longest(lake, instance, monkeypatch):
    from pyhudi_dagster.services import service_sensor

    assets = [orders_asset(SERVICES, key=name) for name in ("first", "second")]
    for asset in assets:
        filled(lake, asset, 1)
    defs = definitions(lake, *assets)
    moments = iter([0.0, 1.0, 99.0])
    with monkeypatch.context() as patched:
        patched.setattr(service_sensor.time, "monotonic", lambda: next(moments, 99.0))
        short = tick(defs, instance, lake)
    assert "second: the tick had no time left" in short.skip_message
    assert json.loads(short.cursor)["t"]["second"]["at"] == 0
    filled(lake, assets[1], 2)
    assert asked(tick(defs, instance, lake, short.cursor)) == {"hudi__second__services": {"compaction": "due"}}


def test_what_dead_writers_left_is_rolled_back_although_no_asset_names_that_service(lake, instance):
    from support.planned_services import expire

    asset = orders_asset(None)
    table = filled(lake, asset, 1)
    dead = table.begin("upsert")
    dead.write(table.scan(columns=["id", "amount", "ts"]).to_arrow())
    expire(table, dead.instant)
    assert asked(tick(definitions(lake, asset), instance, lake)) == {
        "hudi__services": {"orders": {"failed_writes": "due"}}
    }


def test_a_tick_starts_no_jvm(lake, instance):
    asset = orders_asset(Services(compaction=Every(commits=2), cleaning=Keep(commits=1), clustering=Every(commits=1)))
    filled(lake, asset, 3)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert tick(definitions(lake, asset, runner=SharedSession(spark=True)), instance, lake).run_requests
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_a_table_that_cannot_be_examined_does_not_come_first_in_every_tick(lake, instance, clock):
    asset = orders_asset()
    filled(lake, asset, 1)
    Path(lake.location("orders"), ".hoodie/hoodie.properties").write_text("broken")
    result = tick(definitions(lake, asset, clock=clock), instance, lake)
    assert json.loads(result.cursor)["t"]["orders"]["at"] == clock().timestamp()


def test_a_restore_that_somebody_planned_is_executed_by_nobody_else(lake, instance, clock):
    asset = orders_asset()
    table = filled(lake, asset, 2)
    table.restore.schedule(table.timeline.commits.instants[0])
    assert table.services["restore"].waiting()
    assert asked(tick(definitions(lake, asset, clock=clock), instance, lake)) == {}
    config = only("restore", "always")
    done = do(definitions(lake, asset, clock=clock), instance, "hudi__orders__services", run_config=config)
    assert "is pending" in done["restore"]["skipped_because"]
    assert table.services["restore"].waiting()


def test_a_table_of_a_version_that_is_only_read_is_skipped_with_its_reason_by_jobs_sensor_and_schedules(lake, kept):
    why = "the table has version 6, which this release reads and does not write"
    location = Path(lake.location("old"))
    location.parent.mkdir(parents=True)
    unpack("hudi-0.15.0/mor_avro", location, OTHER_VERSIONS)
    services = Services(compaction=Every(commits=1), clustering=OnCron("0 3 * * *"))
    old = hudi_external_asset("old", table_type="merge_on_read", services=services)
    defs = definitions(lake, old)
    assert why in tick(defs, kept, lake).skip_message
    assert why in scheduled(defs, kept, lake).skip_message
    for job in ("hudi__old__services", "hudi__services"):
        found = do(defs, kept, job)
        assert found
    assert {each["skipped_because"] for each in do(defs, kept, "hudi__old__services").values()} == {why}


def test_a_service_that_is_refused_is_started_and_its_run_fails_with_what_to_do(lake, kept):
    location = Path(lake.location("indexed"))
    location.parent.mkdir(parents=True)
    unpack("hudi-1.0.2/mor_indexed", location)
    services = Services(compaction=Every(commits=1), clustering=OnCron("0 3 * * *"))
    asset = hudi_external_asset("indexed", table_type="merge_on_read", services=services)
    defs = definitions(lake, asset)
    assert asked(tick(defs, kept, lake))["hudi__indexed__services"]["compaction"] == "due"
    assert scheduled(defs, kept, lake).run_requests
    job = defs.resolve_job_def("hudi__indexed__services")
    result = job.execute_in_process(instance=kept, raise_on_error=False, run_config=only("compaction"))
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert failure.step_key == "run[compaction]"
    assert "set pyhudi.expression.index.timezone=UTC" in str(failure.event_specific_data.error)


def test_a_tick_names_what_another_code_location_defines_otherwise(lake, instance):
    theirs = orders_asset(Services(compaction=Every(commits=5)))
    filled(lake, theirs, 1)
    ours = orders_asset(Services(compaction=Every(commits=5)), record_key=["id", "amount"], ordering="amount")
    defs = definitions(lake, ours)
    first = tick(defs, instance, lake)
    said = "runs of this one refuse to write it. record key: the asset has id, amount, the table has id; ordering: the asset has amount, the table has ts"
    assert (
        f"orders: The table was made with other settings, perhaps by another code location, so {said}"
        in first.skip_message
    )
    assert "compaction: " in first.skip_message, "its services go on"
    again = tick(defs, instance, lake, first.cursor)
    assert said in again.skip_message, "an idle tick says it, too"
    assert said not in tick(definitions(lake, theirs), instance, lake).skip_message
