"""The mechanisms of an article on optimistic concurrency in lakehouses: each is a test on the real protocol.

Two writers that commit a thousand times each, as processes, are in ``test_two_processes``.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from reliability.stories import Died, Story, batch, data_files, dying, rows_of

from benchmarks import commit_writers
from pyhudi_core.conflicts.conflict import ConflictKind
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.testing import Fault, Profile
from scripts import evidence_page

ALONE = {"pyhudi.commit.reserve.after": 0}
"""No reservation for writers that lost: back-off has to do."""


@dataclass
class Feed:
    """Somebody who upserts the same row again and again, at fixed times; a feed that is asked to wait tries again the next time."""

    story: Story
    every_ms: int
    end_ms: int
    commits: int = 0
    waited: int = 0
    options: dict[str, object] = field(
        default_factory=lambda: {"pyhudi.commit.yield.ms": 0, "pyhudi.commit.retries": 0}
    )

    def start(self, after_ms: int) -> Feed:
        self.table = self.story.writer("feed", options=self.options).open()
        self.story.at(self.story.now_ms + after_ms, self.tick)
        return self

    def tick(self) -> None:
        if self.story.now_ms + self.every_ms < self.end_ms:
            self.story.at(self.story.now_ms + self.every_ms, self.tick)
        try:
            self.table.upsert(batch((1, "a", self.commits + 1)))
            self.commits += 1
        except CommitConflictError as conflict:
            assert conflict.conflict.kind is ConflictKind.PRECEDENCE
            self.waited += 1


# --- back-off


@pytest.mark.one_in(2)
@pytest.mark.row("T5")
@pytest.mark.parametrize("jitter", [True, False])
def test_no_livelock_with_jitter(jitter: bool) -> None:
    """Two writers whose rhythms fit collide at every attempt for ever, unless the loser waits a random time.

    A feed commits every 289 ms. A write of the same file group takes 202 ms, so it would fit in between; but after the longest wait of 5 s it
    starts at the very same beat of the feed as the last time. With jitter it finds a gap.
    """
    story, every_ms, attempts = Story(Profile.LOCAL_POSIX), 289, 12
    table = story.table((1, "a", 0), (2, "a", 0))
    feed = Feed(story, every_ms, story.now_ms + 3_600_000).start(71)
    slow = story.writer(
        "slow", options={**ALONE, "pyhudi.commit.retries": attempts}, protections=Protections(jitter=jitter)
    )
    beats: list[int] = []

    def takes_its_time(verb: str, path: str) -> None:
        if verb == "put" and ".marker." in path:
            beats.append(story.now_ms % every_ms)
            story.pass_time(0.2)

    slow.watch(takes_its_time)
    if jitter:
        commit = slow.open().upsert(batch((2, "a", 1)))
        assert 0 < commit.retries < attempts
        assert {row[0]: row[2] for row in rows_of(table)} == {1: feed.commits, 2: 1}
        return
    with pytest.raises(CommitConflictError):
        slow.open().upsert(batch((2, "a", 1)))
    assert len(beats) == attempts + 1
    assert len(set(beats[-4:])) == 1, "from here on every attempt is the same, so it would lose for ever"


@pytest.mark.one_in(2)
@pytest.mark.row("T7")
@pytest.mark.parametrize("reserves", [True, False])
def test_long_writer_eventually_wins(reserves: bool) -> None:
    """A merge of two hours against an upsert of the same file group every 30 seconds: after a lost race it goes first, and nobody loses a row.

    Without a reservation it loses for as long as it is tried. (In the quick suite the upserts come every five minutes.)
    """
    story = Story(Profile.LOCAL_POSIX)
    table = story.table((1, "a", 0), (2, "a", 0))
    two_hours_s = 7200
    every_ms = 300_000 if os.environ.get("PYHUDI_EXPLORE", "1") == "1" else 30_000
    feed = Feed(story, every_ms, story.now_ms + 50 * two_hours_s * 1000).start(10_000)
    merge = story.writer(options={"pyhudi.commit.reserve.after": int(reserves), "pyhudi.commit.retries": 2})
    merge.watch(lambda verb, path: story.pass_time(two_hours_s) if verb == "put" and ".marker." in path else None)
    if not reserves:
        with pytest.raises(CommitConflictError):
            merge.open().upsert(batch((2, "a", 7)))
        return
    commit = merge.open().upsert(batch((2, "a", 7)))
    assert commit.retries == 1
    assert feed.waited >= two_hours_s * 1000 // every_ms - 1, "the feed did not wait for the long write"
    before = feed.commits
    story.pass_time(2 * every_ms / 1000 + 1)
    assert feed.commits >= before + 2, "the feed does not go on after the long write"
    assert {row[0]: row[2] for row in rows_of(table)} == {1: feed.commits, 2: 7}


# --- plans


@pytest.mark.row("T1", "T6")
def test_plan_is_replanned_not_recassed() -> None:
    """The file group that a write planned to change is gone when it commits: it plans anew, for rows of the old plan would go where nobody reads."""
    story = Story()
    table = story.table((1, "a", 1), (2, "a", 1))
    with story.writer().open().begin("upsert") as write:
        write.write(batch((1, "a", 2)))
        planned, instant = write.metadata.stats, write.instant
        table.insert_overwrite(batch((1, "a", 10), (3, "a", 10)))
        with pytest.raises(CommitConflictError) as conflict:
            write.commit()
        write.again(conflict.value)
        commit = write.commit()
    assert rows_of(table) == [(1, "a", 2), (3, "a", 10)]
    (old,), (new,) = planned, table.commit_metadata(table.timeline.commits[-1]).stats
    assert old.file_id != new.file_id, "the commit names the file group that is gone"
    assert old.path not in data_files(story.storage)
    assert commit.instant != instant
    assert commit.retries == 1


@pytest.mark.row("T6")
def test_the_same_plan_again_would_lose_the_row() -> None:
    """With planning anew and the check switched off, what the test above promises does not hold."""
    story = Story()
    table = story.table((1, "a", 1), (2, "a", 1))
    writer = story.writer(protections=Protections(replan=False, conflict_check=False, key_check=False))
    with writer.open().begin("upsert") as write:
        write.write(batch((1, "a", 2)))
        table.insert_overwrite(batch((1, "a", 10), (3, "a", 10)))
        write.commit()
    assert rows_of(table) != [(1, "a", 2), (3, "a", 10)]


@pytest.mark.row("T6", "K5")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_disjoint_file_groups_never_conflict(profile: Profile) -> None:
    """Eight writers at once, each in a file group of its own, two groups a partition: all commit at the first attempt."""
    story = Story(profile)
    table = story.table(*((2 * n, f"p{n}", 0) for n in range(4)))
    one_file_each = {"hoodie.parquet.small.file.limit": 0}
    story.writer(options=one_file_each).open().upsert(batch(*((2 * n + 1, f"p{n}", 0) for n in range(4))))
    writers = [story.writer().open().begin("upsert").write(batch((n, f"p{n // 2}", n + 1))) for n in range(8)]
    groups = [stat.file_id for write in writers for stat in write.metadata.stats]
    assert len(set(groups)) == 8
    for write in reversed(writers):
        assert write.would_commit()
        assert write.commit().retries == 0
    assert [row[2] for row in rows_of(table)] == list(range(1, 9))


# --- listings


LISTED = [
    (Profile.S3, "timeline"), (Profile.LOCAL_POSIX, "timeline"), (Profile.S3, "heartbeat"),
    (Profile.LOCAL_POSIX, "commit_record"), (Profile.S3, "part=a"), (Profile.LOCAL_POSIX, "heartbeat"),
    (Profile.S3, ".temp"), (Profile.LOCAL_POSIX, "part=a"), (Profile.LOCAL_POSIX, ".temp"),
]  # fmt: skip
"""Storages, and what a write lists there; in an object store, the record is one object."""


@pytest.mark.one_in(3)
@pytest.mark.row("T8", "L7")
@pytest.mark.parametrize(("profile", "faulty"), LISTED)
def test_stale_list_after_commit(profile: Profile, faulty: str) -> None:
    """A listing that does not show the latest commit, at whichever place of a write, costs an attempt and never an update or a key."""
    total = _writes_with_a_stale_list(profile, faulty, None)
    assert total
    for place in range(total):
        _writes_with_a_stale_list(profile, faulty, place)


def _writes_with_a_stale_list(profile: Profile, faulty: str, place: int | None) -> int:
    """Upserts that begin before, and end after, a conflicting commit; their listing number ``place`` is stale. Returns how many listings."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "a", 1))
    writer, lists = story.writer(options={"pyhudi.commit.retries": 20}), 0

    def reached(verb: str, path: str) -> None:
        nonlocal lists
        if verb == "acquire" and not any(call[0] == "acquire" for call in writer.calls[:-1]):
            story.writer().open().upsert(batch((1, "a", 100), (7, "a", 100)))
        if verb in ("list", "list_folder", "list_names") and faulty in path:
            if lists == place:
                story.storage.inject(Fault.STALE_LIST, "list")
            lists += 1

    writer.watch(reached)
    opened = writer.open()
    opened.upsert(batch((1, "a", 2), (7, "a", 2), (8, "a", 2)))
    found = rows_of(table)
    assert found == [(1, "a", 2), (2, "a", 1), (7, "a", 2), (8, "a", 2)], f"stale listing {place} of {faulty!r}"
    return lists


