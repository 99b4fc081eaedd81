"""The lock file of a disk, where the storage gives no answer."""

from __future__ import annotations

from typing import Any

from support.homes import StandingClock
from support.wrapping import WrappedStorage

from pyhudi_core.errors import StorageStateUnknownError
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalStorage


class Late(WrappedStorage):
    """A storage whose first creation is answered by an error, and done only before the next one."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self.waiting: tuple[str, bytes] | None = None
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        self.calls += 1
        if self.calls == 1:
            self.waiting = (path, data)
            raise StorageStateUnknownError("The connection was lost", path=path)
        if self.waiting is not None:
            self._storage.put_if_absent(*self.waiting)
            self.waiting = None
        return self._storage.put_if_absent(path, data)


def test_a_lock_file_that_appears_after_its_attempt_was_given_up_is_not_that_of_somebody_else(location: str) -> None:
    storage = Late(LocalStorage(location, fsync=False))
    lock = FileSystemLockProvider(storage, StandingClock(), system_runtime().ids)  # type: ignore[arg-type]
    session = lock.acquire(1.0)
    assert session.still_held()
    session.release()
    assert lock.acquire(1.0).still_held(), "it is free for the next one"
