"""Test whether a store respects conditions. A store that ignores them answers every conditional write with success, so that writers overwrite each
other's commits.

Amazon, Google and Azure respect them. Any other server is tested before a process creates its first table there: the server must refuse two writes.
"""

from __future__ import annotations

from collections.abc import Callable

from pyhudi_core.errors import PreconditionFailedError, StorageError
from pyhudi_core.runtime.base import Executor, Ids
from pyhudi_core.storage.at_once import both
from pyhudi_core.storage.base import Storage

_FOLDER = ".hoodie/.temp"
_NO_TAG = "0" * 32
_proved: set[str] = set()


def refuse_ignored_conditions(storage: Storage, executor: Executor, ids: Ids) -> None:
    """Raise `StorageError` if the server of a storage is unknown, and ignores conditions. The test writes one object, and deletes it."""
    server = storage.unproved_server
    if not server or server in _proved:
        return
    path = f"{_FOLDER}/conditions-{ids.uuid()}"
    storage.put_if_absent(path, b"first")
    try:
        kept = both(
            storage,
            executor,
            lambda: _is_refused(lambda: storage.put_if_absent(path, b"second")),
            lambda: _is_refused(lambda: storage.put_if_match(path, b"third", _NO_TAG)),
        )
    finally:
        storage.delete(path)
    if not all(kept):
        raise StorageError(
            f"The store {server} ignores the condition of a write, so two writers of a table would lose each other's commits",
            table=storage.location,
            hint="Nothing was created. Use a release of the store that keeps If-None-Match and If-Match, or another store.",
        )
    _proved.add(server)


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except PreconditionFailedError:
        return True
    return False
