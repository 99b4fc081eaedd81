"""Repeating background calls: heartbeats and lease renewals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""Seconds that `cancel` waits for a running call; a call to a storage may hang for minutes."""


class ThreadTimerHandle:
    """A repeating call in a daemon thread."""

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
        """The error of the latest call; None if it succeeded. An error does not stop the calls."""
        return self._error

    def cancel(self) -> None:
        """Stop the calls. Returns when no call is running, or when the waiting time is over. The call itself may cancel, too."""
        self._stop.set()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            _log.warning(
                "%s is still running after %g s; cancel does not wait any longer", self._thread.name, self._patience_s
            )

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._fn()
                self._error = None
            except Exception as error:  # noqa: BLE001 (the next call must happen after any error)
                self._error = error


class ThreadTimer:
    """Starts one daemon thread for each repeating call, so that a slow call cannot delay another.

    Args:
        patience_s: seconds that `cancel` waits for a running call.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> ThreadTimerHandle:
        return ThreadTimerHandle(seconds, fn, name, self._patience_s)
