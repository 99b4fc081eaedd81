"""The lock file of Hudi's FileSystemBasedLockProvider, so that Java and Python writers exclude each other.

Rules of both: the file ``lock`` in the lock folder exists while a writer holds the lock. An atomic create acquires the lock; removing the
file releases it. The lock has expired when its modification time is more than ``expire_minutes`` old (0: never). The folder is
``hoodie.write.lock.filesystem.path``; without that option Hudi 1.0 to 1.2 uses ``.hoodie``.

Rules of this package only: the content describes the holder. So if a process of this machine has ended, its lock is replaced at once. Only its owner
removes a lock. Hudi's provider removes the file without checking the owner, so the commit protocol does not rely on the file.

A holder (`Holder`) is known to have ended only if its process ran on this machine, in this boot and this process namespace, and no process with its
number and start time exists any more. Every other holder may be running.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyhudi_core.errors import (
    InvalidOptionError,
    LockTimeoutError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
    UnsafePathError,
)
from pyhudi_core.lock.base import LockProvider, Patience, acquire_patiently
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.runtime.system import has_ended, machine, own_start_time
from pyhudi_core.storage.base import ObjectInfo, Storage

_LAST_MS = 253_402_300_799_999
"""The end of the year 9999; later times cannot be shown as a date."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One holding of a lock.

    Attributes:
        nonce: identifies this holding.
        host: the machine's name.
        machine: boot and process namespace, so that process numbers can be compared; empty if unknown.
        pid: the process.
        started: when the process was started, in the kernel's own unit; empty if unknown.
        since_ms: when the lock was acquired, in epoch milliseconds of the holder's clock.
        note: the purpose of the holding.
    """

    nonce: str
    host: str
    machine: str
    pid: int
    started: str
    since_ms: int
    note: str

    def to_bytes(self) -> bytes:
        """Return the lock file's content: the fields of Hudi's provider, which only logs them, and the fields of this package."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        content = {"lockCreateTime": since, "lockThreadName": f"pyhudi {self.pid}@{self.host}", "pyhudi": asdict(self)}
        return json.dumps(content, indent=1).encode()

    def describe(self) -> str:
        """Describe the holding for messages: process, machine, time and purpose."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {self.host} since {since}" + (f" for {self.note}" if self.note else "")


def this_process(nonce: str, since_ms: int, note: str) -> Holder:
    """Return a holding by this process."""
    pid = os.getpid()
    return Holder(nonce, socket.gethostname(), machine(), pid, own_start_time(), since_ms, note)


def parse_holder(content: bytes) -> Holder | None:
    """Parse the holder in a lock file; None if another tool wrote the file, or it is incomplete."""
    try:
        found = json.loads(content)["pyhudi"]
        holder = Holder(**found)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (holder.nonce, holder.host, holder.machine, holder.started, holder.note)
    sound = all(isinstance(text, str) for text in texts) and all(type(n) is int for n in (holder.pid, holder.since_ms))
    return holder if sound and 0 < holder.pid < 2**31 and 0 <= holder.since_ms <= _LAST_MS else None


def describe_foreign(content: bytes) -> str:
    """Describe for messages the holder that another tool, such as Hudi's provider, recorded."""
    try:
        found = json.loads(content)
        return f"{found['lockThreadName']} since {found['lockCreateTime']} (written by another tool)"[:300]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "an unknown process"


def is_gone(holder: Holder) -> bool:
    """Say whether the holder's process is known to have ended."""
    if holder.host != socket.gethostname() or holder.machine != machine():
        return False
    return has_ended(holder.pid, holder.started)


_FILE_NAME = "lock"
_MOST_BYTES = 1 << 20
_REMOVALS = 5
DEFAULT_FOLDER = ".hoodie"


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """The folder of the lock file, and the age at which the file counts as abandoned."""

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
        patience = Patience(self._clock, self._ids, *self._retry_wait_ms)
        nonce = self._ids.uuid()  # for all attempts: the file of an unanswered attempt may appear later, and is ours
        return acquire_patiently(
            lambda: self._attempt(nonce, note), lambda: self._timed_out(timeout_s), patience, self._clock, timeout_s
        )

    def _attempt(self, nonce: str, note: str) -> FileSystemLockSession | None:
        session = self._create(nonce, note)
        if session is None and self._remove_if_left_behind():
            return self._create(nonce, note)
        return session

    def _create(self, nonce: str, note: str) -> FileSystemLockSession | None:
        holder = this_process(nonce, self._clock.now_ms(), note)
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
        holder = parse_holder(_content(self._storage, found))
        return holder is not None and is_gone(holder)

    def _timed_out(self, timeout_s: float) -> LockTimeoutError:
        content = _content(self._storage, self._storage.head(self._path))
        holder = parse_holder(content)
        who = holder.describe() if holder else describe_foreign(content)
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
        holder = parse_holder(_content(self._storage, found))
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
