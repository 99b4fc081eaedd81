"""The pitfalls of Dagster and of other integrations that were found by experiment, each with the test that we do not fall into it.

`TESTED` names the tests of other files; the tests below are those of pitfalls that no other file is about.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from dagster._daemon.sensor import MIN_INTERVAL_LOOP_TIME
from dagster._grpc.client import DEFAULT_SENSOR_GRPC_TIMEOUT
from support.dagster_services import definitions, filled, orders_asset, tick

from pyhudi_dagster import (
    HudiPartitions,
    ServicePolicy,
    build_hudi_checks,
    build_hudi_timeline_sensor,
    hudi_asset,
    hudi_external_asset,
)
from pyhudi_dagster.command.command_line import main
from pyhudi_dagster.reporting.checks import utc_now
from pyhudi_dagster.services.service_policy import TICK_SECONDS

ROOT = Path(__file__).resolve().parents[2]
DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-01-11")
TESTED = {
    "PySpark replaces the handler of SIGINT, so Terminate leaves the Spark job running": (
        "dagster/test_spark.py::test_an_interrupt_cancels_the_steps_own_spark_jobs_and_rolls_back",
        "dagster/test_spark_start.py::test_an_interrupt_while_spark_starts_ends_in_seconds_and_the_next_run_works",
    ),
    "A cancelled run is not over: its process goes on": (
        "dagster/test_retry_and_cancel.py::test_nothing_becomes_visible_once_the_run_is_cancelled",
        "dagster/test_abandoned_work.py::test_an_asset_that_goes_on_after_the_interrupt_begins_no_commit_and_creates_no_table",
    ),
    "A cursor advances although the runs that it stands for never started": (
        "dagster/test_service_sensor.py::test_what_a_run_did_not_end_is_asked_for_again_later_and_not_in_every_tick",
        "dagster/test_incremental.py::test_the_position_is_found_after_archival",
    ),
    "Events of a tick are stored before its cursor": (
        "dagster/test_timeline_sensor.py::test_events_that_were_stored_before_the_cursor_was_are_not_stored_twice",
    ),
    "Order by time loses commits": ("dagster/test_timeline_sensor.py::test_partition_sensor_watermark_skips_nothing",),
    "What starts downstream assets, and what does not": (
        "dagster/test_automation.py::test_eager_does_not_request_it_which_is_why_on_commit_exists",
        "dagster/test_automation.py::test_a_second_event_of_the_same_commit_requests_nothing",
        "dagster/test_timeline_sensor.py::test_a_table_service_is_an_observation_which_starts_nothing_downstream",
    ),
    "A blocking check after the commit leaves the bad rows visible": (
        "dagster/test_pre_commit_checks.py::test_a_refused_commit_leaves_a_failed_check_no_event_and_no_row",
    ),
    "The error of a YAML schema names a block, not the attribute": (
        "dagster/test_lake_component.py::test_what_cannot_work_is_refused_at_load_with_what_to_do",
    ),
    "Listing components imports every package": (
        "dagster/test_control_plane.py::test_importing_the_package_imports_neither_pyspark_nor_pyarrow",
        "dagster/test_loading.py::test_loading_definitions_imports_neither_pyspark_nor_pandas",
    ),
    "An adoption looks only at commits that archival has not moved yet": (
        "dagster/test_incremental.py::test_a_retry_adopts_its_commit_although_that_is_archived",
    ),
    "Too many retries of commits are a red check": (
        "dagster/test_health_checks.py::test_retry_count_over_5_raises_asset_check",
    ),
    "A lost run worker leaves a step that goes on beside the retry": (
        "e2e/test_killed_worker.py::test_a_killed_run_worker_is_retried_and_its_orphan_publishes_nothing",
    ),
}


@pytest.mark.parametrize("named", [name for names in TESTED.values() for name in names])
def test_the_test_of_each_pitfall_is_there(named):
    path, _, name = named.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_cancelled_step_with_a_retry_policy_publishes_nothing_in_its_second_attempt(
    run, lake, instance, orders, asset_of
):
    attempts = []

    def rows(context):
        attempts.append(context.retry_number)
        if len(attempts) == 1:
            instance.report_run_canceling(context.run)
            raise RuntimeError("Py4JError: what a cancelled Spark job looks like")
        return orders(1)

    result = run(asset_of(rows, retry_policy=dg.RetryPolicy(max_retries=1)), raise_on_error=False)
    assert attempts == [0, 1], "Dagster starts a second attempt of a run that it is cancelling"
    assert not result.success
    assert not result.get_asset_materialization_events()
    assert not list(lake.table("orders").timeline.commits)


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
def test_a_step_whose_run_ended_behind_its_back_publishes_nothing(run, lake, instance, orders, asset_of, status):
    def ended_meanwhile(context):
        ends = {"FAILURE": instance.report_run_failed, "CANCELED": instance.report_run_canceled}
        ends[status.value](context.run)
        return orders(1)

    run(asset_of(ended_meanwhile), raise_on_error=False)
    assert not list(lake.table("orders").timeline.commits)


def test_a_pool_is_not_what_keeps_two_writers_apart(run, lake, orders, asset_of):
    """A second writer commits while a step with the table's pool runs: the lock and the conflict check of the table decide, both rows are there."""

    def other_writer_first(context):
        table = lake.table("orders")
        table.upsert(orders(7))
        return orders(8)

    run(asset_of(orders(1)))
    run(asset_of(other_writer_first))
    assert sorted(lake.table("orders").scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 7, 8]


