"""Repeating background calls: heartbeats and lease renewals."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ThreadTimerHandle:
    """A repeating call in a daemon thread of its own."""

    def __init__(self, seconds: float, fn: Callable[[], None], name: str) -> None:
        self._seconds = seconds
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
        """End it; returns when no call is running any more. The call itself may end it, too."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._fn()
                self._error = None
            except Exception as error:  # noqa: BLE001 (whatever it is, the next call must happen)
                self._error = error


class ThreadTimer:
    """Gives every repeating call a daemon thread, so that a slow one cannot delay another."""

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> ThreadTimerHandle:
        return ThreadTimerHandle(seconds, fn, name)
