"""A worker that is killed in the middle of a write leaves a table that the next run repairs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import os, signal, sys
import dagster as dg, pyarrow as pa
from pyhudi_dagster import HudiLakeResource, hudi_asset

@hudi_asset(record_key="id", ordering="ts")
def orders(context):
    return pa.table({{"id": [7], "amount": [7.0], "day": ["2026-01-01"], "ts": [9]}})

def killed(*_):
    print("about to commit", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

import pyhudi_dagster.steps.runner
pyhudi_dagster.steps.runner.gate = lambda step, table: killed
dg.materialize([orders], resources={{"lake": HudiLakeResource(warehouse={warehouse!r})}})
"""


def test_the_next_run_repairs_what_a_killed_one_left(run, lake, orders, asset_of):
    run(asset_of(orders(1)))
    code = KILLED.format(warehouse=lake.warehouse)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == -9, done.stderr
    assert "about to commit" in done.stdout
    table = lake.table("orders")
    assert len(list(table.timeline.pending)) == 1
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]

    [beat] = Path(table.location, ".hoodie/.heartbeat").iterdir()
    os.utime(beat, (1, 1))  # long ago
    run(asset_of(orders(2)))
    table = lake.table("orders")
    assert not list(table.timeline.pending)
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2]
    named = {stat.path for instant in table.timeline.commits for stat in table.commit_metadata(instant).stats}
    assert {path.name for path in Path(table.location).glob("*.parquet")} <= named
