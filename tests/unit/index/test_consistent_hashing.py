"""Consistent hashing: the metadata of a partition names the file group of each hash, as in Hudi; what would break its ranges is refused."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    CorruptionError,
    DuplicateKeyError,
    HudiError,
    InvalidOptionError,
    UnsupportedTableError,
)
from pyhudi_core.formats.xxhash import xxh32
from pyhudi_core.index.hashing_metadata import FIRST, FOLDER, LARGEST, HashingMetadata, load, make
from pyhudi_core.storage.base import Storage

SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
BUCKET = SMALL | {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3}
ENGINE = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
CONSISTENT = BUCKET | ENGINE

pytestmark = pytest.mark.row("I12")


def made(location: str | None = None, kind: str = "MERGE_ON_READ", **options: Any) -> hudi.HudiTable:
    return create_plain(
        location or f"memory://consistent/{uuid4()}", orders().schema, "id", "day",
        table_type=kind, ordering="ts", options=CONSISTENT | options,
    )  # fmt: skip


def storage_of(table: hudi.HudiTable) -> Storage:
    return table._opened.context().storage


def ring(table: hudi.HudiTable, partition: str) -> HashingMetadata:
    found = load(storage_of(table), partition, lambda _: False)
    assert found is not None
    return found


def assert_in_ranges(table: hudi.HudiTable) -> None:
    """Every row is in the file group of the first range that ends at its hash or later."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    for row in table.scan(columns=names).to_arrow().to_pylist():
        key, partition, file = row.values()
        nodes = ring(table, partition).nodes
        number = int(xxh32(pa.array([key]))[0]) & LARGEST
        prefix = next((prefix for end, prefix in nodes if number <= end), nodes[0][1])
        assert file.startswith(f"{prefix}-0"), (key, partition)


def test_the_first_metadata_is_hudis() -> None:
    """The values are those of a file that Hudi 1.0.2 wrote for the partition ``a``."""
    first = HashingMetadata.first("a", 3)
    assert first.nodes == (
        (715827883, "6fe78eb1-aa4f-3d73-bd89-3aff942d5c35"),
        (1431655766, "dd5d9cb5-4ff5-3b56-bc26-93c61ae4034a"),
        (LARGEST, "74c78371-8129-367d-a89f-c8d9dff7ba55"),
    )
    assert HashingMetadata.decode(first.encode(), "p") == first
    assert list(json.loads(first.encode())) == ["version", "partitionPath", "instant", "numBuckets", "seqNo", "nodes"]
    assert [end for end, _ in HashingMetadata.first("", 1).nodes] == [LARGEST]


def test_keys_come_to_their_ranges_and_stay_there() -> None:
    table = made(**{"hoodie.metadata.enable": True})
    first = table.upsert(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(20))))
    assert "BUCKET" in str(first.stats.index)
    assert_in_ranges(table)
    later = hudi.open_table(table.location, options=SMALL | {"hoodie.bucket.index.num.buckets": 8})
    commit = later.upsert(orders(*((n, "ab"[n % 2], 2.0, 2) for n in range(10, 30))))
    assert commit.stats.index == "BUCKET: the table has consistent hashing"
    assert all(".log." in stat.path for stat in commit.stats.files), "new keys of known ranges go to logs, too"
    later.upsert(orders((1, "c", 3.0, 3)))
    assert_in_ranges(table)
    assert len(ring(table, "day=a").nodes) == 3 and len(ring(table, "day=c").nodes) == 8
    assert len(rows(table, "id")) == 31
    with pytest.raises(DuplicateKeyError):
        later.insert(orders((1, "c", 3.0, 3)))
    assert later.delete(orders((0, "a"), (1, "c"), (5, "d")).select(["id", "day"])).stats.rows_deleted == 2
    assert load(storage_of(table), "day=d", lambda _: False) is None, "a delete makes no metadata"
    later.compaction.run()
    assert_in_ranges(table)
    assert_metadata_is_true(table)
    assert table.check().ok, table.check().findings


