"""A standalone cluster: a master and two workers as processes with an empty environment and another working folder (`make cluster`)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent


def _begin(place: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process of Spark's; what it prints is in a file."""
    folder = place / name
    folder.mkdir()
    empty = {key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ}
    empty |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(HOME / "bin/spark-class"), *arguments], env=empty, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """The address of the master, and the processes of the workers."""
    kind = "org.apache.spark.deploy"
    started = [
        _begin(tmp_path, "master", f"{kind}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    ]
    log = tmp_path / "master.log"

    def address() -> str | None:
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        return None if found is None else found[1]

    try:
        until(address)
        master = str(address())
        for number in (1, 2):
            own = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(tmp_path / f"work{number}"),
                master,
            ]
            started.append(_begin(tmp_path, f"worker{number}", f"{kind}.worker.Worker", "--host", "127.0.0.1", *own))
        until(lambda: log.read_text().count("Registering worker") == 2)
        yield master, [process.pid for process in started[1:]]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_rows_are_right_after_a_worker_was_killed_and_unfit_executors_are_refused(
    cluster: tuple[str, list[int]], tmp_path: Path
) -> None:
    master, workers = cluster
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    script = str(Path(__file__).with_name("on_standalone.py"))
    command = [sys.executable, script, master, str(tmp_path), str(workers[0]), str(ROOT)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert "no pyarrow" in found["refused"] or "no module named" in found["refused"]
    assert found["seconds"] < 60
    assert found["rows"] == [21_000, 5250, 11_000, 100]
    assert found["damaged"] == []
