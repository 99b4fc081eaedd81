"""What a sync of one commit costs: it grows with the commit, not with the table."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.homes import home_at, make_at
from support.speed import slowness
from support.tables import ORDERS
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.iceberg import table_metadata
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.schema import to_avro
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

PARTITIONS = 20


class Metered(WrappedStorage):
    """A storage that counts calls, and bytes that are read and written, once it is told to."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage
        self.calls: list[str] = []
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("get", "head", "list", "list_folder", "list_names", "open_input", "put", "put_if_absent"):
            return real

        def call(path: str, *rest: Any) -> Any:
            found = real(path, *rest)
            self.calls.append(name)
            self.bytes += len(found) if name == "get" else len(rest[0]) if name.startswith("put") else 0
            return found

        return call


def commit(storage: Any, number: int, groups: range) -> None:
    """A commit that rewrote these file groups. Their base files hold a byte each, so nothing can have read them."""
    begin = str(20260101000000000 + 1_000 * number)
    stats = []
    for group in groups:
        file_id, partition = f"group{group:06d}-0", f"day=p{group % PARTITIONS}"
        path = f"{partition}/{file_id}_0-1-{number}_{begin}.parquet"
        storage.put(path, b"x")
        stats.append(WriteStat(file_id, path, partition, "null", None, rows=1, size=1))
    made = CommitMetadata("UPSERT", tuple(stats), {"schema": to_avro(ORDERS, "table")})
    instant = Instant(begin, Action.COMMIT, State.COMPLETED, str(int(begin) + 501))
    storage.put(f".hoodie/timeline/{Instant(begin, Action.COMMIT, State.INFLIGHT).file_name()}", b"")
    body = encode_record("HoodieCommitMetadata", made.to_avro(Action.COMMIT), sync_marker=b"0" * 16)
    storage.put(f".hoodie/timeline/{instant.file_name()}", body)


def synced(files: int) -> tuple[Metered, float]:
    """The storage of a table with so many files after the sync of a commit of one file, and the seconds of processor time that this sync took."""
    storage = MemoryStorage("memory://many", MemoryBucket(), SystemClock())
    make_at(home_at(storage))
    for number in range(PARTITIONS):
        storage.put(f"day=p{number}/.hoodie_partition_metadata", b"")
    commit(storage, 0, range(files))
    assert hudi.HudiTable(home_at(storage)).iceberg.sync().files == files
    commit(storage, 1, range(files // 2, files // 2 + 1))
    metered = Metered(storage)
    table = hudi.HudiTable(home_at(metered))  # type: ignore[arg-type]
    began = time.process_time()
    done = table.iceberg.sync()
    took = time.process_time() - began
    assert (done.figures["commits"], done.files) == (1, 1)
    found = table_metadata.load(storage)
    assert found is not None
    assert found.current is not None
    assert found.current["summary"]["total-data-files"] == str(files)
    return metered, took


def test_a_sync_of_one_commit_makes_the_same_calls_in_a_larger_table() -> None:
    few, many = synced(1_000)[0], synced(4_000)[0]
    assert many.calls == few.calls
    # The list of manifests has a line for each 400 files.
    assert many.bytes - few.bytes < 5_000


@pytest.mark.slow
def test_a_sync_of_one_commit_into_a_hundred_thousand_files_takes_less_than_a_second() -> None:
    _, took = synced(100_000)
    assert took < 1.0 * slowness(), f"{took:.3f} s"
