"""A real Airflow with its scheduler, triggerer, DAG processor and API server: events, services and writes over kills of its processes.

Its database is SQLite, then PostgreSQL.
"""

from __future__ import annotations

import subprocess
import sys
import time
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
MARKED = """
import time
from pathlib import Path
import pyarrow as pa
from airflow.sdk import DAG, task
from pyhudi_airflow import HudiHook

with DAG("marked", schedule=None):
    @task.hudi(table="marked", operation="insert", record_key="id")
    def load(number):
        yield pa.table({"id": [number]})  # these rows are written, and nothing is committed yet
        begun = Path(HudiHook().location(f"begun-{number}"))
        while number == 2 and not begun.exists():
            begun.with_name(begun.name + ".waits").touch()
            time.sleep(0.5)
        yield pa.table({"id": [10 + number]})

    load.expand(number=[1, 2])
"""
WAITS = """
from airflow.sdk import DAG
from pyhudi_airflow import HudiServiceDueSensor, HudiSnapshotSensor

with DAG("waits", schedule=None, default_args={"poke_interval": 1}):
    HudiSnapshotSensor(task_id="in_time", table="comes", timeout=900)
    HudiSnapshotSensor(task_id="too_late", table="never", timeout=5)
    HudiSnapshotSensor(task_id="skipped", table="never", timeout=5, soft_fail=True)
    HudiServiceDueSensor(task_id="typo", table="comes", service="{{ 'typo' }}", timeout=900, retries=2)
"""
MANY = """
from airflow.sdk import DAG, AssetAny, task
from pyhudi_airflow import hudi_asset

with DAG("many", schedule=AssetAny(*[hudi_asset(f"many/t{number:02}", poll_interval=5) for number in range(60)]), max_active_runs=1):
    @task
    def follows():
        pass

    follows()
"""
IDLE_PERCENT = 5.0
"""The most of a core that 60 watched tables may cost the triggerer, with a look every 5 seconds."""


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
        files = {"follow": FOLLOW, "killed": KILLED, "visits": VISITS, "marked": MARKED, "waits": WAITS}
        for name, text in files.items():
            (servers.dags / f"{name}.py").write_text(text)
        servers.start()
        servers.wait(lambda: len(servers.rows("select dag_id from dag")) == len(files), "the DAGs are known")
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


def states_of(airflow: Airflow, dag_id: str) -> dict[str, tuple[str, int]]:
    """The state and the number of the try of each task instance of a DAG."""
    query = "select task_id, map_index, state, try_number from task_instance where dag_id = :dag_id"
    return {
        task_id + (f"[{index}]" if index >= 0 else ""): (state, tries)
        for task_id, index, state, tries in airflow.rows(query, dag_id=dag_id)
    }


def test_an_instance_that_is_marked_failed_publishes_nothing_and_runs_again_when_it_is_cleared(
    airflow: Airflow,
) -> None:
    """A person does both in the UI, which calls the same addresses."""
    airflow.command("dags", "trigger", "marked")
    airflow.wait((airflow.lake / "begun-2.waits").exists, "the second instance writes")
    airflow.wait(lambda: states_of(airflow, "marked")["load[0]"][0] == "success", "the first instance ends")
    ((run_id,),) = airflow.rows("select run_id from dag_run where dag_id = 'marked'")
    one = {"new_state": "failed", "include_upstream": False, "include_downstream": False}
    airflow.call("PATCH", f"dags/marked/dagRuns/{run_id}/taskInstances/load/1", one)
    airflow.wait(lambda: ended(airflow, "marked"), "the run ends")
    (airflow.lake / "begun-2").touch()  # if its process lived on, it would write and commit now
    time.sleep(10)
    table = hudi.open_table(f"{airflow.lake}/marked")
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 11]
    again = {"dry_run": False, "dag_run_id": run_id, "task_ids": [["load", 1]], "only_failed": True}
    airflow.call("POST", "dags/marked/clearTaskInstances", again)
    airflow.wait(lambda: states_of(airflow, "marked")["load[1]"][0] == "success", "the cleared instance ends")
    assert states_of(airflow, "marked") == {"load[0]": ("success", 1), "load[1]": ("success", 2)}
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 11, 12]
    assert len(instants_with_rows(table)) == 2


def test_a_deferred_sensor_comes_to_its_end(airflow: Airflow) -> None:
    airflow.command("dags", "trigger", "waits")
    airflow.wait(
        lambda: states_of(airflow, "waits").get("in_time", ("",))[0] == "deferred", "it waits in the triggerer"
    )
    hudi.create_table(f"{airflow.lake}/comes", schema=ROWS.schema, record_key="id").upsert(ROWS)
    airflow.wait(lambda: ended(airflow, "waits"), "all sensors end", 600)
    assert states_of(airflow, "waits") == {
        "in_time": ("success", 1), "too_late": ("failed", 1), "skipped": ("skipped", 1), "typo": ("failed", 1),
    }  # fmt: skip


def test_60_idle_tables_under_one_watcher_cost_little_and_miss_nothing(airflow: Airflow) -> None:
    tables = [
        hudi.create_table(f"{airflow.lake}/many/t{number:02}", schema=ROWS.schema, record_key="id")
        for number in range(60)
    ]
    for table in tables:
        table.upsert(ROWS)

    def cursors() -> int:
        return int(airflow.rows("select count(*) from asset_state_store where key = 'pyhudi_cursor'")[0][0])

    def percent(seconds: float = 60) -> float:
        before, began = airflow.processor_seconds("triggerer"), time.monotonic()
        time.sleep(seconds)
        return 100 * (airflow.processor_seconds("triggerer") - before) / (time.monotonic() - began)

    without, known = percent(), cursors()
    (airflow.dags / "many.py").write_text(MANY)
    airflow.wait(lambda: cursors() == known + 60, "each watcher has its cursor", 600)
    beyond = percent() - without
    print(f"60 idle tables: {beyond:.1f} % of a core beyond {without:.1f} % of the triggerer without them")
    assert beyond <= IDLE_PERCENT
    tables[7].upsert(ROWS)
    airflow.wait(lambda: ended(airflow, "many"), "a commit starts the DAG", 300)
    assert [len(airflow.events(f"many/t{number:02}")) for number in range(60)] == [int(n == 7) for n in range(60)]
    assert ended(airflow, "many") == ["success"]
