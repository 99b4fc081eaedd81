"""Clock, randomness, threads and timers: protocols (``base``) and their real implementations."""

from pyhudi_core.runtime.base import Clock, Executor, Ids, Runtime, Timer, TimerHandle
from pyhudi_core.runtime.system import (
    RandomIds,
    SerialExecutor,
    SystemClock,
    ThreadExecutor,
    ThreadTimer,
    ThreadTimerHandle,
    available_cores,
    system_runtime,
)

__all__ = [
    "Clock",
    "Executor",
    "Ids",
    "RandomIds",
    "Runtime",
    "SerialExecutor",
    "SystemClock",
    "ThreadExecutor",
    "ThreadTimer",
    "ThreadTimerHandle",
    "Timer",
    "TimerHandle",
    "available_cores",
    "system_runtime",
]
