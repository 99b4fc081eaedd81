"""A backfill with late rows in a running ``dagster dev``: its progress, the partitions' colours, and what automation starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 900
DEFINITIONS = '''
import dagster as dg
import pyarrow as pa
from pyhudi_dagster import HudiAutomation, HudiLakeResource, HudiPartitions, hudi_asset

DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-02-01")

@hudi_asset(record_key="id", partitions=DAYS, backfill="per_partition", on_foreign_rows="allow")
def orders(context: dg.AssetExecutionContext):
    """A row of the run's own day, a late one of the first day, and an early one of the ninth."""
    days = sorted({context.partition_key, "2026-01-01", "2026-01-09"})
    return pa.table({"id": [f"{context.run_id}{day}" for day in days], "day": days})

@hudi_asset(record_key="day", partitions=DAYS, deps=[orders], automation_condition=HudiAutomation.on_commit())
def totals(context: dg.AssetExecutionContext):
    """Two partitions that change between two ticks are one run."""
    return pa.table({"day": list(context.partition_keys)})

sensor = dg.AutomationConditionSensorDefinition(
    "automation", target="*", default_status=dg.DefaultSensorStatus.RUNNING, minimum_interval_seconds=1
)
lake = HudiLakeResource(warehouse=".data/lake")
defs = dg.Definitions(assets=[orders, totals], sensors=[sensor], resources={"lake": lake})
'''
LAUNCH = """mutation($names: [String!]!) {
  launchPartitionBackfill(backfillParams: {assetSelection: [{path: ["orders"]}], partitionNames: $names}) {
    ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
BACKFILL = """query($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status assetBackfillData {
    assetBackfillStatuses { ... on AssetPartitionsStatusCounts {
      numPartitionsTargeted numPartitionsMaterialized numPartitionsFailed numPartitionsInProgress } } } } }
}"""
ASSETS = """{ assetNodes { assetKey { path } assetPartitionStatuses { ... on TimePartitionStatuses {
  ranges { startKey endKey status } } } } }"""
TICKS = """{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "definitions.py"}) {
  ... on Sensors { results { name sensorState { status } } } } }"""

Ask = Callable[..., dict]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """GraphQL of a ``dagster dev`` with the definitions above and the shipped instance; retried until the server answers."""
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    shutil.copy(ROOT / "dagster.yaml", tmp_path / "dagster.yaml")
    port = free_port()
    program = str(Path(sys.executable).with_name("dagster"))
    process = subprocess.Popen(
        [program, "dev", "-f", "definitions.py", "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads yet
    )

    def send(query: str, **variables: object) -> dict:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    try:
        yield send
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def until(seen: Callable[[], object]) -> object:
    """What the call gives as soon as it is true."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            if found := seen():
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(1)


def green(ask: Ask, asset: str) -> list[tuple[str, str]]:
    nodes = {
        node["assetKey"]["path"][0]: node["assetPartitionStatuses"]["ranges"] for node in ask(ASSETS)["assetNodes"]
    }
    return [(each["startKey"], each["endKey"]) for each in nodes[asset] if each["status"] == "MATERIALIZED"]


def backfill(ask: Ask, *days: str) -> dict:
    """Launch it and wait for its end; Dagster's figures of it."""
    launched = ask(LAUNCH, names=list(days))["launchPartitionBackfill"]["backfillId"]

    def ended() -> dict | None:
        found = ask(BACKFILL, id=launched)["partitionBackfillOrError"]
        return found if found["status"].startswith("COMPLETED") else None

    (counts,) = until(ended)["assetBackfillData"]["assetBackfillStatuses"]
    return counts


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_late_rows_count_for_no_backfill_turn_nothing_green_and_start_what_is_downstream(ask):
    until(lambda: ask(TICKS)["sensorsOrError"]["results"])
    assert ask(TICKS)["sensorsOrError"]["results"] == [{"name": "automation", "sensorState": {"status": "RUNNING"}}]

    assert backfill(ask, "2026-01-01")["numPartitionsMaterialized"] == 1
    until(lambda: green(ask, "totals") == [("2026-01-01", "2026-01-01")])

    counts = backfill(ask, "2026-01-02", "2026-01-03")
    assert counts == {
        "numPartitionsTargeted": 2,
        "numPartitionsMaterialized": 2,
        "numPartitionsFailed": 0,
        "numPartitionsInProgress": 0,
    }
    assert green(ask, "orders") == [("2026-01-01", "2026-01-03")]
    until(lambda: green(ask, "totals") == [("2026-01-01", "2026-01-03")])
