"""The protocol of lock providers. A lock only excludes; safety never rests on it (see ``transaction/``)."""

from __future__ import annotations

from typing import Protocol


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
