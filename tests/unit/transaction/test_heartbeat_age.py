"""How many heartbeats may be missing: whatever rests on them goes by ``hoodie.client.heartbeat.tolerable.misses``, not by one interval."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.archival import MANUAL, commits
from support.disk import files
from support.homes import context_of, home_at, make_at, runtime_with
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.precedence import claim
from pyhudi_core.model.instant import time_before
from pyhudi_core.transaction import layout, waiting_rows

INTERVAL_S = 60
"""The default interval; tests take much less time, so nothing beats in them."""

missed = pytest.mark.parametrize(
    ("beats", "tolerable", "dead"), [(1.5, 2, False), (2.5, 2, True), (2.5, 3, False), (4.5, 5, False), (1.5, 1, True)]
)


def seen_by(table: hudi.HudiTable, tolerable: int, **options: object) -> hudi.HudiTable:
    """The table as a writer opens it that tolerates so many misses."""
    return reopen(table, hoodie__client__heartbeat__tolerable__misses=tolerable, **options)


def age(path: Path, beats: float) -> None:
    """Make a file as old as if so many heartbeats were missing."""
    then = time.time() - beats * INTERVAL_S
    os.utime(path, (then, then))


@missed
def test_a_write_is_rolled_back_when_more_heartbeats_are_missing_than_may_be(
    location: str, beats: float, tolerable: int, dead: bool
) -> None:
    table = make(location)
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 1.0)))
        age(Path(location, layout.heartbeat(str(slow.instant))), beats)
        seen_by(table, tolerable).upsert(orders((2, "b", 2.0)))
        if dead:
            with pytest.raises(hudi.errors.CommitAbortedError, match="rolled this write back"):
                slow.commit()
        else:
            slow.commit()
    assert rows(table, "id") == ([(2,)] if dead else [(1,), (2,)])


@missed
def test_a_claim_counts_until_more_heartbeats_are_missing_than_may_be(
    location: str, beats: float, tolerable: int, dead: bool
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    claimed = claim(context_of(table), Touched(frozenset(), frozenset(), None), 3_600_000)
    age(Path(location, claimed.path), beats)
    impatient = seen_by(table, tolerable, pyhudi__commit__yield__ms=0)
    if dead:
        impatient.upsert(orders((1, "a", 2.0)))
    else:
        with pytest.raises(hudi.errors.CommitConflictError):
            impatient.upsert(orders((1, "a", 2.0)))
    assert files(location, "*.json").count(claimed.path) == (not dead)
    claimed.give_up(context_of(table))


@missed
def test_a_hidden_file_is_swept_when_it_is_older_than_heartbeats_may_be(
    location: str, beats: float, tolerable: int, dead: bool
) -> None:
    table = make(location)
    left = Path(location, ".hoodie/.pyhudi-1.tmp")
    left.write_bytes(b"half")
    age(left, beats)
    seen_by(table, tolerable).upsert(orders((1, "a", 1.0)))
    assert left.exists() is not dead


@missed
def test_staged_bytes_of_an_archived_time_are_removed_when_they_are_older_than_heartbeats_may_be(
    location: str, beats: float, tolerable: int, dead: bool
) -> None:
    table = make(location)
    times = commits(table, 6)
    late = Path(location, layout.staged(time_before(times[0]), "late"))
    late.parent.mkdir(parents=True, exist_ok=True)
    late.write_bytes(b"what a process that slept brought")
    age(late, beats)
    options = {key.replace(".", "__"): value for key, value in MANUAL.items()}
    assert seen_by(table, tolerable, **options).archival.run().instants
    assert late.exists() is not dead


class Beats:
    """A timer that calls when a test says so."""

    def __init__(self) -> None:
        self.calls: dict[str, Callable[[], None]] = {}

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> Beats:
        assert seconds == INTERVAL_S
        self.calls[name.removeprefix("heartbeat ")] = fn
        return self

    def cancel(self) -> None:
        """The test calls no longer."""


def test_a_file_that_is_kept_young_and_was_removed_does_not_come_back(location: str) -> None:
    """Another process that rolled the write back removed the file; if it came back, the write would seem to live."""
    beats = Beats()
    table = make_at(home_at(location, runtime_with(timer=beats)))
    claimed = waiting_rows.claim(context_of(table))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        kept = {layout.heartbeat(str(write.instant)), claimed.beat.path}
        assert kept <= beats.calls.keys()
        for path in kept:
            age(Path(location, path), 100)
            beats.calls[path]()
            assert Path(location, path).stat().st_mtime > time.time() - INTERVAL_S, "a beat makes it young"
            Path(location, path).unlink()
            beats.calls[path]()
            assert not Path(location, path).exists()


def test_a_writer_that_beats_after_its_rollback_does_not_seem_to_live(location: str) -> None:
    beats = Beats()
    table = make_at(home_at(location, runtime_with(timer=beats)))
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 1.0)))
        path = layout.heartbeat(str(slow.instant))
        age(Path(location, path), 100)
        reopen(table).upsert(orders((2, "b", 2.0)))
        beats.calls[path]()
        assert not Path(location, path).exists()
        with pytest.raises(hudi.errors.CommitAbortedError, match="rolled this write back"):
            slow.commit()
    assert not list(Path(location, layout.HEARTBEATS).iterdir())
