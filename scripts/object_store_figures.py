"""Measure what small operations in an object store cost: requests, rounds, and wall time with latency injected (`make evidence PARTS=bench-store`).

A "round" is one step of the longest chain of requests that do not overlap. Requests and rounds are counted while the emulator answers only when
nothing more comes, wall time while it answers after the latency. Each contestant has its defaults, and a table of one file, partitioned by day.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import pyarrow as pa  # noqa: E402
from deltalake import DeltaTable, write_deltalake  # noqa: E402
from pyiceberg.catalog.sql import SqlCatalog  # noqa: E402
from pyiceberg.partitioning import PartitionField, PartitionSpec  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.transforms import IdentityTransform  # noqa: E402
from pyiceberg.types import DoubleType, LongType, NestedField, StringType  # noqa: E402
from support.counted_s3 import BUCKET, CREDENTIALS, CountedS3, counted_s3  # noqa: E402

import pyhudi_core as hudi  # noqa: E402
from benchmarks.object_stores import section  # noqa: E402
from benchmarks.recording import record  # noqa: E402

LATENCIES_MS = (0, 20, 100)
TRIES = 3
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("day", pa.string()), ("price", pa.float64())])
_numbers = count(1)


def rows(*keys: int) -> pa.Table:
    """Return rows of one day, each newer than those before."""
    ts = next(_numbers)
    data = [(key, ts, "a", float(ts)) for key in keys]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*data, strict=True), SCHEMA, strict=True)], SCHEMA
    )


@dataclass(slots=True)
class Contestant:
    """One library: its operations. ``made`` is the table that the last create has made."""

    store: CountedS3
    folder: Path
    name: str = ""
    made: Any = None

    def place(self) -> str:
        """Return a new location."""
        return f"s3://{BUCKET}/{self.name.replace(' ', '_')}/t{next(_numbers)}"

    def create(self) -> None:
        """Create a table with the first two rows of it."""

    def upsert(self) -> None:
        """Change one row."""

    def insert(self) -> None:
        """Add one row."""

    def scan(self) -> None:
        """Open the table and read all rows."""


class Hudi(Contestant):
    """This project. A create makes no rows, so the first upsert is among it."""

    def create(self) -> None:
        self.made = hudi.create_table(self.place(), SCHEMA, "id", "day", "ts", storage_options=self.store.options)
        self.made.upsert(rows(1, 2))

    def upsert(self) -> None:
        self.made.upsert(rows(1))

    def insert(self) -> None:
        self.made.insert(rows(100 + next(_numbers)))

    def scan(self) -> None:
        hudi.open_table(self.made.location, self.store.options).scan(meta=False).to_arrow()


class Delta(Contestant):
    """deltalake."""

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": CREDENTIALS["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret_access_key"],
            "AWS_REGION": CREDENTIALS["region"],
            "AWS_ENDPOINT_URL": self.store.url,
            "AWS_ALLOW_HTTP": "true",
            "conditional_put": "etag",
        }

    def create(self) -> None:
        place = self.place()
        write_deltalake(place, rows(1, 2), partition_by="day", storage_options=self.options)
        self.made = DeltaTable(place, storage_options=self.options)

    def upsert(self) -> None:
        merge = self.made.merge(rows(1), "s.id = t.id AND s.day = t.day", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def insert(self) -> None:
        write_deltalake(self.made, rows(100 + next(_numbers)), mode="append")

    def scan(self) -> None:
        DeltaTable(self.made.table_uri, storage_options=self.options).to_pyarrow_table()


class Iceberg(Contestant):
    """PyIceberg, with a catalog in SQLite beside it, whose calls are not counted."""

    def create(self) -> None:
        options = {
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"s3://{BUCKET}/iceberg",
            "s3.endpoint": self.store.url,
            "s3.access-key-id": CREDENTIALS["access_key_id"],
            "s3.secret-access-key": CREDENTIALS["secret_access_key"],
            "s3.region": CREDENTIALS["region"],
        }
        self.catalog = SqlCatalog("figures", **options)
        self.catalog.create_namespace_if_not_exists("n")
        kinds = (LongType(), LongType(), StringType(), DoubleType())
        fields = [
            NestedField(number, field.name, kind, required=False)
            for number, (field, kind) in enumerate(zip(SCHEMA, kinds, strict=True), 1)
        ]
        parts = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
        self.called = f"n.t{next(_numbers)}"
        self.made = self.catalog.create_table(self.called, Schema(*fields), partition_spec=parts)
        self.made.append(rows(1, 2))

    def upsert(self) -> None:
        self.made.upsert(rows(1), join_cols=["id"])

    def insert(self) -> None:
        self.made.append(rows(100 + next(_numbers)))

    def scan(self) -> None:
        self.catalog.load_table(self.called).scan().to_arrow()


OPERATIONS = ("create", "upsert", "insert", "scan")
KINDS: dict[str, type[Contestant]] = {"pyhudi": Hudi, "deltalake": Delta, "PyIceberg": Iceberg}


def main() -> int:
    """Measure, record, and print the section."""
    found: dict[str, dict[str, dict[str, Any]]] = {operation: {} for operation in OPERATIONS}
    with counted_s3() as store, TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            contestant = kind(store, Path(folder), name)
            for operation in OPERATIONS:
                found[operation][name] = _measured(store, contestant, operation)
                print(operation, name, found[operation][name], file=sys.stderr, flush=True)
    result = {"latencies_ms": LATENCIES_MS, "operations": found}
    record("object_stores", result)
    print(section({"object_stores": result}))
    return 0


def _measured(store: CountedS3, contestant: Contestant, operation: str) -> dict[str, Any]:
    call: Callable[[], None] = getattr(contestant, operation)
    contestant.create()  # a table with few commits
    call()  # a warm-up
    traces = []
    for _ in range(TRIES):
        with store.traced() as trace:
            call()
        traces.append((trace.rounds, len(trace.requests)))
    rounds, requests = min(traces)  # a busy machine sends apart what is sent at once
    times = []
    for latency in LATENCIES_MS:
        with _delayed(store, latency):
            times.append(statistics.median(_timed(store, call) for _ in range(TRIES)))
    return {"requests": requests, "rounds": rounds, "ms": [round(ms, 1) for ms in times]}


@contextmanager
def _delayed(store: CountedS3, latency: int) -> Iterator[None]:
    store.delay_s = latency / 1000
    try:
        yield
    finally:
        store.delay_s = None


def _timed(store: CountedS3, call: Callable[[], None]) -> float:
    with store.traced():
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
