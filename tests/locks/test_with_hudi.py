"""Hudi's lock providers for ZooKeeper and ours exclude each other through one server: two processes, one of them Hudi 1.0.2."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from locks.hudi_locking import raise_by_one
from locks.server_cases import Lab
from locks.servers import ROOT, Server, scratch, zookeeper
from pyhudi_core.errors import LockTimeoutError

pytestmark = pytest.mark.slow
PYTHON = ROOT / ".interop" / "venv" / "bin" / "python"
BUNDLE = ROOT / ".interop" / "jars" / "hudi-spark3.5-bundle_2.12-1.0.2.jar"
ROUNDS = 40


class Hudi:
    """Hudi's provider in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self.reply()
        assert answer["ok"], answer
        return answer

    def reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"ok": false}')
        return answer


@contextmanager
def hudi_with(name: str, options: Mapping[str, object], folder: Path) -> Iterator[Hudi]:
    """Hudi's class with the options of a table."""
    assert PYTHON.exists(), "Hudi is not installed: run `make interop`, which installs it"
    given = {key: str(value) for key, value in options.items() if key.startswith("hoodie.")}
    given |= {"hoodie.base.path": str(folder / "orders"), "hoodie.table.name": "orders"}
    script = Path(__file__).with_name("hudi_locking.py")
    command = [str(PYTHON), str(script), name, json.dumps(given), str(folder), str(BUNDLE)]
    log = folder / "hudi.log"
    with log.open("wb") as out, subprocess.Popen(command, stdin=-1, stdout=-1, stderr=out, text=True) as process:
        running = Hudi(process)
        assert running.reply() == {"ok": True}, log.read_text()[-6_000:]
        yield running
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def exclude_each_other(lab: Lab, hudi: Hudi, folder: Path, **options: object) -> None:
    """Each side keeps the other out; and both raise one counter under the lock."""
    ours = lab.provider(**options)
    held = ours.acquire(20, "ours")
    assert not hudi.ask(do="take", ms=300)["got"]
    assert held.still_held()
    held.release()
    assert hudi.ask(do="take", ms=20_000)["got"]
    with pytest.raises(LockTimeoutError, match="another tool"):
        ours.acquire(0.3)
    hudi.ask(do="give")
    (folder / "counter").write_text("0")
    errors: list[BaseException] = []

    def theirs() -> None:
        try:
            hudi.ask(do="count", rounds=ROUNDS)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=theirs)
    thread.start()
    for _ in range(ROUNDS):
        session = ours.acquire(120, "count")
        raise_by_one(folder, "python")
        session.release()
    thread.join(300)
    assert errors == []
    assert (folder / "counter").read_text() == str(2 * ROUNDS)


@pytest.fixture(scope="module")
def zookeeper_server() -> Iterator[Server]:
    with scratch() as folder, zookeeper(folder).running() as running:
        yield running


@pytest.mark.row("O2")
@pytest.mark.parametrize(
    ("ours", "name"),
    [("zookeeper", "ZookeeperBasedLockProvider"), ("zookeeper_implicit", "ZookeeperBasedImplicitBasePathLockProvider")],
)
def test_hudis_lock_in_zookeeper(ours: str, name: str, zookeeper_server: Server, tmp_path: Path) -> None:
    port = zookeeper_server.port

    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{port}",
            "hoodie.write.lock.zookeeper.base_path": "/hudi",
            "hoodie.write.lock.zookeeper.lock_key": "orders",
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
            "hoodie.write.lock.num_retries": 3,
        }

    lab = Lab(port, options, 60.0, zookeeper_server.stopped, str(tmp_path / "orders"))
    full = f"org.apache.hudi.client.transaction.lock.{name}"
    with hudi_with(full, options(port), tmp_path) as hudi:
        exclude_each_other(lab, hudi, tmp_path, lock=ours)
