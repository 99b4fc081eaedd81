"""Processes that die under a real ``dagster dev``: the worker of a run, the daemon in the middle of a tick, and Dagster's database."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from support.dagster_dev import DagsterDev, end, until

import pyhudi_core as hudi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
KILLED = '''
import os, time
from pathlib import Path
import dagster as dg
import psutil
import pyarrow as pa
from pyhudi_dagster import HudiLakeResource, hudi_asset, hudi_multi_asset, hudi_output

HERE = Path(os.environ["DAGSTER_HOME"])

@hudi_asset(record_key="id", ordering="ts")
def orders(context: dg.AssetExecutionContext):
    """The first attempt kills the worker of its run, lives on as an orphan, and tries to commit when the retry has finished."""
    first = "dagster/parent_run_id" not in context.run.tags
    if first:
        worker = psutil.Process(os.getpid()).parent()
        (HERE / "orphan").write_text(str(os.getpid()))
        worker.kill()
        while not (HERE / "go").exists():
            time.sleep(0.2)
    return pa.table({"id": [1 if first else 2], "ts": [1]})

@hudi_asset(record_key="id", ordering="ts")
def adopted(context: dg.AssetExecutionContext):
    """The first attempt kills the worker and itself between its commit and its event."""
    from pyhudi_dagster.reporting import events
    if "dagster/parent_run_id" not in context.run.tags:
        def die(*arguments, **more):
            worker = psutil.Process(os.getpid()).parent()
            worker.kill()
            os._exit(9)
        events.report = die
    return pa.table({"id": [1], "ts": [1]})

KIND = {"record_key": "id", "operation": "insert"}

@hudi_multi_asset(tables={"first": hudi_output(**KIND), "second": hudi_output(**KIND)})
def both(context: dg.AssetExecutionContext):
    """The first attempt kills the worker and itself between its two commits: the rows of both are staged."""
    from pyhudi_dagster.steps import runner
    if "dagster/parent_run_id" not in context.run.tags:
        asked = runner.gate
        def gate(step, table):
            def ask():
                if table.location.endswith("second"):
                    psutil.Process(os.getpid()).parent().kill()
                    os.kill(os.getpid(), 9)
                return asked(step, table)()
            return ask
        runner.gate = gate
    rows = pa.table({"id": [1]})
    return {"first": rows, "second": rows}

lake = HudiLakeResource(warehouse=str(HERE / "lake"))
defs = dg.Definitions(assets=[orders, adopted, both], resources={"lake": lake})
'''


def test_a_killed_run_worker_is_retried_and_its_orphan_publishes_nothing(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": KILLED})
    with dev.running():
        first = dev.launch("orders")
        orphan = until(lambda: (tmp_path / "orphan").exists() and int((tmp_path / "orphan").read_text() or 0))
        assert dev.ended(first) == "FAILURE"
        retry = until(lambda: next((run for run in dev.runs() if run["parentRunId"] == first), None), what="the retry")
        assert dev.ended(retry["runId"]) == "SUCCESS"
        assert psutil.pid_exists(orphan), "the orphan lives: Dagster does not know it any more"
        (tmp_path / "go").touch()
        until(lambda: not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == "zombie", what="its end")
        table = hudi.open_table(str(tmp_path / "lake" / "orders"))
        assert [row["id"] for row in table.scan(columns=["id"]).to_arrow().to_pylist()] == [2]
        (commit,) = table.timeline.commits
        assert table.commit_metadata(commit).extra["dagster.run_id"] == retry["runId"]


SLOW = """
import os, time
from pathlib import Path
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import HudiLakeResource, hudi_asset

HERE = Path(os.environ["DAGSTER_HOME"])

@hudi_asset(record_key="id", ordering="ts")
def slow(context: dg.AssetExecutionContext):
    if "dagster/parent_run_id" not in context.run.tags:
        (HERE / "begun").touch()
        time.sleep(3600)
    return pa.table({"id": [1], "ts": [1]})

lake = HudiLakeResource(warehouse=str(HERE / "lake"))
defs = dg.Definitions(assets=[slow], resources={"lake": lake})
"""


def test_a_run_is_retried_after_all_processes_of_dagster_were_killed_at_once(tmp_path: Path) -> None:
    """As after a machine without power: nobody is left who reports the end of the run, and the run holds the slot of the table's pool."""
    dev = DagsterDev(tmp_path, {"defs.py": SLOW})
    settings = tmp_path / "dagster.yaml"
    settings.write_text(
        settings.read_text().replace("run_monitoring:\n", "run_monitoring:\n  poll_interval_seconds: 5\n")
    )
    with dev.running():
        first = dev.launch("slow")
        until((tmp_path / "begun").exists, what="the step")
        children = dev.children()
        assert dev.process is not None
        dev.process.kill()
        end(children)
    with dev.running():
        assert dev.ended(first) == "FAILURE"
        retry = until(lambda: next((run for run in dev.runs() if run["parentRunId"] == first), None), what="the retry")
        assert dev.ended(retry["runId"]) == "SUCCESS"
    assert hudi.open_table(str(tmp_path / "lake" / "slow")).scan().count() == 1


