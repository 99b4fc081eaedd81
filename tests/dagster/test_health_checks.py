"""Health checks of tables: each one passes for a healthy table, fails with its figures, and a table that cannot be read fails its checks alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from support.dagster_services import filled, orders_asset
from support.planned_services import expire

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import HudiCheck, build_hudi_checks, build_hudi_timeline_sensor, hudi_external_asset

pytestmark = pytest.mark.row("U12")
ALL = [
    "timeline_readable",
    "no_stuck_instants",
    "compaction_lag",
    "data_freshness",
    "commit_retries",
    "events_have_commits",
]


def checked(lake, instance, asset, checks, now=None):
    """The result of each check, by name."""
    arguments = {} if now is None else {"clock": lambda: now}
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[asset], resources={"lake": lake}), build_hudi_checks([asset], checks, **arguments)
    )
    selection = (
        dg.AssetSelection.checks_for_assets(asset)
        if isinstance(asset, dg.AssetsDefinition)
        else dg.AssetSelection.all_asset_checks()
    )
    job = dg.define_asset_job("examine", selection=selection)
    result = (
        dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
        .resolve_job_def("examine")
        .execute_in_process(instance=instance)
    )
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


def test_all_checks_pass_for_a_healthy_table(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 2)
    found = checked(lake, instance, asset, ALL)
    assert {name: each.passed for name, each in found.items()} == dict.fromkeys(ALL, True)


def test_what_a_dead_writer_left_and_a_plan_that_waits_turn_a_check_red_with_the_repair(lake, instance):
    asset = orders_asset(None)
    table = filled(lake, asset, 2)
    plan = table.compaction.schedule()
    assert checked(lake, instance, asset, ["no_stuck_instants"])["no_stuck_instants"].passed
    soon = datetime.now(UTC) + timedelta(hours=2)
    late = checked(lake, instance, asset, ["no_stuck_instants"], soon)["no_stuck_instants"]
    assert not late.passed
    assert plan.requested_time in late.description and "hudi__services" in late.description

    table.compaction.execute()
    dead = table.begin("upsert")
    dead.write(table.scan(columns=["id", "amount", "ts"]).to_arrow())
    expire(table, dead.instant)
    found = checked(lake, instance, asset, ["no_stuck_instants"])["no_stuck_instants"]
    assert not found.passed and f"roll back {dead.instant}" in found.description
    assert found.metadata["hudi/failed_writes"].value == 1


def test_a_compaction_that_is_late_and_old_rows_turn_their_checks_red(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 4)
    tomorrow = datetime.now(UTC) + timedelta(hours=30)
    checks = [HudiCheck("compaction_lag", limit=3, severity=dg.AssetCheckSeverity.WARN), "data_freshness"]
    found = checked(lake, instance, asset, checks, tomorrow)
    lag, age = found["compaction_lag"], found["data_freshness"]
    assert (lag.passed, lag.severity, lag.metadata["hudi/delta_commits_since_compaction"].value) == (
        False,
        dg.AssetCheckSeverity.WARN,
        4,
    )
    assert lag.metadata["hudi/log_to_base_ratio"].value > 0
    assert not age.passed and age.description.startswith("The newest rows are 30.0 hours old, limit 24")


def test_log_compactions_are_no_lag(lake, instance):
    asset = orders_asset(None)
    table = filled(lake, asset, 4)
    settings = {"hoodie.log.compaction.blocks.threshold": 2}
    assert hudi.open_table(table.location, options=settings).log_compaction.run()
    lag = checked(lake, instance, asset, [HudiCheck("compaction_lag", limit=4)])["compaction_lag"]
    assert (lag.passed, lag.metadata["hudi/delta_commits_since_compaction"].value) == (True, 4)


@pytest.mark.row("T15")
def test_retry_count_over_5_raises_asset_check(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 1)
    for instant, retries in (("20260101000000000", 5), ("20260101000000001", 0)):
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                "orders", metadata={"hudi/conflict_retries": retries}, tags={"hudi/instant": instant}
            )
        )
    assert checked(lake, instance, asset, ["commit_retries"])["commit_retries"].passed
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            "orders", metadata={"hudi/conflict_retries": 6}, tags={"hudi/instant": "20260101000000002"}
        )
    )
    found = checked(lake, instance, asset, ["commit_retries"])["commit_retries"]
    assert not found.passed and "20260101000000002 was planned again 6 times" in found.description


def test_a_table_that_cannot_be_read_fails_its_checks_with_the_error_and_the_hint(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 1)
    Path(lake.location("orders"), ".hoodie/hoodie.properties").write_text("hoodie.table.version=three")
    for each in checked(lake, instance, asset, ALL).values():
        assert not each.passed and each.metadata["hudi/error"].value
        assert each.metadata["hudi/hint"].value == "Restore the file from a copy; nothing was changed."
    missing = hudi_external_asset("web/events")
    (found,) = checked(lake, instance, missing, ["timeline_readable"]).values()
    assert not found.passed and found.metadata["hudi/error"].value == "TableNotFoundError"


def test_checks_run_on_a_schedule_if_they_are_given_one(lake, instance):
    assets = [orders_asset(None, key=name) for name in ("one", "two")]
    for asset in assets:
        filled(lake, asset, 1)
    defs = build_hudi_checks(assets, ["data_freshness", "commit_retries"], cron="*/15 * * * *")
    (schedule,) = defs.schedules
    assert (schedule.name, schedule.cron_schedule) == ("hudi__checks", "*/15 * * * *")
    defs = dg.Definitions.merge(dg.Definitions(assets=assets, resources={"lake": lake}), defs)
    job = defs.resolve_job_def("hudi__checks")
    assert job.executor_def.name == "in_process", "a process for each table costs more than the checks"
    said = "Health checks of 2 tables, one after the other in one process: data_freshness, commit_retries."
    assert job.description == schedule.description == said
    found = job.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert {(each.asset_key.to_user_string(), each.check_name) for each in found if each.passed} == {
        (table, name) for table in ("one", "two") for name in ("data_freshness", "commit_retries")
    }


@pytest.mark.parametrize("rules", [[], [hudi.not_null("id")]])
def test_a_run_reports_in_its_own_step_that_its_timeline_can_be_read(lake, instance, rules):
    asset = orders_asset(None, pre_commit=rules)
    watched = dg.Definitions.merge(
        dg.Definitions(assets=[asset], resources={"lake": lake}), build_hudi_timeline_sensor(lake, [asset])
    )
    done = watched.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    assert [event.step_key for event in done.all_events if event.is_step_start] == ["orders"]
    found = {each.check_name: each for each in done.get_asset_check_evaluations()}
    commit = lake.table("orders").timeline.commits[-1].requested_time
    assert found["timeline_readable"].description == f"The run has read it, and published {commit}."


def test_of_a_table_of_another_writer_the_sensor_brings_the_check(lake):
    defs = build_hudi_timeline_sensor(lake, [hudi_external_asset("web/events"), orders_asset(None)])
    assert [key.asset_key.path for each in defs.asset_checks for key in each.check_keys] == [["web", "events"]]


def test_a_check_that_every_asset_has_alone_is_refused():
    with pytest.raises(InvalidOptionError, match="only timeline_readable, which the step of each asset reports"):
        build_hudi_checks([orders_asset(None)], ["timeline_readable"])


@pytest.mark.parametrize("given", [{"severity": dg.AssetCheckSeverity.WARN}, {"blocking": True}, {"limit": 3}])
def test_a_check_that_the_step_of_the_asset_reports_takes_no_attributes(given):
    checks = [HudiCheck("timeline_readable", **given), "data_freshness"]
    with pytest.raises(InvalidOptionError, match="the asset orders cannot have a limit, a severity or blocking"):
        build_hudi_checks([orders_asset(None)], checks)
    found = build_hudi_checks([hudi_external_asset("orders")], checks)
    assert {key.name for each in found.asset_checks for key in each.check_keys} == {
        "timeline_readable",
        "data_freshness",
    }


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        (["no_such"], "'no_such', which does not exist"),
        ([], "has no check"),
        (["data_freshness"] * 2, "'data_freshness' twice"),
    ],
)
def test_checks_that_cannot_work_fail_at_load(checks, message):
    with pytest.raises(InvalidOptionError, match=message):
        build_hudi_checks([orders_asset(None)], checks)


def test_an_event_without_its_commit_turns_a_check_red(run, lake, instance):
    asset = orders_asset(None, table_type="copy_on_write")
    run(asset)
    first = lake.table("orders").timeline.commits[-1]
    run(asset)
    table = lake.table("orders")
    undone = table.timeline.commits[-1]
    name = "events_have_commits"
    healthy = checked(lake, instance, asset, [name])[name]
    assert (healthy.passed, healthy.metadata["hudi/commits_examined"].value) == (True, 2)

    table.restore(first)
    red = checked(lake, instance, asset, [name])[name]
    assert not red.passed
    assert undone.completion_time in red.description
    assert first.completion_time not in red.description
    assert "materialize the asset again" in red.description
    next_week = datetime.now(UTC) + timedelta(days=7)
    assert checked(lake, instance, asset, [name], next_week)[name].passed, "only the events of some hours count"


def test_only_the_newest_20_commits_count_for_the_retries(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 1)

    def reported(number, retries):
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                "orders", metadata={"hudi/conflict_retries": retries}, tags={"hudi/instant": f"202601010000000{number}"}
            )
        )

    reported(10, retries=6)
    for number in range(11, 30):
        reported(number, retries=0)
    assert not checked(lake, instance, asset, ["commit_retries"])["commit_retries"].passed
    reported(30, retries=0)
    assert checked(lake, instance, asset, ["commit_retries"])["commit_retries"].passed


def test_of_many_events_without_commits_five_are_named_and_those_of_a_day_count(lake, instance):
    asset, name = orders_asset(None), "events_have_commits"
    filled(lake, asset, 1)
    gone = [f"2025010100000000{number}" for number in range(6)]
    for count, time in enumerate(gone, 1):
        instance.report_runless_asset_event(dg.AssetMaterialization("orders", tags={"hudi/completion": time}))
        if count == 5:
            five = checked(lake, instance, asset, [name])[name].description
    six = checked(lake, instance, asset, [name])[name].description
    assert f"completed at {', '.join(gone[:5])}. " in five
    assert f"completed at {', '.join(gone[:5])} .... " in six
    tomorrow = datetime.now(UTC) + timedelta(hours=24, minutes=30)
    assert checked(lake, instance, asset, [name], tomorrow)[name].passed


def test_a_table_without_log_files_has_no_ratio_of_them(lake, instance):
    asset = orders_asset(None, table_type="copy_on_write")
    filled(lake, asset, 1)
    found = checked(lake, instance, asset, ["compaction_lag"])["compaction_lag"].metadata
    assert found["hudi/log_bytes"].value == 0
    assert "hudi/log_to_base_ratio" not in found


@pytest.mark.parametrize(
    ("kind", "newest"), [("timestamp", datetime.now(UTC).replace(tzinfo=None)), ("date", datetime.now(UTC).date())]
)
def test_the_newest_time_in_a_column_may_be_the_freshness(lake, instance, kind, newest):
    times = [newest, newest - timedelta(days=9), newest.replace(year=9999)]
    column = pa.array(times, pa.timestamp("us") if kind == "timestamp" else pa.date32())
    rows = pa.table({"id": [1, 2, 3], "at": column})
    hudi.create_table(lake.location("orders"), rows.schema, "id").upsert(rows)
    asset = orders_asset(None, table_type="copy_on_write")

    def seen(now, **arguments):
        check = HudiCheck("data_freshness", limit=48, **arguments)
        return checked(lake, instance, asset, [check], now)["data_freshness"]

    now = datetime.now(UTC)
    fresh = seen(now, column="at")
    assert fresh.passed and fresh.description.startswith(f"The newest at is {newest}"), fresh.description
    later = seen(now + timedelta(days=4), column="at")
    assert not later.passed and later.description == "No row has a at of the last 48 hours."
    assert "has the type int64, which is no time" in seen(now, column="id").description
    assert "gone does not exist" in seen(now, column="gone").description


def test_only_freshness_looks_at_a_column():
    with pytest.raises(InvalidOptionError, match="Only data_freshness looks at a column"):
        build_hudi_checks([orders_asset(None)], [HudiCheck("compaction_lag", column="ts")])
