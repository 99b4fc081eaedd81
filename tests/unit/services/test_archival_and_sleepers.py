"""Processes that slept while archival ran: what they still believe changes no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.archival import AUTOMATIC, everything, filled, timeline_files
from support.homes import context_of
from support.tables import orders, rows
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.instant import time_after
from pyhudi_core.services.archival.archival import archive
from pyhudi_core.services.archival.limits import ArchivalRules
from pyhudi_core.transaction.decision import publish_intent
from pyhudi_core.transaction.record import record_store


def test_zombie_put_of_an_archived_commit_changes_no_answer(location: str) -> None:
    table, done = filled(location)
    names = [name for name in timeline_files(location) if name.startswith(f"{done[1].instant}_")]
    kept = Path(location, ".hoodie/timeline", names[0])
    body = kept.read_bytes()
    table.archival.run()
    before = everything(hudi.open_table(location), done)
    kept.write_bytes(body)
    assert everything(hudi.open_table(location), done) == before
    assert done[1].instant not in {i.requested_time for i in hudi.open_table(location).timeline}
    table.archival.run()
    assert not kept.exists(), "the next run removes it"


def test_the_intent_of_an_archived_commit_is_void(location: str) -> None:
    table, done = filled(location, 3)
    context = context_of(table)
    record = record_store(context.storage).read()
    assert record is not None
    assert record.intent.requested_time == done[-1].instant
    rival = table.upsert(orders((5, "a", 1.0)))
    context.storage.put(record.intent.publications[0].staged, b"what a process that slept still has")
    archive(context, ArchivalRules(keep_min=1, keep_max=None))
    before = timeline_files(location)
    assert not publish_intent(context, record.intent)
    assert timeline_files(location) == before
    assert [i.requested_time for i in table.timeline] == [rival.instant]


def test_a_commit_that_was_archived_meanwhile_is_still_a_conflict(location: str) -> None:
    table, _ = filled(location, 3)
    context = context_of(table)
    seen = context.folder.load()
    changed = table.upsert(orders((0, "a", 99.0)))
    for n in range(6):
        table.upsert(orders((100 + n, "z", 1.0)))
    table.archival.run()
    assert changed.instant not in {i.requested_time for i in table.timeline}
    mine = Touched.by(table.commit_metadata(context.folder.history.find(changed.instant)))  # type: ignore[arg-type]
    with pytest.raises(CommitConflictError, match=changed.instant):
        concurrent.refuse_conflicts(context, seen, context.folder.load(), "9" * 17, mine)
    concurrent.refuse_conflicts(context, context.folder.load(), context.folder.load(), "9" * 17, mine)
    again = orders((0, "a", 3.0))
    assert table.upsert(again).retries == 0, "what was archived before the start is no conflict"


def test_a_delete_by_condition_sees_changes_that_were_archived_while_it_looked(location: str) -> None:
    table, _ = filled(location, 3)
    other = hudi.open_table(location, options=AUTOMATIC)
    looked: list[int] = []

    real = table._opened.storage

    class Storage(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def open_input(self, path: str) -> Any:
            if not looked and path.endswith(".parquet") and not path.startswith(".hoodie"):
                looked.append(1)
                other.upsert(orders((0, "a", 1_000.0, 50)))
                for n in range(8):
                    other.upsert(orders((100 + n, "z", 1.0)))
            return real.open_input(path)

    table._opened.storage = Storage()  # type: ignore[assignment]
    assert not table.delete(where="id = 0 AND price < 500.0")
    assert looked
    assert (0, 1_000.0) in rows(hudi.open_table(location), "id", "price")


def test_a_writer_whose_time_was_passed_by_the_history_gives_up(location: str) -> None:
    table, done = filled(location, 3)
    context = context_of(table)
    late = time_after(done[0].instant)
    start = context.folder.load()
    table.upsert(orders((9, "b", 1.0)))
    archive(context, ArchivalRules(keep_min=1, keep_max=None))
    with pytest.raises(hudi.errors.CommitAbortedError, match="archived"):
        concurrent.refuse_conflicts(context, start, context.folder.load(), late, Touched(frozenset(), frozenset()))


def test_a_write_announced_below_the_archived_ones_keeps_newer_files_on_the_timeline(location: str) -> None:
    table, done = filled(location)
    zombie = Path(location, ".hoodie/timeline", f"{time_after(done[1].instant)}.commit.requested")
    context = context_of(table)
    real = context.folder.storage

    class Announcing(WrappedStorage):
        """The zombie's file appears just after the manifest, before anything is deleted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def delete(self, path: str) -> None:
            raise AssertionError(path)

        def put_if_absent(self, path: str, data: bytes) -> Any:
            if path.endswith("manifest_1"):
                zombie.write_bytes(b"")
            return real.put_if_absent(path, data)

    before = rows(table)
    del Announcing.delete
    context.folder.storage = Announcing()  # type: ignore[assignment]
    context.folder._history = None
    archive(context, ArchivalRules(keep_min=2, keep_max=None))
    assert zombie.exists()
    left = {name.split("_")[0].split(".")[0] for name in timeline_files(location)}
    assert left == {zombie.name.split(".")[0], *(c.instant for c in done[2:])}
    assert rows(hudi.open_table(location)) == before
    zombie.unlink()
    table.archival.run()
    assert len(table.timeline) == 2
