"""Wait for events in another thread or process. No test may depend on how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120


def until(seen: Callable[[], object], patience: float = PATIENCE_S) -> object:
    """Repeat the call until its result is true, and return the result; fails after two minutes, or after ``patience`` seconds."""
    end = time.monotonic() + patience
    while not (found := seen()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
    return found
