"""A standalone cluster: a master and two workers as processes with an empty environment and another working folder (`make cluster`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.standalone_cluster import standalone_cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_rows_are_right_after_a_worker_was_killed_and_unfit_executors_are_refused(
    tmp_path: Path,
) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    script = str(Path(__file__).with_name("on_standalone.py"))
    with standalone_cluster(tmp_path) as cluster:
        command = [sys.executable, script, cluster.master, str(tmp_path), str(cluster.workers[0].pid), str(ROOT)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert "no pyarrow" in found["refused"] or "no module named" in found["refused"]
    assert found["seconds"] < 60
    assert found["rows"] == [21_000, 5250, 11_000, 100]
    assert found["damaged"] == []
