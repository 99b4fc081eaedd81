"""A held storage-based lock: renewed in the background, released once, and aware of its own expiry.

Invariants: after `still_held` was False it is never True again; a renewal or a release never replaces another writer's file; after
`release` has returned no renewal happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.lock.base import Patience
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LockFile, Owner
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import ObjectInfo

_log = logging.getLogger(__name__)
_ROUNDS = 4
_RELEASE_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of the latest write of a holding: the parts of the owner text, the file's tag, and the end of the validity.

    ``as_seen``: the first write replaced a released lock whose state was read ahead (`LooksAhead`).
    """

    owner: Owner
    tag: str
    valid_until_ms: int
    as_seen: bool = False


class SeenLock(Protocol):
    """The lock file as read."""

    @property
    def info(self) -> ObjectInfo: ...

    @property
    def lock(self) -> LockFile | None: ...

    @property
    def owner(self) -> Owner | None: ...


class LockObject(Protocol):
    """The methods of the provider that a session needs."""

    def content(self, owner: Owner, *, expired_at_ms: int | None = None) -> LockFile: ...

    def read(self) -> SeenLock | None: ...

    def write(self, content: LockFile, tag: str | None) -> ObjectInfo: ...


class StorageBasedLockSession:
    """A held lock.

    Attributes:
        on_renewed: called with the new end (epoch milliseconds) after each renewal.
        taken_as_seen: as in `TakenAsSeen`.
    """

    def __init__(self, lock: LockObject, grant: Grant, runtime: Runtime, renew_s: float) -> None:
        self._lock = lock
        self.taken_as_seen = grant.as_seen
        self._grant = grant
        self._runtime = runtime
        self._deadline = self._deadline_of(grant)
        self._lost = False
        self._ending = False
        self._released = False
        self.on_renewed: Callable[[int], None] | None = None
        self._renewal = runtime.timer.every(renew_s, self.renew, f"lock {grant.owner.holding}")

    @property
    def token(self) -> str:
        return self._grant.owner.holding

    @property
    def valid_until_ms(self) -> int:
        """Return when the lock expires without renewal, in epoch milliseconds."""
        return self._grant.valid_until_ms

    def lease_left_s(self) -> float:
        """Return the seconds until the lock expires without renewal, as far as this process knows; 0 after its end."""
        if self._lost or self._released:
            return 0.0
        # A clock that is set back must not lengthen the lease, and the monotonic clock does not count while the machine
        # sleeps.
        clock = self._runtime.clock
        left = min((self._grant.valid_until_ms - clock.now_ms()) / 1000, self._deadline - clock.monotonic())
        if left <= 0:
            self._lost = True
        return max(0.0, left)

    def still_held(self) -> bool:
        if self.lease_left_s() <= 0:
            return False
        try:
            seen = self._lock.read()
        except StorageError:
            return self.lease_left_s() > 0  # no other writer may take the lock before its end
        if not self._is_mine(seen):
            self._lost = True
        return self.lease_left_s() > 0

    def renew(self) -> None:
        """Extend the lock; the timer calls this. Raises `StorageError` if this attempt failed and a later one may succeed."""
        if self.lease_left_s() <= 0:
            self._give_up("expired before it could be renewed")
            return
        grant = self._replace(self._lock.content, renews=True)
        if self._ending:
            return
        if grant is None:
            self._give_up("was taken over by another writer")
            return
        self._grant, self._deadline = grant, self._deadline_of(grant)
        if self.on_renewed is not None:
            self.on_renewed(grant.valid_until_ms)

    def release(self) -> None:
        """Release the lock. Raises `StorageError` if the storage does not allow it; the lock then expires by itself."""
        self._ending = True  # a renewal that hangs in the storage may outlive its cancellation
        self._renewal.cancel()
        patience = Patience(self._runtime.clock, self._runtime.ids, 50, 2_000)
        for attempt in range(1, _RELEASE_ATTEMPTS + 1):
            if self._released:
                return
            try:
                # The condition of the write checks whether the lock is still ours, so no read is needed before.
                self._replace(lambda owner: self._lock.content(owner, expired_at_ms=self._grant.valid_until_ms))
            except StorageError:
                if attempt == _RELEASE_ATTEMPTS:
                    raise
                patience.wait(2.0)
            else:
                self._released = True

    def _replace(self, content_of: Callable[[Owner], LockFile], *, renews: bool = False) -> Grant | None:
        """Write on condition that the file is still ours, and find out the result; None if another writer has it, or it
        must not be renewed.
        """
        tag = self._grant.tag
        for _ in range(_ROUNDS):
            if renews and self._ending:
                return None
            owner = replace(self._grant.owner, revision=self._grant.owner.revision + 1)
            self._grant = replace(self._grant, owner=owner)
            content = content_of(owner)
            try:
                return Grant(owner, self._lock.write(content, tag).etag, content.valid_until_ms)
            except (PreconditionFailedError, StorageStateUnknownError):
                seen = self._lock.read()
            if seen is None or not self._is_mine(seen):
                return None
            if seen.lock == content:
                return Grant(owner, seen.info.etag, content.valid_until_ms)
            tag = seen.info.etag  # an earlier write of ours arrived late
        raise StorageStateUnknownError(
            "The state of the lock file is not known after several attempts",
            path=LOCK_FILE,
            hint="Try again when the storage responds reliably.",
        )

    def _is_mine(self, seen: SeenLock | None) -> bool:
        owner = seen.owner if seen is not None else None
        return owner is not None and owner.holding == self.token

    def _give_up(self, why: str) -> None:
        self._lost = True
        self._renewal.cancel()
        _log.warning("the lock %s (%s) %s", LOCK_FILE, self._grant.owner.note or self.token, why)

    def _deadline_of(self, grant: Grant) -> float:
        clock = self._runtime.clock
        return clock.monotonic() + (grant.valid_until_ms - clock.now_ms()) / 1000
