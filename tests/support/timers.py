"""Repeating calls (heartbeats, lease renewals) that a test has started and not cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyhudi_core.runtime.system import ThreadTimer, ThreadTimerHandle

_every = ThreadTimer.every
_started: list[ThreadTimerHandle] = []


def _noted(timer: ThreadTimer, seconds: float, fn: Callable[[], None], name: str) -> ThreadTimerHandle:
    _started.append(_every(timer, seconds, fn, name))
    return _started[-1]


@contextmanager
def cancelled_at_the_end() -> Iterator[None]:
    """Cancel what was started inside and still repeats."""
    ThreadTimer.every = _noted  # type: ignore[method-assign]
    before = len(_started)
    try:
        yield
    finally:
        for handle in _started[before:]:
            handle.cancel()
        del _started[before:]
