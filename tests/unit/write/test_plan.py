"""Which file group a row goes to: pure planning, and what it makes of a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from support.disk import data_files
from support.tables import make, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.write.plan import Bucket, Planner, Sizing, Volume, WorkloadProfile, balance

MB = 1 << 20
SIZING = Sizing(target=120 * MB, small=100 * MB, row_estimate=1024)


def _slice(name: str, size: int, count: int = 1_000_000) -> FileSlice:
    base = BaseFile("p", BaseFileName(name, "0-0-0", "1"), size)
    return FileSlice(base, WriteStat(name, base.path, "p", rows=count, size=size))


def _planner(*slices: FileSlice, sizing: Sizing = SIZING) -> Planner:
    """Of a table whose only partition with files is p."""
    numbers = itertools.count()
    return Planner(sizing, lambda: f"new{next(numbers)}", lambda path: slices if path == "p" else ())


def _new(rows: int, size: int) -> WorkloadProfile:
    """All rows are new ones of partition p."""
    return WorkloadProfile({}, {"p": Volume(rows, size)})


def test_a_new_partition_gets_groups_of_the_target_size() -> None:
    plan = _planner().upsert(_new(1_000_000, 1_000_000 * 1000))
    assert len(plan.buckets) == 4, "a million rows of 500 bytes each, 120 MB a file"
    assert all(bucket.new_partition and bucket.base is None for bucket in plan.buckets)


def test_parts_of_a_new_group_are_limited_by_rows_and_by_bytes() -> None:
    narrow = _planner().upsert(_new(1_000_000, 1_000_000 * 100)).buckets
    assert [bucket.parts for bucket in narrow] == [8]
    wide = _planner(sizing=Sizing(4096 * MB, 100 * MB, 1 << 20)).upsert(_new(100_000, 100_000 * 10 * 1024)).buckets
    assert [bucket.parts for bucket in wide] == [11], "a gigabyte of Arrow in parts of 96 MB"


def test_all_rows_of_a_partition_with_one_group_go_to_it() -> None:
    profile = WorkloadProfile({("p", "f"): Volume(100, 10_000)}, {}, {"p": "f"})
    plan = _planner(_slice("f", 50 * MB)).upsert(profile)
    assert [bucket.file_id for bucket in plan.buckets] == ["f"]
    assert plan.inserts["p"] == ((0, 1.0),)


def test_a_batch_larger_than_a_file_is_not_for_one_group() -> None:
    planner = _planner(_slice("f", MB, 10_000))
    assert planner.goes_to_one_file("p", Volume(10_000, 1_000_000))
    assert not planner.goes_to_one_file("p", Volume(10_000_000, 10_000_000 * 100))


def test_few_rows_are_looked_up_where_the_only_group_is_not_worth_rewriting() -> None:
    """Without a look-up all rows would go to that group, also new ones."""
    planner = _planner(_slice("f", 50 * MB))
    assert not planner.goes_to_one_file("p", Volume(100, 10_000))
    assert planner.goes_to_one_file("q", Volume(100, 10_000)), "a partition without files"


@pytest.mark.parametrize("merge_on_read", [False, True])
def test_the_bytes_of_many_small_commits_stay_near_the_least_that_sixteen_groups_allow(merge_on_read: bool) -> None:
    """1,000 commits of 100 new rows of 50 bytes: one file that is written again would take 2.5 GB."""
    sizes: dict[str, int] = {}
    written = 0
    for _ in range(1000):
        planner = _planner(*(_slice(name, size, size // 50) for name, size in sizes.items()))
        planner.merge_on_read = merge_on_read
        numbers = itertools.count(len(sizes))
        planner.new_id = lambda numbers=numbers: f"g{next(numbers)}"  # type: ignore[misc]
        for bucket in planner.upsert(_new(100, 100 * 100)).buckets:
            sizes[bucket.file_id] = sizes.get(bucket.file_id, 0) + 100 * 50
            written += sizes[bucket.file_id]
    assert len(sizes) == 16
    assert max(sizes.values()) <= 2 * min(sizes.values()), "they grow evenly"
    assert written < 180 * MB


def test_only_groups_that_rows_go_to_are_planned() -> None:
    """A thousand groups, and rows for two of them and for one new key."""
    slices = tuple(_slice(f"f{number:04d}", 110 * MB) for number in range(1000))
    profile = WorkloadProfile({("p", "f0007"): Volume(1, 100), ("p", "f0500"): Volume(3, 300)}, {"p": Volume(1, 100)})
    plan = _planner(*slices).upsert(profile)
    assert [bucket.file_id for bucket in plan.buckets] == ["f0007", "f0500", "new0"]
    assert plan.groups == {("p", "f0007"): 0, ("p", "f0500"): 1}
    assert plan.rewritten_bytes == 2 * 110 * MB


def test_inserts_go_to_small_groups_first_the_smallest_before_all() -> None:
    slices = (_slice("full", 119 * MB), _slice("small", 20 * MB), _slice("smaller", 10 * MB))
    plan = _planner(*slices).upsert(_new(30_000, 30_000 * 100))
    assert [plan.buckets[number].file_id for number, _ in plan.inserts["p"]] == ["smaller"]
    tagged = {("p", piece.file_id): Volume(1, 100) for piece in slices}
    plan = _planner(*slices).upsert(WorkloadProfile(tagged, {"p": Volume(30_000, 30_000 * 100)}))
    by_id = {bucket.file_id: bucket for bucket in plan.buckets}
    assert len(plan.buckets) == 3, "a group that has rows already takes new ones too"
    assert [plan.buckets[number].file_id for number, _ in plan.inserts["p"]] == ["smaller"]
    assert by_id["full"].room == 0
    assert by_id["small"].room == 100 * MB


def test_what_small_groups_cannot_take_goes_to_new_groups() -> None:
    slices = (_slice("a", 110 * MB, 1_000_000), _slice("b", 60 * MB, 600_000))
    plan = _planner(*slices).upsert(_new(3_500_000, 350_000_000))
    names = [plan.buckets[number].file_id for number, _ in plan.inserts["p"]]
    assert names[0] == "b"
    assert names[1:] == ["new0", "new1", "new2"]
    assert sum(weight for _, weight in plan.inserts["p"]) == pytest.approx(3_500_000)


@pytest.mark.row("D11")
def test_without_a_small_file_limit_inserts_make_new_groups() -> None:
    plan = _planner(_slice("a", MB), _slice("b", MB), sizing=Sizing(120 * MB, 0, 1024)).upsert(_new(100, 10_000))
    assert [plan.buckets[number].file_id for number, _ in plan.inserts["p"]] == ["new0"]


def _appending(*slices: FileSlice) -> Planner:
    """The same of a merge-on-read table."""
    planner = _planner(*slices)
    planner.merge_on_read = True
    return planner


@pytest.mark.row("J3")
def test_few_new_keys_do_not_rewrite_a_large_file_of_a_merge_on_read_table() -> None:
    """They go to a new group, and known keys to logs; the next new keys go to that group as long as it is cheap."""
    profile = WorkloadProfile({("p", "f"): Volume(100, 10_000)}, {"p": Volume(100, 10_000)})
    plan = _appending(_slice("f", 50 * MB)).upsert(profile)
    assert [(bucket.file_id, bucket.appends) for bucket in plan.buckets] == [("f", True), ("new0", False)]
    assert plan.rewritten_bytes == 0
    again = _appending(_slice("f", 50 * MB), _slice("young", 48 << 10, 900)).upsert(profile)
    assert [(bucket.file_id, bucket.appends) for bucket in again.buckets] == [("f", True), ("young", False)]
    assert again.rewritten_bytes == 48 << 10


@pytest.mark.row("J3")
def test_many_new_keys_go_to_the_smallest_file_of_a_merge_on_read_table() -> None:
    plan = _appending(_slice("f", 50 * MB)).upsert(_new(200_000, 200_000 * 500))
    assert plan.rewritten_bytes == 50 * MB


@pytest.mark.row("J3")
@pytest.mark.parametrize("planner_of", [_planner, _appending])
def test_a_partition_gets_no_more_than_sixteen_small_groups(planner_of: Callable[..., Planner]) -> None:
    slices = [_slice(f"f{number:02d}", (20 + number) * MB) for number in range(16)]
    assert [bucket.file_id for bucket in planner_of(*slices[1:]).upsert(_new(100, 10_000)).buckets] == ["new0"]
    assert [bucket.file_id for bucket in planner_of(*slices).upsert(_new(100, 10_000)).buckets] == ["f00"]


def test_deletes_go_to_the_groups_that_hold_their_keys_and_make_none() -> None:
    tagged = {("p", "a"): Volume(10, 100), ("p", "b"): Volume(1, 10)}
    plan = _planner(_slice("a", MB), _slice("b", MB), _slice("c", MB)).delete(
        WorkloadProfile(tagged, {"q": Volume(10, 100)})
    )
    assert [bucket.file_id for bucket in plan.buckets] == ["a", "b"]
    assert plan.inserts == {}


def test_an_index_that_names_a_file_group_which_the_table_has_not_ends_the_write() -> None:
    with pytest.raises(CorruptionError, match="no such file group") as caught:
        _planner(_slice("a", MB)).upsert(WorkloadProfile({("p", "gone"): Volume(1, 10)}, {}))
    assert caught.value.path == "p/gone"


def test_tasks_are_loaded_evenly_the_largest_bucket_first() -> None:
    buckets = [Bucket(number, "p", str(number), None, 0, size) for number, size in enumerate([5, 90, 10, 40, 45])]
    placed = balance(buckets, 2)
    loads = [sum(b.expected for b in buckets if placed[b.number] == task) for task in range(2)]
    assert sorted(loads) == [95, 95]
    assert set(balance(buckets, 1).values()) == {0}


def test_each_bucket_goes_to_the_task_with_the_least_work_also_among_very_many() -> None:
    sizes = np.random.default_rng(7).integers(0, 50, 60_000).tolist()
    placed = balance([Bucket(number, "p", str(number), None, 0, size) for number, size in enumerate(sizes)], 20_000)
    loads = np.bincount([placed[number] for number in range(len(sizes))], np.array(sizes) + 1, 20_000)
    assert loads.max() - loads.min() <= min(sizes) + 51
    assert loads.max() <= (sum(sizes) + len(sizes)) / 20_000 + 51


def _batch(start: int, count: int, day: str = "a") -> pa.Table:
    generator = np.random.default_rng(start)
    return pa.table({
        "id": np.arange(start, start + count), "day": [day] * count,
        "price": generator.random(count), "ts": generator.integers(0, 2**60, count),
    })  # fmt: skip


TINY_BLOOM = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 1000}


@pytest.mark.row("D11", "D12")
def test_files_roll_at_the_target_size(location: str) -> None:
    table = make(
        location, options={**TINY_BLOOM, "hoodie.parquet.max.file.size": 64 << 10, "pyhudi.parquet.row.group.rows": 400}
    )
    commit = table.upsert(_batch(0, 20_000))
    sizes = [stat.size for stat in commit.stats.files]
    assert len(sizes) >= 5
    assert max(sizes) < 2 * (64 << 10)
    assert len(rows(table, "id")) == 20_000
    assert len({stat.file_id for stat in commit.stats.files}) == len(sizes)


@pytest.mark.row("D1", "I10")
def test_keys_are_found_in_whichever_group_of_the_partition_holds_them(location: str) -> None:
    table = make(
        location, options={**TINY_BLOOM, "hoodie.parquet.max.file.size": 64 << 10, "pyhudi.parquet.row.group.rows": 400}
    )
    table.upsert(_batch(0, 10_000))
    groups = len(table.snapshot().view.all_slices())
    assert groups > 2
    changed = _batch(5_000, 200).set_column(2, "price", pa.array([-1.0] * 200))
    commit = table.upsert(changed)
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (200, 0)
    assert len(table.snapshot().view.all_slices()) == groups
    assert sorted(key for (key,) in rows(table.scan(where="price < 0"), "id")) == list(range(5_000, 5_200))


@pytest.mark.row("D11")
def test_inserts_fill_the_small_group_of_a_partition(location: str) -> None:
    table = make(location)
    for start in range(3):
        table.bulk_insert(_batch(start * 10, 10))
    commit = table.insert(_batch(100, 10))
    assert len(table.snapshot().view.all_slices()) == 3
    assert len(commit.stats.files) == 1
    [stat] = commit.stats.files
    assert (stat.inserts, stat.rows) == (10, 20)


def test_a_full_group_takes_updates_and_no_inserts(location: str) -> None:
    table = reopen(make(location), hoodie__parquet__small__file__limit=0)
    table.upsert(_batch(0, 10))
    table.upsert(_batch(5, 10))
    slices = table.snapshot().view.all_slices()
    assert sorted(piece.stat.rows for piece in slices if piece.stat) == [5, 10]
    assert len(rows(table, "id")) == 15


def _goes_to_new_groups(commit: hudi.Commit) -> bool:
    return {stat.prev_commit for stat in commit.stats.files} == {"null"}


@pytest.mark.row("D11")
def test_an_upsert_of_new_keys_alone_rewrites_no_file_that_is_much_larger_than_they_are(location: str) -> None:
    table = make(location)
    table.upsert(_batch(0, 10_000))
    assert _goes_to_new_groups(table.upsert(_batch(10_000, 10)))
    assert table.count() == 10_010


@pytest.mark.row("D11")
def test_new_keys_go_to_no_file_without_meta_columns(location: str) -> None:
    table = make(location, options={**TINY_BLOOM, "hoodie.populate.meta.fields": False})
    table.insert(_batch(0, 10))
    assert _goes_to_new_groups(table.insert(_batch(100, 10)))


@pytest.mark.row("J3")
def test_beside_a_planned_compaction_no_base_file_takes_new_keys(location: str) -> None:
    options = {key.replace(".", "__"): value for key, value in TINY_BLOOM.items()}
    table = reopen(make(location, table_type="MERGE_ON_READ"), **options)
    table.upsert(pa.concat_tables([_batch(0, 10), _batch(10, 10, "b")]))
    table.upsert(_batch(0, 10))
    assert table.compaction.schedule() is not None
    assert _goes_to_new_groups(table.upsert(_batch(20, 10, "b")))
    table.compaction.run()
    assert not _goes_to_new_groups(table.upsert(_batch(30, 10, "b")))
    assert [key for (key,) in rows(table, "id")] == list(range(40))


def test_many_partitions_are_written_by_few_tasks(location: str) -> None:
    table = make(location)
    commit = table.upsert(pa.concat_tables([_batch(number, 3, f"d{number:03d}") for number in range(60)]))
    assert len(commit.stats.partitions) == 60
    assert len(data_files(location)) == 60
    tokens = {path.split("_")[1].split("-")[0] for path in data_files(location)}
    assert len(tokens) <= 8, "as many tasks as cores"


def test_a_row_is_written_once_whatever_the_number_of_parts_and_batches(location: str) -> None:
    table = make(location)
    one = _batch(0, 1000)
    scattered = pa.Table.from_batches(pa.concat_tables([one, one.slice(0, 500)]).to_batches(max_chunksize=37))
    commit = table.upsert(scattered)
    assert commit.stats.rows_inserted == 1000
    assert [key for (key,) in rows(table, "id")] == list(range(1000))


def test_sequence_numbers_are_unique_over_a_commit(location: str) -> None:
    table = make(location)
    table.upsert(pa.concat_tables([_batch(number * 100, 50, f"d{number}") for number in range(5)]))
    numbers = [number for (number,) in rows(table, "_hoodie_commit_seqno")]
    assert len(set(numbers)) == 250
