"""The example for Airflow, executed by a real Airflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi

ROOT = Path(__file__).resolve().parents[2]
AIRFLOW = Path(sys.executable).with_name("airflow")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def airflow(tmp_path: Path):
    """Run a command of Airflow, with the example's DAG and a table of merge-on-read orders with three commits."""
    dags = tmp_path / "home" / "dags"
    shutil.copytree(ROOT / "examples" / "airflow", dags)
    rows = pa.table({"id": [1, 2], "ts": [1, 1]})
    table = hudi.create_table(
        str(tmp_path / "orders"), schema=rows.schema, record_key="id", ordering="ts", table_type="merge_on_read"
    )
    for ts in range(3):
        table.upsert(pa.table({"id": [1, 2], "ts": [ts, ts]}))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(dags.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYHUDI_PYTHON": sys.executable,
        "PYHUDI_TABLE": str(tmp_path / "orders"),
        "PYHUDI_WAIT": "5",
        "PYTHONPATH": str(ROOT),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(AIRFLOW), *words], env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    run("db", "migrate")
    return run


def test_the_dag_runs_the_services_after_a_new_state_and_waits_for_the_next_one(airflow, tmp_path):
    airflow("dags", "test", "hudi_services", "2026-01-01")
    table = hudi.open_table(str(tmp_path / "orders"))
    done = [instant.action.value for instant in table.timeline.completed]
    assert "commit" in done, "the compaction"
    assert "indexing" in done
    assert not list(table.timeline.pending)
    assert table.scan().count() == 2
    assert table.check().ok
    before = len(done)

    told = airflow("dags", "test", "hudi_services", "2026-01-02")
    assert "skipped" in told.lower(), "nothing is new since the services ran"
    assert len(list(hudi.open_table(str(tmp_path / "orders")).timeline.completed)) == before
