"""Cancelling a step so that nothing of it goes on or becomes visible.

PySpark waits for a job in a socket read and puts its own handler on Ctrl-C, which talks to the JVM from inside a signal handler
and leaves the job running. Therefore the work runs in a thread of its own while the step's thread waits in Python. When Dagster
interrupts the step's thread, the work is marked as abandoned (it begins no commit and publishes none from then on), its own Spark jobs
are cancelled, a Spark that is just starting is ended, and the interrupt goes on after the work has rolled back, or after 20 seconds.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pyhudi_dagster.errors import RunEndedError

T = TypeVar("T")
WAIT_FOR_ROLLBACK = 20
WAIT_FOR_START = 6  # a start of Spark has nothing to roll back
_AGAIN = 0.25
_POLL = 0.05
_log = logging.getLogger(__name__)
_current: contextvars.ContextVar[Work[Any] | None] = contextvars.ContextVar("pyhudi_work", default=None)


class Work(Generic[T]):
    """One call in a thread of its own, with the Spark sessions that it uses."""

    def __init__(self, call: Callable[[], T], name: str) -> None:
        self.name = name
        self.group = f"pyhudi-{uuid.uuid4()}"
        self.abandoned = threading.Event()
        self._call = call
        self._done = threading.Event()
        self._sessions: list[Any] = []
        self._endings: list[Callable[[], None]] = []
        self._result: T | None = None
        self._error: BaseException | None = None

    def run(self) -> T:
        """Do the work, interruptibly; raises what it raised, or the interrupt."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._work,), name=self.name, daemon=True)
        try:
            # Starting waits until the thread runs, and the interrupt may come in that wait.
            thread.start()
            while not self._done.wait(_POLL):
                pass
        except BaseException:
            self._abandon()
            raise
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def claim(self, session: Any) -> None:
        """Put the Spark jobs that this thread starts in the session under the work's own name."""
        self.refuse_if_abandoned()
        if any(known is session for known in self._sessions):
            return
        if _is_connect(session):
            session.addTag(self.group)
        else:
            session.sparkContext.setJobGroup(self.group, self.name, interruptOnCancel=True)
        self._sessions.append(session)

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """Have ``end`` called, again and again, while the thread is inside and the work is abandoned."""
        self._endings.append(end)
        try:
            yield
        finally:
            self._endings.remove(end)

    def refuse_if_abandoned(self) -> None:
        """Raise `RunEndedError` once the step's thread has been interrupted."""
        if self.abandoned.is_set():
            raise RunEndedError(
                "The step was interrupted before its commit", hint="Nothing was published; run it again."
            )

    def _work(self) -> None:
        _current.set(self)
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001 - handed to the step's thread, which raises it
            self._error = error
        finally:
            self._done.set()

    def _abandon(self) -> None:
        self.abandoned.set()
        waited_since = time.monotonic()
        # Again and again: the work may start its next job before it sees the first one fail.
        while not self._done.wait(_AGAIN):
            self._end()
            limit = WAIT_FOR_START if self._endings else WAIT_FOR_ROLLBACK
            if time.monotonic() - waited_since > limit:
                _log.warning("%s did not end within %s s; its commit is refused from now on", self.name, limit)
                return

    def _end(self) -> None:
        for session in self._sessions:
            try:
                _cancel(session, self.group)
            except Exception as error:  # noqa: BLE001 - a dead JVM has no jobs left to cancel
                _log.warning("could not cancel the Spark jobs of %s: %s", self.name, error)
        for end in tuple(self._endings):
            end()


def interruptibly(call: Callable[[], T], name: str) -> T:
    """Run the call in a thread of its own, so that an interrupt of this thread ends it cleanly."""
    return Work(call, name).run()


def within_work(call: Callable[[], T], name: str) -> T:
    """Call it in the work that this thread does, or in a work of its own where there is none."""
    return call() if _current.get() is not None else interruptibly(call, name)


@contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """What is done inside is ended by ``end`` if the work of this thread is abandoned; outside of one nothing happens."""
    work = _current.get()
    if work is None:
        yield
        return
    with work.ended_by(end):
        yield


def is_abandoned() -> bool:
    """Whether the work of this thread has been abandoned."""
    work = _current.get()
    return work is not None and work.abandoned.is_set()


def claim(session: Any) -> None:
    """Make the session's jobs of this thread part of the work that it does; outside of one nothing happens."""
    work = _current.get()
    if work is not None:
        work.claim(session)


def refuse_if_abandoned() -> None:
    """Before anything begins, and for commit gates: raise `RunEndedError` if the work of this thread has been abandoned."""
    work = _current.get()
    if work is not None:
        work.refuse_if_abandoned()


def _is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _cancel(session: Any, group: str) -> None:
    if _is_connect(session):
        session.interruptTag(group)
    else:
        session.sparkContext.cancelJobGroup(group)
