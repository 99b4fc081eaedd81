"""How fast this machine is now, so that a limit of processor time means the same on a slow or a busy one: cores that share a cache or a
hyperthread take more processor time for the same work."""

from __future__ import annotations

import time

REFERENCE_S = 0.04
"""What the work below took on the machine on which the limits were chosen."""


def slowness() -> float:
    """By which factor limits of processor time are longer here and now; 1 on a machine that is as fast as that one."""
    return max(1.0, min(_work() for _ in range(3)) / REFERENCE_S)


def _work() -> float:
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return time.process_time() - began
