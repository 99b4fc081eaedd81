"""Cancel a step: the work of the step stops, and none of it becomes visible.

PySpark waits for a job in a socket read, and installs a handler for Ctrl-C that calls the JVM inside the signal handler and does not stop the job.
Therefore the work runs in a separate thread, while the step's thread waits in Python. When the orchestrator interrupts the step's thread, the work is
marked as abandoned: abandoned work begins no commit, and publishes no commit. The Spark jobs of the work are cancelled, and a Spark session that is
just starting is ended. The interrupt continues after the rollback of the work, or after 20 seconds.
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

from pyhudi_core.orchestration.errors import RunEndedError

T = TypeVar("T")
WAIT_FOR_ROLLBACK = 20
WAIT_FOR_START = 6  # a starting Spark session has nothing to roll back
_AGAIN = 0.25
_POLL = 0.05
_log = logging.getLogger(__name__)
_current: contextvars.ContextVar[Work[Any] | None] = contextvars.ContextVar("pyhudi_work", default=None)


class Work(Generic[T]):
    """One call in a separate thread, with the Spark sessions that the call uses."""

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
        """Do the work in a way that can be interrupted. Raises the error of the work, or the interrupt."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._work,), name=self.name, daemon=True)
        try:
            # ``start`` waits until the thread runs, and the interrupt may come during this wait.
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
        """Tag the Spark jobs that this thread starts in the session with the name of the work."""
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
        """Inside this context, call ``end`` repeatedly if the work is abandoned."""
        self._endings.append(end)
        try:
            yield
        finally:
            self._endings.remove(end)

    def refuse_if_abandoned(self) -> None:
        """Raise `RunEndedError` if the step's thread has been interrupted."""
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
        # Repeatedly, because the work may start its next job before the work sees that the first job failed.
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
    """Run the call in a separate thread, so that an interrupt of this thread ends the call cleanly."""
    return Work(call, name).run()


def within_work(call: Callable[[], T], name: str) -> T:
    """Run the call within the current work of this thread, or within a new work if there is no current work."""
    return call() if _current.get() is not None else interruptibly(call, name)


@contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """Inside this context, ``end`` is called if the work of this thread is abandoned. Without a current work, this context has no effect."""
    work = _current.get()
    if work is None:
        yield
        return
    with work.ended_by(end):
        yield


def is_abandoned() -> bool:
    """Return whether the work of this thread has been abandoned."""
    work = _current.get()
    return work is not None and work.abandoned.is_set()


def claim(session: Any) -> None:
    """Make the session's jobs in this thread part of the current work. Without a current work, this call has no effect."""
    work = _current.get()
    if work is not None:
        work.claim(session)


def refuse_if_abandoned() -> None:
    """Raise `RunEndedError` if the work of this thread has been abandoned. Called before each step of the work, and as a commit gate."""
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
