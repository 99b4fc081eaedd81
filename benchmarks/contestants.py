"""Start a contestant's process, send it one command at a time, and end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.workload import HOME, ROOT

INTEROP_PYTHON = ROOT / ".interop" / "venv" / "bin" / "python"
LOCAL_PEERS_PYTHON = ROOT / ".peers" / "bin" / "python"
HUDI, DELTA, ICEBERG = "1.0.2", "3.3.2", "1.10.1"


class ContestantError(RuntimeError):
    """A contestant failed to execute a command; its log has the details."""


@dataclass
class Contestant:
    """One contestant's process; use it as a context manager."""

    name: str
    python: Path
    arguments: list[str]
    log: Path = HOME / "contestants.log"
    process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": str(self.python),
        }
        environment.pop("SPARK_HOME", None)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.python), "-m", *self.arguments],
                stdin=-1,
                stdout=-1,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment,
            )
        self._reply("start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, do: str, **command: Any) -> dict[str, Any]:
        """Send one command and return the reply. Raises ContestantError if the command failed."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"do": do} | command) + "\n")
        self.process.stdin.flush()
        reply = self._reply(do)
        if not reply.get("ok"):
            raise ContestantError(f"{self.name} could not {do}: {reply.get('error')} (see {self.log})")
        return reply

    def seconds(self, do: str, **command: Any) -> float:
        """Send one command; returns the seconds that its work took."""
        taken: float = self.ask(do, **command)["seconds"]
        return taken

    def _reply(self, do: str) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise ContestantError(f"{self.name} ended with {self.process.wait()} at {do} (see {self.log})")
        reply: dict[str, Any] = json.loads(line)
        return reply


def pyhudi_spark(heap: str = "2g") -> Contestant:
    """This project on PySpark, in its own environment."""
    return Contestant(
        "pyhudi on PySpark",
        Path(sys.executable),
        ["benchmarks.pyhudi_runs", "spark", heap],
    )


def pyhudi_spark35(heap: str = "2g") -> Contestant:
    """This project on PySpark 3.5, in the environment of the peers."""
    return Contestant(
        "pyhudi on PySpark 3.5",
        INTEROP_PYTHON,
        ["benchmarks.pyhudi_runs", "spark", heap],
    )


def pyhudi_local() -> Contestant:
    """This project on its local engine."""
    return Contestant(
        "pyhudi, local engine",
        Path(sys.executable),
        ["benchmarks.pyhudi_runs", "local"],
    )


def limit() -> Contestant:
    """The pyarrow rewrite."""
    return Contestant("limit", Path(sys.executable), ["benchmarks.limit"])


def peers(heap: str = "2g") -> list[Contestant]:
    """Apache Hudi, Delta and Iceberg."""
    return [
        Contestant(f"Apache Hudi {HUDI}", INTEROP_PYTHON, ["benchmarks.peers.hudi", HUDI, heap]),
        Contestant(f"Delta {DELTA}", INTEROP_PYTHON, ["benchmarks.peers.delta", DELTA, heap]),
        Contestant(
            f"Iceberg {ICEBERG}",
            INTEROP_PYTHON,
            ["benchmarks.peers.iceberg", ICEBERG, heap],
        ),
    ]


def local_peers() -> list[Contestant]:
    """The peers of the local engine. Raises ContestantError if they are not installed."""
    if not LOCAL_PEERS_PYTHON.exists():
        raise ContestantError("The peers are not installed. Run: python scripts/interop_env.py --local-peers")
    return [
        Contestant(name, LOCAL_PEERS_PYTHON, ["benchmarks.peers.local_peers", name])
        for name in ("deltalake", "pyiceberg")
    ]
