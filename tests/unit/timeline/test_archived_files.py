"""The files of the active timeline beside the archived one: what becomes a row, what is deleted, what shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.history import FOLDER, flush, instant, row, time, writer_on
from support.wrapping import WrappedStorage

from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.services.archival.archived_files import drop_archived, rows_of
from pyhudi_core.storage.base import Storage, delete_each
from pyhudi_core.timeline.active import Timeline, TimelineFolder


def active(storage: Storage, number: int, action: str = "commit", plan: bytes = b"") -> None:
    begin = time(number * 10)
    storage.put(f"{FOLDER}/{begin}.{action}.requested", plan)
    inflight = f"{begin}.inflight" if action == "commit" else f"{begin}.{action}.inflight"
    storage.put(f"{FOLDER}/{inflight}", b"inflight")
    completed = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}.get(
        action, action
    )
    storage.put(f"{FOLDER}/{begin}_{time(number * 10 + 5)}.{completed}", b"metadata %d" % number)


@pytest.mark.row("B8")
@pytest.mark.parametrize(
    ("action", "stored", "plan"),
    [
        ("commit", "commit", None),
        ("deltacommit", "deltacommit", None),
        ("clean", "clean", b"the plan"),
        ("compaction", "commit", b"the plan"),
        ("logcompaction", "deltacommit", b"the plan"),
        ("clustering", "replacecommit", b"the plan"),
        ("replacecommit", "replacecommit", b"inflight"),
        ("rollback", "rollback", None),
    ],
)
def test_a_row_has_the_plan_of_its_action(storage: Storage, action: str, stored: str, plan: bytes | None) -> None:
    active(storage, 1, action, b"the plan")
    folder = TimelineFolder(storage, FOLDER)
    (found,) = folder.load()
    assert rows_of(folder, [found]) == [HistoryRow(time(10), time(15), stored, b"metadata 1", plan)]


def test_empty_files_are_no_bytes(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.clean", b"")
    storage.put(f"{FOLDER}/{time(10)}.clean.requested", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert rows_of(folder, folder.load().instants) == [HistoryRow(time(10), time(15), "clean", None, None)]


def test_pending_files_go_first_and_completed_ones_from_the_oldest(storage: Storage) -> None:
    for number in (1, 2, 3):
        active(storage, number)
    flush(writer_on(storage), row(1), row(2))
    deleted: list[str] = []

    class Watching(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def delete(self, path: str) -> None:
            deleted.append(path.removeprefix(f"{FOLDER}/"))
            storage.delete(path)

        def delete_many(self, paths: Iterable[str]) -> None:
            delete_each(self.delete, reversed([*paths]), "")  # in any order, says the storage

    folder = TimelineFolder(Watching(), FOLDER)  # type: ignore[arg-type]
    assert drop_archived(folder) == 6
    assert sorted(deleted[:4]) == sorted(
        f"{time(n)}{kind}" for n in (10, 20) for kind in (".commit.requested", ".inflight")
    )
    assert deleted[4:] == [f"{time(n * 10)}_{time(n * 10 + 5)}.commit" for n in (1, 2)]
    assert folder.load().instants == (instant(3),)


def test_an_active_file_that_the_history_does_not_hold_is_never_deleted(storage: Storage) -> None:
    active(storage, 1)
    active(storage, 2)
    writer = writer_on(storage)
    flush(writer, HistoryRow(time(10), time(16), "commit", b"another"), row(2, "clean"))
    assert drop_archived(TimelineFolder(storage, FOLDER)) == 0


def test_a_completed_file_of_an_archived_instant_does_not_show(storage: Storage) -> None:
    flush(writer_on(storage), row(1), row(2))
    for number in (1, 2, 3):
        storage.put(f"{FOLDER}/{time(number * 10)}_{time(number * 10 + 5)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert folder.load().instants == (instant(3),)
    assert folder.load().has_history


def test_a_completed_file_alone_shows_where_there_is_no_history(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert folder.load() == Timeline((instant(1),), has_history=False)


def test_a_commit_that_is_archived_between_load_and_read_is_read_from_the_history(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    (found,) = folder.load()
    flush(writer_on(storage), HistoryRow(time(10), time(15), "commit"))
    storage.delete(f"{FOLDER}/{time(10)}_{time(15)}.commit")
    assert folder.read_commit(found).operation is None
