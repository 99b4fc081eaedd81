"""Reading as of a time, and what changed since a time; commits that overlap included."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, SnapshotExpiredError
from pyhudi_core.table import HudiTable


@pytest.fixture
def history(location: str) -> tuple[HudiTable, list[hudi.Commit]]:
    """Three commits: insert 1 and 2, update 1, delete 2 and add 3."""
    table = make(location)
    commits = [table.upsert(orders((1, "a", 1.0), (2, "b", 2.0))), table.upsert(orders((1, "a", 10.0)))]
    table.delete(pa.table({"id": [2], "day": ["b"]}))
    commits.append(table.upsert(orders((3, "b", 3.0))))
    return table, commits


STATES = [[(1, 1.0), (2, 2.0)], [(1, 10.0), (2, 2.0)], [(1, 10.0), (3, 3.0)]]


def _moment(digits: str) -> datetime:
    return datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC) + timedelta(milliseconds=int(digits[14:]))


@pytest.mark.one_in(2)
@pytest.mark.row("D4")
@pytest.mark.parametrize("way", ["completion time", "requested time", "instant", "datetime", "iso text", "other zone"])
def test_a_table_can_be_read_as_of_every_commit(history: tuple[HudiTable, list[hudi.Commit]], way: str) -> None:
    table, commits = history
    for commit, state in zip(commits, STATES, strict=True):
        instant = table.timeline.find(commit.instant)
        moment = _moment(commit.completion_time)
        point = {
            "completion time": commit.completion_time, "requested time": commit.instant, "instant": instant,
            "datetime": moment, "iso text": moment.isoformat(), "other zone": moment.astimezone(timezone(timedelta(hours=-5))),
        }[way]  # fmt: skip
        assert rows(table.scan(as_of=point), "id", "price") == state


@pytest.mark.row("D4")
def test_the_digits_of_an_instant_mean_its_commit_in_intervals_too(
    history: tuple[HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = history
    second = commits[1].instant
    assert rows(table.incremental(after=second), "id") == [(3,)]
    assert rows(table.incremental(after=commits[0].instant, until=second), "id") == [(1,)]
    feed = table.changes(after=commits[0].instant, until=second).to_arrow().to_pylist()
    assert [change["op"] for change in feed] == ["u"]


@pytest.mark.row("D4")
def test_just_before_a_commit_completed_it_is_not_seen(history: tuple[HudiTable, list[hudi.Commit]]) -> None:
    table, commits = history
    before = f"{int(commits[1].completion_time) - 1}"
    assert rows(table.scan(as_of=before), "id", "price") == STATES[0]
    assert rows(table.scan(as_of="20000101000000000")) == []
    assert rows(table.scan(as_of="20000101000000")) == []
    assert rows(table.scan(as_of="29991231000000"), "id", "price") == STATES[2]


@pytest.mark.row("D4")
def test_a_replaced_partition_is_there_as_of_the_time_before(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    second = table.insert_overwrite(orders((2, "a", 2.0)))
    table.delete_partitions(["day=a"])
    assert rows(table) == []
    assert rows(table.scan(as_of=first.instant), "id") == [(1,)]
    assert rows(table.scan(as_of=second.completion_time), "id") == [(2,)]


@pytest.mark.parametrize(
    "wrong",
    [
        "yesterday",
        "2026-13-45",
        "",
        7,
        object(),
        b"2026",
        "2026",
        "202601",
        "2026013112",
        "1769860800",
        "1769860800123",
        "9" * 18,
    ],
)
def test_what_shows_no_time_is_refused(location: str, wrong: object) -> None:
    table = make(location)
    for call in (
        lambda: table.scan(as_of=wrong),
        lambda: table.incremental(after=wrong),
        lambda: table.incremental(until=wrong),
    ):  # type: ignore[arg-type]
        with pytest.raises(InvalidOptionError, match="is not a time"):
            call()


@pytest.mark.row("D4")
@pytest.mark.parametrize(
    "point",
    [datetime(2026, 1, 31, 12), "2026-01-31 12:00:00", "2026-01-31T12:00:00", "2026-01-31", "20260131"],
    ids=str,
)
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_a_time_of_day_without_a_zone_is_refused(
    location: str, point: object, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In New York `datetime.now()` was read as UTC: five hours ago, before the table had rows."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        table = make(location)
        table.upsert(orders((1, "a", 1.0)))
        for call in (
            lambda: table.scan(as_of=point),
            lambda: table.snapshot_token(as_of=point),
            lambda: table.incremental(after=point),
            lambda: table.incremental(until=point),
            lambda: table.changes(after=point),
            lambda: table.changes(until=point),
        ):  # type: ignore[arg-type]
            with pytest.raises(InvalidOptionError, match="has no time zone") as caught:
                call()
            assert "datetime.now(timezone.utc)" in (caught.value.hint or "")
            assert "+00:00' is UTC" in (caught.value.hint or "")
            assert "UTC: '20260131" in (caught.value.hint or "")
            assert caught.value.table == table.location
        assert rows(table.scan(as_of=datetime.now(UTC)), "id") == [(1,)]
        assert rows(table.scan(as_of=datetime.now().astimezone()), "id") == [(1,)]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.row("D4")
def test_before_the_first_commit_there_are_no_rows_unless_commits_were_archived(location: str) -> None:
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    make(location)
    table = hudi.open_table(location, options=few)
    empty = table.snapshot_token()
    commits = [table.upsert(orders((1, "a", 1.0)))]
    early = (
        "20000101000000000",
        commits[0].instant[:8] + "000000",
        "2000-01-01T00:00:00Z",
        datetime(2000, 1, 1, tzinfo=UTC),
    )
    for point in early:
        assert rows(table.scan(as_of=point)) == []
    commits += [table.upsert(orders((1, "a", float(n)))) for n in range(2, 7)]
    assert len(table.timeline.commits) < len(commits)
    reads = (
        lambda at: table.scan(as_of=at),
        lambda at: table.incremental(until=at),
        lambda at: table.snapshot(as_of=at),
    )
    for point, read in itertools.product(early, reads):
        with pytest.raises(SnapshotExpiredError, match="first commits are no longer on its timeline") as caught:
            read(point)
        assert caught.value.table == location
        assert table.timeline.commits[0].completion_time in str(caught.value)
    assert rows(table.scan(as_of=empty)) == [], "this state is known: it had no rows"
    assert rows(table.scan(as_of=commits[0].completion_time), "price") == [(1.0,)], "archived, and its files are there"


def test_a_pending_instant_has_no_state(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        with pytest.raises(InvalidOptionError, match="has not completed"):
            table.scan(as_of=table.timeline[0])


def test_incremental_returns_the_latest_state_of_changed_rows(history: tuple[HudiTable, list[hudi.Commit]]) -> None:
    table, commits = history
    after_first = table.incremental(after=commits[0].completion_time)
    assert rows(after_first, "id", "price") == [(1, 10.0), (3, 3.0)]
    assert after_first.completion_time == commits[2].completion_time
    assert rows(table.incremental(after=commits[1].completion_time), "id") == [(3,)]
    assert rows(table.incremental(after=after_first.completion_time)) == []


def test_after_is_exclusive_and_until_inclusive(history: tuple[HudiTable, list[hudi.Commit]]) -> None:
    table, commits = history
    window = table.incremental(after=commits[0].completion_time, until=commits[1].completion_time)
    assert rows(window, "id", "price") == [(1, 10.0)]
    first = table.incremental(until=commits[0].completion_time)
    assert rows(first, "id", "price") == STATES[0]
    assert rows(table.incremental(after=commits[1].completion_time, until=commits[0].completion_time)) == []
    assert rows(table.incremental(), "id", "price") == STATES[2]


def test_incremental_takes_instants_datetimes_columns_and_conditions(
    history: tuple[HudiTable, list[hudi.Commit]],
) -> None:
    table, commits = history
    instant = table.timeline.find(commits[0].instant)
    assert rows(table.incremental(after=instant), "id") == [(1,), (3,)]
    assert rows(table.incremental(after=_moment(commits[1].completion_time)), "id") == [(3,)]
    found = table.incremental(after=instant, columns=["price"], where="price > 5").to_arrow()
    assert found.to_pylist() == [{"price": 10.0}]


def test_incremental_reads_only_files_that_were_written_since(history: tuple[HudiTable, list[hudi.Commit]]) -> None:
    table, commits = history
    scan = table.incremental(after=commits[1].completion_time)
    assert {piece.partition for piece in scan.slices()} == {"day=b"}


def test_a_row_that_was_carried_along_in_a_rewrite_has_not_changed(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    second = table.upsert(orders((2, "a", 20.0)))
    third = table.upsert(orders((3, "a", 3.0)))
    assert rows(table.incremental(after=table.timeline[0]), "id") == [(2,), (3,)]
    assert rows(table.incremental(after=second.completion_time), "id") == [(3,)]
    assert rows(table.incremental(after=table.timeline[0], until=second.completion_time), "id") == [(2,)]
    assert third.stats.rows_written == 3


def test_no_commit_is_missed_or_read_twice_when_writes_overlap(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as early, table.begin("upsert") as late:
        early.write(orders((1, "a", 1.0)))
        late.write(orders((2, "b", 2.0)))
        first = late.commit()
        cursor = table.incremental(after="0")
        assert rows(cursor, "id") == [(2,)]
        second = early.commit()
    assert second.instant < first.instant < first.completion_time < second.completion_time
    assert rows(table.incremental(after=cursor.completion_time), "id") == [(1,)], (
        "begun before the cursor, completed after it"
    )
    assert rows(table.scan(as_of=first.completion_time), "id") == [(2,)]
    assert rows(table.scan(as_of=first.instant), "id") == [(2,)]
    assert rows(table.scan(as_of=second.instant), "id") == [(1,), (2,)], "everything up to and including it"


def test_following_a_table_by_its_cursor_sees_every_row_once(location: str) -> None:
    clock = StandingClock()
    table = make_at(home_at(location, runtime_with(clock=clock)))
    cursor, seen = "0", []
    for number in range(6):
        table.upsert(orders((number, "ab"[number % 2], 1.0)))
        if number % 2:
            scan = table.incremental(after=cursor)
            seen += [key for (key,) in rows(scan, "id")]
            cursor = scan.completion_time
    assert seen == list(range(6))


def test_commits_that_left_the_timeline_cannot_be_told_apart(location: str) -> None:
    from pathlib import Path

    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((2, "b", 2.0)))
    folder = Path(location, ".hoodie/timeline")
    for path in folder.glob(f"{first.instant}*"):
        path.unlink()
    (folder / "history").mkdir()
    (folder / "history" / "_version_").write_text("1")
    archived = hudi.open_table(location)
    assert rows(archived, "id") == [(1,), (2,)], "what was archived had completed"
    with pytest.raises(SnapshotExpiredError, match="archived") as caught:
        archived.incremental(after="20000101000000000")
    assert archived.scan().completion_time in str(caught.value)
    assert rows(archived.incremental(after=archived.scan().completion_time)) == []


@pytest.mark.row("D4")
@pytest.mark.parametrize("undo", ["restore", "rollback"])
def test_a_commit_that_was_undone_is_no_state_to_read(history: tuple[HudiTable, list[hudi.Commit]], undo: str) -> None:
    """The state at its time is the one without it, which is not what somebody asks for who names the commit."""
    table, commits = history
    if undo == "restore":
        table.restore(commits[0])
    else:
        assert table.rollback(commits[-1], completed=True)
    with pytest.raises(SnapshotExpiredError, match="no longer on the timeline") as caught:
        table.scan(as_of=commits[-1])
    assert caught.value.instant == commits[-1].instant
    assert rows(table.scan(as_of=commits[0]), "id", "price") == STATES[0]
    assert rows(table.scan(as_of=commits[-1].completion_time), "id") == rows(table.scan(), "id")
    nothing = table.delete(pa.table({"id": [99], "day": ["a"]}))
    assert not nothing.changed
    assert rows(table.scan(as_of=nothing), "id") == rows(table.scan(), "id")
