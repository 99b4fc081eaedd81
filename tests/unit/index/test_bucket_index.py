"""The bucket index: a key's hash names its file group, as in Hudi; tables of Hudi are continued in their buckets."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.golden import unpack
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Touched, against, strategy_of
from pyhudi_core.errors import (
    CommitConflictError,
    DuplicateKeyError,
    InvalidOptionError,
    InvalidRecordKeyError,
    UnsupportedTableError,
)
from pyhudi_core.index.bucket import Hashing, file_id_of
from pyhudi_core.model.file_names import BUCKET_FILE_ID
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OperationType

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
BUCKETS = SMALL | {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3}
WITH_RECORD_INDEX = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
PLACES = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")


def made(kind: str = "COPY_ON_WRITE", **options: Any) -> hudi.HudiTable:
    location = f"memory://buckets/{uuid4()}"
    return create_plain(
        location, orders().schema, "id", "day", table_type=kind, ordering="ts", options=BUCKETS | options
    )


def assert_in_buckets(table: hudi.HudiTable, hashing: Hashing) -> None:
    """Every row is in the file group of its bucket, and a partition has one for each bucket."""
    found = table.scan(columns=PLACES).to_arrow()
    for key, partition, name in zip(*(found.column(c).to_pylist() for c in PLACES), strict=True):
        assert int(name[:8]) == hashing.of(pa.array([key]))[0], (key, partition, name)
    for partition in table.snapshot().view.partitions():
        numbers = [piece.file_id[:8] for piece in table.snapshot().view.slices(partition)]
        assert len(numbers) == len(set(numbers)), "two file groups of a bucket"


@pytest.mark.row("I12")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_keys_of_hudis_tables_are_in_the_buckets_that_we_say(release: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(f"{release}/mor_bucket", tmp_path))
    assert_in_buckets(table, Hashing(4, ("id",), ("id",)))


@pytest.mark.row("I12")
def test_the_hash_is_javas_of_a_list_of_texts() -> None:
    keys = pa.array(["a:x,b:y", "a:,b:zz", "a:\U0001f600,b:1"])
    assert Hashing(1 << 20, ("a", "b"), ("b",)).of(keys).tolist() == [31 + 121, 31 + 122 * 32, 31 + 49]
    both = Hashing(1 << 30, ("a", "b"), ("a", "b")).of(keys).tolist()
    assert both[0] == 31 * (31 + 120) + 121
    assert both[1] == 31 * 31 + 122 * 32
    assert both[2] == 31 * (31 + 1772899) + 49


@pytest.mark.parametrize(("keys", "key"), [(("a",), "x:y"), (("a", "b"), "a:1,b:x:y"), (("a", "b"), "a:1,2,b:3")])
def test_keys_that_hudi_would_take_apart_differently_are_refused(keys: tuple[str, ...], key: str) -> None:
    with pytest.raises(InvalidRecordKeyError, match="takes keys apart"):
        Hashing(4, keys, keys).of(pa.array([key]))


@pytest.mark.one_in(2)
@pytest.mark.row("I12", "K2")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_a_table_of_hudi_is_continued_in_its_buckets(release: str, tmp_path: Path) -> None:
    location = unpack(f"{release}/mor_bucket", tmp_path)
    table = hudi.open_table(location, options={"hoodie.bucket.index.num.buckets": 4})
    before = table.scan(columns=table.schema.names).to_arrow()
    groups = {piece.group for piece in table.snapshot().view.all_slices()}
    fresh = before.set_column(0, "id", pa.array([f"new{n}" for n in range(len(before))]))
    commit = table.upsert(pa.concat_tables([before, fresh]))
    assert commit.stats.index == "BUCKET: the file groups of the table are those of buckets"
    assert all(".log." in stat.path for stat in commit.stats.files), "known and new keys go to logs"
    assert {piece.group for piece in table.snapshot().view.all_slices()} == groups
    after = table.scan(columns=table.schema.names).to_arrow()
    assert sorted(map(str, after.to_pylist())) == sorted(map(str, pa.concat_tables([before, fresh]).to_pylist()))
    assert_in_buckets(table, Hashing(4, ("id",), ("id",)))
    with pytest.raises(DuplicateKeyError):
        table.insert(fresh)
    assert table.delete(fresh.select(["id", "region"])).stats.rows_deleted == len(fresh)
    assert len(table.scan().to_arrow()) == len(before)


@pytest.mark.one_in(2)
@pytest.mark.row("I12", "K2")
@pytest.mark.parametrize("kind", TYPES)
def test_any_sequence_of_writes_gives_the_rows_of_a_dictionary(kind: str) -> None:
    chosen = random.Random(5)
    table = made(kind, **{"hoodie.parquet.max.file.size": 1024})
    model: dict[tuple[int, str], float] = {}
    for step in range(12):
        keys = [(key, chosen.choice("ab")) for key in chosen.sample(range(30), 8)]
        batch = orders(*((key, day, float(step), step) for key, day in keys))
        verb = chosen.choice(["upsert", "upsert", "delete", "insert", "insert_overwrite", "delete_partitions"])
        if verb == "delete":
            table.delete(batch.select(["id", "day"]))
            model = {place: price for place, price in model.items() if place not in keys}
        elif verb == "insert" and model.keys() & set(keys):
            with pytest.raises(DuplicateKeyError):
                table.insert(batch)
        elif verb == "delete_partitions":
            table.delete_partitions(["day=a"]) if any(day == "a" for _, day in model) else None
            model = {place: price for place, price in model.items() if place[1] != "a"}
        else:
            getattr(table, verb)(batch)
            if verb == "insert_overwrite":
                model = {place: price for place, price in model.items() if place[1] not in {day for _, day in keys}}
            model |= dict.fromkeys(keys, float(step))
        assert rows(table, "id", "day", "price") == sorted((*place, price) for place, price in model.items()), step
        assert_in_buckets(table, Hashing(3, ("id",), ("id",)))
    assert table.delete(orders((777, "a")).select(["id", "day"])).changed is False


def test_inserts_may_skip_the_keys_that_are_there() -> None:
    for kind in TYPES:
        table = made(kind, **{"hoodie.datasource.write.insert.drop.duplicates": True})
        table.insert(orders(*((n, "a", 1.0, 1) for n in range(6))))
        table.insert(orders(*((n, "a", 2.0, 2) for n in range(3, 9))))
        assert [price for _, price in rows(table, "id", "price")] == [1.0] * 6 + [2.0] * 3


def test_two_writers_that_make_one_bucket_are_in_conflict() -> None:
    table = made()
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0, 1)))
        hudi.open_table(table.location, options=BUCKETS).upsert(orders((1, "a", 2.0, 2)))
        with pytest.raises(CommitConflictError):
            write.commit()
    table.upsert(orders((1, "a", 3.0, 3)))
    assert [piece.file_id for piece in table.snapshot().view.all_slices()] == [
        file_id_of(int(Hashing(3, ("id",), ("id",)).of(pa.array(["1"]))[0]))
    ]


def test_a_bucket_that_another_writer_gave_another_file_id_is_the_same_file_group() -> None:
    """Hudi gives a new file group of a bucket a random id."""
    mine = Touched(frozenset({("p", file_id_of(2))}), frozenset(), hashed=True)
    theirs = Touched(frozenset({("p", "00000002-8ec7-4ec9-a28d-52e8a143cbd8-0")}), frozenset())
    at = Instant("2", Action.COMMIT, State.COMPLETED, "3")
    upserts = (replace(mine, operation=OperationType.UPSERT), replace(theirs, operation=OperationType.UPSERT))
    assert list(against(upserts[0], at, upserts[1], strategy_of("simple", mine)))
    assert not list(against(upserts[0], at, upserts[1], strategy_of("simple", theirs)))


@pytest.mark.row("I12")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "number of buckets is not known"),
        ({"hoodie.index.type": "BUCKET"}, "number of buckets is not known"),
        ({"hoodie.index.type": "SIMPLE", "hoodie.bucket.index.num.buckets": 3}, "are those of a bucket index"),
        (BUCKETS | {"hoodie.bucket.index.hash.field": "price"}, "no column of the record key"),
    ],
)
def test_what_does_not_fit_a_table_of_buckets_is_refused_with_what_to_do(options: dict[str, Any], words: str) -> None:
    table = made()
    table.upsert(orders(*((n, "a", 1.0, 1) for n in range(9))))
    with pytest.raises(InvalidOptionError, match=words) as caught:
        hudi.open_table(table.location, options=options).upsert(orders((1, "a", 2.0, 2)))
    assert caught.value.hint
    assert len(rows(table)) == 9


def with_buckets(table: hudi.HudiTable, number: int) -> hudi.HudiTable:
    """The table as a writer opens it who has another number of buckets."""
    return hudi.open_table(table.location, options=BUCKETS | {"hoodie.bucket.index.num.buckets": number})


@pytest.mark.parametrize("number", [2, 4])
def test_another_number_of_buckets_is_refused_before_anything_is_written(number: int) -> None:
    table = made()
    table.upsert(orders(*((n, "a", 1.0, 1) for n in range(9))))
    table.delete(orders((1, "a")).select(["id", "day"]))
    before = table.timeline.instants
    for verb in ("upsert", "insert_overwrite"):
        with pytest.raises(UnsupportedTableError, match="has 3 buckets in a partition, by the hash of id"):
            getattr(with_buckets(table, number), verb)(orders((1, "a", 2.0, 2)))
    assert table.timeline.instants == before


@pytest.mark.parametrize("number", [2, 4])
def test_an_overwrite_of_the_table_may_change_the_number_of_buckets(number: int) -> None:
    table = made()
    table.upsert(orders(*((n, "a", 1.0, 1) for n in range(9))))
    other = with_buckets(table, number)
    other.insert_overwrite_table(orders(*((n, "a", 2.0, 1) for n in range(9))))
    other.upsert(orders((3, "a", 3.0, 3)))
    assert [price for _, price in rows(other, "id", "price")] == [2.0] * 3 + [3.0] + [2.0] * 5
    assert_in_buckets(other, Hashing(number, ("id",), ("id",)))
    with pytest.raises(UnsupportedTableError, match=f"has {number} buckets"):
        table.upsert(orders((1, "a", 2.0, 2)))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("numbers", [(2, 4), (4, 2)])
def test_two_first_writers_with_other_numbers_of_buckets_do_not_both_commit(
    kind: str, numbers: tuple[int, int]
) -> None:
    """Their keys and file groups are different ones, so nothing but the number shows it."""
    table = made(kind)
    with with_buckets(table, numbers[0]).begin("upsert") as early:
        early.write(orders((1, "a", 1.0, 1)))
        with_buckets(table, numbers[1]).upsert(orders((2, "b", 2.0, 2)))
        with pytest.raises(CommitConflictError, match="another number of buckets") as lost:
            early.commit()
        with pytest.raises(UnsupportedTableError, match=f"has {numbers[1]} buckets"):
            early.again(lost.value)
    assert rows(table, "id") == [(2,)]
    assert not table.timeline.pending.instants


def test_too_few_buckets_for_a_table_of_hudi_are_refused(tmp_path: Path) -> None:
    """Hudi's commits do not say how many there are, but its file groups do, in part."""
    table = hudi.open_table(unpack("hudi-1.0.2/mor_bucket", tmp_path), options={"hoodie.bucket.index.num.buckets": 2})
    with pytest.raises(UnsupportedTableError, match="does not belong to a bucket below 2"):
        table.upsert(table.scan(columns=table.schema.names).to_arrow())