def test_no_sensor_puts_work_behind_a_run_key_because_a_failed_run_would_use_it_up(lake, instance):
    asset = orders_asset()
    filled(lake, asset, 3)
    requests = tick(definitions(lake, asset), instance, lake).run_requests
    assert requests
    assert [request.run_key for request in requests] == [None] * len(requests)


def test_a_commit_that_is_reported_late_looks_fresh_to_dagster_and_old_to_data_freshness(lake, instance):
    asset = orders_asset(None)
    filled(lake, asset, 1)
    event = dg.AssetMaterialization("orders", metadata={})
    instance.report_runless_asset_event(event)  # stored now, and so fresh for a FreshnessPolicy
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[asset], resources={"lake": lake}),
        build_hudi_checks([asset], ["data_freshness"], clock=lambda: utc_now() + timedelta(hours=30)),
    )
    job = dg.define_asset_job("examine", selection=dg.AssetSelection.checks_for_assets(asset.key))
    both = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    done = both.resolve_job_def("examine").execute_in_process(instance=instance).get_asset_check_evaluations()
    (found,) = [each for each in done if each.check_name == "data_freshness"]
    assert not found.passed
    assert "30.0 hours old" in found.description


def test_a_second_backfill_over_a_range_in_one_run_works_and_replaces_exactly_its_partitions(run, lake):
    """dagster-iceberg fails in the first single-run backfill over a range; the second of dagster-deltalake replaces the table."""

    @hudi_asset(record_key="id", partitions=DAYS, operation="insert_overwrite")
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        days = list(context.partition_keys)
        return pa.table({"id": [f"{day} {context.run_id[:4]}" for day in days], "day": days})

    def backfill(first, last):
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return run(orders, tags=tags)

    backfill("2026-01-01", "2026-01-05")
    again = backfill("2026-01-03", "2026-01-04")
    assert len(again.get_asset_materialization_events()) == 2
    rows = lake.table("orders").scan(columns=["id", "day"]).to_arrow().to_pylist()
    assert sorted(row["day"] for row in rows) == [f"2026-01-0{day}" for day in range(1, 6)]
    assert {row["day"] for row in rows if row["id"].endswith(again.run_id[:4])} == {"2026-01-03", "2026-01-04"}


def test_an_upsert_that_changes_nothing_reports_no_commit_of_another_run(run, lake, orders, asset_of):
    """dagster-iceberg reports the snapshot of the run before as its own."""
    run(asset_of(orders(1), operation="delete"))
    run(asset_of(orders(1)))
    nothing = run(asset_of(orders(99), operation="delete"))
    assert not nothing.get_asset_materialization_events()


def test_a_module_with_postponed_annotations_defines_assets(run, lake):
    """This module has them, which Dagster's own decorators refuse for a context."""

    @hudi_asset(record_key="id")
    def postponed(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"id": [context.run_id]})

    assert run(postponed).success


