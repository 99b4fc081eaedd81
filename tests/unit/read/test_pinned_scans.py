"""A scan that was made reads the state that it was made for, or says that it is gone; whatever is written and cleaned in between."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError


def clean(location: str, paths: list[str]) -> None:
    """What a clean of Hudi does to files of older slices."""
    for path in paths:
        Path(location, path).unlink()


def files_of(table: hudi.HudiTable) -> list[str]:
    return [piece.base.path for piece in table.scan().slices()]


@pytest.mark.parametrize("read", ["scan", "incremental", "read_optimized", "lookup"])
def test_a_scan_whose_files_were_cleaned_before_it_was_read_says_so(location: str, read: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    old = files_of(table)
    scan = {
        "scan": table.scan,
        "incremental": lambda: table.incremental(after="0"),
        "read_optimized": lambda: table.scan(mode="read_optimized"),
        "lookup": lambda: table.lookup(orders((1, "a"), (2, "b")).select(["id", "day"])),
    }[read]()
    table.upsert(orders((1, "a", 2.0)))
    clean(location, [path for path in old if path.startswith("day=a")])
    with pytest.raises(SnapshotExpiredError):
        scan.to_arrow()


def test_a_scan_that_is_still_whole_reads_what_it_was_made_for(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    scan = table.scan()
    table.upsert(orders((1, "a", 2.0), (3, "c", 1.0)))
    table.delete_partitions(["day=b"])
    assert rows(scan, "id", "price") == [(1, 1.0), (2, 1.0)]
    assert rows(table.scan(), "id", "price") == [(1, 2.0), (3, 1.0)]


def test_a_scan_of_a_partition_does_not_mind_what_is_gone_elsewhere(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    old = files_of(table)
    scan = table.scan(where="day = 'b'")
    table.upsert(orders((1, "a", 2.0)))
    clean(location, [path for path in old if path.startswith("day=a")])
    assert rows(scan, "id") == [(2,)]
    assert rows(reopen(table).scan(), "id", "price") == [(1, 2.0), (2, 1.0)]


def test_what_a_scan_reads_can_be_sent_to_executors(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    scan = table.scan(where="lower(day) = 'a' AND price < 2", semi_join=([1.0, 2.0], "price"))
    sent = pickle.loads(pickle.dumps(scan.rows))
    found = [batch for piece in scan.slices() for batch in sent.read_slice(scan.storage, piece, scan.merging)]
    assert [batch.column("id").to_pylist() for batch in found] == [[1]]
