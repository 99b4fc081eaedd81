"""``make demo-airflow``: the lake of ``make demo`` through Airflow: a backfill loads days of real flights, and the UI shows it.

``airflow standalone`` runs on SQLite in ``.data/airflow``, with the DAGs of ``examples/airflow``. If the demo runs again, it continues with the lake.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import pyhudi as hudi  # noqa: E402
from examples.flights import feed  # noqa: E402

console = Console(width=None if sys.stdout.isatty() else 150)
DATA = Path(os.environ.get("PYHUDI_DEMO_DATA", ROOT / ".data")).resolve()
HOME = DATA / "airflow"
PATIENCE = 900


def main() -> None:
    """Start Airflow, load days by a backfill, wait for what follows, show the tables, and leave the UI running unless ``--no-ui`` is given."""
    options = _arguments()
    if not (DATA / "feed" / f"received_on={feed.LAST_DAY}").exists():
        console.print(f"{feed.write_messages(DATA / 'feed'):,} messages of the feed are in {DATA / 'feed'}")
    environment = _environment(options.port)
    HOME.mkdir(parents=True, exist_ok=True)
    _plan(environment, options.days)
    with (HOME / "standalone.log").open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _work(server, options)
        if not options.no_ui:
            console.print(f"\nThe UI: http://localhost:{options.port}   (Ctrl-C stops it)\n")
            server.wait()
    except KeyboardInterrupt:
        console.print("stopped")
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The demo in Airflow.")
    parser.add_argument("--days", type=int, default=7, help="days of January 2013 (default 7)")
    parser.add_argument("--port", type=int, default=8080, help="port of the UI (default 8080)")
    parser.add_argument("--no-ui", action="store_true", help="stop after the work")
    return parser.parse_args()


def _environment(port: int) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # standalone starts `airflow`
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}?timeout=120",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW_CONN_HUDI_DEFAULT": json.dumps({"conn_type": "hudi", "host": str(DATA / "lake")}),
        "PYHUDI_DEMO_DATA": str(DATA),
        "PYTHONPATH": str(ROOT),
    }


def _plan(environment: dict[str, str], days: int) -> None:
    """Ask for the backfill before the scheduler starts: SQLite has one writer at a time."""
    last = feed.FIRST_DAY + timedelta(days=days - 1)
    _airflow(environment, "db", "migrate")
    _airflow(environment, "dags", "reserialize")
    span = ["--from-date", str(feed.FIRST_DAY), "--to-date", str(last), "--reprocess-behavior", "completed"]
    _airflow(environment, "backfill", "create", "--dag-id", "load_flights", *span)
    console.print(f"backfill of {days} days: {feed.FIRST_DAY} to {last}")


def _work(server: subprocess.Popen[bytes], options: argparse.Namespace) -> None:
    started = time.monotonic()
    _wait(server, lambda: _answers(options.port), "Airflow does not answer")
    console.print(f"Airflow answers on http://localhost:{options.port}")
    _wait(server, lambda: _ended("load_flights", options.days), "the backfill does not end")
    _wait(server, lambda: _ended("daily_delays", 1) and not _running(), "the runs on events do not end")
    console.print(f"{options.days} days in {time.monotonic() - started:.0f} s\n")
    for name in ("flights", "daily_delays"):
        _show(hudi.open_table(str(DATA / "lake" / name)))


def _airflow(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"airflow {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _wait(server: subprocess.Popen[bytes], condition: object, otherwise: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        if server.poll() is not None or time.monotonic() > end:
            sys.exit(f"{otherwise}; look at {HOME / 'standalone.log'} and {HOME / 'logs'}")
        time.sleep(1)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/api/v2/version", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _count(dag_id: str, states: str) -> int:
    with sqlite3.connect(f"file:{HOME / 'airflow.db'}?mode=ro", uri=True, timeout=60) as database:
        query = f"select count(*) from dag_run where dag_id = ? and state in ({states})"
        return int(database.execute(query, (dag_id,)).fetchone()[0])


def _ended(dag_id: str, count: int) -> bool:
    if failed := _count(dag_id, "'failed'"):
        sys.exit(f"{failed} runs of {dag_id} failed; look at {HOME / 'logs'}")
    return _count(dag_id, "'success'") >= count


def _running() -> bool:
    return bool(_count("daily_delays", "'running', 'queued'"))


def _show(table: hudi.HudiTable) -> None:
    console.print(f"[bold]{table.name}[/bold]  {table.location}  {table.scan().count():,} rows")
    view = Table("instant", "action", "operation", "inserted", "updated", "DAG", "run")
    for instant in table.timeline.commits:
        commit = table.commit_metadata(instant)
        stats = hudi.CommitStats.of(commit)
        names = [commit.extra.get(f"airflow.{name}", "") for name in ("dag_id", "run_id")]
        counts = [f"{count:,}" for count in (stats.rows_inserted, stats.rows_updated)]
        view.add_row(instant.requested_time, str(instant.action), (commit.operation or "").lower(), *counts, *names)
    console.print(view)


if __name__ == "__main__":
    main()
