"""What is looked at while the lock is asked for counts only if nobody has held the lock since it was seen free: beside a writer that knows the lock, and
not the commit record, nothing else shows that a commit came in between.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from reliability.stories import Story, Writer, batch
from reliability.test_foreign_writer import JavaWriter

from pyhudi_core.errors import CommitConflictError, LockTimeoutError
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.storage_lock_file import LOCK_FILE
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.transaction import locking

ONCE: dict[str, Any] = {"pyhudi.commit.retries": 0}
MOVES: dict[str, Any] = {"pyhudi.lock.change.from": "sim:lock"}


def home_of(writer: Writer) -> Any:
    """The table as this process has it, with the lock of an object store."""
    home = writer.home()
    home.lock = StorageBasedLockProvider(home.storage, home.runtime)
    return home


def both_committed(before: int) -> tuple[bool, bool]:
    """Let Hudi's writer commit, under the lock, before this call of ours. Returns whether its commit is there, and whether ours is."""
    story = Story(Profile.S3)
    story.table((1, "a", 1))
    HudiTable(home_of(story.writer("first", options=MOVES))).upsert(batch((1, "a", 5)))
    java = JavaWriter(story)
    java.begin((1, "a", 10))
    ours = story.writer("ours", options=ONCE)
    home = home_of(ours)
    theirs = home_of(story.writer("java"))
    seen = 0

    def commit(_verb: str, _path: str) -> None:
        nonlocal seen
        seen += 1
        if seen != before:
            return
        with suppress(LockTimeoutError, AssertionError):
            session = theirs.lock.acquire(0.0)
            try:
                java.check()
                java.publish()
            finally:
                session.release()

    ours.watch(commit)
    token = ""
    with suppress(CommitConflictError):
        token = HudiTable(home).upsert(batch((1, "a", 20))).token
    assert seen >= before, "our upsert has fewer calls"
    found = [instant.requested_time for instant in HudiTable(story.writer("reader").home()).timeline.commits]
    return java.instant in found, bool(token)


def calls_of_an_upsert() -> list[tuple[str, str]]:
    story = Story(Profile.S3)
    story.table((1, "a", 1))
    HudiTable(home_of(story.writer("first", options=MOVES))).upsert(batch((1, "a", 5)))
    JavaWriter(story).begin((1, "a", 10))
    ours = story.writer("ours", options=ONCE)
    HudiTable(home_of(ours)).upsert(batch((1, "a", 20)))
    return ours.calls


CALLS = calls_of_an_upsert()
LOCKED = CALLS.index(("put_if_match", LOCK_FILE))
"""Our call that takes the lock."""


def test_the_look_comes_before_the_lock_is_taken_where_calls_are_made_in_their_order() -> None:
    look = len(CALLS) - 1 - CALLS[::-1].index(("list_names", ".hoodie/timeline"))
    assert CALLS.index(("get_tagged", LOCK_FILE)) < look < LOCKED


@pytest.mark.parametrize("before", range(LOCKED - 9, len(CALLS) + 1))
def test_a_commit_of_hudi_at_any_moment_is_seen_or_comes_later(before: int) -> None:
    theirs, ours = both_committed(before)
    assert theirs != ours, "both commits changed one file group from one state, or none did"


def test_without_the_proof_of_the_lock_an_update_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "taken_as_seen", lambda _session: True)
    assert (True, True) in [both_committed(before) for before in range(LOCKED - 9, LOCKED + 3)]


def test_a_lock_that_was_seen_held_or_expired_proves_nothing() -> None:
    story = Story(Profile.S3)
    first, second = (home_of(story.writer(name)).lock for name in ("one", "two"))
    held = first.acquire(1)
    second.look_ahead()
    assert not second.was_free
    held.release()
    assert not second.acquire(1).taken_as_seen, "it was held when it was seen"
    story.dead.add("two")
    story.pass_time(1000)
    first.look_ahead()
    assert not first.was_free, "its holder may not know that it has expired"
    assert not first.acquire(1).taken_as_seen
