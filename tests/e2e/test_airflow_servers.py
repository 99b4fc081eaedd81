"""A real Airflow with its scheduler, triggerer, DAG processor and API server: events, services and writes over kills of its processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.airflow_servers import Airflow

import pyhudi as hudi

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
ROWS = pa.table({"id": [1], "day": ["2026-01-01"]})
WRITER = """
import sys, time
import pyarrow as pa
import pyhudi as hudi
table, first = hudi.open_table(sys.argv[1]), int(sys.argv[2])
for number in range(first, first + int(sys.argv[3])):
    table.upsert(pa.table({"id": [number], "day": ["2026-01-%02d" % (number % 28 + 1)]}))
    time.sleep(0.3)
"""
FOLLOW = """
from airflow.sdk import DAG, task
from pyhudi_airflow import HudiServiceOperator, hudi_asset

with DAG("follow", schedule=[hudi_asset("orders", poll_interval=1)], max_active_runs=1):
    HudiServiceOperator(task_id="compact", table="orders", service="compaction")
"""


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[Airflow]:
    lake = tmp_path / "lake"
    lake.mkdir()
    servers = Airflow(tmp_path / "home", lake)
    yield servers
    servers.kill()


def instants_with_rows(table: hudi.HudiTable) -> set[str]:
    """The commits with rows, also those that were archived."""
    return {instant.requested_time for instant, commit in table.commits_with("") if commit.changes_rows}


def test_100_commits_of_two_writers_are_100_events_over_kills_of_the_triggerer_and_the_scheduler(
    airflow: Airflow,
) -> None:
    table = hudi.create_table(
        f"{airflow.lake}/orders", schema=ROWS.schema, record_key="id", partition_by="day", table_type="merge_on_read"
    )
    (airflow.dags / "follow.py").write_text(FOLLOW)
    airflow.start()
    airflow.wait(
        lambda: airflow.rows("select 1 from asset_state_store where key = 'pyhudi_cursor'"), "the watcher has a cursor"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, table.location, str(first), "50"], cwd=ROOT)
        for first in (0, 1000)
    ]
    kills = 0
    while any(writer.poll() is None for writer in writers):
        seen = len(airflow.events("orders"))
        if kills < 3 and seen >= 20 * (kills + 1):
            names = ("triggerer",) if kills != 1 else ("triggerer", "scheduler")
            airflow.kill(*names)
            time.sleep(1)
            airflow.start(*names)
            kills += 1
        time.sleep(0.2)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert kills, "the triggerer was killed while the writers wrote"
    wanted = instants_with_rows(table)
    assert len(wanted) == 100
    airflow.wait(
        lambda: {event["instant"] for event in airflow.events("orders")} >= wanted, "every commit has an event"
    )
    events = [event["instant"] for event in airflow.events("orders")]
    assert set(events) == wanted, "services are no events"
    repeated = len(events) - 100
    assert repeated <= 20 * kills, "only what was fired in the last second before a kill is repeated"
    print(f"{len(events)} events, {kills} kills, {repeated} repeated")
    airflow.wait(
        lambda: airflow.rows("select 1 from dag_run where dag_id = 'follow' and state = 'success'"),
        "runs follow the events",
    )
    assert table.check().ok
