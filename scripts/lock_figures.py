"""Measure the locks of real servers, and commits in S3 on a real gateway, with latency injected; write the tables of docs/locks.md.

    PYTHONPATH=.:tests python scripts/lock_figures.py

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

PAGE = ROOT / "docs" / "locks.md"
START, END = "<!-- figures: scripts/lock_figures.py -->", "<!-- end of figures -->"
LATENCIES_MS = (0, 20, 100)
ROUNDS = 7
COMMITS = 4
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
PLAIN = {"hoodie.metadata.enable": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """A lock: its name, and what starts its server; the server gives the options at a port."""

    name: str
    start: Callable[[Path], servers.Server]
    options: Callable[[int], dict[str, object]]


KINDS = (
    Kind(
        "`sql`, PostgreSQL",
        lambda folder: servers.postgresql(folder, SECRET),
        lambda port: {"lock": "sql", "pyhudi.lock.sql.url": f"postgresql://hudi:{SECRET}@127.0.0.1:{port}/locks"},
    ),
    Kind(
        "`zookeeper`",
        servers.zookeeper,
        lambda port: {
            "lock": "zookeeper",
            "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{port}",
            "hoodie.write.lock.zookeeper.base_path": "/hudi",
        },
    ),
    Kind(
        "`hive_metastore`",
        lambda folder: servers.hive_metastore(folder, 300),
        lambda port: {
            "lock": "hive_metastore",
            "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{port}",
            "hoodie.write.lock.hivemetastore.database": "sales",
            "hoodie.write.lock.hivemetastore.table": "orders",
        },
    ),
    Kind(
        "`dynamodb`",
        servers.dynamodb,
        lambda port: {
            "lock": "dynamodb",
            "hoodie.write.lock.dynamodb.table": "locks",
            "hoodie.write.lock.dynamodb.endpoint_url": f"http://127.0.0.1:{port}",
            "hoodie.aws.access.key": "AKIDEXAMPLE",
            "hoodie.aws.secret.key": SECRET,
        },
    ),
)


def main() -> int:
    """Measure, and write the page; returns the exit code."""
    tables = [_locks(), _commits()]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{chr(10).join(tables)}\n{END}{after}", encoding="utf-8")
    return 0


def _locks() -> str:
    lines = [
        "| lock | calls to take and give back | "
        + " | ".join(f"ms at {latency} ms a call" for latency in LATENCIES_MS)
        + f" | holdings a second at {LATENCIES_MS[1]} ms |",
        "|---|---|" + "---|" * (len(LATENCIES_MS) + 1),
    ]
    for kind in KINDS:
        with _server(kind.start) as server:
            found = [_holdings(kind, server.port, latency) for latency in LATENCIES_MS]
        calls = found[0][0]
        times = " | ".join(f"{took:.0f}" for _, took in found)
        lines.append(f"| {kind.name} | {calls:.0f} | {times} | {1000 / found[1][1]:.1f} |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def _holdings(kind: Kind, port: int, latency_ms: int) -> tuple[float, float]:
    """The median calls and milliseconds of taking the free lock and giving it back."""
    proxy = TcpProxy(port, latency_ms / 1000)
    lab = Lab(proxy.port, kind.options, 0, lambda: None, "/tmp/orders")
    provider = lab.provider()
    provider.acquire(120).release()  # the first one creates tables and nodes
    calls, times = [], []
    for _ in range(ROUNDS):
        before, began = proxy.calls, time.monotonic()
        provider.acquire(120).release()
        times.append((time.monotonic() - began) * 1000)
        calls.append(proxy.calls - before)
    proxy.close()
    return statistics.median(calls), statistics.median(times)


def _commits() -> str:
    lines = [
        "| latency of a call to S3 | calls of an upsert of one row | of these under the lock | ms of the commit | ms under the lock |",
        "|---|---|---|---|---|",
    ]
    with _server(lambda folder: servers.gateway(folder, "AKIDEXAMPLE", SECRET)) as server:
        for latency in LATENCIES_MS:
            proxy = TcpProxy(server.port, latency / 1000)
            found = _upserts(proxy, f"s3://lake/{latency}/orders")
            proxy.close()
            calls, held_calls, took, held = (statistics.median(column) for column in zip(*found, strict=True))
            under = f"{held_calls:.0f}" if latency else "-"
            lines.append(f"| {latency} ms | {calls:.0f} | {under} | {took:.0f} | {held:.0f} |")
            print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def _upserts(proxy: TcpProxy, place: str) -> list[tuple[float, float, float, float]]:
    """Calls, calls under the lock (its time by the latency), milliseconds, milliseconds under the lock, of each commit."""
    url = f"http://127.0.0.1:{proxy.port}"
    options = {"endpoint_url": url, "region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
    client: Any = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key=SECRET
    )
    if not any(bucket["Name"] == "lake" for bucket in client.list_buckets()["Buckets"]):
        client.create_bucket(Bucket="lake")
    table = hudi.create_table(place, SCHEMA, "id", options=PLAIN, storage_options=options)
    found = []
    for n in range(COMMITS):
        before, began = proxy.calls, time.monotonic()
        commit = table.upsert(pa.table({"id": [1], "n": [n]}, SCHEMA))
        took = time.monotonic() - began
        held = commit.lock_held
        found.append((proxy.calls - before, held / proxy.delay_s if proxy.delay_s else 0.0, took * 1000, held * 1000))
    return found[1:]


@contextmanager
def _server(start: Callable[[Path], servers.Server]) -> Iterator[servers.Server]:
    with ExitStack() as stack:
        folder = stack.enter_context(servers.scratch())
        yield stack.enter_context(start(folder).running())


if __name__ == "__main__":
    sys.exit(main())