def test_two_writers_that_make_a_partition_at_once_use_one_metadata() -> None:
    table = made()
    other = hudi.open_table(table.location, options=CONSISTENT | {"hoodie.bucket.index.num.buckets": 5})
    with table.begin("upsert") as early, other.begin("upsert") as late:
        early.write(orders(*((n, "a", 1.0, 1) for n in range(10))))
        late.write(orders(*((n, "a", 2.0, 2) for n in range(5, 15))))
        late.commit()
        with pytest.raises(CommitConflictError) as lost:
            early.commit()
        early.again(lost.value)
        early.commit()
    assert len(ring(table, "day=a").nodes) == 3, (
        "the first one that was written counts, whatever number the other one has"
    )
    assert [price for _, price in rows(table, "id", "price")] == [1.0] * 5 + [2.0] * 10
    assert_in_ranges(table)


def test_the_metadata_is_made_once() -> None:
    storage = storage_of(made())
    assert make(storage, "day=a", 3) == make(storage, "day=a", 7) == HashingMetadata.first("day=a", 3)


@pytest.mark.parametrize(
    ("completed", "marked", "counts"),
    [
        ((), (), FIRST),
        (("20260101000000002",), (), "20260101000000002"),
        ((), ("20260101000000002",), "20260101000000002"),
    ],
)
def test_the_metadata_of_a_clustering_counts_when_it_has_completed(
    completed: tuple[str, ...], marked: tuple[str, ...], counts: str
) -> None:
    storage = storage_of(made())
    make(storage, "day=a", 3)
    for time in ("20260101000000002", "20260101000000004"):
        nodes = HashingMetadata.first("day=x", 2).nodes
        storage.put(f"{FOLDER}/day=a/{time}.hashing_meta", HashingMetadata("day=a", time, nodes).encode())
    for time in marked:
        storage.put(f"{FOLDER}/day=a/{time}.commit", b"")
    found = load(storage, "day=a", completed.__contains__)
    assert found is not None and found.instant == counts


@pytest.mark.row("C10")
def test_the_metadata_of_a_clustering_that_a_restore_undid_does_not_count() -> None:
    """Hudi's clustering leaves its marker beside the metadata, and a restore leaves both."""
    table = made()
    table.upsert(orders((0, "a", 1.0, 1), (1, "a", 1.0, 1)))
    [first] = table.timeline.commits
    undone = table.upsert(orders((2, "a", 1.0, 1))).instant
    ids = ["00000000-0000-3000-8000-000000000001", "00000000-0000-3000-8000-000000000002"]
    nodes = tuple(zip((1 << 30, LARGEST), ids, strict=True))
    place = f"{FOLDER}/day=a/{undone}"
    storage_of(table).put(f"{place}.hashing_meta", HashingMetadata("day=a", undone, nodes).encode())
    storage_of(table).put(f"{place}.commit", b"")
    assert ring(table, "day=a").instant == undone
    table.restore(first.requested_time)
    table = hudi.open_table(table.location, options=CONSISTENT)
    table.upsert(orders((0, "a", 2.0, 2), (3, "a", 2.0, 2)))
    assert rows(table, "id", "price") == [(0, 2.0), (1, 1.0), (3, 2.0)]
    storage = storage_of(table)
    found = load(storage, "day=a", lambda _: False, frozenset({undone}))
    assert found is not None and found.instant == FIRST
    prefixes = {name for _, name in found.nodes}
    files = table.scan(columns=["_hoodie_file_name"]).to_arrow().column(0).to_pylist()
    assert {name.rsplit("_", 2)[0].removesuffix("-0") for name in files} <= prefixes


def test_hashes_after_the_last_range_come_to_the_first_one() -> None:
    """A merge of buckets by Hudi may leave the last range to the first file group."""
    table = made()
    table.upsert(orders((0, "b", 1.0, 1)))
    nodes = ((1 << 30, "00000000-0000-3000-8000-000000000001"), ((1 << 30) + 5, "00000000-0000-3000-8000-000000000002"))
    storage_of(table).put(f"{FOLDER}/day=a/{FIRST}.hashing_meta", HashingMetadata("day=a", FIRST, nodes).encode())
    table.upsert(orders(*((n, "a", 1.0, 1) for n in range(30))))
    assert {piece.file_id for piece in table.snapshot().view.slices("day=a")} == {f"{nodes[0][1]}-0"}
    assert_in_ranges(table)


