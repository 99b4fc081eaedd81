"""Pessimistic concurrency: one holding of the table's lock for the whole of a write.

What asks for the lock inside of such a write (its rollback of the dead, its commit) gets it at once, from the holding that is there. Others
wait for the whole write, so it never has to be planned anew. Safety does not rest on this: if the lock expires under the write,
its commit is decided as every other (``commit``).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.errors import at_table
from pyhudi_core.lock.base import LockProvider, LockSession, lease_left_s
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.holding import give_back


@dataclass(frozen=True, slots=True)
class _Inner:
    """The lock inside of a write that holds it; giving it back is the write's business."""

    outer: LockSession

    @property
    def token(self) -> str:
        return self.outer.token

    def still_held(self) -> bool:
        return self.outer.still_held()

    def lease_left_s(self) -> float:
        return lease_left_s(self.outer)

    def release(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A provider for a write that holds the lock already."""

    provider: LockProvider
    session: LockSession

    @property
    def identity(self) -> str:
        return self.provider.identity

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        return _Inner(self.session)


@dataclass(slots=True)
class WholeWrite:
    """The holding of one write: ``context`` is the table as the write sees it meanwhile; times in seconds."""

    outside: TableContext
    context: TableContext
    session: LockSession
    waited: float
    since: float

    def held(self) -> float:
        """How long it has been held."""
        return self.outside.runtime.clock.monotonic() - self.since

    def release(self) -> None:
        """Let others in; safe to call twice."""
        give_back(self.outside, self.session)


def hold(context: TableContext, purpose: str) -> WholeWrite:
    """Wait for the lock, and keep it until the write releases it. Raises `LockTimeoutError`."""
    clock = context.runtime.clock
    asked = clock.monotonic()
    with at_table(context.table):
        session = context.lock.acquire(context.options.lock.wait_ms / 1000, purpose)
    now = clock.monotonic()
    inside = context.with_lock(HeldLock(context.lock, session))
    return WholeWrite(context, inside, session, now - asked, now)
