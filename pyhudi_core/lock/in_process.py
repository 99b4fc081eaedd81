"""A lock between the handles of one process, for tables in memory and for single-process use.

Locks are found by identity, so that two handles of the same table exclude each other.
"""

from __future__ import annotations

import threading

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.runtime.base import Ids


class _Slot:
    """The lock behind one identity: who holds it, and the condition that says it is free."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.token: str | None = None
        self.note = ""


class InProcessLockProvider:
    """Excludes the other handles of this process.

    Args:
        name: what is locked, such as the table's location.
        ids: gives the tokens.
    """

    def __init__(self, name: str, ids: Ids) -> None:
        self._name = name
        self._ids = ids

    @property
    def identity(self) -> str:
        return f"in_process:{self._name}"

    def acquire(self, timeout_s: float, note: str = "") -> InProcessLockSession:
        slot = _slot(self.identity)
        with slot.changed:
            if not slot.changed.wait_for(lambda: slot.token is None, timeout_s):
                why = slot.note or "no named reason"
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


def _slot(identity: str) -> _Slot:
    return _slots.setdefault(identity, _Slot())
