"""A real Airflow on SQLite or PostgreSQL: API server, scheduler, DAG processor and triggerer, each a process that a test may kill."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import sqlalchemy

from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("api-server", "dag-processor", "scheduler", "triggerer")


class Airflow:
    """The servers of one home, with the DAG files of a folder, and a warehouse that the default connection names.

    ``database`` is the address of Airflow's database; the default is SQLite in its home.
    """

    def __init__(self, home: Path, lake: Path, database: str = "") -> None:
        self.home, self.lake, self.port = home, lake, free_port()
        self.database = database or f"sqlite:///{home / 'airflow.db'}?timeout=120"
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{self.port}",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "AIRFLOW_CONN_HUDI_DEFAULT": json.dumps({"conn_type": "hudi", "host": str(lake)}),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }

    def command(self, *words: str) -> str:
        """What a command of Airflow prints; an error fails the test."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def start(self, *programs: str) -> None:
        """Start servers; without names all of them."""
        if not (self.home / "migrated").exists():
            self.command("db", "migrate")
            (self.home / "migrated").touch()
        for name in programs or PROGRAMS:
            log = (self.home / f"{name}.log").open("ab")
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", name],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, *programs: str) -> None:
        """Kill servers with all their processes, as ``kill -9`` does; without names all of them."""
        for name in programs or tuple(self.running):
            process = self.running.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def processor_seconds(self, program: str) -> float:
        """The processor time of a server so far, with that of its children that live or have ended."""
        server = psutil.Process(self.running[program].pid)
        return sum(sum(each.cpu_times()[:4]) for each in (server, *server.children(recursive=True)))

    def call(self, method: str, address: str, body: dict[str, Any]) -> Any:
        """The answer of Airflow's API, as the UI calls it."""
        place = f"http://127.0.0.1:{self.port}"
        with urllib.request.urlopen(f"{place}/auth/token", timeout=60) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(
            f"{place}/api/v2/{quote(address)}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """The answer of Airflow's database; a query has its values as ``:name``."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sqlalchemy.text(query), values)]

    @cached_property
    def _engine(self) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(self.database, poolclass=sqlalchemy.NullPool)

    def events(self, asset: str) -> list[dict[str, Any]]:
        """The payloads of the events of an asset, oldest first."""
        found = self.rows(
            "select e.extra from asset_event e join asset a on a.id = e.asset_id where a.name = :asset order by e.id",
            asset=asset,
        )
        extras = [json.loads(extra) if isinstance(extra, str) else extra for (extra,) in found]
        return [extra.get("payload", extra) for extra in extras]

    def log(self, program: str) -> str:
        """The end of what a server has written."""
        path = self.home / f"{program}.log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    def wait(self, condition: Callable[[], object], what: str, seconds: float = 300) -> None:
        """Wait until a condition holds; else fail with the logs."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                said = "\n".join(f"=== {name}\n{self.log(name)}" for name in PROGRAMS)
                raise AssertionError(f"{what}: not within {seconds} s\n{said}")
            time.sleep(0.25)
