"""The protocol of lock providers. A lock only excludes; safety never rests on it (see ``transaction/``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class LockSession(Protocol):
    """A held lock."""

    @property
    def token(self) -> str:
        """Names this holding; no two holdings share one."""
        ...

    def still_held(self) -> bool:
        """Whether the lock is still ours, as far as can be known now."""
        ...

    def release(self) -> None:
        """Give the lock back; never removes somebody else's; safe to call twice."""
        ...


@runtime_checkable
class HasLease(Protocol):
    """A held lock that knows by itself when it ends."""

    def lease_left_s(self) -> float:
        """Seconds until the end, as far as this process knows without asking anybody; 0 when the lock is over."""
        ...


def lease_left_s(session: LockSession) -> float:
    """Seconds until the lock ends by itself; infinite for one that does not."""
    return session.lease_left_s() if isinstance(session, HasLease) else float("inf")


@runtime_checkable
class LeasedSession(LockSession, HasLease, Protocol):
    """A held lock that ends by itself unless it is renewed, which happens in the background.

    Attributes:
        on_renewed: called with the new end (epoch milliseconds) after each renewal.
    """

    on_renewed: Callable[[int], None] | None

    @property
    def valid_until_ms(self) -> int:
        """The end, in epoch milliseconds, unless it is renewed before."""
        ...


class LockProvider(Protocol):
    """Excludes others from a table. One conformance suite (``pyhudi_core.testing``) holds for all."""

    @property
    def identity(self) -> str:
        """Kind and address, such as ``file_system:.hoodie/.locks``; writers with different identities do not
        exclude each other.
        """
        ...

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        """Wait for the lock at most ``timeout_s`` seconds. Raises `LockTimeoutError` that names the holder where
        known.
        """
        ...
