"""Another process drops the metadata table while one reads or writes: no row is lost, and nothing is called damaged (promises P1, P3 and P4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from reliability.service_runs import budget
from reliability.stories import SCHEMA, Story, batch, rows_of, with_lock_file

from pyhudi_core.errors import CommitError, HudiError
from pyhudi_core.file_groups import view
from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.opening import create_whole
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.testing.sim_storage import Image

BEFORE = [(n, "ab"[n % 2], n) for n in range(1, 7)]
AFTER = [(1, "b", 10), *BEFORE[1:], (9, "b", 9)]
CALLS: dict[str, tuple[Callable[[HudiTable], object], list[list[tuple[int, str, int]]]]] = {
    "a scan": (lambda table: table.scan().to_arrow(), [BEFORE]),
    "a scan with a condition": (lambda table: table.scan(where="value >= 0").to_arrow(), [BEFORE]),
    "a lookup": (lambda table: table.lookup(batch((1, "b", 0)).select(["id"])).to_arrow(), [BEFORE]),
    "an upsert": (lambda table: table.upsert(batch((1, "b", 10), (9, "b", 9))), [AFTER, BEFORE]),
    "a compaction": (lambda table: table.compaction.run(), [BEFORE]),
}
READS = {"a scan": 6, "a scan with a condition": 6, "a lookup": 1}
"""How many rows the reads return."""


@cache
def _filled() -> tuple[Image, int]:
    """A merge-on-read table with five commits, whose files are listed in the logs of its metadata table; and the time after them."""
    story = Story(Profile.LOCAL_POSIX)
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.compact.max.delta.commits": 100}
    create_whole(with_lock_file(story.writer("maker"), options), SCHEMA, "id", "part", None, "MERGE_ON_READ", "story")
    table = HudiTable(with_lock_file(story.writer("filler"), options))
    table.insert(batch(*(row for row in BEFORE if row[1] == "a")))
    table.indexing.run(partitions=["record_index"])
    table.insert(batch(*(row for row in BEFORE if row[1] == "b")))
    for row in BEFORE[:3]:
        table.upsert(batch(row))
    return story.storage.image(), story.now_ms


class Stopped(BaseException):
    """The process that drops is slow, and has deleted so many files of the list of files."""


def _beside(kind: str, number: int, deletes: int) -> bool:
    """Drop before the n-th call of the storage, as far as so many deletes; whether there were so many calls."""
    image, now_ms = _filled()
    story = Story(Profile.LOCAL_POSIX, image=image, now_ms=now_ms)
    one, other = story.writer("one"), story.writer("other")
    table, dropping = HudiTable(with_lock_file(one, {})), HudiTable(with_lock_file(other, {}))
    left = {"calls": number, "deletes": deletes}

    def slow(verb: str, path: str) -> None:
        if verb == "delete" and path.startswith(".hoodie/metadata/files/") and not path.endswith(PARTITION_METAFILE):
            left["deletes"] -= 1
            if left["deletes"] == -1:
                raise Stopped

    def watch(_verb: str, _path: str) -> None:
        left["calls"] -= 1
        if left["calls"] == -1:
            with suppress(Stopped, HudiError):
                dropping.metadata_table.drop()

    other.watch(slow)
    one.watch(watch)
    call, expected = CALLS[kind]
    with suppress(CommitError):
        found = call(table)
        if kind in READS:
            assert found.num_rows == READS[kind], f"call {number}, {deletes} deletes"
    assert rows_of(HudiTable(with_lock_file(story.writer("reader"), {}))) in expected
    return left["calls"] < 0


@pytest.mark.row("I14", "L5")
@pytest.mark.parametrize("kind", CALLS)
def test_a_metadata_table_that_is_dropped_at_any_call_of_another_process_loses_no_row(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop is complete, or has deleted a few files. The newest commits would name the missing files, so only one is asked.

    At some calls; at every one if PYHUDI_EXPLORE asks for more, as the night does.
    """
    monkeypatch.setattr(view, "NEWEST", 1)
    step = 1 if budget(1) > 1 else 3 if kind in READS else 13
    for deletes in (1000, 1, 2, 3, 4, 5, 6) if budget(1) > 1 else (1000, 3):
        number = 1
        while _beside(kind, number, deletes):
            number += step
        assert number > step
