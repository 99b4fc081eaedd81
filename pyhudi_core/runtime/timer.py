"""Repeating background calls: heartbeats and lease renewals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""So long the end of a call waits for one that is running; a storage may let it hang for minutes."""


class ThreadTimerHandle:
    """A repeating call in a daemon thread of its own."""

    def __init__(self, seconds: float, fn: Callable[[], None], name: str, patience_s: float = PATIENCE_S) -> None:
        self._seconds = seconds
        self._patience_s = patience_s
        self._fn = fn
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """What the latest call raised; None when it went well. An error does not end the calls."""
        return self._error

    def cancel(self) -> None:
        """End it; returns when no call is running any more, or the running one hangs. The call itself may end it, too."""
        self._stop.set()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            _log.warning(
                "%s still runs after %g s; it is not waited for any longer", self._thread.name, self._patience_s
            )

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._fn()
                self._error = None
            except Exception as error:  # noqa: BLE001 (whatever it is, the next call must happen)
                self._error = error


class ThreadTimer:
    """Gives every repeating call a daemon thread, so that a slow one cannot delay another.

    Args:
        patience_s: how long the end of a call waits for a running one.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> ThreadTimerHandle:
        return ThreadTimerHandle(seconds, fn, name, self._patience_s)
