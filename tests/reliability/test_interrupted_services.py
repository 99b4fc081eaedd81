"""Ctrl-C in the middle of a table service: promises P2, P3 and P7. The process lives on, as in a notebook, and removes what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from reliability.service_runs import budget
from reliability.stories import SCHEMA, Story, batch, interrupt, rows_of, with_lock_file
from reliability.test_zombies import LONG_S

from pyhudi_core.opening import create_whole
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.testing.sim_storage import Image

KINDS: dict[str, tuple[str, dict[str, object], Callable[[HudiTable], object]]] = {
    "compaction": ("MERGE_ON_READ", {}, lambda table: table.compaction.run()),
    "log_compaction": (
        "MERGE_ON_READ",
        {"hoodie.log.compaction.blocks.threshold": 2},
        lambda table: table.log_compaction.run(),
    ),
    "clustering": ("COPY_ON_WRITE", {"hoodie.parquet.small.file.limit": 0}, lambda table: table.clustering.run()),
    "cleaning": ("COPY_ON_WRITE", {"hoodie.clean.commits.retained": 1}, lambda table: table.cleaning.run()),
    "indexing": ("COPY_ON_WRITE", {}, lambda table: table.indexing.run(partitions=["record_index"])),
    "metadata compaction": (
        "COPY_ON_WRITE",
        {"hoodie.metadata.compact.max.delta.commits": 1},
        lambda table: table.upsert(batch((1, "a", 3))),
    ),
}
STEPS = dict.fromkeys(KINDS, 11) | {"indexing": 29, "metadata compaction": 5}
"""How many calls are between two that the quick suite interrupts: the services have 75 to 441 calls."""


@cache
def _filled(kind: str) -> tuple[Image, int]:
    """A table with three commits, and the time after them."""
    table_type, options, _ = KINDS[kind]
    story = Story(Profile.LOCAL_POSIX)
    home = with_lock_file(story.writer("maker"), {"hoodie.metadata.enable": True})
    create_whole(home, SCHEMA, "id", "part", None, table_type, "story")
    table = HudiTable(with_lock_file(story.writer("filler"), options))
    for value in (1, 2, 3):
        table.upsert(batch((1, "a", value), (2, "b", value), (10 + value, "b", value)))
    return story.storage.image(), story.now_ms


def _interrupted_at(number: int, kind: str) -> bool:
    """Press Ctrl-C before the n-th call of the storage, and see that every commit has its files, and the next process goes on; whether there were so
    many calls.
    """
    image, now_ms = _filled(kind)
    _, options, run = KINDS[kind]
    story = Story(Profile.LOCAL_POSIX, image=image, now_ms=now_ms)
    notebook, other = story.writer("notebook"), HudiTable(with_lock_file(story.writer("other"), options))
    reader = HudiTable(with_lock_file(story.writer("reader"), options))
    handle = HudiTable(with_lock_file(notebook, options))
    was_reached = notebook.before_call(number, interrupt)
    with suppress(KeyboardInterrupt):
        run(handle)
    expected = [(1, "a", 3), (2, "b", 3), *((10 + value, "b", value) for value in (1, 2, 3))]
    assert rows_of(reader) == expected
    assert not reader.check().errors, f"interrupted at call {number}: {reader.check()}"
    story.pass_time(LONG_S)
    other.upsert(batch((3, "a", 30)))
    run(other)
    assert rows_of(reader) == sorted([*expected, (3, "a", 30)])
    assert not reader.check().errors, f"interrupted at call {number}: {reader.check()}"
    assert not reader.timeline.pending.instants
    return was_reached()


@pytest.mark.row("L6")
@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_of_a_service_at_any_call_leaves_every_commit_its_files(kind: str) -> None:
    """At some calls, 14 or more; at every one if PYHUDI_EXPLORE asks for more, as the night does."""
    number, step = 0, STEPS[kind] if budget(1) == 1 else 1
    while _interrupted_at(number, kind):
        number += step
    assert number > 20
