"""Plain ``dg dev`` and ``dagster dev`` in the project's folder: the shipped definitions and instance, over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 240
pytestmark = pytest.mark.timeout(900)
QUERY = """{
  instance { runQueuingSupported poolConfig { defaultPoolLimit poolGranularity } }
  runsOrError { ... on Runs { results { runId status } } }
  assetNodes { id assetKey { path } isPartitioned kinds pools }
}"""


def run_once(folder: Path) -> str:
    """One recorded run of an asset of the project, in a process of its own; returns its id."""
    code = (
        "import dagster as dg, definitions as d\n"
        "from pyhudi_dagster import hudi_asset\n"
        "import pyarrow as pa\n"
        "@hudi_asset(record_key='id')\n"
        "def probe():\n"
        "    return pa.table({'id': [1]})\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    print(dg.materialize([probe], instance=instance, resources={'lake': d.lake}).run_id)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DAGSTER_HOME": str(folder),
        "PYHUDI_DEMO_DATA": str(folder / ".data"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT,
    )
    return done.stdout.strip().splitlines()[-1]


def ask(port: int) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": QUERY}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["data"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a user copies: the two files in the root, and the example's code."""
    for name in ("definitions.py", "dagster.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "pyhudi_dagster").symlink_to(ROOT / "pyhudi_dagster")
    return tmp_path


@pytest.fixture(params=["dg", pytest.param("dagster", marks=pytest.mark.slow)])
def served(request: pytest.FixtureRequest, project: Path) -> Iterator[tuple[int, str]]:
    """``dg dev`` or ``dagster dev`` without DAGSTER_HOME, and the id of a run that was recorded before it started."""
    run_id = run_once(project)
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if key != "DAGSTER_HOME"}
    command = [str(Path(sys.executable).with_name(request.param)), "dev", "--host", "127.0.0.1", "--port", str(port)]
    # A shell's background job ignores Ctrl-C, and its children inherit that; the server must not.
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**environment, "PYTHONPATH": str(ROOT), "PYHUDI_DEMO_DATA": str(project / ".data")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads yet
    )
    try:
        yield port, run_id
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def test_a_plain_dev_server_shows_the_assets_the_pools_and_the_history_of_before(served):
    port, run_id = served
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            seen = ask(port)
            if seen["assetNodes"]:
                break
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        assert time.monotonic() < deadline, "the server did not come up"
        time.sleep(1)

    assert seen["instance"]["poolConfig"] == {"defaultPoolLimit": 1, "poolGranularity": "op"}
    assert {"runId": run_id, "status": "SUCCESS"} in seen["runsOrError"]["results"]
    nodes = {"/".join(node["assetKey"]["path"]): node for node in seen["assetNodes"]}
    own = {"flight_messages", "flights", "flights_ro", "weather", "planes", "daily_delays", "flight_conditions"}
    assert set(nodes) == own
    assert nodes["flights"]["isPartitioned"]
    assert nodes["flights"]["pools"] == ["hudi/flights"]
    assert "hudi" in nodes["flights"]["kinds"]
