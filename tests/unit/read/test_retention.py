"""A read of the past either sees all of it or says that it is gone: tables that Hudi has cleaned, and ours with files taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.golden import unpack
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.model.instant import time_after
from pyhudi_core.read.bounds import interval_bound

CLEANED = ["hudi-1.0.2/cow_hive_services", "hudi-1.2.0/cow_hive_services"]


def _counts(table: hudi.HudiTable) -> list[int | None]:
    """How many rows each commit left, as time travel tells; None where it says that they are gone."""
    counts: list[int | None] = []
    for instant in table.timeline.commits:
        try:
            counts.append(table.scan(as_of=instant).to_arrow().num_rows)
        except SnapshotExpiredError:
            counts.append(None)
    return counts


@pytest.mark.parametrize("name", CLEANED)
def test_states_whose_files_hudi_has_cleaned_are_not_read_with_rows_missing(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path / "table"))
    counts = _counts(table)
    assert counts[:5] == [None] * 5  # 90, 94 or more rows were there; a third of them has been cleaned
    assert counts[5:] == [93, 101, 101, 106, 66] if "1.0.2" in name else counts[5:] == [91, 99, 99, 105, 66]


@pytest.mark.parametrize("name", CLEANED)
def test_changes_whose_files_hudi_has_cleaned_are_not_told_as_if_there_had_been_no_rows(
    name: str, tmp_path: Path
) -> None:
    table = hudi.open_table(unpack(name, tmp_path / "table"))
    commits = table.timeline.commits
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.changes()
    assert table.changes(after=commits[-2].completion_time).to_arrow().num_rows > 0


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    """Three commits; partition a was written by all of them, partition b by the first."""
    table = make(str(tmp_path / "orders"))
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)))
    table.upsert(orders((1, "a", 2.0, 2)))
    table.upsert(orders((1, "a", 3.0, 3), (3, "c", 3.0, 3)))
    return table


Reads = Callable[[hudi.HudiTable, hudi.Instant], object]


def _clean(table: hudi.HudiTable, instant: hudi.Instant, partition: str) -> None:
    """Take the file away that an instant wrote in a partition, as a clean does."""
    (stat,) = (s for s in table.commit_metadata(instant).stats if s.partition.endswith(partition))
    Path(table.location, stat.path).unlink()


def test_what_was_not_cleaned_can_be_read_at_every_time(table: hudi.HudiTable) -> None:
    first, second, third = table.timeline.commits
    assert rows(table.scan(as_of=first), "id", "price") == [(1, 1.0), (2, 1.0)]
    assert rows(table.scan(as_of=second), "id", "price") == [(1, 2.0), (2, 1.0)]
    assert rows(table.scan(as_of=third), "id", "price") == [(1, 3.0), (2, 1.0), (3, 3.0)]


@pytest.mark.parametrize(
    "read",
    [
        lambda table, instant: table.scan(as_of=instant),
        lambda table, instant: table.scan(as_of=instant, mode="read_optimized"),
        lambda table, instant: table.incremental(until=instant),
        lambda table, instant: table.changes(until=instant),
    ],
    ids=["scan", "read_optimized", "incremental", "changes"],
)
def test_every_read_of_the_past_says_that_it_is_gone(table: hudi.HudiTable, read: Reads) -> None:
    first, second, _ = table.timeline.commits
    _clean(table, first, "a")
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        read(table, first)
    assert rows(table.scan(as_of=second), "id", "price") == [(1, 2.0), (2, 1.0)]


def test_an_older_slice_that_a_savepoint_keeps_does_not_stand_for_the_one_that_is_gone(table: hudi.HudiTable) -> None:
    first, second, _ = table.timeline.commits
    _clean(table, second, "a")
    assert rows(table.scan(as_of=first), "id", "price") == [(1, 1.0), (2, 1.0)]
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.scan(as_of=second)


def test_groups_that_a_range_did_not_change_may_be_gone(table: hudi.HudiTable) -> None:
    first, second, third = table.timeline.commits
    _clean(table, first, "a")
    found = table.incremental(after=first, until=second)
    assert rows(found, "id", "price") == [(1, 2.0)]
    _clean(table, second, "a")
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.incremental(after=first, until=second)
    assert rows(table.incremental(after=second, until=third), "id", "price") == [(1, 3.0), (3, 3.0)]


@pytest.fixture
def archived(tmp_path: Path) -> tuple[hudi.HudiTable, list[hudi.Commit]]:
    """Five commits to a row of partition a; all but the last are archived."""
    options = {"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, "hoodie.archive.automatic": "false"}
    table = hudi.open_table(make(str(tmp_path / "orders")).location, options=options)
    commits = [table.upsert(orders((1, "a", float(n), n), (10 + n, f"p{n}", 0.0, n))) for n in range(5)]
    table.archival.run()
    assert len(table.timeline.commits) == 1
    return table, commits


def test_the_digits_of_an_archived_instant_mean_its_commit_in_intervals_too(
    archived: tuple[hudi.HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = archived
    for known, following in zip(commits[:3], commits[1:4], strict=True):
        found = table.incremental(after=known.instant, until=following.instant, columns=["price"]).to_arrow()
        wanted = table.incremental(after=known.completion_time, until=following.completion_time, columns=["price"])
        assert found.equals(wanted.to_arrow())
        assert 0 < found.num_rows
    consumer = hudi.Consumer("late", table, make(f"{table.location}-into"), start=commits[3].instant)
    batch = consumer.next()
    assert batch is not None
    assert batch.after == commits[3].completion_time


def test_the_archived_timeline_is_not_read_for_times_of_the_active_one(
    archived: tuple[hudi.HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = archived

    def asked(time: str) -> None:
        raise AssertionError(f"looked for {time}")

    for point in (commits[-1].instant, commits[-1].completion_time, time_after(commits[-1].instant), "0" * 17):
        assert interval_bound(point, table.timeline, asked, utc=True, name="after") >= point


def _take_away(table: hudi.HudiTable, *commits: hudi.Commit) -> None:
    """As a clean does that began after all of the commits."""
    begun = time_after(table.timeline.high_water_mark)
    Path(table.location, ".hoodie/timeline", f"{begun}_{time_after(begun)}.clean").touch()
    for commit in commits:
        (path,) = (
            path for path in Path(table.location).rglob("*.parquet") if path.match(f"*=a/*_{commit.instant}.parquet")
        )
        path.unlink()


def test_an_archived_state_is_not_gone_because_a_later_archived_group_was_replaced(
    archived: tuple[hudi.HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = archived
    table.delete_partitions([next(p.name for p in Path(table.location).iterdir() if p.name.endswith("p4"))])
    table.delete_partitions([next(p.name for p in Path(table.location).iterdir() if p.name.endswith("p3"))])
    table.archival.run()
    for number, commit in enumerate(commits):
        found = rows(table.scan(as_of=commit.completion_time), "id", "price")
        assert found == [(1, float(number)), *((10 + n, 0.0) for n in range(number + 1))]


def test_an_archived_clean_counts_as_one_of_the_active_timeline(
    archived: tuple[hudi.HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = archived
    _take_away(table, commits[1])
    [clean] = Path(table.location, ".hoodie/timeline").glob("*.clean")
    for stage in (f"{clean.name[:17]}.clean.requested", f"{clean.name[:17]}.clean.inflight"):
        clean.with_name(stage).touch()
    for n in range(3):
        table.upsert(orders((20 + n, "b", 0.0, n)))
    table.archival.run()
    assert not clean.exists(), "it is archived"
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.scan(as_of=commits[1].completion_time)
    assert rows(table.scan(as_of=commits[2].completion_time), "id", "price")[0] == (1, 2.0)


@pytest.mark.parametrize("cleaned", [1, 2], ids=["an older slice is kept", "no slice is left"])
def test_an_archived_state_whose_files_were_cleaned_is_not_read_with_older_rows_or_none(
    archived: tuple[hudi.HudiTable, list[hudi.Commit]], cleaned: int
) -> None:
    """What cleaned it, and what came after it, is archived too."""
    table, commits = archived
    _take_away(table, *commits[2 - cleaned : 2])
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.scan(as_of=commits[1].completion_time)
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.incremental(after=commits[0].completion_time, until=commits[1].completion_time)
    assert rows(table.scan(as_of=commits[2].completion_time), "id", "price")[0] == (1, 2.0)
    assert rows(table.scan(), "id", "price")[0] == (1, 4.0)
