"""A real Airflow with its scheduler, triggerer, DAG processor and API server: events, services and writes over kills of its processes.

Its database is SQLite, then PostgreSQL.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from locks.servers import postgresql, scratch
from support.airflow_servers import Airflow

import pyhudi as hudi

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
ROWS = pa.table({"id": [1], "day": ["2026-01-01"]})
PASSWORD = "of-this-run"
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
from airflow.sdk import DAG
from pyhudi_airflow import HudiServiceOperator, hudi_asset

with DAG("follow", schedule=[hudi_asset("orders", poll_interval=1)], max_active_runs=1):
    HudiServiceOperator(task_id="compact", table="orders", service="compaction", retries=2)
"""
KILLED = """
import os, signal
from datetime import timedelta
import pyarrow as pa
from airflow.sdk import DAG, task

def dies_after_the_commit(context, result):
    if context["ti"].try_number == 2:
        os.kill(os.getpid(), signal.SIGKILL)

with DAG("killed", schedule=None):
    @task.hudi(table="killed", operation="insert", record_key="id", retries=3, retry_delay=timedelta(0), post_execute=dies_after_the_commit)
    def load(ti=None):
        if ti.try_number == 1:  # its rows are written, and nothing is committed yet
            def batches():
                yield pa.table({"id": [1]})
                os.kill(os.getpid(), signal.SIGKILL)
            return batches()
        return pa.table({"id": [ti.try_number]})

    load()
"""
VISITS = """
from datetime import datetime
import pyarrow as pa
from airflow.sdk import DAG, task

# The scheduler makes no run of its own: the end is over.
with DAG("visits", schedule="@daily", start_date=datetime(2026, 1, 1), end_date=datetime(2026, 1, 30), catchup=False):
    @task.hudi(table="visits", record_key="id", partition_by="day", operation="insert_overwrite", retries=2)
    def load(ds):
        return pa.table({"id": [1, 2], "day": [ds, ds]})

    load()
"""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def airflow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "lake").mkdir()
    with ExitStack() as around:
        database = ""
        if request.param == "postgresql":
            server = around.enter_context(postgresql(around.enter_context(scratch()), PASSWORD).running())
            database = f"postgresql+psycopg2://hudi:{PASSWORD}@127.0.0.1:{server.port}/locks"
        servers = Airflow(folder / "home", folder / "lake", database)
        around.callback(servers.kill)
        for name, text in (("follow", FOLLOW), ("killed", KILLED), ("visits", VISITS)):
            (servers.dags / f"{name}.py").write_text(text)
        servers.start()
        servers.wait(lambda: len(servers.rows("select dag_id from dag")) == 3, "the DAGs are known")
        yield servers


def instants_with_rows(table: hudi.HudiTable) -> set[str]:
    """The commits with rows, also those that were archived."""
    return {instant.requested_time for instant, commit in table.commits_with("") if commit.changes_rows}


def ended(airflow: Airflow, dag_id: str) -> list[str]:
    """The states of the finished runs of a DAG."""
    query = "select state from dag_run where dag_id = :dag_id and state in ('success', 'failed')"
    return [state for (state,) in airflow.rows(query, dag_id=dag_id)]


def test_a_worker_that_is_killed_before_and_after_its_commit_leaves_one_commit(airflow: Airflow) -> None:
    airflow.command("dags", "trigger", "killed")
    airflow.wait(lambda: ended(airflow, "killed"), "the third try ends", 900)
    assert ended(airflow, "killed") == ["success"]
    ((tries,),) = airflow.rows("select try_number from task_instance where dag_id = 'killed'")
    table = hudi.open_table(f"{airflow.lake}/killed")
    assert tries == 3
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [2], (
        "the third try adopted the commit of the second"
    )
    assert len(instants_with_rows(table)) == 1
    assert table.check().ok or table.check().repairable


def test_100_commits_of_two_writers_are_100_events_over_kills_of_the_triggerer_and_the_scheduler(
    airflow: Airflow,
) -> None:
    table = hudi.create_table(
        f"{airflow.lake}/orders", schema=ROWS.schema, record_key="id", partition_by="day", table_type="merge_on_read"
    )
    airflow.wait(
        lambda: airflow.rows("select 1 from asset_state_store where key = 'pyhudi_cursor'"), "there is a cursor"
    )
    command = [sys.executable, "-c", WRITER, table.location]
    writers = [subprocess.Popen([*command, str(first), "50"], cwd=ROOT) for first in (0, 1000)]
    for count, names in enumerate((("triggerer",), ("triggerer", "scheduler"), ("triggerer",)), 1):
        airflow.wait(lambda count=count: len(airflow.events("orders")) >= 20 * count, "events come", 600)  # type: ignore[misc]
        airflow.kill(*names)
        airflow.start(*names)
    assert [writer.wait() for writer in writers] == [0, 0]
    wanted = instants_with_rows(table)
    assert len(wanted) == 100
    airflow.wait(
        lambda: {event["instant"] for event in airflow.events("orders")} >= wanted, "every commit has an event", 600
    )
    events = [event["instant"] for event in airflow.events("orders")]
    assert set(events) == wanted, "services are no events"
    print(f"{len(events)} events, of these {len(events) - 100} repeated after 3 kills")
    airflow.wait(lambda: "success" in ended(airflow, "follow"), "runs follow the events", 600)
    assert table.check().ok


def test_a_backfill_of_30_days_is_30_commits(airflow: Airflow) -> None:
    span = ("--from-date", "2026-01-01", "--to-date", "2026-01-30")
    on_sqlite = airflow.database.startswith("sqlite")
    if on_sqlite:  # the command reads, then writes: SQLite refuses that at once, whatever its timeout is, if a server has written in between
        airflow.kill()
    airflow.command("backfill", "create", "--dag-id", "visits", *span, "--max-active-runs", "4")
    if on_sqlite:
        airflow.start()
    airflow.wait(lambda: len(ended(airflow, "visits")) >= 30, "the backfill ends", 1200)
    assert set(ended(airflow, "visits")) == {"success"}
    table = hudi.open_table(f"{airflow.lake}/visits")
    days = table.scan(columns=["day"]).to_arrow()["day"].to_pylist()
    assert sorted(days) == sorted(2 * [f"2026-01-{day:02}" for day in range(1, 31)])
    assert table.check().ok