@pytest.mark.parametrize("verb", ["upsert", "insert_overwrite_table"])
def test_a_table_whose_partitions_have_their_own_numbers_of_buckets_is_refused(verb: str) -> None:
    """Hudi 1.1 and newer keep them apart from the commits."""
    table = made("MERGE_ON_READ")
    table.upsert(orders((1, "a", 1.0, 1)))
    folder = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    table._opened.context().storage.put(f"{folder}/00000000000000.hashing_config", b"{}")
    with pytest.raises(UnsupportedTableError, match="partition.expressions"):
        getattr(table, verb)(orders((1, "a", 2.0, 2)))
    assert rows(table, "price") == [(1.0,)]


def test_a_table_without_buckets_is_refused() -> None:
    plain = create_plain(f"memory://buckets/{uuid4()}", orders().schema, "id", "day")
    plain.upsert(orders((1, "a", 1.0, 1)))
    with pytest.raises(InvalidOptionError, match="are no buckets"):
        hudi.open_table(plain.location, options=BUCKETS).upsert(orders((1, "a", 2.0, 2)))


def test_buckets_are_known_when_every_commit_that_wrote_files_is_archived() -> None:
    """Then the file groups say it: a writer without the option would give new keys other file groups, where Hudi's bucket index fails."""
    kept = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    table = made(**kept)
    table.upsert(orders(*((n, "a", 1.0, 1) for n in range(9))))
    for _ in range(4):
        with table.begin("upsert", allow_empty=True) as write:
            write.write(None)
            write.commit()
    table.archival.run()
    assert not any(table.commit_metadata(commit).stats for commit in table.timeline.commits)
    unaware = hudi.open_table(table.location, options=SMALL)
    with pytest.raises(InvalidOptionError, match="number of buckets is not known"):
        unaware.upsert(orders((100, "a", 2.0, 2)))
    hudi.open_table(table.location, options=SMALL | {"hoodie.bucket.index.num.buckets": 3}).upsert(
        orders((100, "a", 2.0, 2))
    )
    assert_in_buckets(table, Hashing(3, ("id",), ("id",)))


