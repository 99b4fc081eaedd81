"""The frame of locks that a server keeps; each module of ``servers/`` is one of them.

A `LockServer` makes an `Acquisition` for each request for the lock. The acquisition requests, renews and releases the lock, one bounded request at a
time. The frame waits, renews in the background, and knows when the lock has ended.

Invariants, for every server:

- A holder measures its lease by its own clocks (monotonic and wall; the first end counts), from the moment before the answered request. The server
  measures from a later moment. So a holder never relies on a lock that the server has given to another writer.
- After `still_held` has returned False, it never returns True again, and the lease is never renewed after its end.
- A request without an answer in time counts as failed; the acquisition finds out later whether the request took effect. A failed acquisition releases
  a lock that it may have acquired.
- Messages, identities and representations contain addresses without credentials.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pyhudi_core.errors import HudiError, LockError, LockServerError, LockTimeoutError
from pyhudi_core.lock.base import Patience, acquire_patiently
from pyhudi_core.runtime.base import Process, Runtime

_log = logging.getLogger(__name__)
_RELEASE_ATTEMPTS = 3
_FIRST_WAIT_MS = 10


@dataclass(frozen=True, slots=True)
class Contender:
    """The process that asks for the lock: a token of this acquisition, its purpose (at most 200 characters), and the process (`Process.identity`, at
    most 400).
    """

    token: str
    note: str
    process: str


class Acquisition(Protocol):
    """One acquisition. Every method sends bounded requests, and raises `LockServerError` if the server does not answer."""

    @property
    def lease_s(self) -> float:
        """Return the seconds after which the server gives an unrenewed lock to others; known after the first attempt."""
        ...

    @property
    def renew_s(self) -> float:
        """Seconds between two renewals."""
        return self.lease_s / 4

    def attempt(self) -> bool:
        """Request the lock, and return whether this acquisition has it now. An earlier attempt without an answer may have succeeded."""
        ...

    def renew(self) -> bool:
        """Extend the lock. Returns False if the server says that another writer has the lock."""
        ...

    def release(self) -> None:
        """Release the lock, or leave the queue. Never removes another holder's lock; may be called twice."""
        ...

    def holder(self) -> str:
        """Describe the current holder for messages; empty if the lock is free. Raises `LockServerError`."""
        ...


class LockServer(Protocol):
    """A server with a lock of one table."""

    @property
    def identity(self) -> str:
        """Kind and address of the lock, without credentials."""
        ...

    def acquisition(self, contender: Contender) -> Acquisition: ...


class Closed(Protocol):
    """A resource that must be closed, such as a connection."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closed)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LeasedTo:
    """A lock with a lease as the server stores it: the holder, and the remaining milliseconds."""

    token: str
    note: str
    process: str
    left_ms: float


class LeasedEntry(Protocol[C]):
    """A lock that is one entry of its server, such as a row, with an end by the server's clock. Each method raises `LockServerError`."""

    def connect(self) -> C: ...

    def take(self, connection: C, contender: Contender, gone: str) -> bool:
        """Take the entry in one step, and begin its lease. The entry must be free, expired, the contender's own, or have the token ``gone``."""
        ...

    def extend(self, connection: C, token: str) -> bool:
        """Restart the lease if the entry has the token, and has not expired."""
        ...

    def free(self, connection: C, token: str) -> None:
        """Remove the entry if it has the token."""
        ...

    def read(self, connection: C) -> LeasedTo | None:
        """Return the content of the entry; None if it does not exist."""
        ...


