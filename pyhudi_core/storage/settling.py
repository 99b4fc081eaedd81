"""Conditional writes to an object store, which never lose their first success; and waits for a busy store.

Every conditional write stores a unique nonce in the object's metadata. If a response is lost, the writer reads the object: the nonce shows whether
its write succeeded. If the outcome remains unknown, it raises `StorageStateUnknownError`. A response that says that the request had no effect (S3:
"409 ConditionalRequestConflict") does not count as a lost race: the request is sent again.

A busy store refuses requests (429, 503). The request is then sent again after a wait with jitter, for at most `BUSY_FOR_S` seconds. If the answer
says how long to wait (``Retry-After``), the wait is not shorter, up to `BUSY_FOR_S`. All requests of a write together wait at most its `BusyTime`.
The waits are counted (`Busy`), and a commit records them.

A request without an answer is repeated, too: at least once, but not again after `UNANSWERED_FOR_S` seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Protocol, TypeVar
from weakref import WeakSet

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.storage.base import Waited

T = TypeVar("T")
ATTEMPTS = 8
"""The maximum number of attempts for one request, if the store is not busy, or if the allowed wait for a busy store is used."""
BUSY_FOR_S = 60
"""The maximum total wait for a busy store, after which a request fails."""
UNANSWERED_FOR_S = 30
"""After this time, a request that got no answer is not repeated."""
SILENT_FOR_S = 10
"""The time during which a store that has never answered gets no further request."""
BUSY_HINT = "The store asks for fewer requests. Try again later, or let fewer processes use the bucket."
_FIRST_WAIT_MS = 50
_LONGEST_WAIT_MS = 2000
_LONGEST_BUSY_WAIT_MS = 8000


class RequestEnd(Enum):
    """The effect that a failed request may have had."""

    UNCLEAR = "it may have taken effect"
    NO_EFFECT = "it had no effect, and may be sent again"
    FAILED = "its condition did not hold"
    REFUSED = "it had no effect, and would have none if it were sent again"


class AskedObject(Protocol):
    """The requested object, for messages."""

    @property
    def store(self) -> str:
        """Return the kind of the store."""
        ...

    @property
    def table(self) -> str: ...

    @property
    def path(self) -> str: ...


class ErrorReader(Protocol):
    """Interprets the errors of one client library."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of the store's errors."""
        ...

    def verdict(self, error: Exception) -> RequestEnd: ...

    def is_busy(self, error: Exception) -> bool:
        """Return whether the store asks for fewer requests."""
        ...

    def asked_wait(self, error: Exception) -> float:
        """Return the seconds that the store asks to wait; 0 if it does not say."""
        ...

    def refusal(self, error: Exception, target: AskedObject) -> StorageError:
        """Return the error of this package."""
        ...


class Busy:
    """Counts the waits for a busy store, in all threads of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times = 0
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one wait."""
        with self._lock:
            self._times += 1
            self._seconds += seconds

    @property
    def waited(self) -> Waited:
        """Return the number and the duration of the waits so far."""
        with self._lock:
            return Waited(self._times, round(self._seconds * 1000))


class Silence:
    """A store that has never answered, and did not answer a request in time. Other requests then fail without a wait."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._until = 0.0

    def note(self, error: Exception) -> None:
        """Use the error of a request for all other requests, for some seconds."""
        self._error, self._until = error, time.monotonic() + SILENT_FOR_S

    def raise_if_silent(self) -> None:
        """Raise the error of the other request."""
        if self._error is not None and time.monotonic() < self._until:
            raise self._error.with_traceback(None)


class BusyTime:
    """The remaining wait of one write for a busy store. Concurrent waits count once."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds
        self._until = 0.0

    def take(self, now: float, seconds: float) -> bool:
        """Use time for a wait that begins now; False if not enough is left."""
        more = max(0.0, now + seconds - max(now, self._until))
        if more > self.left_s:
            return False
        self.left_s -= more
        self._until = max(self._until, now + seconds)
        return True


class Attempts:
    """The waits of one request that is sent several times.

    Args:
        clock: the clock for the waits.
        ids: the source of jitter.
        busy: counts the waits for a busy store.
        may_wait: returns whether the writes may wait for this many more seconds.
    """

    def __init__(self, clock: Clock, ids: Ids, busy: Busy, may_wait: Callable[[float], bool]) -> None:
        self._clock = clock
        self._ids = ids
        self._busy = busy
        self._may_wait = may_wait
        self._attempts = 1
        self._busy_s = 0.0
        self._begun = clock.monotonic()

    def again(self, busy: bool, asked_s: float = 0.0) -> bool:
        """Wait before the next attempt, longer each time; False if no attempt is left.

        ``asked_s``: a busy store asks for a wait of so many seconds.
        """
        if busy:
            left = BUSY_FOR_S - self._busy_s
            seconds = asked_s + jitter(self._ids, self._attempts, _LONGEST_BUSY_WAIT_MS)
            seconds = min(seconds, left) if asked_s else seconds
            patient = 0 < seconds <= left and self._may_wait(seconds)
            if not patient and (self._attempts >= ATTEMPTS or asked_s):
                return False
            self._busy_s += seconds
            self._busy.add(seconds)
        elif self._attempts >= ATTEMPTS or (self._attempts > 1 and self._unanswered_s() >= UNANSWERED_FOR_S):
            return False
        else:
            seconds = jitter(self._ids, self._attempts, _LONGEST_WAIT_MS)
        self._attempts += 1
        self._clock.sleep(seconds)
        return True

    def _unanswered_s(self) -> float:
        return self._clock.monotonic() - self._begun - self._busy_s


