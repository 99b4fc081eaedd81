"""What a plan of a clean costs: it reads names and commits, and no data file."""

from __future__ import annotations

import time

import pytest
from support.homes import home_at, make_at
from support.speed import slowness
from support.tables import ORDERS

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.schema import to_avro
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

COMMITS = 20
PARTITIONS = 20


def table_with(files: int) -> MemoryStorage:
    """A table that so many commits have rewritten completely. The base files hold a byte each, so nothing can have read them."""
    storage = MemoryStorage("memory://many", MemoryBucket(), SystemClock())
    make_at(home_at(storage))
    schema = to_avro(ORDERS, "table")
    known: dict[str, tuple[str, str]] = {}
    for number in range(COMMITS):
        begin = str(20260101000000000 + 1_000 * number)
        stats = []
        for group in range(files // COMMITS):
            file_id, partition = f"group{group:06d}-0", f"day=p{group % PARTITIONS}"
            name = f"{file_id}_0-1-{number}_{begin}.parquet"
            storage.put(f"{partition}/{name}", b"x")
            before = known.get(file_id, ("null", None))
            stats.append(WriteStat(file_id, f"{partition}/{name}", partition, *before, rows=1, size=1))
            known[file_id] = (begin, name)
        commit = CommitMetadata("UPSERT", tuple(stats), {"schema": schema})
        body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=b"0" * 16)
        instant = Instant(begin, Action.COMMIT, State.COMPLETED, str(int(begin) + 501))
        storage.put(f".hoodie/timeline/{Instant(begin, Action.COMMIT, State.INFLIGHT).file_name()}", b"")
        storage.put(f".hoodie/timeline/{instant.file_name()}", body)
    for number in range(PARTITIONS):
        storage.put(f"day=p{number}/.hoodie_partition_metadata", b"")
    return storage


def planned_within(files: int, seconds: float) -> None:
    table = hudi.HudiTable(home_at(table_with(files)))
    began = time.process_time()
    plan = table.cleaning.plan()
    took = time.process_time() - began
    # Ten commits stay, and the state before them.
    assert plan.figures["files"] == files // COMMITS * (COMMITS - 11)
    assert took < seconds * slowness(), f"{took:.2f} s"


@pytest.mark.row("N7")
def test_a_plan_for_ten_thousand_files_takes_less_than_a_second() -> None:
    planned_within(10_000, 0.6)


@pytest.mark.slow
@pytest.mark.row("N7")
def test_a_plan_for_a_hundred_thousand_files_takes_less_than_two_seconds() -> None:
    planned_within(100_000, 2.0)
