"""A lock in the table's own object store: the lock file of Hudi's StorageBasedLockProvider, so that Java and Python exclude each other.

RFC-91, and the provider of Hudi 1.1 and newer: the file is created with If-None-Match, and taken over, renewed and released with If-Match.
A lock is valid for 300 s and renewed every 30 s. Others may take it half a second after its end, because clocks differ. A release writes
``expired: true``; the file stays.

Rules of this package only (the three cases of RFC-91-2, and cases that Hudi's provider does not handle):

- If a write failed its condition, or its response was lost, the file is read back. The write may have succeeded: the bytes of every write
  are unique. So no writer is locked out by its own lock.
- A holder whose renewals fail until the end knows that the lock is lost: `still_held` is then False, by its own clock, without a request.
  It never revives a lock that has expired.
- If the storage refuses (429, 503), the request is repeated. If it never answers, the lock expires at the end of its validity.
- The lock of a process of this machine that is known to have ended is taken over at once.

A damaged file counts as held until its modification time plus the validity.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pyhudi_core.errors import (
    InvalidOptionError,
    LimitExceededError,
    LockTimeoutError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.lock.base import LockProvider, Patience, acquire_patiently
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LockFile, Owner, shown
from pyhudi_core.lock.storage_session import Grant, StorageBasedLockSession
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import ObjectInfo, Storage

VALIDITY_S = 300
RENEW_S = 30
DRIFT_MS = 500
"""Maximum difference between the clocks of two writers that does not shorten a lock; the same value as in Hudi."""

_FAILURES = 5
_GROWTH = 1.25
"""Growth of the waits between two attempts. It is small, so that a writer wakes up soon after a release: an attempt costs one small request."""


@dataclass(frozen=True, slots=True)
class StorageBasedOptions:
    """The validity of a lock, and the interval of its renewals."""

    validity_s: int = lock_option(
        "hoodie.write.lock.storage.validity.timeout.secs", VALIDITY_S,
        "Seconds that a `storage_based` lock stays valid without renewal; at least ten times the renewal interval.",
        minimum=10, maximum=86_400)  # fmt: skip
    renew_s: int = lock_option(
        "hoodie.write.lock.storage.renew.interval.secs", RENEW_S, "Seconds between two renewals of a `storage_based` lock.",
        minimum=1, maximum=3_600, aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",))  # fmt: skip

    def __post_init__(self) -> None:
        if self.validity_s < 10 * self.renew_s:
            raise InvalidOptionError(
                f"hoodie.write.lock.storage.validity.timeout.secs ({self.validity_s}) is below ten times "
                f"hoodie.write.lock.storage.renew.interval.secs ({self.renew_s})",
                hint="A lock must outlive renewals that fail; increase the timeout or decrease the interval",
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """The lock file as read; ``lock`` is None if the file is damaged."""

    info: ObjectInfo
    lock: LockFile | None

    @property
    def owner(self) -> Owner | None:
        """The owner of the lock; None if another tool wrote the file."""
        return Owner.parse(self.lock.owner) if self.lock is not None else None


class StorageBasedLockProvider:
    """Excludes every writer that uses the table's lock file.

    Args:
        storage: the table's storage; it must support conditional replacement.
        runtime: clock, ids, the timer that renews, and the process that is recorded as the holder.
        validity_s: seconds that a lock is valid without renewal.
        renew_s: seconds between two renewals; at most a tenth of the validity, as Hudi requires.
        retry_wait_ms: bounds of the first and of the longest wait between two attempts.

    Raises `InvalidOptionError` if the lock cannot work with these arguments.
    """

    def __init__(
        self,
        storage: Storage,
        runtime: Runtime,
        *,
        validity_s: int = VALIDITY_S,
        renew_s: int = RENEW_S,
        retry_wait_ms: tuple[int, int] = (20, 1_000),
    ) -> None:
        if not storage.capabilities.put_if_match:
            raise InvalidOptionError(
                "The storage_based lock needs a storage with conditional replacement (If-Match), which this storage does not have",
                table=storage.location,
                hint="Use hoodie.write.lock.provider=file_system on a disk.",
            )
        if validity_s < 10 * renew_s:
            raise InvalidOptionError(
                f"A lock that is valid for {validity_s} s must be renewed more often than every {renew_s} s",
                table=storage.location,
                hint="Make hoodie.write.lock.storage.validity.timeout.secs at least ten times"
                " hoodie.write.lock.storage.renew.interval.secs.",
            )
        self._storage = storage
        self._runtime = runtime
        self._validity_ms = validity_s * 1000
        self._renew_s = renew_s
        self._retry_wait_ms = retry_wait_ms
        self._ahead: tuple[Seen | None] | None = None

    @property
    def identity(self) -> str:
        return f"storage_based:{LOCK_FILE}"

    @property
    def was_free(self) -> bool:
        return self._ahead is not None and _is_released(self._ahead[0])

    def acquire(self, timeout_s: float, note: str = "") -> StorageBasedLockSession:
        clock, ids = self._runtime.clock, self._runtime.ids
        seen, self._ahead = self._ahead, None
        owner = Owner(ids.uuid(), 0, clock.now_ms(), note, self._runtime.process.identity())
        acquisition = _Acquisition(self, seen, owner)
        patience = Patience(clock, ids, *self._retry_wait_ms, growth=_GROWTH)
        try:
            grant: Grant = acquire_patiently(
                acquisition.attempt, lambda: self._timed_out(timeout_s), patience, clock, timeout_s
            )
        except (
            BaseException
        ):  # also after Ctrl-C: a notebook's process lives on, and others would wait for the lock's end
            acquisition.give_up()
            raise
        return StorageBasedLockSession(self, grant, self._runtime, self._renew_s)

    def look_ahead(self) -> None:
        self._ahead = None
        if self._storage.capabilities.parallel_calls > 1:
            with suppress(StorageError):  # `acquire` reads the state then, and tolerates a failing storage
                self._ahead = (self.read(),)

    def content(self, owner: Owner, *, expired_at_ms: int | None = None) -> LockFile:
        """Return the content of the owner's next write: valid from now on, or released."""
        if expired_at_ms is not None:
            return LockFile(True, expired_at_ms, owner.to_text())
        return LockFile(False, self._runtime.clock.now_ms() + self._validity_ms, owner.to_text())

    def read(self, known: Seen | None = None) -> Seen | None:
        """Read the lock file; None if it does not exist. If the file is still the ``known`` one, its content is not read again."""
        try:
            found = self._storage.get_tagged(LOCK_FILE, "" if known is None else known.info.etag)
        except ObjectNotFoundError:
            return None
        except LimitExceededError:
            info = self._storage.head(LOCK_FILE)
            return None if info is None else Seen(info, None)
        return known if found is None else Seen(found[0], LockFile.parse(found[1]))

    def is_free(self, seen: Seen) -> bool:
        """Say whether another writer may take the lock."""
        now = self._runtime.clock.now_ms()
        if seen.lock is None:
            return now > seen.info.modified_ms + self._validity_ms + DRIFT_MS
        if seen.lock.expired or now > seen.lock.valid_until_ms + DRIFT_MS:
            return True
        owner = seen.owner
        return owner is not None and self._runtime.process.is_gone(owner.process)

    def write(self, content: LockFile, tag: str | None) -> ObjectInfo:
        """Write the file if it still has the tag (None: if it does not exist). Raises as `Storage.put_if_match`."""
        if tag is None:
            return self._storage.put_if_absent(LOCK_FILE, content.to_bytes())
        return self._storage.put_if_match(LOCK_FILE, content.to_bytes(), tag)

    def _timed_out(self, timeout_s: float) -> LockTimeoutError:
        message = f"The lock was not free within {timeout_s:g} s"
        hint = "Wait for that writer and try again. If it has died, its lock expires at the given time."
        try:
            seen = self.read()
        except StorageError as error:
            message += f", and the storage cannot be asked for the holder: {error.message}"
        else:
            message += f"; {self._describe(seen)}"
        return LockTimeoutError(message, table=self._storage.location, path=LOCK_FILE, hint=hint)

    def _describe(self, seen: Seen | None) -> str:
        if seen is None:
            return "it is free now"
        if seen.lock is None:
            until = seen.info.modified_ms + self._validity_ms + DRIFT_MS
            return f"its file is damaged, so the holder is not known, and it counts as held until {shown(until)}"
        return "it is free now" if seen.lock.expired else f"it is held by {seen.lock.describe()}"


