"""Cancelling a step so that nothing of it goes on or becomes visible.

PySpark waits for a job in a socket read and puts its own handler on Ctrl-C, which talks to the JVM from inside a signal handler
and leaves the job running. Therefore the work runs in a thread of its own while the step's thread waits in Python. When Dagster
interrupts the step's thread, the work is marked as abandoned (its commit is refused from then on), its own Spark jobs are cancelled,
and the interrupt goes on after the work has rolled back, or after 20 seconds.
"""

from __future__ import annotations

import contextvars
import logging
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pyhudi_dagster.errors import RunEndedError

T = TypeVar("T")
WAIT_FOR_ROLLBACK = 20
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
        if any(known is session for known in self._sessions):
            return
        if _is_connect(session):
            session.addTag(self.group)
        else:
            session.sparkContext.setJobGroup(self.group, self.name, interruptOnCancel=True)
        self._sessions.append(session)

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
        for _ in range(
            WAIT_FOR_ROLLBACK
        ):  # again each second: the work may start its next job before it sees the first one fail
            self._cancel_jobs()
            if self._done.wait(1):
                return
        _log.warning("%s did not end within %s s; its commit is refused from now on", self.name, WAIT_FOR_ROLLBACK)

    def _cancel_jobs(self) -> None:
        for session in self._sessions:
            try:
                _cancel(session, self.group)
            except Exception as error:  # noqa: BLE001 - a dead JVM has no jobs left to cancel
                _log.warning("could not cancel the Spark jobs of %s: %s", self.name, error)


def interruptibly(call: Callable[[], T], name: str) -> T:
    """Run the call in a thread of its own, so that an interrupt of this thread ends it cleanly."""
    return Work(call, name).run()


def claim(session: Any) -> None:
    """Make the session's jobs of this thread part of the work that it does; outside of one nothing happens."""
    work = _current.get()
    if work is not None:
        work.claim(session)


def refuse_if_abandoned() -> None:
    """For commit gates: raise `RunEndedError` if the work of this thread has been abandoned."""
    work = _current.get()
    if work is not None:
        work.refuse_if_abandoned()


@contextmanager
def kept_interrupt_handler() -> Iterator[None]:
    """Put the Ctrl-C handler back that was there before; PySpark replaces it when a session starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _cancel(session: Any, group: str) -> None:
    if _is_connect(session):
        session.interruptTag(group)
    else:
        session.sparkContext.cancelJobGroup(group)
