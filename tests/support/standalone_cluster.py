"""A standalone cluster of Spark: a master and workers of one core, as processes with an empty environment and other working folders."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from support.waiting import until

HOME = Path(pyspark.__file__).parent
_KIND = "org.apache.spark.deploy"


@dataclass
class StandaloneCluster:
    """A master, and its workers, also those that have ended."""

    place: Path
    master: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self) -> None:
        """Start a worker, and wait until the master knows it."""
        name = f"worker{len(self.workers) + 1}"
        own = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.place / f"work-{name}")]
        self.workers.append(
            _begin(self.place, name, f"{_KIND}.worker.Worker", "--host", "127.0.0.1", *own, self.master)
        )
        log = self.place / "master.log"
        until(lambda: log.read_text().count("Registering worker") == len(self.workers))


@contextmanager
def standalone_cluster(place: Path) -> Iterator[StandaloneCluster]:
    """A master with two workers."""
    master = _begin(
        place, "master", f"{_KIND}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
    )
    log = place / "master.log"
    cluster = StandaloneCluster(place, "")
    try:
        cluster.master = str(
            until(lambda: "".join(re.findall(r"Starting Spark master at (spark://\S+)", log.read_text())))
        )
        for _ in range(2):
            cluster.start_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            process.kill()
            process.wait()


def _begin(place: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process of Spark's; what it prints is in a file."""
    folder = place / name
    folder.mkdir()
    empty = {key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ}
    empty |= {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true",
    }
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(HOME / "bin/spark-class"), *arguments], env=empty, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
