"""Clustering of consistent hashing: buckets are split, merged and sorted, and every row stays in the bucket that has its hash."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.planned_services import all_rows
from support.tables import orders

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CorruptionError,
    InvalidOptionError,
    UnsupportedTableError,
)
from pyhudi_core.formats.xxhash import xxh32
from pyhudi_core.index.hashing_metadata import (
    FIRST,
    FOLDER,
    LARGEST,
    HashingMetadata,
    load,
)
from pyhudi_core.model.instant import Instant

pytestmark = pytest.mark.row("I12", "N5")

SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
ENGINE = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
BUCKETS = SMALL | ENGINE | {"hoodie.bucket.index.num.buckets": 4}
SPLIT = {
    "hoodie.bucket.index.max.num.buckets": 8,
    "hoodie.bucket.index.split.threshold": 1e-6,
    "hoodie.bucket.index.merge.threshold": 0,
}
MERGE = {"hoodie.bucket.index.min.num.buckets": 2}
SORT = {"hoodie.clustering.plan.strategy.sort.columns": "price"}
PRICES = {key: float(99 - key) for key in range(40)}


def opened(table: hudi.HudiTable, *options: dict[str, Any]) -> hudi.HudiTable:
    merged: dict[str, Any] = {}
    for given in (BUCKETS, *options):
        merged |= given
    return hudi.open_table(table.location, options=merged)


@pytest.fixture
def table() -> hudi.HudiTable:
    """Four buckets in each of two partitions, with logs."""
    made = hudi.create_table(
        f"memory://buckets/{uuid4()}", orders().schema, "id", "day",
        table_type="MERGE_ON_READ", ordering="ts", options=BUCKETS | {"hoodie.metadata.enable": True},
    )  # fmt: skip
    made.upsert(orders(*((key, "ab"[key % 2], 1.0, 1) for key in PRICES)))
    made.upsert(orders(*((key, "ab"[key % 2], price, 2) for key, price in PRICES.items())))
    return made


def ring(table: hudi.HudiTable, partition: str = "day=a") -> HashingMetadata:
    completed = {instant.requested_time for instant in table.timeline.commits}
    found = load(table._opened.context().storage, partition, completed.__contains__)
    assert found is not None
    return found


def planned(table: hudi.HudiTable) -> Instant:
    found = table.clustering.schedule()
    assert found is not None
    return found


def assert_sound(table: hudi.HudiTable) -> None:
    """Each row is there once, in the file group of the first range that ends at its hash or later; and the doctor finds nothing."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name", "price"]
    found = table.scan(columns=names).to_arrow().to_pylist()
    assert {int(row["_hoodie_record_key"]): row["price"] for row in found} == PRICES
    assert len(found) == len(PRICES)
    for row in found:
        nodes = ring(table, row["_hoodie_partition_path"]).nodes
        number = int(xxh32(pa.array([row["_hoodie_record_key"]]))[0]) & LARGEST
        prefix = next((prefix for end, prefix in nodes if number <= end), nodes[0][1])
        assert row["_hoodie_file_name"].removeprefix(".").startswith(f"{prefix}-0"), row
    assert table.check().ok, table.check().findings


@pytest.mark.parametrize(
    "more", [{}, SORT, SORT | {"pyhudi.clustering.memory.bytes": 1_024}], ids=["as it is", "sorted", "in runs"]
)
def test_large_buckets_are_split_and_the_next_write_uses_the_new_ranges(
    table: hudi.HudiTable, more: dict[str, Any]
) -> None:
    splitting = opened(table, SPLIT, more)
    before, first = all_rows(table), ring(table)
    plan = splitting.clustering.plan()
    assert plan.figures["file_groups"] == 8
    assert plan.figures["new_file_groups"] == 16
    assert "Cluster 8 buckets into 16" in str(plan)
    done = splitting.clustering.run()
    assert all_rows(table) == before
    after = ring(table)
    assert (len(after.nodes), after.sequence, after.instant) == (8, 1, done.instants[0].requested_time)
    assert {end for end, _ in first.nodes} < {end for end, _ in after.nodes}
    assert not set(first.file_ids) & set(after.file_ids)
    assert_sound(table)
    opened(table).upsert(orders(*((key, "ab"[key % 2], 5.0, 3) for key in PRICES)))
    opened(table).upsert(orders(*((key, "ab"[key % 2], price, 4) for key, price in PRICES.items())))
    opened(table).compaction.run()
    assert_sound(table)
    why_not = "no bucket is to be split or merged, or has rows in another order"
    assert opened(table, SPLIT).clustering.plan().why_not == why_not


def test_small_buckets_are_merged_down_to_the_least_number(table: hudi.HudiTable) -> None:
    merging = opened(table, MERGE)
    before = all_rows(table)
    assert merging.clustering.run()
    assert all_rows(table) == before
    assert {len(ring(table, partition).nodes) for partition in ("day=a", "day=b")} == {2}
    assert_sound(table)
    assert not merging.clustering.plan()
    # What was merged can be split again, and the other way round.
    assert opened(table, SPLIT).clustering.run()
    assert len(ring(table).nodes) == 4
    assert ring(table).sequence == 2
    assert_sound(table)


