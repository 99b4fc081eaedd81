"""Measure the locks of real servers, and commits in S3 on a real gateway, with latency injected (`make evidence PARTS=bench-locks`).

`make locks` installs the servers. Calls are counted by a proxy between the client and the server, so they do not depend on the machine.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import boto3  # noqa: E402
import pyarrow as pa  # noqa: E402
from locks import servers  # noqa: E402
from locks.server_cases import SECRET, Lab  # noqa: E402
from support.tcp_proxy import TcpProxy  # noqa: E402

import pyhudi_core as hudi  # noqa: E402
from benchmarks.locks import section  # noqa: E402
from benchmarks.recording import record  # noqa: E402
from pyhudi_core.lock.base import LockProvider  # noqa: E402
from pyhudi_core.lock.storage_based import StorageBasedLockProvider  # noqa: E402
from pyhudi_core.runtime.system import system_runtime  # noqa: E402
from pyhudi_core.storage.s3 import S3Storage  # noqa: E402

LATENCIES_MS = (0, 20, 100)
ROUNDS = 7
COMMITS = 6
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
KEY = "AKIDEXAMPLE"
Commit = tuple[float, float, float]
"""Calls, milliseconds, milliseconds under the lock."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A lock: its name, what starts its server, and its provider for a server at a port."""

    name: str
    start: Callable[[Path], servers.Server]
    provider: Callable[[int], LockProvider]


def _kind(name: str, start: Callable[[Path], servers.Server], options: Callable[[int], dict[str, object]]) -> Kind:
    return Kind(name, start, lambda port: Lab(port, options, 0, lambda: None, "/tmp/orders").provider())


def _gateway(folder: Path) -> servers.Server:
    return servers.gateway(folder, KEY, SECRET)


WITHOUT_SERVER: dict[str, Callable[[Path], dict[str, object]]] = {
    "`in_process`": lambda _: {"lock": "in_process"},
    "`file_system`, disk": lambda _: {"lock": "file_system"},
    "`sql`, SQLite": lambda folder: {"lock": "sql", "pyhudi.lock.sql.url": f"sqlite:///{folder}/locks.db"},
}
KINDS = (
    Kind("`storage_based`, S3", _gateway,
         lambda port: StorageBasedLockProvider(S3Storage("s3://lake/locked", _storage(port)), system_runtime(1))),
    _kind("`sql`, PostgreSQL", lambda folder: servers.postgresql(folder, SECRET),
          lambda port: {"lock": "sql", "pyhudi.lock.sql.url": f"postgresql://hudi:{SECRET}@127.0.0.1:{port}/locks"}),
    _kind("`zookeeper`", servers.zookeeper,
          lambda port: {"lock": "zookeeper", "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{port}",
                        "hoodie.write.lock.zookeeper.base_path": "/hudi"}),
    _kind("`hive_metastore`, Derby", lambda folder: servers.hive_metastore(folder, 300),
          lambda port: {"lock": "hive_metastore", "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{port}",
                        "hoodie.write.lock.hivemetastore.database": "sales", "hoodie.write.lock.hivemetastore.table": "orders"}),
    _kind("`dynamodb`, DynamoDB Local", servers.dynamodb,
          lambda port: {"lock": "dynamodb", "hoodie.write.lock.dynamodb.table": "locks", "hoodie.aws.access.key": KEY,
                        "hoodie.aws.secret.key": SECRET, "hoodie.write.lock.dynamodb.endpoint_url": f"http://127.0.0.1:{port}"}),
)  # fmt: skip


def main() -> int:
    """Measure all, and hand the figures over."""
    with servers.scratch() as folder:
        found = {name: _without_server(given(folder), folder) for name, given in WITHOUT_SERVER.items()}
        found |= {kind.name: _with_server(kind) for kind in KINDS}
    result = {"locks": found, "commits": _commits(), "latencies_ms": LATENCIES_MS}
    print(section({"locks": result}))
    record("benchmarks", {"locks": result})
    return 0


def _without_server(options: dict[str, object], folder: Path) -> dict[str, Any]:
    """A lock of one machine: no call can be delayed."""
    provider = Lab(0, lambda _: options, 0, lambda: None, str(folder / "orders")).provider()
    return {"calls": None, "ms": [_timed(provider)]}


def _with_server(kind: Kind) -> dict[str, Any]:
    calls, times = 0.0, []
    with _server(kind.start) as server:
        for latency in LATENCIES_MS:
            proxy = TcpProxy(server.port, latency / 1000)
            provider = kind.provider(proxy.port)
            provider.acquire(120).release()  # the first one creates tables and nodes
            before = proxy.calls
            times.append(_timed(provider))
            calls = (proxy.calls - before) / ROUNDS
            proxy.close()
    return {"calls": calls, "ms": times}


def _timed(provider: LockProvider) -> float:
    """The median milliseconds of taking the free lock and giving it back."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        provider.acquire(120).release()
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 3)


def _commits() -> dict[str, Any]:
    found: dict[str, Commit] = {}
    with servers.scratch() as folder:
        found["a local disk"] = _upserts(str(folder / "orders"), {}, lambda: 0)
    with _server(_gateway) as server:
        for latency in LATENCIES_MS:
            proxy = TcpProxy(server.port, latency / 1000)
            name = f"S3, {latency} ms a call"
            found[name] = _upserts(f"s3://lake/{latency}/orders", _storage(proxy.port), lambda p=proxy: p.calls)  # type: ignore[misc]
            proxy.close()
    return {"calls": found[name][0], "ms": {name: each[1:] for name, each in found.items()}}


def _upserts(place: str, storage: dict[str, str], calls: Callable[[], int]) -> Commit:
    """Medians of commits of one row."""
    table = hudi.create_table(place, SCHEMA, "id", options={"hoodie.metadata.enable": False}, storage_options=storage)
    found: list[Commit] = []
    for n in range(COMMITS):
        before, began = calls(), time.perf_counter()
        commit = table.upsert(pa.table({"id": [1], "n": [n]}, SCHEMA))
        found.append((calls() - before, (time.perf_counter() - began) * 1000, commit.lock_held * 1000))
    number, whole, held = (round(statistics.median(column), 1) for column in zip(*found[1:], strict=True))
    return number, whole, held


def _storage(port: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    return {"endpoint_url": url, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": SECRET}


@contextmanager
def _server(start: Callable[[Path], servers.Server]) -> Iterator[servers.Server]:
    with ExitStack() as stack:
        folder = stack.enter_context(servers.scratch())
        server = stack.enter_context(start(folder).running())
        if start is _gateway:
            given = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
            boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.port}", **given).create_bucket(Bucket="lake")  # type: ignore[call-overload]
        yield server


if __name__ == "__main__":
    sys.exit(main())