class LeasedAcquisition(Generic[C]):
    """One acquisition of an entry with a lease. It keeps its connection until the release, and opens a new connection after a failure.

    Args:
        entry: the lock.
        contender: the process that requests the lock.
        lease_s: seconds after which others may take a lock that is not renewed.
        process: reports whether a holder of this machine has ended; its lock is taken at once.
    """

    def __init__(self, entry: LeasedEntry[C], contender: Contender, lease_s: float, process: Process) -> None:
        self.lease_s = lease_s
        self.renew_s = lease_s / 3
        self._entry = entry
        self._contender = contender
        self._process = process
        self._connection: C | None = None

    def attempt(self) -> bool:
        if self._take(gone=""):
            return True
        found = self._ask(self._entry.read)
        return found is not None and self._process.is_gone(found.process) and self._take(gone=found.token)

    def renew(self) -> bool:
        return self._ask(lambda connection: self._entry.extend(connection, self._contender.token))

    def release(self) -> None:
        try:
            self._ask(lambda connection: self._entry.free(connection, self._contender.token))
        finally:
            self._close()

    def holder(self) -> str:
        found = self._ask(self._entry.read)
        if found is None or found.left_ms <= 0:
            return ""
        who = describe_holder(found.process, found.note)
        return f"{who} (token {found.token}, {found.left_ms / 1000:.1f} s of its lease left)"

    def _take(self, gone: str) -> bool:
        return self._ask(lambda connection: self._entry.take(connection, self._contender, gone))

    def _ask(self, request: Callable[[C], T]) -> T:
        if self._connection is None:
            self._connection = self._entry.connect()
        try:
            return request(self._connection)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class ServerLockProvider:
    """Excludes every writer that uses the same lock of the same server.

    Args:
        server: the server.
        runtime: clock, ids, the timer that renews, and the process that is recorded as the holder.
        table: the table, for messages.
        longest_wait_ms: bound of the wait between two attempts.
    """

    def __init__(self, server: LockServer, runtime: Runtime, table: str, *, longest_wait_ms: int = 1_000) -> None:
        self._server = server
        self._runtime = runtime
        self._table = table
        self._longest_wait_ms = longest_wait_ms

    @property
    def identity(self) -> str:
        return self._server.identity

    def acquire(self, timeout_s: float, note: str = "") -> ServerLockSession:
        """Acquire as `LockProvider.acquire`. Raises `LockServerError` if the server refused, or did not answer until the end of the wait."""
        clock, ids = self._runtime.clock, self._runtime.ids
        contender = Contender(ids.uuid(), note[:200], self._runtime.process.identity()[:400])
        acquisition, started = self._server.acquisition(contender), clock.monotonic()
        failed: list[LockServerError] = []

        def attempt() -> ServerLockSession | None:
            try:
                asked = self._ask(acquisition)
            except LockServerError as error:
                failed[:] = [error]
                return None
            failed.clear()
            return ServerLockSession(self.identity, acquisition, contender, self._runtime, asked) if asked else None

        patience = Patience(clock, ids, min(_FIRST_WAIT_MS, self._longest_wait_ms), self._longest_wait_ms)
        try:
            return acquire_patiently(
                attempt, lambda: self._timed_out(timeout_s, started, acquisition, failed), patience, clock, timeout_s
            )
        except (
            BaseException
        ):  # also after Ctrl-C: a notebook's process lives on, and nobody else would release the lock
            with suppress(HudiError):
                acquisition.release()
            raise

    def _ask(self, acquisition: Acquisition) -> _Moment | None:
        """Try once. Returns the moment from which the lease counts; None if another writer has the lock."""
        asked = _Moment.now(self._runtime)
        if not acquisition.attempt():
            return None
        if asked.left_s(acquisition.lease_s, _Moment.now(self._runtime)) > acquisition.lease_s / 2:
            return asked
        # The attempt took long, for example to create the server's table, so too little of the lease is left.
        asked = _Moment.now(self._runtime)
        return asked if acquisition.renew() else None

    def _timed_out(
        self, timeout_s: float, started: float, acquisition: Acquisition, failed: list[LockServerError]
    ) -> LockError:
        if failed:
            last, waited_s = failed[0], self._runtime.clock.monotonic() - started
            late = f" (the last request took until {waited_s:.0f} s)" if waited_s > timeout_s + 1 else ""
            message = f"The lock could not be asked for within {timeout_s:g} s{late}: {last.message}"
            return LockServerError(message, table=self._table, hint=last.hint)
        try:
            holder = acquisition.holder()
        except LockServerError as error:
            holder = f"an unknown holder ({error.message})"
        return LockTimeoutError(
            f"The lock {self.identity} was not free within {timeout_s:g} s; "
            + (f"it is held by {holder}" if holder else "it is free now"),
            table=self._table,
            hint="Wait for that writer and try again. If it has died, the server gives its lock to others when its lease ends.",
        )


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment on both clocks.

    If the wall clock is set back, this must not lengthen a lease; and the monotonic clock stops while a machine sleeps.
    """

    wall_ms: int
    monotonic: float

    @classmethod
    def now(cls, runtime: Runtime) -> _Moment:
        return cls(runtime.clock.now_ms(), runtime.clock.monotonic())

    def left_s(self, lease_s: float, now: _Moment) -> float:
        """Return the remaining seconds of a lease from this moment."""
        passed = max(now.monotonic - self.monotonic, (now.wall_ms - self.wall_ms) / 1000)
        return max(0.0, lease_s - passed)


class ServerLockSession:
    """A held lock.

    Attributes:
        on_renewed: called with the new end (epoch milliseconds) after each renewal.
    """

    def __init__(
        self, identity: str, acquisition: Acquisition, contender: Contender, runtime: Runtime, asked: _Moment
    ) -> None:
        self._identity = identity
        self._acquisition = acquisition
        self._contender = contender
        self._runtime = runtime
        self._asked = asked
        self._lost = False
        self._ending = False
        self._released = False
        self._requests = threading.Lock()  # a client sends one request at a time; the timer has its own thread
        self.on_renewed: Callable[[int], None] | None = None
        self._renewal = runtime.timer.every(acquisition.renew_s, self.renew, f"lock {contender.token}")

    @property
    def token(self) -> str:
        return self._contender.token

    @property
    def valid_until_ms(self) -> int:
        """Return when the lock expires without renewal, in epoch milliseconds."""
        return self._asked.wall_ms + int(self._acquisition.lease_s * 1000)

    def lease_left_s(self) -> float:
        """Return the seconds until the lock expires without renewal, computed without a request; 0 after its end."""
        if self._lost or self._released:
            return 0.0
        left = self._asked.left_s(self._acquisition.lease_s, _Moment.now(self._runtime))
        self._lost = left <= 0
        return left

    def still_held(self) -> bool:
        if self._ending or self.lease_left_s() <= 0:
            return False
        with suppress(LockServerError):  # nobody else may have the lock before its end
            self._renew()
        return self.lease_left_s() > 0

    def renew(self) -> None:
        """Extend the lock; the timer calls this. Raises `LockServerError` if this attempt failed and a later attempt may succeed."""
        if self._ending:
            return
        if self.lease_left_s() <= 0:
            self._give_up("expired before it could be renewed")
        elif not self._renew():
            self._give_up("was given to another writer")
        elif self.on_renewed is not None and not self._ending:
            self.on_renewed(self.valid_until_ms)

    def release(self) -> None:
        """Release the lock. Raises `LockServerError` if the server cannot be reached; the lock then expires by itself."""
        self._ending = True
        self._renewal.cancel()
        patience = Patience(self._runtime.clock, self._runtime.ids, 50, 1_000)
        with self._requests:
            for attempt in range(1, _RELEASE_ATTEMPTS + 1):
                if self._released:
                    return
                try:
                    self._acquisition.release()
                except LockServerError:
                    if attempt == _RELEASE_ATTEMPTS:
                        raise
                    patience.wait(1.0)
                else:
                    self._released = True

    def _renew(self) -> bool:
        with self._requests:
            if self._ending or self.lease_left_s() <= 0:
                return not self._lost
            asked = _Moment.now(self._runtime)
            if not self._acquisition.renew():
                self._lost = True
                return False
            if self.lease_left_s() > 0:
                self._asked = asked
            return not self._lost

    def _give_up(self, why: str) -> None:
        self._lost = True
        self._renewal.cancel()
        _log.warning("the lock %s (%s) %s", self._identity, self._contender.note or self.token, why)


def describe_holder(process: str, note: str) -> str:
    """Describe a holder for messages: the process of its identity (`Process.identity`), and its purpose."""
    host, _, rest = process.partition("|")
    pid = rest.split("|")[1] if rest.count("|") == 2 else ""
    who = f"process {pid} on {host}" if pid else process[:200] or "an unknown process"
    return f"{who} for {note}" if note else who
