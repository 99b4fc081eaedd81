"""Facts of files that no process writes any more are asked for once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import make, orders, reopen, rows

from pyhudi_core.storage import LocalStorage, settled_files
from pyhudi_core.storage.base import Folder, ObjectInfo
from pyhudi_core.storage.settled_files import SettledFiles


class Asked(LocalStorage):
    """A disk that notes which objects are asked for alone, and which folders are listed with all facts."""

    def __init__(self, root: str) -> None:
        super().__init__(root, fsync=False)
        self.heads: list[str] = []
        self.listed: list[str] = []

    def head(self, path: str) -> ObjectInfo | None:
        self.heads.append(path)
        return super().head(path)

    def list_folder(self, folder: str) -> Folder:
        self.listed.append(folder)
        return super().list_folder(folder)


def _is_settled(name: str) -> bool:
    return name.startswith("old")


@pytest.fixture
def storage(tmp_path: Path) -> Asked:
    found = Asked(str(tmp_path))
    for name in ("old-1", "old-2", "young-1"):
        found.put(f"day=a/{name}", name.encode())
    return found


def test_only_files_that_may_change_and_new_ones_are_asked_for_again(storage: Asked) -> None:
    known = SettledFiles()
    for _ in range(2):
        assert known.listed(storage, "day=a", _is_settled) == LocalStorage.list_folder(storage, "day=a").objects
    assert storage.listed == ["day=a"]
    assert storage.heads == ["day=a/young-1"]
    storage.put("day=a/old-3", b"more bytes")
    storage.put("day=a/young-1", b"grown by now")
    storage.delete("day=a/old-1")
    storage.heads.clear()
    for heads in (["day=a/old-3", "day=a/young-1"], ["day=a/young-1"]):
        assert known.listed(storage, "day=a", _is_settled) == LocalStorage.list_folder(storage, "day=a").objects
        assert storage.heads == heads
        storage.heads.clear()


def test_many_new_files_are_listed_at_once(storage: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_files, "_MOST_NEW", 2)
    known = SettledFiles()
    known.listed(storage, "day=a", _is_settled)
    for number in range(10, 13):
        storage.put(f"day=a/old-{number}", b"x")
    for _ in range(2):
        assert known.listed(storage, "day=a", _is_settled) == LocalStorage.list_folder(storage, "day=a").objects
    assert storage.listed == ["day=a", "day=a"]


def test_what_is_remembered_is_bounded(storage: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_files, "_MOST_KEPT", 3)
    storage.put("day=b/old-1", b"x")
    storage.put("day=b/old-2", b"x")
    known = SettledFiles()
    for folder in ("day=a", "day=b", "day=a", "day=b"):
        assert known.listed(storage, folder, _is_settled) == LocalStorage.list_folder(storage, folder).objects
    assert storage.listed == ["day=a", "day=b", "day=a", "day=b"], "two folders do not fit, so each was forgotten"


def test_a_handle_sees_what_other_handles_write_replace_and_clean(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": "false"})
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0), (3, "b", 1.0)))
    other = reopen(table)
    for number in range(3):
        other.upsert(orders((1, "a", float(number))))
        table.upsert(orders((2, "a", float(number))))
    assert reopen(table, hoodie__cleaner__commits__retained=1).cleaning.run()
    table.upsert(orders((3, "b", 9.0)))
    assert rows(table, "id", "price") == rows(reopen(table), "id", "price") == [(1, 2.0), (2, 2.0), (3, 9.0)]