# --- what is refused

HOSTILE = HashingMetadata("day=a", FIRST, ((LARGEST, "../../../outside"),)).encode()
"""A file id that leads out of the table."""


def broken(write: Any) -> hudi.HudiTable:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    write(storage_of(table))
    return table


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"nodes": []}', HOSTILE, b"\xff", b"[" * 5_000])
def test_damaged_metadata_is_named(body: bytes) -> None:
    table = broken(lambda storage: storage.put(f"{FOLDER}/day=a/{FIRST}.hashing_meta", body))
    with pytest.raises(CorruptionError, match="consistent hashing"):
        table.upsert(orders((1, "a", 2.0, 2)))
    assert rows(table, "price") == [(1.0,)]


def test_file_groups_that_the_metadata_does_not_name_are_refused() -> None:
    """Hudi's `insert_overwrite` leaves such."""
    other = HashingMetadata.first("day=other", 3).encode()
    table = broken(lambda storage: storage.put(f"{FOLDER}/day=a/{FIRST}.hashing_meta", other))
    with pytest.raises(UnsupportedTableError, match="is not in the metadata of consistent hashing"):
        table.upsert(orders((1, "a", 2.0, 2)))


REFUSED: dict[str, tuple[dict[str, Any], type[HudiError], str]] = {
    "another index": ({"hoodie.index.type": "SIMPLE"}, InvalidOptionError, "the table has consistent hashing"),
    "simple buckets": ({"hoodie.index.bucket.engine": "SIMPLE"}, InvalidOptionError, "the table has consistent hashing"),
    "no number": ({"hoodie.bucket.index.num.buckets": None}, InvalidOptionError, "number of buckets is not known"),
    "non-blocking": (
        {"hoodie.index.bucket.engine": None, "hoodie.write.concurrency.mode": "non_blocking"}, InvalidOptionError, "consistent hashing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_do_not_fit_are_refused(name: str) -> None:
    options, error, words = REFUSED[name]
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    chosen = {key: value for key, value in (CONSISTENT | options).items() if value is not None}
    with pytest.raises(error, match=words):
        hudi.open_table(table.location, options=chosen).upsert(orders((1, "a", 2.0, 2)))


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
@pytest.mark.parametrize("empty", [True, False])
def test_operations_that_remove_its_file_groups_are_refused(verb: str, empty: bool) -> None:
    table = made()
    if not empty:
        table.upsert(orders((1, "a", 1.0, 1)))
    elif verb == "delete_partitions":
        return  # nothing is there to be removed
    given: Any = ["day=a"] if verb == "delete_partitions" else orders((1, "a", 2.0, 2))
    with pytest.raises(UnsupportedTableError, match="takes no"):
        getattr(table, verb)(given)


def test_tables_without_it_do_not_get_it() -> None:
    with pytest.raises(InvalidOptionError, match="copy-on-write"):
        made(kind="COPY_ON_WRITE").upsert(orders((1, "a", 1.0, 1)))
    simple = create_plain(
        f"memory://consistent/{uuid4()}", orders().schema, "id", "day", table_type="MERGE_ON_READ", options=BUCKET
    )
    simple.upsert(orders((1, "a", 1.0, 1)))
    with pytest.raises(InvalidOptionError, match="fixed number of buckets"):
        hudi.open_table(simple.location, options=CONSISTENT).upsert(orders((1, "a", 2.0, 2)))


@pytest.mark.parametrize("first", [BUCKET, SMALL], ids=["simple buckets", "no buckets"])
def test_two_first_writers_of_which_one_has_consistent_hashing_do_not_both_commit(first: dict[str, Any]) -> None:
    table = made()
    with hudi.open_table(table.location, options=first).begin("upsert") as early:
        early.write(orders((1, "a", 1.0, 1)))
        table.upsert(orders((2, "b", 2.0, 2)))
        with pytest.raises(CommitConflictError, match="another index"):
            early.commit()
    assert rows(table, "id") == [(2,)]