class Settler:
    """Sends conditional requests, repeats them only if that is safe, and finds out their outcome.

    Args:
        clock: waits between attempts.
        ids: gives jitter.
        busy: counts the waits for a busy store.
    """

    def __init__(self, clock: Clock, ids: Ids, busy: Busy) -> None:
        self._clock = clock
        self._ids = ids
        self._busy = busy
        self._times: WeakSet[BusyTime] = WeakSet()
        self._lock = threading.Lock()

    def busy_time(self, seconds: float) -> BusyTime:
        """Return the allowed wait of a write for a busy store. It is valid as long as the object exists. If there are several, the longest limits a
        request.
        """
        made = BusyTime(seconds)
        with self._lock:
            self._times.add(made)
        return made

    def _may_wait(self, seconds: float) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            answers = [each.take(now, seconds) for each in self._times]
        return not answers or any(answers)

    def patience(self) -> Attempts:
        """Return the waits of one request."""
        return Attempts(self._clock, self._ids, self._busy, self._may_wait)

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt, longer each time, with jitter."""
        self._clock.sleep(jitter(self._ids, attempt, _LONGEST_WAIT_MS))

    def settle(
        self, target: AskedObject, judge: ErrorReader, send: Callable[[], T], find_own: Callable[[], T | None]
    ) -> T:
        """Send a conditional request until its outcome is known.

        Args:
            target: the object.
            judge: interprets the errors of the client library.
            send: sends the request once.
            find_own: looks at the object after an unclear answer. It returns the response if the object is this request's; None if the condition
                still holds, so that the request may be repeated; and raises `unknown` otherwise.
        """
        patience = self.patience()
        in_doubt = busy = False
        asked_s = 0.0
        last: Exception | None = None
        while last is None or patience.again(busy, asked_s):
            try:
                if in_doubt:
                    ours = find_own()
                    if ours is not None:
                        return ours
                return send()
            except judge.errors as error:
                in_doubt, busy, last = _in_doubt(target, judge, error, in_doubt), judge.is_busy(error), error
                asked_s = judge.asked_wait(error) if busy else 0.0
        if not in_doubt:
            raise gave_up(target, last, busy)
        with suppress(*judge.errors):  # the last attempt may have succeeded
            ours = find_own()
            if ours is not None:
                return ours
        raise unknown(target)


def jitter(ids: Ids, attempt: int, longest_ms: int) -> float:
    """Return the seconds to wait after an attempt."""
    return (1 + ids.below(min(longest_ms, _FIRST_WAIT_MS << min(attempt, 16)))) / 1000


def _in_doubt(target: AskedObject, judge: ErrorReader, error: Exception, in_doubt: bool) -> bool:
    """Say whether the request may have succeeded by now. Raises if another attempt cannot succeed."""
    verdict = judge.verdict(error)
    if verdict is RequestEnd.UNCLEAR:
        return True
    if verdict is RequestEnd.NO_EFFECT:
        return in_doubt
    if verdict is RequestEnd.FAILED and not in_doubt:
        raise failed(target) from error
    if verdict is RequestEnd.FAILED:
        # An earlier request of ours may have succeeded, so that this one failed its condition: the object shows it.
        return True
    raise unknown(target) if in_doubt else judge.refusal(error, target) from error


def failed(target: AskedObject) -> PreconditionFailedError:
    """Return the error of a lost race."""
    return PreconditionFailedError("The object is not in the expected state", table=target.table, path=target.path)


def unknown(target: AskedObject) -> StorageStateUnknownError:
    """Return the error of a write whose outcome is unknown."""
    return StorageStateUnknownError(
        f"{target.store} did not confirm the write, and the object does not show whether it succeeded",
        table=target.table,
        path=target.path,
        hint="Read the table's state before you try again.",
    )


def gave_up(target: AskedObject, last: Exception | None, busy: bool) -> StorageError:
    """Return the error of a write that certainly had no effect in all attempts."""
    tried = "time, because it is asked too often" if busy else f"{ATTEMPTS} attempts"
    return StorageError(
        f"{target.store} did not accept the write in {tried}: {last}",
        table=target.table,
        path=target.path,
        hint=f"Nothing was written. {BUSY_HINT if busy else 'Try again later.'}",
    )
