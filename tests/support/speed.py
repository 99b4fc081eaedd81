"""How fast this machine is now, so that a limit of processor time means the same on a slow or a busy one: cores that share a cache or a
hyperthread take more processor time for the same work."""

from __future__ import annotations

import time

REFERENCE_S = 0.04
"""What the work below took on the machine on which the limits were chosen."""


def slowness() -> float:
    """The factor for limits of processor time on this machine at this time; 1 on a machine as fast as the reference."""
    return max(1.0, min(_work() for _ in range(3)) / REFERENCE_S)


def _work() -> float:
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return time.process_time() - began
