"""The example of a stream runs as a program of its own. The quick suite runs it in the session of tests/spark/test_spark_examples.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 3.5 has no streaming data sources in Python")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.spark
def test_the_stream_of_the_example_gives_each_row_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "examples" / "spark_stream.py")]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-2:] == ["0 [(1, 9.5), (2, 7.0)]", "1 [(1, 8.0), (3, 3.0)]"]
