"""The commit record on both kinds of storage: what is read is the newest record, and a swap never follows one that was not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.wrapping import WrappedStorage

from pyhudi_core.errors import PreconditionFailedError, StorageStateUnknownError
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.transaction.record import (
    Intent,
    NumberedRecordStore,
    Publication,
    Record,
    RecordStore,
    TaggedRecordStore,
    record_store,
)


def record(time: str) -> Record:
    return Record(
        Intent(time, time, "commit", f"{time}.inflight", time, (Publication("a file", "its bytes"),)), "a lock"
    )


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RecordStore:
    found = record_store(open_storage(str(tmp_path) if request.param == "disk" else f"memory://{tmp_path.name}/t"))
    assert type(found) is (NumberedRecordStore if request.param == "disk" else TaggedRecordStore)
    return found


def test_a_known_record_is_not_taken_for_the_newest(store: RecordStore) -> None:
    assert store.read() is None
    store.swap(None, record("1"))
    first = store.read()
    assert first is not None
    assert store.read(first) is first
    store.swap(first, record("2"))
    second = store.read(first)
    assert second is not None
    assert second.intent.requested_time == "2"
    with pytest.raises(PreconditionFailedError):
        store.swap(first, record("3"))
    assert store.read(second) is second


def test_a_number_that_was_used_and_swept_is_no_decision(tmp_path: Path) -> None:
    store = NumberedRecordStore(open_storage(str(tmp_path)))
    store.swap(None, record("1"))
    first = store.read()
    for time in ("2", "3"):
        store.swap(store.read(), record(time))
    store.storage.delete(store._path(2))
    with pytest.raises(StorageStateUnknownError, match="moved on"):
        store.swap(first, record("late"))
    found = store.read()
    assert found is not None
    assert found.intent.requested_time == "3"


class _ChangesAfter(WrappedStorage):
    """After the first read of the record, another process swaps it."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get(self, path: str) -> bytes:
        data: bytes = self._storage.get(path)
        self.reads += 1
        if self.reads == 1:
            self._storage.put(path, record("2").encode())
        return data

    def get_tagged(self, path: str, unless: str = "") -> Any:
        """As a storage that has no such call."""
        return Storage.get_tagged(self, path, unless)  # type: ignore[arg-type]


def test_the_tag_of_a_record_is_that_of_its_bytes(tmp_path: Path) -> None:
    """Else a swap could follow a record that nobody has read, and a decided commit would be lost."""
    storage = _ChangesAfter(open_storage(f"memory://{tmp_path.name}/t"))
    store = TaggedRecordStore(storage)  # type: ignore[arg-type]
    store.swap(None, record("1"))
    found = store.read()
    assert found is not None
    assert (found.intent.requested_time, storage.reads) == ("2", 2)
    store.swap(found, record("3"))
