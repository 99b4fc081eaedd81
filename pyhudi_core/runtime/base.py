"""Protocols for time, randomness and threads, which callers pass in.

Only ``runtime/``, ``storage/``, ``lock/`` and ``testing/`` may use the real ones directly, because the explorer in ``testing/`` replaces all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    """Unique identifiers: random UUID strings, and random integers in ``[0, bound)``."""

    def uuid(self) -> str: ...

    def below(self, bound: int) -> int: ...


class Executor(Protocol):
    """Runs a function over items, in any order, and returns the results in the order of the items.

    The first error (in the order of the items) is raised after all running calls have ended.
    """

    @property
    def workers(self) -> int:
        """Return the number of concurrent calls."""
        ...

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]: ...

    def at_least(self, calls: int) -> Executor:
        """Return an executor for at least this number of concurrent calls, for calls that wait for storage. A serial executor stays serial."""
        ...


class TimerHandle(Protocol):
    """A repeating call that can be cancelled."""

    def cancel(self) -> None:
        """Stop the calls. Waits for a running call, but not longer than the waiting time; such a call may still finish its work."""
        ...


class Timer(Protocol):
    """Calls a function repeatedly in the background (heartbeats, lease renewals)."""

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> TimerHandle: ...


class Process(Protocol):
    """The identity of this process, in a form that other processes of the same machine can check."""

    def identity(self) -> str:
        """Return the identity of this process; empty if the system does not provide one."""
        ...

    def is_gone(self, identity: str) -> bool:
        """Return whether the process with this identity is known to have ended; False if this machine cannot know."""
        ...


@dataclass(frozen=True, slots=True)
class UnknownProcess:
    """For simulated environments without processes: no process is known to have ended."""

    def identity(self) -> str:
        return ""

    def is_gone(self, identity: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clock, identifiers, executor, timer and process, as one value.

    Attributes:
        instants: the source of instant times, if it is not the clock.
        writer: facts about the current writer: ``user``, ``host``, ``program``, ``run``. It contains no arguments of a command, and no secrets.
    """

    clock: Clock
    ids: Ids
    executor: Executor
    timer: Timer
    process: Process = UnknownProcess()
    instants: Clock | None = None
    writer: Callable[[], Mapping[str, str]] = dict

    def instant_ms(self) -> int:
        """Return the present time for an instant, in epoch milliseconds."""
        return (self.instants or self.clock).now_ms()