@pytest.mark.slow
def test_spark_workers_get_the_python_of_the_run_and_not_the_first_of_the_path():
    code = (
        "import os, sys; os.environ.pop('PYSPARK_PYTHON', None)\n"
        "from pyhudi_dagster.lake import spark_session\n"
        "spark_session.started(lambda: None)\n"
        "print(os.environ['PYSPARK_PYTHON'] == sys.executable)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "True"


def test_an_external_table_is_no_observable_because_every_observation_would_start_what_is_downstream():
    spec = hudi_external_asset("web/events")
    assert type(spec) is dg.AssetSpec
    assert spec.automation_condition is None


def test_what_brings_spark_brings_pandas_without_which_its_workers_cannot_map_arrow():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(re.match(r"pandas\b", each) for each in extras["spark"])


def test_a_server_that_a_background_job_of_a_shell_starts_ends_by_ctrl_c_and_by_term():
    """Such a job ignores Ctrl-C, its children inherit that, and `dagster dev` gives SIGTERM the handler that it has for Ctrl-C."""
    server = "import signal, time; signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT)); print('up', flush=True); time.sleep(60)"
    starts = (
        "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from support.signals import default_signals\n"
        "how = default_signals if sys.argv[2] == 'ours' else None\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE, preexec_fn=how)\n"
        "child.stdout.readline(); child.send_signal(getattr(signal, sys.argv[3]))\n"
        "try: print(child.wait(1 if how is None else 30) != 0)\n"
        "except subprocess.TimeoutExpired: child.kill(); print('ignored')"
    )

    def ended(how: str, name: str) -> str:
        command = [sys.executable, "-c", starts, server, how, name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    assert ended("plain", "SIGTERM") == "ignored"
    assert [ended("ours", name) for name in ("SIGINT", "SIGTERM")] == ["True", "True"]


def test_a_tick_ends_before_dagster_gives_up_on_it_and_its_events_are_stored_before_the_next():
    event_seconds = 0.067  # measured for an event without a run, on two loaded cores
    assert DEFAULT_SENSOR_GRPC_TIMEOUT - 20 >= TICK_SECONDS, (
        "a table that is being read when the time is over is still read"
    )
    parameters = inspect.signature(build_hudi_timeline_sensor).parameters
    most, interval = (parameters[name].default for name in ("max_events_per_tick", "minimum_interval_seconds"))
    assert most * event_seconds < interval
    assert min(interval, ServicePolicy().interval_seconds) >= MIN_INTERVAL_LOOP_TIME


def test_a_service_run_of_many_tables_pays_for_one_process_and_not_for_one_per_table(lake, instance):
    """A run costs 12 to 20 seconds before the code of an op begins."""
    assets = [orders_asset(key=name) for name in ("first", "second", "third")]
    for asset in assets:
        filled(lake, asset, 3)
    (request,) = tick(definitions(lake, *assets), instance, lake).run_requests
    assert request.job_name == "hudi__services"
    assert definitions(lake, *assets).resolve_job_def("hudi__services").executor_def.name == "in_process"


def test_our_command_lists_its_commands_and_the_pages_have_them_and_those_of_dg():
    """`dg --help` shows neither commands nor options with click 8.5, so people need them on a page."""
    shown = CliRunner().invoke(main, ["--help"]).output
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("dagster-reference.md", "dagster-component.md"))
    for name in main.commands:
        assert f"  {name} " in shown, name
        assert f"`pyhudi-dagster {name}" in pages, name
    for command in ("dg list components", "dg scaffold defs pyhudi_dagster.HudiLakeComponent"):
        assert command in pages


@pytest.mark.parametrize("name", ["hudi__services", "hudi__timeline"])
def test_sensors_take_their_lake_from_the_code_location_and_are_ticked_by_evaluate_tick(lake, instance, name):
    """They require no resource, because then Dagster would open its database in each tick."""
    asset = orders_asset()
    defs = dg.Definitions.merge(definitions(lake, asset), build_hudi_timeline_sensor(lake, [asset]))
    sensor = defs.resolve_sensor_def(name)
    assert not sensor.required_resource_keys
    with dg.build_sensor_context(instance=instance, resources={"lake": lake}, definitions=defs) as context:
        assert "the table does not exist yet" in sensor.evaluate_tick(context).skip_message
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("dagster*.md"))
    assert "sensor.evaluate_tick(context)" in pages
