"""Time, chance and threads, as protocols that are handed in.

Nothing outside ``runtime/``, ``storage/`` and ``lock/`` may take them for itself (everything that touches the
outside is passed in), because the explorer replaces all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Clock(Protocol):
    """Wall-clock time in epoch milliseconds, a monotonic time in seconds, and sleeping."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Identifiers that nobody else has: random UUID strings, and integers in ``[0, bound)``."""

    def uuid(self) -> str: ...

    def below(self, bound: int) -> int: ...


class Executor(Protocol):
    """Runs a function over items, in any order, and returns the results in the order of the items.

    The first error (in the order of the items) is raised after all running calls have ended.
    """

    @property
    def workers(self) -> int:
        """How many calls run at once."""
        ...

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]: ...


class TimerHandle(Protocol):
    """A repeating call that can be ended."""

    def cancel(self) -> None:
        """End it. Returns when no call is running any more, or one hangs for so long that it is not waited for; it may still do its work then."""
        ...


class Timer(Protocol):
    """Calls a function again and again in the background (heartbeats, lease renewals)."""

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> TimerHandle: ...


class Process(Protocol):
    """Which process this is, in words that other processes of the same machine can check."""

    def identity(self) -> str:
        """Names this process; empty where it cannot be named."""
        ...

    def is_gone(self, identity: str) -> bool:
        """Whether the named process is known to have ended; False for anything that cannot be known here."""
        ...


@dataclass(frozen=True, slots=True)
class UnknownProcess:
    """For worlds without processes: nobody is known to be gone."""

    def identity(self) -> str:
        return ""

    def is_gone(self, identity: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Runtime:
    """The outside, as one value."""

    clock: Clock
    ids: Ids
    executor: Executor
    timer: Timer
    process: Process = UnknownProcess()
