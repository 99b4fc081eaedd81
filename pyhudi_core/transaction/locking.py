"""The table's lock: held for a few steps, or for a complete write (pessimistic concurrency); and the checks of the lock before a decision.

A commit checks that its lock is also the lock of the table's other writers, and that the commit still holds the lock. Neither check makes a table
safe; the commit record makes a table safe. Both checks show a writer early that something is wrong. A rollback makes no check, because a writer that
was refused, or that lost the lock, has to clean up.

In a pessimistic write, each step that needs the lock (the rollback of dead writers, the commit) gets the lock at once, because the write holds the
lock. Other writers wait for the end of the write, so the write is never planned again. If the lock expires, the commit is decided as in any other
write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyhudi_core.errors import HudiError, LockLostError, LockServerError, at_table
from pyhudi_core.lock.base import LockProvider, LockSession, lease_left_s, refuse_other_lock, taken_as_seen
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import Ahead, all_of, both
from pyhudi_core.transaction.record import Record

_log = logging.getLogger(__name__)
_ATTEMPTS = 3


@dataclass(slots=True)
class LockHolding:
    """The lock of the table in one process, from the request to the release.

    Attributes:
        session: the acquired lock; None until the lock is acquired, and if the lock is switched off.
        after: functions that run concurrently with the release of the lock; they raise no `HudiError`.
        given_back: the time of the release, by the monotonic clock.
    """

    session: LockSession | None
    after: list[Callable[[], object]] = field(default_factory=list)
    given_back: float = 0.0
    _ended: bool = False

    def acquire(self, context: TableContext, purpose: str) -> None:
        """Wait for the lock. If an interruption called `end` during the wait, release the lock at once."""
        if context.protections.lock:
            self.session = context.lock.acquire(context.options.lock.wait_ms / 1000, purpose)
        if self._ended:
            self.end(context)

    def lease_left_s(self) -> float:
        """Return for how many seconds this process still holds the lock."""
        return float("inf") if self.session is None else lease_left_s(self.session)

    @property
    def taken_as_seen(self) -> bool:
        """Whether nobody else held the lock between an earlier look, which found the lock free, and this acquisition."""
        return self.session is not None and taken_as_seen(self.session)

    def end(self, context: TableContext) -> None:
        """Release the lock."""
        self._ended = True
        if self.session is not None:
            give_back(context, self.session)
        self.given_back = context.runtime.clock.monotonic()


@contextmanager
def holding_lock(
    context: TableContext, purpose: str, beside: Sequence[Callable[[], object]] = ()
) -> Iterator[LockHolding]:
    """Wait for the lock, and hold the lock inside this context.

    The functions ``beside`` run during the wait. If one of these functions raises a `HudiError`, the error is raised when the lock is acquired.

    Raises `LockTimeoutError`, which names the table. Raises `UnsupportedTableError` for a table that this release reads and does not write.
    """
    context.config.refuse_writing(context.table)
    storage, executor = context.root, context.runtime.executor
    holding = LockHolding(None)
    try:
        with at_table(context.table):
            if beside:
                steps = lambda: all_of(storage, executor, *beside)  # noqa: E731
                done, _ = both(storage, executor, lambda: Ahead.of(steps), lambda: holding.acquire(context, purpose))
                done.get()
            else:
                holding.acquire(context, purpose)
        yield holding
    finally:
        all_of(storage, executor, lambda: holding.end(context), *holding.after)


def give_back(context: TableContext, session: LockSession) -> None:
    """Release the lock. A failure is only logged: the decision that was made under the lock stands, and must not look failed."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            session.release()
        except HudiError as error:
            if attempt == _ATTEMPTS:
                _log.warning("could not give back the lock of %s: %s", context.table, error)
        else:
            return


LeaseLeft = Callable[[], float]


def refuse_foreign(context: TableContext, record: Record | None) -> None:
    """Raise `LockIdentityError` if the latest decision was made under another lock, whose writers our lock does not exclude."""
    if record is None:
        return
    given_up, process = context.options.lock.change_from, context.runtime.process
    refuse_other_lock(
        record.lock_identity, context.lock.identity, given_up=given_up, process=process, table=context.table
    )


def recorded_lock(context: TableContext, record: Record | None, *, any_lock: bool) -> str:
    """Return the lock identity that the next record names. A decision that may be made under any lock keeps the identity of the previous record."""
    if record is not None and record.lock_identity and any_lock:
        return record.lock_identity
    return context.lock.identity


def refuse_lost(context: TableContext, lease_left_s: LeaseLeft) -> None:
    """Raise `LockLostError` if this process no longer holds the lock. The check saves a useless attempt to decide."""
    if lease_left_s() <= 0:
        raise LockLostError(
            "The lock ended while it was held: it could not be renewed in time",
            table=context.table,
            hint="Nothing was published; write again. If the machine or the storage is only slow, raise"
            " hoodie.write.lock.storage.validity.timeout.secs.",
        )


@dataclass(frozen=True, slots=True)
class _Inner:
    """The lock as the steps of a write get it while the write holds the lock. Only the write itself releases the lock."""

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
    """A lock provider for the steps of a write that already holds the lock."""

    provider: LockProvider
    session: LockSession

    @property
    def identity(self) -> str:
        return self.provider.identity

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        return _Inner(self.session)


@dataclass(frozen=True, slots=True)
class _AskedOnce:
    """A lock that is requested once, without waiting."""

    provider: LockProvider

    @property
    def identity(self) -> str:
        return self.provider.identity

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        return self.provider.acquire(0, note)


def after_failure(context: TableContext, error: BaseException | None) -> TableContext:
    """Return the table for the cleanup after a failed step. If the step waited in vain for a lock server, the cleanup asks the server only once."""
    return context.with_lock(_AskedOnce(context.lock)) if isinstance(error, LockServerError) else context


@dataclass(slots=True)
class WholeWrite:
    """The lock that one write holds from its start to its end.

    ``outside`` is the table with its usual lock. ``context`` is the table with the lock that is already held. ``waited`` and ``since`` are in
    seconds.
    """

    outside: TableContext
    context: TableContext
    session: LockSession
    waited: float
    since: float

    def held(self) -> float:
        """Return for how many seconds the write has held the lock."""
        return self.outside.runtime.clock.monotonic() - self.since

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        give_back(self.outside, self.session)


def hold(context: TableContext, purpose: str) -> WholeWrite:
    """Wait for the lock. The write keeps the lock until it calls `WholeWrite.release`. Raises as `holding_lock`."""
    context.config.refuse_writing(context.table)
    clock = context.runtime.clock
    asked = clock.monotonic()
    with at_table(context.table):
        session = context.lock.acquire(context.options.lock.wait_ms / 1000, purpose)
    now = clock.monotonic()
    inside = context.with_lock(HeldLock(context.lock, session))
    return WholeWrite(context, inside, session, now - asked, now)
