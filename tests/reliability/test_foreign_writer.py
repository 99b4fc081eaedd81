"""Writes concurrent with Hudi's own writer, which does not use the commit record: the documented gap, and the guarantees that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reliability.stories import Story, batch, rows_of
from reliability.test_zombies import assert_tidy

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
)
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.testing import Profile


@pytest.mark.xfail(
    strict=True, reason="Hudi's own writer publishes without a fence: beside it, only Hudi's guarantee holds"
)
def test_foreign_java_writer_documented_gap() -> None:
    """Hudi's writer: lock, check, completed file. It pauses between the last two, and its lock expires."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    java = JavaWriter(story)
    java.begin((1, "a", 10))
    session = story.lock.acquire(1)
    java.check()
    story.pass_time(61)  # a long garbage collection; others may take the lock by now
    ours = story.writer("python").open().upsert(batch((1, "a", 20)))
    java.publish()
    session.release()
    assert table.commit_status(ours.token) is hudi.CommitStatus.COMMITTED
    java_is_there = java.instant in [instant.requested_time for instant in table.timeline.commits]
    assert not java_is_there or rows_of(table) != [(1, "a", 20)], (
        "the writer that was told that it committed shows nowhere"
    )
    assert not java_is_there, "both commits changed one file group from one state: an update is lost"


def test_foreign_java_writer_is_safe_as_long_as_its_lock_holds() -> None:
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    java = JavaWriter(story)
    java.begin((1, "a", 10))
    with story.writer("python").open().begin("upsert") as write:
        write.write(batch((1, "a", 20)))
        session = story.lock.acquire(1)
        java.check()
        java.publish()
        session.release()
        with pytest.raises(CommitConflictError):
            write.commit()
    assert_tidy(story, table)


class JavaWriter:
    """The timeline files of an upsert of one file group by Hudi 1.0 to 1.2: without reservation, commit record and token."""

    def __init__(self, story: Story) -> None:
        self._storage = story.storage
        context = story.writer("java's eyes").home().context()
        self._folder = context.folder
        self._start = self._folder.load()
        self.instant = time_after(time_after(self._start.high_water_mark))
        self._stat: WriteStat | None = None

    def begin(self, row: tuple[int, str, int]) -> None:
        """Announce the commit and write the new slice of the row's file group."""
        for state in (State.REQUESTED, State.INFLIGHT):
            self._storage.put(self._folder.file(Instant(self.instant, Action.COMMIT, state)), b"")
        old = self._folder.read_commit(self._start.commits[-1]).stats[0]
        path = old.path.replace(self._start.commits[-1].requested_time, self.instant)
        self._storage.put(path, self._storage.get(old.path))
        self._stat = replace(old, path=path, updates=1, inserts=0)

    def check(self) -> None:
        """The conflict check: nothing completed since the start."""
        assert len(self._folder.load().commits) == len(self._start.commits)

    def publish(self) -> None:
        """Create the completed file; its time is taken now."""
        assert self._stat is not None
        body = encode_record(
            "HoodieCommitMetadata",
            CommitMetadata("UPSERT", (self._stat,)).to_avro(Action.COMMIT),
            sync_marker=bytes(16),
        )
        completed = time_after(self._folder.load().high_water_mark)
        self._storage.put_if_absent(
            self._folder.file(Instant(self.instant, Action.COMMIT, State.COMPLETED, completed)), body
        )
