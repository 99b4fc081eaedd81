"""Waits for what comes about in another thread or process; no test should count on how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120


def until(seen: Callable[[], object]) -> object:
    """What the call gives as soon as it is true; fails after two minutes."""
    end = time.monotonic() + PATIENCE_S
    while not (found := seen()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
    return found
