"""A server of Spark Connect in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from support.ports import free_port
from support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
OF_SPARK = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
    "SPARK_LOCAL_IP": "127.0.0.1",
}
"""What the environment of a process with Spark needs."""


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[int]:
    """A server of Spark Connect, with more in its environment; yields its port."""
    port, home = free_port(), Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "server.log").open("wb") as log:
        own = {**os.environ, **OF_SPARK, **environment}
        server = subprocess.Popen(command, cwd=folder, env=own, stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: _listens(port))
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