def test_buckets_that_stay_are_sorted_once(table: hudi.HudiTable) -> None:
    table.compaction.run()
    sorting = opened(table, SORT)
    ends = [end for end, _ in ring(table).nodes]
    done = sorting.clustering.run()
    assert done.file_groups == done.new_file_groups == 8
    assert [end for end, _ in ring(table).nodes] == ends
    assert_sound(table)
    assert not sorting.clustering.plan()


def test_the_ranges_are_published_with_the_commit_and_not_before(table: hudi.HudiTable) -> None:
    storage = table._opened.context().storage

    def files() -> list[str]:
        return sorted(info.path.rpartition("/")[2] for info in storage.list_folder(f"{FOLDER}/day=a").objects)

    plan = planned(opened(table, SPLIT))
    assert files() == [f"{FIRST}.hashing_meta"]
    with pytest.raises(CommitAbortedError, match="gate refused"):
        table.clustering.execute(plan, gate=lambda: False)
    assert files() == [f"{FIRST}.hashing_meta"]
    table.clustering.execute(plan)
    assert files() == [f"{FIRST}.hashing_meta", f"{plan.requested_time}.hashing_meta"]
    written = json.loads(storage.get(f"{FOLDER}/day=a/{plan.requested_time}.hashing_meta"))
    assert (written["seqNo"], written["numBuckets"], len(written["nodes"])) == (1, 4, 8)


def test_a_write_to_a_planned_bucket_waits_for_its_clustering_or_wins(table: hudi.HudiTable) -> None:
    plan = planned(opened(table, SPLIT))
    with pytest.raises(CommitConflictError, match="planned clustering comes first"):
        opened(table, {"pyhudi.commit.retries": 0}).upsert(orders((1, "b", 5.0, 9)))
    opened(table, {"hoodie.clustering.updates.strategy": "allow"}).upsert(orders((1, "b", PRICES[1], 9)))
    with pytest.raises(CommitConflictError):
        table.clustering.execute(plan)
    assert not table.timeline.pending.instants, "the plan could not be executed any more"
    assert ring(table, "day=b").instant == FIRST
    assert_sound(table)


def test_a_partition_has_one_planned_clustering_at_a_time(table: hudi.HudiTable) -> None:
    planned(opened(table, SPLIT, {"hoodie.clustering.plan.strategy.max.num.groups": 1}))
    again = opened(table, SPLIT).clustering.plan()
    assert {group.partition for group in again.groups} == {"day=b"}
    assert "1 file groups are in pending plans" in again.why_not


def test_a_plan_that_was_made_from_other_ranges_is_refused(table: hudi.HudiTable) -> None:
    storage, first = table._opened.context().storage, ring(table)
    plan = planned(opened(table, SPLIT))
    newer = first.changed([], "20200101000000000")
    storage.put(f"{FOLDER}/day=a/20200101000000000.hashing_meta", newer.encode())
    storage.put(f"{FOLDER}/day=a/20200101000000000.commit", b"")
    with pytest.raises(CommitAbortedError, match="have changed since"):
        table.clustering.execute(plan)
    assert table.clustering.cancel(plan)


@pytest.mark.parametrize("same", [True, False])
def test_ranges_that_a_dead_execution_of_hudi_has_left_must_fit_the_plan(table: hudi.HudiTable, same: bool) -> None:
    storage, first = table._opened.context().storage, ring(table)
    splitting = opened(table, SPLIT)
    plan = planned(splitting)
    from pyhudi_core.services.clustering.clustering_plan import decode

    path = splitting._opened.context().folder.file(plan)
    work = decode(storage.get(path), path)
    children = [child for group in work.groups if group.partition == "day=a" for child in group.children]
    left = first.changed(children if same else [], plan.requested_time)
    storage.put(f"{FOLDER}/day=a/{plan.requested_time}.hashing_meta", left.encode().replace(b": ", b" : "))
    if same:
        assert table.clustering.execute(plan)
        assert_sound(table)
        return
    with pytest.raises(CorruptionError, match="does not fit its plan"):
        table.clustering.execute(plan)


def test_a_key_in_the_wrong_bucket_is_found_before_anything_is_committed(table: hudi.HudiTable) -> None:
    storage, first = table._opened.context().storage, ring(table)
    ends, prefixes = [end for end, _ in first.nodes], [prefix for _, prefix in first.nodes]
    swapped = HashingMetadata("day=a", FIRST, tuple(zip(ends, prefixes[::-1], strict=True)))
    storage.put(f"{FOLDER}/day=a/{FIRST}.hashing_meta", swapped.encode())
    with pytest.raises(CorruptionError, match="does not have its hash"):
        opened(table, SPLIT).clustering.run()
    assert len(table.scan().to_arrow()) == len(PRICES)


