"""A cluster whose executors are processes of their own: what tasks need must reach them, and no state of the driver's process helps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_loads_and_upserts_run_on_a_cluster_of_two_executors(tmp_path: Path) -> None:
    script = Path(__file__).with_name("on_a_cluster.py")
    home = tmp_path / "home"  # Spark keeps what executors print below its home, so the home is one of links
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(script), str(tmp_path / "table"), str(tmp_path / "place")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "loaded": [40_000, 0],
        "upserted": [5_000, 5_000],
        "rows": 45_000,
        "keys": 45_000,
        "newer": 10_000,
        "older": 0,
        "processes": 2,
    }
