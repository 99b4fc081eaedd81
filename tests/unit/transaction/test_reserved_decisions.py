"""A decision that a reservation stands for: a storage that fails while the rest is swept up does not make it look undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support.failing import FailingStorage
from support.homes import context_of
from support.tables import make, orders, reopen
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import StorageError
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.transaction import begin, layout
from pyhudi_core.transaction.reserved_decision import sweep_reservation

DECISIONS: dict[str, Callable[[hudi.HudiTable], object]] = {
    "a plan": lambda table: table.cleaning.schedule(),
    "a savepoint": lambda table: table.savepoints.create(),
    "the drop of an index": lambda table: table.indexes.drop("record_index"),
    "the drop of the metadata table": lambda table: table.metadata_table.drop(),
}


class Unlistable(WrappedStorage):
    """A storage that cannot list staged bytes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def list(self, prefix: str) -> Iterable[ObjectInfo]:
        if prefix.startswith(layout.STAGED):
            raise StorageError("The connection was lost", path=prefix)
        return self._storage.list(prefix)


def _beating() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("heartbeat")}


@pytest.mark.parametrize("what", DECISIONS)
def test_a_decision_whose_sweep_fails_was_made_and_its_reservation_beats_no_more(
    location: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = reopen(make(location), hoodie__clean__automatic="false", hoodie__clean__commits__retained="1")
    for price in (1.0, 2.0, 3.0):
        table.upsert(orders((1, "a", price)))
    table.indexing.run(partitions=["record_index"])
    before, home = _beating(), reopen(table, hoodie__clean__commits__retained="1")._opened
    failing = FailingStorage(home.storage, lambda verb, path: verb == "delete" and path.startswith(layout.HEARTBEATS))
    home.storage = failing  # type: ignore[assignment]
    assert DECISIONS[what](hudi.HudiTable(home))
    assert failing.failures, "the sweep failed"
    assert "could not sweep up" in caplog.text
    assert _beating() <= before
    assert table.check().ok


def test_a_reservation_whose_staged_bytes_cannot_be_listed_beats_no_more(location: str) -> None:
    before, table = _beating(), reopen(make(location))
    table.upsert(orders((1, "a", 1.0)))
    home = table._opened
    home.storage = Unlistable(home.storage)  # type: ignore[assignment]
    reserved = begin.reserve(context_of(table), Action.INDEXING)
    with pytest.raises(StorageError):
        sweep_reservation(reserved)
    assert _beating() <= before


@pytest.mark.parametrize("denied", [".hoodie", layout.HEARTBEATS, layout.STAGED])
def test_a_commit_that_may_not_delete_says_once_what_stays_and_what_to_do(
    location: str, denied: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = reopen(make(location), hoodie__clean__automatic="false")
    home = table._opened
    refused = lambda verb, path: verb == "delete" and path.startswith(denied)  # noqa: E731
    home.storage = FailingStorage(home.storage, refused)  # type: ignore[assignment]
    for number in range(2):
        caplog.clear()
        table.upsert(orders((number, "a", 1.0)))
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1, said
        assert all(words in said[0] for words in (denied, "may delete", table.location))
    assert table.scan(columns=["id"]).to_arrow().num_rows == 2