@pytest.mark.row("I12")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("first_has_buckets", [True, False])
def test_two_first_writers_of_a_table_do_not_mix_buckets_with_other_file_groups(
    kind: str, first_has_buckets: bool
) -> None:
    """Both begin while the table has no file group that shows its index; their keys are different."""
    with_buckets = made(kind)
    without = hudi.open_table(with_buckets.location)
    first, second = (with_buckets, without) if first_has_buckets else (without, with_buckets)
    with second.begin("upsert") as late:
        late.write(orders((1, "a", 1.0, 1)))
        first.upsert(orders((2, "a", 2.0, 2), (3, "b", 3.0, 3)))
        with pytest.raises(CommitConflictError, match="by another index"):
            late.commit()
    with pytest.raises(InvalidOptionError):
        second.upsert(orders((1, "a", 1.0, 1)))
    assert rows(with_buckets, "id") == [(2,), (3,)]
    first.upsert(orders((1, "a", 1.0, 1)))
    ids = [piece.file_id for piece in with_buckets.snapshot().view.all_slices()]
    assert {bool(BUCKET_FILE_ID.match(file_id)) for file_id in ids} == {first_has_buckets}


def test_two_first_writers_with_buckets_both_commit() -> None:
    table = made()
    with table.begin("upsert") as late:
        late.write(orders((1, "a", 1.0, 1)))
        table.upsert(orders((2, "b", 2.0, 2)))
        late.commit()
    assert rows(table, "id") == [(1,), (2,)]


def test_a_record_index_knows_the_keys_of_buckets_and_lets_them_be_updated() -> None:
    table = made("MERGE_ON_READ", **WITH_RECORD_INDEX)
    for turn in range(3):
        table.upsert(orders(*((key, "ab"[key % 2], float(turn), turn) for key in range(6 + turn))))
    assert rows(table, "id", "price") == [(key, 2.0) for key in range(8)]
    assert_metadata_is_true(table)


def test_two_writers_that_bring_one_key_into_buckets_of_two_partitions_do_not_both_commit() -> None:
    table = made("MERGE_ON_READ", **WITH_RECORD_INDEX)
    table.upsert(orders(*((key, "ab"[key % 2], 1.0, 1) for key in range(20))))
    with table.begin("upsert") as first:
        first.write(orders((77, "a", 7.0, 7)))
        table.upsert(orders((77, "b", 8.0, 8)))
        with pytest.raises(CommitConflictError, match="77"):
            first.commit()
    assert [row for row in rows(table, "id", "price") if row[0] == 77] == [(77, 8.0)]
    assert_metadata_is_true(table)
