"""Clock, randomness, threads and timers: protocols (``base``) and their real implementations."""

from pyhudi_core.runtime.base import Clock, Executor, Ids, Runtime, Timer, TimerHandle
from pyhudi_core.runtime.clock import RandomIds, SystemClock
from pyhudi_core.runtime.executors import SerialExecutor, ThreadExecutor
from pyhudi_core.runtime.system import available_cores, system_runtime
from pyhudi_core.runtime.timer import ThreadTimer, ThreadTimerHandle

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
