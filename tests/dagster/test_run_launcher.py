"""Run monitoring marks a run as failed whose process is gone without a report, and no run whose process may live."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.test_utils import instance_for_test
from dagster._daemon.monitoring.run_monitoring import monitor_started_run

from pyhudi_dagster import LocalRunLauncher

RUN = """
import json, sys, time
import dagster as dg

@dg.op
def waits():
    print("started", flush=True)
    time.sleep(600)

@dg.job
def loads():
    waits()

loads.execute_in_process(instance=dg.DagsterInstance.get(), tags={".dagster/grpc_info": sys.argv[1]})
"""
SETTINGS = {
    "run_launcher": {"module": "pyhudi_dagster", "class": "LocalRunLauncher"},
    "run_monitoring": {"enabled": True},
}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_for_test(overrides=SETTINGS) as instance:
        yield instance


def started(server: dict[str, object]) -> subprocess.Popen[str]:
    """A process in the middle of a run that this code server launched."""
    process = subprocess.Popen([sys.executable, "-c", RUN, json.dumps(server)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def monitored(instance: dg.DagsterInstance) -> dg.DagsterRunStatus:
    """The status of the run after a round of run monitoring."""
    [record] = instance.get_run_records()
    monitor_started_run(instance, None, record, logging.getLogger("monitoring"))  # type: ignore[arg-type]  # it resumes no run
    [record] = instance.get_run_records()
    return record.dagster_run.status


@pytest.mark.parametrize("server", [{"host": "localhost", "socket": "/tmp/gone"}, {"host": "localhost", "port": 1}])
def test_a_run_whose_process_ended_at_once_is_failed_and_one_whose_process_lives_is_not(
    instance: dg.DagsterInstance, server: dict[str, object]
) -> None:
    assert isinstance(instance.run_launcher, LocalRunLauncher)
    process = started(server)
    try:
        assert monitored(instance) is dg.DagsterRunStatus.STARTED
    finally:
        process.kill()
        process.communicate()
    assert monitored(instance) is dg.DagsterRunStatus.FAILURE
    [run] = instance.get_runs()
    [event] = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records
    assert f"the process {process.pid} of the run is gone" in event.event_log_entry.message


@pytest.mark.parametrize("server", [{"host": "code.example.com", "port": 4000}, {}])
def test_a_run_on_another_machine_counts_as_alive(instance: dg.DagsterInstance, server: dict[str, object]) -> None:
    process = started(server)
    process.kill()
    process.communicate()
    assert monitored(instance) is dg.DagsterRunStatus.STARTED
