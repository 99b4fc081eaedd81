"""The table's lock is held for a short time: the same few calls whatever the history of the table, and less than 50 ms on a disk."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from reliability.stories import SCHEMA, Story, batch

import pyhudi_core as hudi
from benchmarks.recording import record
from pyhudi_core.testing import Profile

GOAL_MS, ENOUGH, AT_MOST = 50, 5, 50
"""So many commits have to be within the goal, out of so many."""
AT_MOST_CALLS, AT_MOST_LISTINGS = {False: 6, True: 9}, 4
"""Storage calls between taking and giving back the lock, without and with a metadata table, and listings of the table's timeline in a whole upsert,
while no other writer is at work.
"""
SHORT: dict[str, object] = {"hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 8}
LONGER = int(os.environ.get("PYHUDI_EXPLORE", "1"))
Shape = tuple[int, int]
"""Commits before, and files."""
TINY: Shape = (3, 2)
SMALL: Shape = (18, 2)
LONG: Shape = (60 * LONGER, 2)
WIDE: Shape = (18, 100 * LONGER)


def calls_under_the_lock(profile: Profile, shape: Shape, *, metadata: bool) -> tuple[Counter[str], int]:
    """What one small commit asks of the storage while it holds the lock, by kind; and how many files lie on the active timeline then."""
    story = Story(profile)
    commits, files = shape
    table = story.table(metadata=metadata)
    table.bulk_insert(batch(*((n, f"p{n}", 0) for n in range(files))))
    steady = story.writer(options=SHORT).open()
    for number in range(commits):
        steady.upsert(batch((number % 2, f"p{number % 2}", number)))
    measured = story.writer(options=SHORT)
    measured.open().upsert(batch((0, "p0", -1)))
    verbs = [verb for verb, _ in measured.calls]
    held = measured.calls[verbs.index("acquire") + 1 : verbs.index("release")]
    listed = len(story.storage.list_folder(".hoodie/timeline").objects)
    return Counter(f"{verb} {_kind(path)}" for verb, path in held), listed


def _kind(path: str) -> str:
    """The kind of a path, independent of its instant."""
    if path.startswith(".hoodie/metadata/"):
        return f"{_kind(path.removeprefix('.hoodie/metadata/'))} of the metadata table"
    if "/history/" in path:
        return "history: " + path.rpartition("/")[2].rstrip("0123456789")
    for kind in ("commit_record", ".heartbeat", "history", "hoodie.properties", "staged", ".temp", "timeline"):
        if kind in path:
            return kind
    return "data"


KINDS_OF_TABLES = pytest.mark.parametrize(
    ("profile", "metadata"),
    [(Profile.S3, False), (Profile.LOCAL_POSIX, False), (Profile.S3, True), (Profile.LOCAL_POSIX, True)],
)


@KINDS_OF_TABLES
def test_few_calls_are_made_under_the_lock_and_none_touches_data(profile: Profile, *, metadata: bool) -> None:
    calls, _ = calls_under_the_lock(profile, TINY, metadata=metadata)
    assert sum(calls.values()) <= AT_MOST_CALLS[metadata]
    assert not [call for call in calls if " data" in call]
    assert calls["list_names timeline"] == 1
    assert calls["list_names timeline of the metadata table"] == int(metadata)


@pytest.mark.one_in(4)
@KINDS_OF_TABLES
def test_what_is_done_under_the_lock_does_not_grow_with_history_or_files(profile: Profile, *, metadata: bool) -> None:
    """Call for call the same for a table with few commits and few files, with a long history, and with many files; no data file is touched."""
    small, listed = calls_under_the_lock(profile, SMALL, metadata=metadata)
    long, long_listed = calls_under_the_lock(profile, LONG, metadata=metadata)
    wide, wide_listed = calls_under_the_lock(profile, WIDE, metadata=metadata)
    assert small == long == wide
    assert not [call for call in small if " data" in call]
    bound = 3 * (int(str(SHORT["hoodie.keep.max.commits"])) + 2)
    assert max(listed, long_listed, wide_listed) <= bound, "the listing that is read under the lock has grown"
    calls = dict(sorted(small.items()))
    name = profile.name.lower() + ("_with_metadata_table" if metadata else "")
    record("lock_calls", {name: {"commits": LONG[0], "files": WIDE[1], "calls": sum(small.values()), **calls}})


@pytest.mark.row("T15", "K12")
@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_an_upsert_that_nobody_disturbs_lists_the_timeline_at_most_four_times(
    profile: Profile, *, metadata: bool
) -> None:
    """Before the rows are prepared, after the requested time was reserved, at the check without the lock, and under the lock."""
    story = Story(profile)
    story.table((0, "p0", 0), (1, "p1", 0), metadata=metadata)
    story.writer().open().upsert(batch((0, "p0", 1)))
    writer = story.writer()
    table = writer.open()
    for number in range(2):
        writer.calls.clear()
        table.upsert(batch((0, "p0", 2 + number)))
        listings = writer.calls.count(("list_names", ".hoodie/timeline"))
        assert 0 < listings <= AT_MOST_LISTINGS


@pytest.mark.row("T15", "K12")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_nothing_is_encoded_staged_or_swept_under_the_lock(profile: Profile) -> None:
    story = Story(profile)
    story.table((0, "p0", 0))
    steady = story.writer().open()
    for number in range(12):  # so many that there are old commit records to remove
        steady.upsert(batch((0, "p0", number)))
    writer = story.writer()
    writer.open().upsert(batch((0, "p0", -1)))
    verbs = [verb for verb, _ in writer.calls]
    held = writer.calls[verbs.index("acquire") + 1 : verbs.index("release")]
    assert not [call for call in held if call[0] in ("put", "delete") or "/staged/" in call[1]]
    assert [verb for verb, path in held if path.startswith(".hoodie/timeline/")] == ["put_if_absent"]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("shape", "metadata"),
    [(SMALL, False), ((60, 2), False), ((18, 100), False), (SMALL, True)],
    ids=["small", "long", "wide", "metadata table"],
)
def test_a_small_commit_holds_the_lock_for_less_than_50_ms_on_a_disk(
    tmp_path: Path, shape: Shape, *, metadata: bool
) -> None:
    """With every file safe on the disk before the next step. Some commits may wait for a busy machine, but not all of them."""
    commits, files = shape
    location = str(tmp_path / "table")
    quick, options = {"fsync": "false"}, {**SHORT, "hoodie.metadata.enable": metadata}
    table = hudi.create_table(location, SCHEMA, "id", partition_by="part", storage_options=quick, options=options)
    table.bulk_insert(batch(*((n, f"p{n}", 0) for n in range(files))))
    for number in range(commits):
        table.upsert(batch((0, "p0", number)))
    safe = hudi.open_table(location, options=SHORT)
    held: list[float] = []
    while sum(ms < GOAL_MS for ms in held) < ENOUGH:
        assert len(held) < AT_MOST, f"held for {sorted(held)[ENOUGH]:.1f} ms"
        held.append(safe.upsert(batch((0, "p0", -1))).lock_held * 1000)
