"""The real runtime: the machine's clock, randomness, threads and timers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_call
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.clock import RandomIds, SystemClock
from pyhudi_core.runtime.executors import SerialExecutor, ThreadExecutor
from pyhudi_core.runtime.process import SystemProcess
from pyhudi_core.runtime.timer import ThreadTimer

if TYPE_CHECKING:
    from pyhudi_core.runtime.writer import system_writer
else:
    system_writer = lazy_call("pyhudi_core.runtime.writer", "system_writer")


def system_runtime(workers: int | None = None) -> Runtime:
    """Return the machine's clock, randomness, threads and timers.

    Args:
        workers: calls that run at once; None is the number of cores that this process may use.
    """
    width = workers if workers is not None else available_cores()
    executor = SerialExecutor() if width <= 1 else ThreadExecutor(width)
    return Runtime(SystemClock(), RandomIds(), executor, ThreadTimer(), SystemProcess(), writer=system_writer)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
