"""The lock file of Hudi's FileSystemBasedLockProvider, so that Java and Python writers exclude each other.

Rules of both: the file ``lock`` in the lock folder exists while a writer holds the lock. An atomic create acquires the lock; removing the
file releases it. The lock has expired when its modification time is more than ``expire_minutes`` old (0: never). The folder is
``hoodie.write.lock.filesystem.path``; without that option Hudi 1.0 to 1.2 uses ``.hoodie``.

Rules of this package only: the content describes the holder, so the lock of a process of this machine that has ended is replaced at once,
and only its owner removes a lock. Hudi's provider removes the file without checking the owner; so the commit protocol does not rely on it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyhudi_core.errors import (
    InvalidOptionError,
    LockTimeoutError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
    UnsafePathError,
)
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.storage.base import ObjectInfo, Storage

if TYPE_CHECKING:
    from pyhudi_core.lock import holder as holders
    from pyhudi_core.lock import waiting
else:
    holders = lazy("pyhudi_core.lock.holder")
    waiting = lazy("pyhudi_core.lock.waiting")

_FILE_NAME = "lock"
_MOST_BYTES = 1 << 20
_REMOVALS = 5
DEFAULT_FOLDER = ".hoodie"


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """Where the lock file is, and when it counts as abandoned."""

    path: str = lock_option(
        "hoodie.write.lock.filesystem.path",
        DEFAULT_FOLDER,
        "Folder of the lock file, below the table; the default is Hudi's.",
    )
    expire_minutes: int = lock_option(
        "hoodie.write.lock.filesystem.expire", 0,
        "Minutes after which a lock file of any writer counts as abandoned; 0 for never.", minimum=0)  # fmt: skip

    def __post_init__(self) -> None:
        try:
            safe_relative_path(self.path)
        except UnsafePathError as error:
            raise InvalidOptionError(
                f"hoodie.write.lock.filesystem.path: {error.message}",
                hint="Give a folder below the table, such as .hoodie",
            ) from None


class FileSystemLockProvider:
    """Excludes every writer that uses the same lock file.

    Args:
        storage: the table's storage.
        clock: measures waiting times and expiry.
        ids: gives tokens and jitter.
        folder: the lock folder below the table.
        expire_minutes: age at which a lock of any writer counts as abandoned; 0: never.
        retry_wait_ms: bounds of the first and of the longest wait between two attempts.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        ids: Ids,
        *,
        folder: str = DEFAULT_FOLDER,
        expire_minutes: float = 0,
        retry_wait_ms: tuple[int, int] = (4, 100),
    ) -> None:
        # A lock is not needed after a power failure, so it need not wait for the disk.
        self._storage = storage.without_fsync()
        self._clock = clock
        self._ids = ids
        self._folder = folder
        self._path = f"{folder}/{_FILE_NAME}"
        self._expire_ms = expire_minutes * 60_000
        self._retry_wait_ms = retry_wait_ms

    @property
    def identity(self) -> str:
        return f"file_system:{self._folder}"

    def acquire(self, timeout_s: float, note: str = "") -> FileSystemLockSession:
        patience = waiting.Patience(self._clock, self._ids, *self._retry_wait_ms)
        nonce = self._ids.uuid()  # for all attempts: the file of an unanswered attempt may appear later, and is ours
        return waiting.acquire_patiently(
            lambda: self._attempt(nonce, note), lambda: self._timed_out(timeout_s), patience, self._clock, timeout_s
        )

    def _attempt(self, nonce: str, note: str) -> FileSystemLockSession | None:
        session = self._create(nonce, note)
        if session is None and self._remove_if_left_behind():
            return self._create(nonce, note)
        return session

    def _create(self, nonce: str, note: str) -> FileSystemLockSession | None:
        holder = holders.this_process(nonce, self._clock.now_ms(), note)
        session = FileSystemLockSession(self._storage, self._path, nonce)
        try:
            self._storage.put_if_absent(self._path, holder.to_bytes())
        except (PreconditionFailedError, StorageStateUnknownError):
            # The file may be ours: a response can get lost, and a hidden retry then finds the file that the first try
            # created.
            return session if session.still_held() else None
        except BaseException:
            # After Ctrl-C in a notebook the process continues, and would hold a lock that no code can release.
            with suppress(StorageError):
                session.release()
            raise
        return session

    def _remove_if_left_behind(self) -> bool:
        """Remove the lock if its holder has ended or it has expired; return whether it was removed."""
        # The tag is read before the content, so the removed file is never newer than this content.
        found = self._storage.head(self._path)
        if found is None:
            return True
        if not self._expired(found) and not self._holder_is_gone(found):
            return False
        try:
            self._storage.delete_if_match(self._path, found.etag)
        except (PreconditionFailedError, StorageStateUnknownError):
            return False
        return True

    def _expired(self, found: ObjectInfo) -> bool:
        return 0 < self._expire_ms < self._clock.now_ms() - found.modified_ms

    def _holder_is_gone(self, found: ObjectInfo) -> bool:
        holder = holders.parse_holder(_content(self._storage, found))
        return holder is not None and holders.is_gone(holder)

    def _timed_out(self, timeout_s: float) -> LockTimeoutError:
        content = _content(self._storage, self._storage.head(self._path))
        holder = holders.parse_holder(content)
        who = holder.describe() if holder else holders.describe_foreign(content)
        return LockTimeoutError(
            f"The lock was not free within {timeout_s:g} s; it is held by {who}",
            table=self._storage.location,
            path=self._path,
            hint="Wait for that writer and try again. If it has certainly ended, delete the lock file, and set"
            " hoodie.write.lock.filesystem.expire (minutes) so that the next one expires by itself.",
        )


class FileSystemLockSession:
    """A held lock file."""

    def __init__(self, storage: Storage, path: str, nonce: str) -> None:
        self._storage = storage
        self._path = path
        self._nonce = nonce
        self._released = False

    @property
    def token(self) -> str:
        return self._nonce

    def moved_to(self, storage: Storage) -> None:
        self._storage = storage.without_fsync()

    def still_held(self) -> bool:
        return not self._released and self._is_ours(self._storage.head(self._path))

    def release(self) -> None:
        try:
            self._remove()
        except StorageError:
            raise
        except BaseException:  # after Ctrl-C the file would describe a process that is still running
            with suppress(StorageError):
                self._remove()
            raise

    def _remove(self) -> None:
        for attempt in range(1, _REMOVALS + 1):
            found = None if self._released else self._storage.head(self._path)
            if found is None or not self._is_ours(found):
                break
            try:
                self._storage.delete_if_match(self._path, found.etag)
            except PreconditionFailedError:
                break
            except StorageStateUnknownError:
                if attempt == _REMOVALS:
                    raise
            else:
                break
        self._released = True

    def _is_ours(self, found: ObjectInfo | None) -> bool:
        holder = holders.parse_holder(_content(self._storage, found))
        return holder is not None and holder.nonce == self._nonce


def _content(storage: Storage, found: ObjectInfo | None) -> bytes:
    """Return the lock file's bytes; none if the file is missing or too long to be a lock."""
    if found is None or found.size > _MOST_BYTES:
        return b""
    try:
        return storage.get(found.path)
    except ObjectNotFoundError:
        return b""


def _lock(request: LockRequest) -> LockProvider:
    given, runtime = request.lock.of(FileSystemOptions), request.runtime
    return FileSystemLockProvider(
        request.storage, runtime.clock, runtime.ids, folder=given.path, expire_minutes=given.expire_minutes
    )


LOCK = LockKind(
    {"file_system": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}, _lock, FileSystemOptions
)