class _Acquisition:
    """The attempts of one holding to acquire the lock."""

    def __init__(self, provider: StorageBasedLockProvider, ahead: tuple[Seen | None] | None, owner: Owner) -> None:
        self._provider = provider
        self._ahead = ahead
        self._owner = owner
        self._unsettled = False
        self._failures = 0
        self._known: Seen | None = None

    def attempt(self) -> Grant | None:
        """Try once; None if another writer holds the lock. Raises `StorageError` if the storage fails repeatedly."""
        try:
            grant = self._try()
        except StorageError:
            self._failures += 1
            if self._failures >= _FAILURES:
                raise
            return None
        self._failures = 0
        return grant

    def give_up(self) -> None:
        """Release a lock that an earlier write with unknown outcome may have acquired, as far as the storage allows."""
        if not self._unsettled:
            return
        try:
            seen = self._provider.read()
            if seen is not None and seen.lock is not None and self._is_mine(seen):
                content = self._provider.content(self._next_owner(), expired_at_ms=seen.lock.valid_until_ms)
                self._provider.write(content, seen.info.etag)
        except StorageError:
            return  # the lock expires at the end of its validity

    def _try(self) -> Grant | None:
        ahead, self._ahead = self._ahead, None
        seen = self._known = self._provider.read(self._known) if ahead is None else ahead[0]
        late = self._adopt(seen)
        if late is not None:
            return late
        if seen is not None and not self._provider.is_free(seen):
            return None
        content = self._provider.content(self._next_owner())
        try:
            info = self._provider.write(content, None if seen is None else seen.info.etag)
        except (PreconditionFailedError, StorageStateUnknownError):
            self._unsettled = True
            return self._adopt(self._provider.read())
        except StorageError:
            raise  # nothing was written
        except BaseException:
            self._unsettled = True
            raise
        # The file is unchanged since it was seen, and each content is unique: so nobody has held the lock in between.
        as_seen = ahead is not None and _is_released(seen)
        return Grant(self._owner, info.etag, content.valid_until_ms, as_seen)

    def _is_mine(self, seen: Seen) -> bool:
        owner = seen.owner
        return owner is not None and owner.holding == self._owner.holding

    def _adopt(self, seen: Seen | None) -> Grant | None:
        """Take over the lock that an own write acquired although it appeared to fail."""
        if seen is None or seen.lock is None or not self._is_mine(seen) or self._provider.is_free(seen):
            return None
        return Grant(self._owner, seen.info.etag, seen.lock.valid_until_ms)

    def _next_owner(self) -> Owner:
        owner = self._owner
        self._owner = Owner(owner.holding, owner.revision + 1, owner.since_ms, owner.note, owner.process)
        return self._owner


def _is_released(seen: Seen | None) -> bool:
    """Say whether the last holder has released the lock. An expired lock may have a holder that does not know that it expired."""
    return seen is not None and seen.lock is not None and seen.lock.expired


def _lock(request: LockRequest) -> LockProvider:
    given = request.lock.of(StorageBasedOptions)
    return StorageBasedLockProvider(
        request.storage, request.runtime, validity_s=given.validity_s, renew_s=given.renew_s
    )


LOCK = LockKind(
    {"storage_based": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"}, _lock, StorageBasedOptions
)
