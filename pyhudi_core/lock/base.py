"""The protocol of lock providers. A lock only excludes other writers; the commit protocol is safe without it (see ``transaction/``).

If writers use different locks, or different addresses of one lock, they do not exclude each other, and none of them notices. So every commit records
the identity of the lock that it held, and a commit must use the same lock as the previous commit. The option ``pyhudi.lock.change.from`` moves a
table
to a new lock: it names the old identity. After the first commit under the new lock the option has no effect.

The waiting times between two attempts (`Patience`) have full jitter, so that waiting writers do not try at the same moments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from pyhudi_core.errors import LockError, LockIdentityError
from pyhudi_core.runtime.base import Clock, Ids, Process
from pyhudi_core.storage.base import Storage

S = TypeVar("S")


class LockSession(Protocol):
    """A held lock."""

    @property
    def token(self) -> str:
        """The identity of this holding; no two holdings share one."""
        ...

    def still_held(self) -> bool:
        """Say whether this process still holds the lock, as far as it can know now."""
        ...

    def release(self) -> None:
        """Release the lock. Never removes another holder's lock; safe to call twice."""
        ...


@runtime_checkable
class HasLease(Protocol):
    """A held lock whose remaining time is known locally."""

    def lease_left_s(self) -> float:
        """Seconds until the lock expires, computed locally without a request; 0 after its end."""
        ...


@runtime_checkable
class InTheFolder(Protocol):
    """A held lock that is a file in the table's folder, so a rename of the folder moves it."""

    def moved_to(self, storage: Storage) -> None:
        """Use the file at its new location from now on, because the folder was renamed."""
        ...


def follow_folder(session: LockSession, storage: Storage) -> None:
    """Tell a held lock that the table's folder was renamed, so that its release finds the lock file."""
    if isinstance(session, InTheFolder):
        session.moved_to(storage)


def lease_left_s(session: LockSession) -> float:
    """Return the seconds until the lock expires by itself; infinite if it does not expire."""
    return session.lease_left_s() if isinstance(session, HasLease) else float("inf")


@runtime_checkable
class LeasedSession(LockSession, HasLease, Protocol):
    """A held lock that expires unless it is renewed; a background timer renews it.

    Attributes:
        on_renewed: called with the new end (epoch milliseconds) after each renewal.
    """

    on_renewed: Callable[[int], None] | None

    @property
    def valid_until_ms(self) -> int:
        """Return when the lock expires without renewal, in epoch milliseconds."""
        ...


class LockProvider(Protocol):
    """Excludes other writers from a table. Every provider passes one conformance suite (``pyhudi.testing``)."""

    @property
    def identity(self) -> str:
        """Kind and address, such as ``file_system:.hoodie``; writers with different identities do not
        exclude each other.
        """
        ...

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        """Wait at most ``timeout_s`` seconds for the lock. Raises `LockTimeoutError`, which describes the holder if it is known."""
        ...


@runtime_checkable
class LooksAhead(Protocol):
    """A lock whose state can be read before the request for the lock."""

    @property
    def was_free(self) -> bool:
        """Say whether the state that was read for the next `LockProvider.acquire` shows a released lock."""
        ...

    def look_ahead(self) -> None:
        """Read the lock's state for the next `LockProvider.acquire`.

        An old state is safe, because the lock is acquired only if its state is unchanged.
        """
        ...


@runtime_checkable
class TakenAsSeen(Protocol):
    """A held lock that knows whether another process held it between `LooksAhead.look_ahead`, which found it free, and this holding."""

    @property
    def taken_as_seen(self) -> bool:
        """Whether reads of the table after that look are as valid as reads under this lock."""
        ...


def look_ahead(lock: LockProvider) -> None:
    """Read the state of the lock before the request for it, if the lock supports this."""
    if isinstance(lock, LooksAhead):
        lock.look_ahead()


def was_free(lock: LockProvider) -> bool:
    """Say whether the state of the lock was read ahead and was free."""
    return isinstance(lock, LooksAhead) and lock.was_free


def taken_as_seen(session: LockSession) -> bool:
    """Say whether no other process has held the lock since its state was read ahead and was free; False if this is unknown."""
    return isinstance(session, TakenAsSeen) and session.taken_as_seen


CHANGE_OPTION = "pyhudi.lock.change.from"
_IN_PROCESS = "in_process:"


def in_process_identity(name: str, process: str) -> str:
    """Return the identity of a lock inside one process; it contains the process."""
    return f"{_IN_PROCESS}{name}#{process}"


def refuse_other_lock(found: str, ours: str, *, given_up: str, process: Process, table: str) -> None:
    """Raise `LockIdentityError` if the lock of the latest commit is not the lock of this writer.

    Args:
        found: the identity that the latest commit recorded; empty if it recorded none.
        ours: this writer's identity.
        given_up: the old identity that the options allow to replace.
        process: reports whether the process of an in-process lock has ended.
        table: the table's location, for the message.
    """
    if found in ("", ours, given_up) or _has_ended(found, process):
        return
    raise LockIdentityError(
        f"The latest commit was made under the lock {found!r}, but this writer uses {ours!r}: these two locks do not exclude each other",
        table=table,
        hint="Nothing was published. Give all writers of the table the same options of the lock, and spell its address alike. To move all of them"
        f" to this lock, stop the other writers and set {CHANGE_OPTION}={found} once.",
    )


def _has_ended(found: str, process: Process) -> bool:
    """Say whether the lock cannot have a holder any more, because its process is known to have ended."""
    return found.startswith(_IN_PROCESS) and process.is_gone(found.rpartition("#")[2])


class Patience:
    """The waiting times of one acquisition.

    Args:
        clock: measures and sleeps.
        ids: the source of jitter.
        first_ms: bound of the first wait.
        longest_ms: bound of every wait.
        growth: the factor between one bound and the next. With a small factor, the wait ends soon after the release of the lock: with 1.25, it is on
            average a sixth longer than necessary, with 2 a half longer.
    """

    def __init__(self, clock: Clock, ids: Ids, first_ms: int, longest_ms: int, growth: float = 2.0) -> None:
        self._clock = clock
        self._ids = ids
        self._bound_us = max(1, first_ms) * 1000
        self._longest_us = max(1, longest_ms) * 1000
        self._growth = growth

    def wait(self, at_most_s: float) -> None:
        """Sleep for a random time below the current bound, but at most the given time."""
        bound_us = min(self._bound_us, self._longest_us)
        self._bound_us = min(int(self._bound_us * self._growth), self._longest_us)
        self._clock.sleep(min(at_most_s, (1 + self._ids.below(bound_us)) / 1_000_000))


def acquire_patiently(
    attempt: Callable[[], S | None],
    give_up: Callable[[], LockError],
    patience: Patience,
    clock: Clock,
    timeout_s: float,
) -> S:
    """Repeat the attempt until it returns a result; when the time is over, raise the error that ``give_up`` returns."""
    started = clock.monotonic()
    while True:
        session = attempt()
        if session is not None:
            return session
        left = timeout_s - (clock.monotonic() - started)
        if left <= 0:
            raise give_up()
        patience.wait(left)