# --- leftovers


@pytest.mark.row("T3")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_orphans_are_invisible_then_swept(profile: Profile) -> None:
    """Files of a writer that died before it decided show to nobody, and go with the next write; those of a living one stay."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    committed = data_files(story.storage)
    living = story.writer().open().begin("upsert").write(batch((2, "b", 2)))
    of_living = data_files(story.storage) - committed
    dead = story.writer()
    dead.pause_before("acquire", "lock", dying(dead))
    with pytest.raises(Died):
        dead.open().upsert(batch((1, "a", 100), (3, "c", 100)))
    orphans = data_files(story.storage) - committed - of_living
    assert len(orphans) == 2
    assert rows_of(table) == [(1, "a", 1)]
    story.writer().open().upsert(batch((4, "d", 4)))
    assert not orphans & data_files(story.storage)
    assert of_living <= data_files(story.storage)
    living.commit()
    assert rows_of(table) == [(1, "a", 1), (2, "b", 2), (4, "d", 4)]


# --- figures


@pytest.mark.row("T15")
def test_every_commit_says_how_often_it_was_planned_anew() -> None:
    story = Story()
    table = story.table((1, "a", 1))
    writer = story.writer()
    left = [3, 2, 1]

    def overtaken(verb: str, path: str) -> None:
        if verb == "acquire" and left:
            left.pop()
            story.writer().open().upsert(batch((1, "a", 5)))

    writer.watch(overtaken)
    commit = writer.open().upsert(batch((1, "a", 9)))
    assert rows_of(table) == [(1, "a", 9)]
    assert commit.retries > 0
    assert f"retries     {commit.retries}" in str(commit)
    assert commit.lock_wait >= 0 <= commit.lock_held


@pytest.mark.row("T9")
def test_commits_per_second_reported(tmp_path: Path) -> None:
    table = commit_writers.make(tmp_path / "table")
    answers: queue.Queue[list[tuple[int, float, float]]] = queue.Queue()
    began = time.perf_counter()
    commit_writers._write(commit_writers.Work(table.location, 1, 3), 0, threading.Barrier(1), answers)
    columns = (list(column) for column in zip(*answers.get_nowait(), strict=True))
    rate = commit_writers.Outcome(time.perf_counter() - began, *columns).figures()
    assert len(table.timeline.commits) == rate["acknowledged"] == 3
    assert rate["commits_per_second"] > 0
    assert 0 < rate["lock_held_ms"]["median"] <= rate["lock_held_ms"]["max"]
    row = {**rate, "place": "disjoint", "writers": 1, "low": 1.5, "high": 99.5}
    record = {"outcome": "passed", "figures": {"commits": {"rates": {"rates": [row]}}}}
    assert f"|apart|1|{rate['commits_per_second']:.1f} (1.5-99.5)|" in evidence_page.small_commits({"commits": record})
