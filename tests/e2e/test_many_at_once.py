"""Much at once under a real ``dagster dev``: schedules beside a write, a long backfill, two code locations, many tables."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from support.dagster_dev import DagsterDev, until
from support.tables import create_plain

import pyhudi_core as hudi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
BUSY = '''
import os, time
from pathlib import Path
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import HudiLakeResource, OnCron, PerTableJob, ServicePolicy, Services, build_hudi_services, hudi_asset

HERE = Path(os.environ["DAGSTER_HOME"])
EACH_MINUTE = OnCron("* * * * *")

@hudi_asset(record_key="id", ordering="ts", table_type="merge_on_read", options={"hoodie.compact.inline.max.delta.commits": "1"},
            services=Services(compaction=EACH_MINUTE, clustering=EACH_MINUTE, cleaning=EACH_MINUTE, indexing=EACH_MINUTE, index=["bloom"]))
def orders(context: dg.AssetExecutionContext):
    """Each run updates one row in a hundred, and one materialization is slow: the schedules tick in the middle of it."""
    number = int(context.run.tags.get("number", 0))

    def rows():
        sleep = float(context.run.tags.get("sleep", 0))
        for part in range(4):
            ids = range(part * 25, part * 25 + 25)
            yield pa.record_batch({"id": list(ids), "ts": [number] * 25, "number": [number] * 25})
            if sleep:
                (HERE / f"part {part}").touch()
                time.sleep(sleep)

    return rows()

job = dg.define_asset_job("write", selection=[orders])

@dg.schedule(job=job, cron_schedule="* * * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
def materialize(context: dg.ScheduleEvaluationContext):
    waiting = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
    if context.instance.get_runs(dg.RunsFilter(job_name="write", statuses=waiting)):
        return dg.SkipReason("A write waits or works.")  # on a slow machine runs would pile up
    return dg.RunRequest(tags={"number": str(int(time.time()))})

lake = HudiLakeResource(warehouse=str(HERE / "lake"))
defs = dg.Definitions.merge(
    dg.Definitions(assets=[orders], jobs=[job], schedules=[materialize], resources={"lake": lake}),
    build_hudi_services(lake, [orders], policy=ServicePolicy(interval_seconds=5), runner=PerTableJob()),
)
'''
SCHEDULES = {"materialize", *(f"hudi__orders__{name}" for name in ("compaction", "clustering", "cleaning", "indexing"))}
TICKS = """query { schedulesOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "defs.py"}) {
  ... on Schedules { results { name scheduleState { status ticks(limit: 50) { status timestamp } } } } } }"""


def ticks(dev: DagsterDev) -> dict[str, list[dict]]:
    found = dev.ask(TICKS)["schedulesOrError"]["results"]
    return {each["name"]: each["scheduleState"]["ticks"] for each in found}


def test_all_five_schedules_tick_while_a_materialization_writes_and_nothing_is_lost(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": BUSY})
    with dev.running():
        for number in (1, 2):
            assert dev.ended(dev.launch("orders", number=str(number))) == "SUCCESS"
        slow = dev.launch("orders", number="3000000000", sleep="30")
        assert dev.ended(slow, 900) == "SUCCESS"
        began, ended = ((tmp_path / f"part {part}").stat().st_mtime for part in (0, 3))
        seen = {
            name: [tick for tick in found if began <= tick["timestamp"] <= ended] for name, found in ticks(dev).items()
        }
        assert set(seen) == SCHEDULES
        assert all(found for found in seen.values()), (
            "every schedule ticked between the first and the last part of the rows"
        )
        assert {tick["status"] for found in seen.values() for tick in found} <= {"SUCCESS", "SKIPPED", "STARTED"}
        written = until(
            lambda: all(run["status"] in ("SUCCESS", "FAILURE", "CANCELED") for run in dev.runs()) and dev.runs(), 600
        )
        with dev.instance() as instance:
            # Dagster drops a run whose worker does not answer within seconds, as on an overloaded machine. It has written nothing.
            begun = {run.dagster_run.run_id for run in instance.get_run_records() if run.start_time is not None}
        written = [run for run in written if run["runId"] in begun]
        assert {run["status"] for run in written} == {"SUCCESS"}
        table = hudi.open_table(str(tmp_path / "lake" / "orders"))
        rows = table.scan(columns=["id", "number"]).to_arrow().to_pylist()
        assert sorted(row["id"] for row in rows) == list(range(100))
        assert {row["number"] for row in rows} == {3_000_000_000}, (
            "the rows of the slow write, which has the highest ordering, are all there"
        )
        writes = {run["runId"] for run in written if run["jobName"] in ("write", "__ASSET_JOB")}
        by = [table.commit_metadata(commit).extra.get("dagster.run_id") for commit in table.timeline.commits]
        assert writes <= set(by), "each successful write has its commit"
        assert table.check().ok
        with dev.instance() as instance:
            services = {
                record.asset_observation.metadata["hudi/service"].value
                for record in instance.fetch_observations(dg.AssetKey("orders"), limit=100).records
                if record.asset_observation and "hudi/service" in record.asset_observation.metadata
            }
        # Whichever of the two comes first merges the log files, and then the other one has nothing to do.
        assert services & {"compaction", "clustering"}


YEAR = """
import os
from pathlib import Path
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import HudiLakeResource, HudiPartitions, hudi_asset

DAYS = HudiPartitions.daily("day", "2025-01-01", end_date="2026-01-01")

@hudi_asset(record_key="id", partitions=DAYS)
def orders(context: dg.AssetExecutionContext):
    days = list(context.partition_keys)
    return pa.table({"id": days, "day": days})