def test_plans_of_other_kinds_are_refused_for_buckets_and_the_other_way_round(table: hudi.HudiTable) -> None:
    by_size = {"hoodie.clustering.plan.strategy.class": "SIZE_BASED"}
    assert "plans of SIZE_BASED know no buckets" in opened(table, by_size).clustering.plan().why_not
    plain = hudi.create_table(f"memory://plain/{uuid4()}", orders().schema, "id", "day", options=SMALL)
    plain.insert(orders((1, "a", 1.0, 1)))
    for_buckets = {"hoodie.clustering.plan.strategy.class": "CONSISTENT_BUCKET"}
    found = hudi.open_table(plain.location, options=SMALL | for_buckets).clustering.plan()
    assert "no consistent hashing" in found.why_not


def test_a_plan_that_would_take_buckets_away_is_not_executed(table: hudi.HudiTable) -> None:
    plan = planned(opened(table, SPLIT))
    context = table._opened.context()
    path = context.folder.file(plan)
    from pyhudi_core.formats.avro.container import decode_record, encode_record

    record = decode_record(context.storage.get(path), "HoodieRequestedReplaceMetadata", path=path)
    strategy = record["clusteringPlan"]["strategy"]
    strategy["strategyClassName"] = strategy["strategyClassName"].replace("ConsistentBucketClustering", "SortAndSize")
    context.storage.put(path, encode_record("HoodieRequestedReplaceMetadata", record, sync_marker=b"x" * 16))
    with pytest.raises(UnsupportedTableError, match="does not say what becomes of its ranges"):
        table.clustering.execute(plan)


@pytest.mark.parametrize(
    "given",
    [
        {"hoodie.bucket.index.min.num.buckets": 5, "hoodie.bucket.index.max.num.buckets": 4},
        {"hoodie.bucket.index.num.buckets": 4, "hoodie.bucket.index.max.num.buckets": 3},
        {"hoodie.bucket.index.merge.threshold": 3},
        {
            "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
        },
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict[str, Any], table: hudi.HudiTable) -> None:
    with pytest.raises(InvalidOptionError):
        hudi.open_table(table.location, options=given)


# --- the doctor


def kinds(table: hudi.HudiTable) -> dict[str, str]:
    return {
        finding.kind.value: finding.what for finding in table.check().findings if "hash_ranges" in finding.kind.value
    }


@pytest.mark.row("U17")
def test_the_doctor_finds_ranges_that_disagree_with_the_file_groups(table: hudi.HudiTable) -> None:
    storage, first = table._opened.context().storage, ring(table)
    path = f"{FOLDER}/day=a/{FIRST}.hashing_meta"
    other = "00000000-0000-0000-0000-000000000000"
    storage.put(path, HashingMetadata("day=a", FIRST, ((first.nodes[0][0], other), *first.nodes[1:])).encode())
    assert kinds(table) == {"hash_ranges_differ": f"No range has the file group {first.file_ids[0]} (1 such)"}
    storage.put(path, b"{}")
    assert "cannot be read" in kinds(table)["hash_ranges_differ"]
    storage.delete(path)
    assert "4 file groups have no ranges" in kinds(table)["hash_ranges_differ"]
    storage.put(path, first.encode())
    assert kinds(table) == {}
    opened(table, SPLIT).clustering.run()
    storage.delete(f"{FOLDER}/day=a/{ring(table).instant}.hashing_meta")
    found = table.check().findings
    said = [one.what for one in found if one.kind.value == "hash_ranges_differ"]
    assert any("which was replaced" in what for what in said)
    assert any("No range has" in what for what in said)


@pytest.mark.row("U17")
def test_ranges_of_a_clustering_that_was_taken_back_are_found_and_removed_with_its_plan(table: hudi.HudiTable) -> None:
    """Hudi writes them before it commits; after a crash and a roll-back its writers may use them."""
    storage, first = table._opened.context().storage, ring(table)
    left = f"{FOLDER}/day=a/20200101000000000.hashing_meta"
    storage.put(left, first.changed([], "20200101000000000").encode())
    assert "has not completed" in kinds(table)["hash_ranges_left"]
    storage.delete(left)
    splitting = opened(table, SPLIT)
    plan = planned(splitting)
    storage.put(f"{FOLDER}/day=a/{plan.requested_time}.hashing_meta", first.changed([], plan.requested_time).encode())
    assert kinds(table) == {}, "a pending plan may have them"
    assert splitting.clustering.cancel(plan)
    assert kinds(table) == {}
    done = splitting.clustering.run().instants[0]
    assert storage.head(f"{FOLDER}/day=a/{done.requested_time}.hashing_meta")
    table.restore(table.timeline.commits[1].requested_time)
    assert storage.head(f"{FOLDER}/day=a/{done.requested_time}.hashing_meta") is None
    assert_sound(opened(table))
