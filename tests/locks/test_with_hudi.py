"""Hudi's lock providers and ours exclude each other through one server: two processes, one of them Hudi 1.0.2.

Hudi's provider for DynamoDB is not in Maven Central; Amazon's lock client, which it is built on, takes its place (`hudi_locking.py`).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from locks.hudi_locking import raise_by_one
from locks.server_cases import SECRET, Lab
from locks.servers import INSTALLED, ROOT, Server, dynamodb, hive_metastore, scratch, zookeeper
from pyhudi_core.errors import LockTimeoutError

pytestmark = pytest.mark.slow
PYTHON = ROOT / ".interop" / "venv" / "bin" / "python"
BUNDLE = ROOT / ".interop" / "jars" / "hudi-spark3.5-bundle_2.12-1.0.2.jar"
ROUNDS = 40
AMAZON = [
    f"{name}-2.25.50"
    for name in (
        "annotations", "auth", "aws-core", "aws-json-protocol", "checksums", "checksums-spi", "dynamodb", "endpoints-spi", "http-auth",
        "http-auth-aws", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi", "profiles", "protocol-core", "regions", "sdk-core",
        "third-party-jackson-core", "url-connection-client", "utils",
    )
]  # fmt: skip
"""What Amazon's client for DynamoDB consists of, as DynamoDB Local brings it along."""


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
def hudi_with(
    name: str, options: Mapping[str, object], folder: Path, classes: Iterable[Path] = (BUNDLE,)
) -> Iterator[Hudi]:
    """Hudi's class with the options of a table."""
    assert PYTHON.exists(), "Hudi is not installed: run `make interop`, which installs it"
    given = {key: str(value) for key, value in options.items()}
    given |= {"hoodie.base.path": str(folder / "orders"), "hoodie.table.name": "orders"}
    script = Path(__file__).with_name("hudi_locking.py")
    command = [str(PYTHON), str(script), name, json.dumps(given), str(folder), ":".join(map(str, classes))]
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


@pytest.mark.row("O3")
def test_the_lock_of_hudis_provider_in_dynamodb(tmp_path: Path) -> None:
    """Leases are longer than any pause of a busy machine; Amazon's client waits for a lease before it gives up."""

    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.dynamodb.table": "locks",
            "hoodie.write.lock.dynamodb.partition_key": "orders",
            "hoodie.write.lock.dynamodb.region": "eu-west-1",
            "hoodie.write.lock.dynamodb.endpoint_url": f"http://127.0.0.1:{port}",
            "hoodie.aws.access.key": "AKIDEXAMPLE",
            "hoodie.aws.secret.key": SECRET,
            "hoodie.write.lock.wait_time_ms": 30_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
        }

    installed = INSTALLED / "dynamodb"
    classes = [*installed.glob("dynamodb-lock-client-*.jar"), *installed.glob("reactive-streams-*.jar")]
    classes += [*installed.glob("eventstream-*.jar"), *(installed / f"{name}.jar" for name in AMAZON)]
    with scratch() as folder, dynamodb(folder).running() as server:
        lab = Lab(server.port, options, 15.0, server.stopped, str(tmp_path / "orders"))
        lab.provider(lock="dynamodb").acquire(20).release()  # creates the table
        with hudi_with("com.amazonaws.dynamodb-lock-client", options(server.port), tmp_path, classes) as amazon:
            exclude_each_other(lab, amazon, tmp_path, lock="dynamodb")


@pytest.mark.row("O4")
def test_hudis_lock_in_a_hive_metastore(tmp_path: Path) -> None:
    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{port}",
            "hoodie.write.lock.hivemetastore.database": "sales",
            "hoodie.write.lock.hivemetastore.table": "Orders",
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
            "hoodie.write.lock.num_retries": 3,
        }

    name = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
    with scratch() as folder, hive_metastore(folder, 60).running() as server:
        lab = Lab(server.port, options, 60.0, server.stopped, str(tmp_path / "orders"))
        with hudi_with(name, options(server.port), tmp_path) as hudi:
            exclude_each_other(lab, hudi, tmp_path, lock="hive_metastore")
