"""A lock between the handles of one process, for tables in memory and for a single process.

Locks are found by name, so that two handles of the same table exclude each other. Two processes with such locks do not exclude each other. The
identity contains the process, so their commits detect this (``identity``).
"""

from __future__ import annotations

import threading
from collections import deque

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.lock.base import LockProvider, in_process_identity
from pyhudi_core.lock.kind import LockKind, LockRequest
from pyhudi_core.runtime.base import Ids


class _Slot:
    """The lock of one name: its holder, the waiting threads in order of arrival, and the condition that signals changes."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.token: str | None = None
        self.note = ""
        self.queue: deque[object] = deque()

    def wait_in_line(self, timeout_s: float) -> bool:
        """Wait until the lock is free and this thread is the first in line; returns with the condition held."""
        turn = object()
        self.queue.append(turn)
        try:
            return self.changed.wait_for(lambda: self.token is None and self.queue[0] is turn, timeout_s)
        finally:
            self.queue.remove(turn)
            self.changed.notify_all()


class InProcessLockProvider:
    """Excludes the other handles of this process.

    Args:
        name: the name of the lock, such as the table's location.
        ids: gives the tokens.
        process: this process, from `Process.identity`.
    """

    def __init__(self, name: str, ids: Ids, process: str = "") -> None:
        self._name = name
        self._ids = ids
        self._process = process

    @property
    def identity(self) -> str:
        return in_process_identity(self._name, self._process)

    def acquire(self, timeout_s: float, note: str = "") -> InProcessLockSession:
        slot = _slots.setdefault(self._name, _Slot())
        with slot.changed:
            if not slot.wait_in_line(timeout_s):
                why = slot.note or "an unknown purpose"
                raise LockTimeoutError(
                    f"The lock was not free within {timeout_s:g} s; it is held by this process for {why}",
                    table=self._name,
                    hint="Wait for the other call to end, or raise hoodie.write.lock.wait_time_ms.",
                )
            slot.token = self._ids.uuid()
            slot.note = note
            return InProcessLockSession(slot, slot.token)


class InProcessLockSession:
    """A held lock of this process."""

    def __init__(self, slot: _Slot, token: str) -> None:
        self._slot = slot
        self._token = token

    @property
    def token(self) -> str:
        return self._token

    def still_held(self) -> bool:
        return self._slot.token == self._token

    def release(self) -> None:
        with self._slot.changed:
            if self._slot.token == self._token:
                self._slot.token = None
                self._slot.changed.notify_all()


_slots: dict[str, _Slot] = {}


def _lock(request: LockRequest) -> LockProvider:
    return InProcessLockProvider(request.storage.location, request.runtime.ids, request.runtime.process.identity())


LOCK = LockKind({"in_process": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}, _lock)
