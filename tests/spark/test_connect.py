"""A session of Spark Connect reads and writes as a classic one does. It needs a process of its own: PySpark's functions belong to one kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_reads_and_writes_work_on_spark_connect_or_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.connect", reason="PySpark 3.5 has no toArrow, and its clients are not supported")
    script = Path(__file__).with_name("on_connect.py")
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, str(script), str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    # Without grpcio, PySpark ends the process with the code 0.
    assert ended.stdout, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found
    assert {name: said for name, said in found.items() if said != "ok"} == {}