lake = HudiLakeResource(warehouse=str(Path(os.environ["DAGSTER_HOME"]) / "lake"))
defs = dg.Definitions(assets=[orders], resources={"lake": lake})
"""
BACKFILL = """mutation($names: [String!]!) { launchPartitionBackfill(backfillParams: {assetSelection: [{path: ["orders"]}], partitionNames: $names}) {
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
FOUND = """query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status assetBackfillData {
  assetBackfillStatuses { ... on AssetPartitionsStatusCounts { numPartitionsTargeted numPartitionsMaterialized numPartitionsFailed } } } } } }"""


def test_a_backfill_of_a_year_is_one_run_and_one_commit_with_an_event_for_each_day(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"defs.py": YEAR})
    days = list(dg.DailyPartitionsDefinition("2025-01-01", end_date="2026-01-01").get_partition_keys())
    with dev.running():
        launched = dev.ask(BACKFILL, names=days)["launchPartitionBackfill"]["backfillId"]

        def completed() -> dict | None:
            found = dev.ask(FOUND, id=launched)["partitionBackfillOrError"]
            return found if found["status"].startswith("COMPLETED") else None

        (counts,) = until(completed, 900)["assetBackfillData"]["assetBackfillStatuses"]
        assert counts == {"numPartitionsTargeted": 365, "numPartitionsMaterialized": 365, "numPartitionsFailed": 0}
        assert len(dev.runs()) == 1
        table = hudi.open_table(str(tmp_path / "lake" / "orders"))
        assert len(list(table.timeline.commits)) == 1
        assert table.scan().count() == 365
        with dev.instance() as instance:
            records = instance.fetch_materializations(dg.AssetKey("orders"), limit=1000).records
        assert sorted(record.partition_key or "" for record in records) == days
        assert {
            record.asset_materialization.metadata["dagster/partition_row_count"].value
            for record in records
            if record.asset_materialization
        } == {1}


WRITER = """
import os
from pathlib import Path
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import HudiLakeResource, hudi_asset

@hudi_asset(key=["NAME", "orders"], table="orders", record_key="id")
def orders(context: dg.AssetExecutionContext):
    return pa.table({"id": [f"NAME {number}" for number in range(10)]})

lake = HudiLakeResource(warehouse=str(Path(os.environ["DAGSTER_HOME"]) / "lake"))
defs = dg.Definitions(assets=[orders], resources={"lake": lake})
"""


def test_two_code_locations_write_one_table_of_one_lake_at_the_same_time(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, {"east.py": WRITER.replace("NAME", "east"), "west.py": WRITER.replace("NAME", "west")})
    with dev.running():
        runs = [dev.launch(f"{name}/orders", file=f"{name}.py") for _ in range(2) for name in ("east", "west")]
        assert {dev.ended(run, 600) for run in runs} == {"SUCCESS"}
        table = hudi.open_table(str(tmp_path / "lake" / "orders"))
        assert table.scan().count() == 20
        by = [table.commit_metadata(commit).extra for commit in table.timeline.commits]
        assert {extra["dagster.code_location"] for extra in by} == {"east.py", "west.py"}
        assert table.check().ok
        with dev.instance() as instance:
            for name in ("east", "west"):
                event = instance.get_latest_materialization_event(dg.AssetKey([name, "orders"]))
                assert event is not None
                assert event.run_id in runs


MANY = """
import os, time
from pathlib import Path
import dagster as dg
from pyhudi_dagster import HudiLakeResource, build_hudi_timeline_sensor, hudi_external_asset
from pyhudi_dagster.observation import timeline_sensor

HERE = Path(os.environ["DAGSTER_HOME"])
run = timeline_sensor.TimelineTick.run

def timed(tick, infos):
    began, cpu = time.monotonic(), time.process_time()
    run(tick, infos)
    with (HERE / "ticks").open("a") as told:
        told.write(f"{len(tick.events)} {time.monotonic() - began:.3f} {time.process_time() - cpu:.3f}\\n")

timeline_sensor.TimelineTick.run = timed
tables = [hudi_external_asset(f"table_{number}") for number in range(200)]
lake = HudiLakeResource(warehouse=str(HERE / "lake"))
defs = dg.Definitions.merge(
    dg.Definitions(assets=tables, resources={"lake": lake}), build_hudi_timeline_sensor(lake, tables, minimum_interval_seconds=5)
)
"""


def test_an_idle_tick_over_200_tables_takes_less_than_two_seconds_and_starts_no_jvm(tmp_path: Path) -> None:
    for number in range(200):
        rows = pa.table({"id": [number]})
        create_plain(str(tmp_path / "lake" / f"table_{number}"), schema=rows.schema, record_key="id").upsert(rows)
    dev = DagsterDev(tmp_path, {"defs.py": MANY})
    with dev.running():

        def idle() -> list[tuple[float, float]]:
            lines = (tmp_path / "ticks").read_text().splitlines() if (tmp_path / "ticks").exists() else []
            told = [line.split() for line in lines]
            assert len([line for line in told if int(line[0])]) <= 2, "200 events, and 200 is the limit of a tick"
            return [(float(wall), float(cpu)) for events, wall, cpu in told if not int(events)]

        found = until(lambda: seen if len(seen := idle()) >= 4 else None, 600, "four idle ticks")
        assert not [each for each in dev.children() if "java" in each.name()]
    walls, cpus = (sorted(figures) for figures in zip(*found, strict=True))
    print(
        f"idle ticks over 200 tables: {walls[0]:.2f} to {walls[-1]:.2f} s, {cpus[0]:.2f} to {cpus[-1]:.2f} s of a processor"
    )
    assert walls[len(walls) // 2] < 2
    assert cpus[-1] < 2