def test_a_worker_killed_after_its_commit_is_retried_and_the_retry_adopts_it(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": KILLED})
    with dev.running():
        first = dev.launch("adopted")
        assert dev.ended(first) == "FAILURE"
        retry = until(lambda: next((run for run in dev.runs() if run["parentRunId"] == first), None), what="the retry")
        assert dev.ended(retry["runId"]) == "SUCCESS"
        with dev.instance() as instance:
            (event,) = [
                record.asset_materialization
                for record in instance.fetch_materializations(key("adopted"), limit=9).records
            ]
        assert event is not None
        assert event.metadata["hudi/adopted"].value is True
        assert len(list(hudi.open_table(str(tmp_path / "lake" / "adopted")).timeline.commits)) == 1


def test_a_worker_killed_between_two_commits_is_retried_and_the_retry_adopts_one_and_makes_the_other(
    tmp_path: Path,
) -> None:
    """Terminate cannot come there; a lost process can. Both tables have each row once, although the operation is insert."""
    dev = DagsterDev(tmp_path, {"defs.py": KILLED})
    with dev.running():
        first = dev.launch("first", "second")
        assert dev.ended(first) == "FAILURE"
        assert len(list(hudi.open_table(str(tmp_path / "lake" / "first")).timeline.commits)) == 1
        assert not list(hudi.open_table(str(tmp_path / "lake" / "second")).timeline.commits)
        retry = until(lambda: next((run for run in dev.runs() if run["parentRunId"] == first), None), what="the retry")
        assert dev.ended(retry["runId"]) == "SUCCESS"
        with dev.instance() as instance:
            adopted = {
                name: [
                    "hudi/adopted" in record.asset_materialization.metadata
                    for record in instance.fetch_materializations(key(name), limit=9).records
                    if record.asset_materialization
                ]
                for name in ("first", "second")
            }
    assert adopted == {"first": [True], "second": [False]}
    for name in adopted:
        table = hudi.open_table(str(tmp_path / "lake" / name))
        assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]
        assert len(list(table.timeline.commits)) == 1


WATCHED = '''
import os, time
from pathlib import Path
import dagster as dg
from pyhudi_dagster import HudiLakeResource, HudiPartitions, build_hudi_reconcile, build_hudi_timeline_sensor, hudi_external_asset
from pyhudi_dagster.observation import timeline_sensor

HERE = Path(os.environ["DAGSTER_HOME"])
reported = timeline_sensor.TimelineTick._report

def slowly(tick, info):
    """The tick of a large lake: there is time to die in the middle of it."""
    (HERE / "ticks").open("a").write(f"{info.table}\\n")
    if (HERE / "slow").exists():
        time.sleep(3)
    return reported(tick, info)

timeline_sensor.TimelineTick._report = slowly
DAYS = HudiPartitions.static("day", ["a", "b", "c"])
tables = [hudi_external_asset(f"table_{number}", partitions=DAYS) for number in range(4)]
lake = HudiLakeResource(warehouse=str(HERE / "lake"))
defs = dg.Definitions.merge(
    dg.Definitions(assets=tables, resources={"lake": lake}),
    build_hudi_timeline_sensor(lake, tables, minimum_interval_seconds=1),
    build_hudi_reconcile(lake, tables),
)
'''


def key(name: str):
    import dagster as dg

    return dg.AssetKey(name)


def foreign(folder: Path, number: int, ids: range) -> int:
    """So many commits of another writer, one for each id."""
    place = str(folder / "lake" / f"table_{number}")
    for each in ids:
        rows = pa.table({"id": [each], "day": ["abc"[each % 3]]})
        try:
            table = hudi.open_table(place)
        except hudi.errors.TableNotFoundError:
            table = hudi.create_table(place, schema=rows.schema, record_key="id", partition_by="day")
        table.upsert(rows)
    return len(ids)


def materialized(dev: DagsterDev, number: int) -> list[str]:
    """The instants that Dagster has an event for."""
    with dev.instance() as instance:
        records = instance.fetch_materializations(key(f"table_{number}"), limit=500).records
        return [
            str(record.asset_materialization.tags["hudi/instant"]) for record in records if record.asset_materialization
        ]


def test_a_daemon_killed_in_the_middle_of_a_tick_reports_every_commit_once(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": WATCHED})
    wanted = {number: foreign(tmp_path, number, range(5)) for number in range(4)}
    (tmp_path / "slow").touch()
    with dev.running():
        until(lambda: (tmp_path / "ticks").exists() and len((tmp_path / "ticks").read_text().split()) >= 2)
        dev.daemon().kill()  # of the tick, no event and no cursor is stored; `dagster dev` ends with its daemon
        time.sleep(1)
    for number in range(4):
        wanted[number] += foreign(tmp_path, number, range(5, 7))
    (tmp_path / "slow").unlink()
    with dev.running():
        until(lambda: all(len(materialized(dev, number)) >= wanted[number] for number in range(4)), what="all events")
        time.sleep(5)  # further ticks repeat nothing
        for number in range(4):
            found = materialized(dev, number)
            assert len(found) == len(set(found)) == wanted[number]


def test_a_database_that_was_wiped_is_restored_by_the_job_reconcile(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": WATCHED})
    foreign(tmp_path, 0, range(40))  # more than the active timeline keeps
    with dev.running():
        assert dev.ended(dev.launch(job="hudi__reconcile")) == "SUCCESS"
        before = sorted(materialized(dev, 0))
    assert len(before) == 40
    shutil.rmtree(tmp_path / ".data")
    with dev.running():
        assert dev.ended(dev.launch(job="hudi__reconcile")) == "SUCCESS"
        assert sorted(materialized(dev, 0)) == before
    assert os.path.exists(tmp_path / "lake")
