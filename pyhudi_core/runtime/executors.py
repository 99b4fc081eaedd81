"""Run a function over items: sequentially, or in threads.

Executors hold no threads between calls, so Spark can send them to its workers, and they need no shutdown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy
from pyhudi_core.runtime.base import R, T

if TYPE_CHECKING:
    from concurrent import futures as pools
else:
    pools = lazy("concurrent.futures")


@dataclass(frozen=True, slots=True)
class SerialExecutor:
    """Runs the calls one after the other, in the calling thread."""

    @property
    def workers(self) -> int:
        return 1

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        return [fn(item) for item in items]

    def at_least(self, calls: int) -> SerialExecutor:
        return self


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs up to ``workers`` calls at once; after an error no further call is started."""

    workers: int

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        work = list(items)
        width = min(self.workers, len(work))
        if width <= 1:
            return list(map(fn, work))
        failed = threading.Event()

        def run(item: T) -> R | None:
            if failed.is_set():
                return None
            try:
                return fn(item)
            except BaseException:
                failed.set()
                raise

        with pools.ThreadPoolExecutor(width, thread_name_prefix="pyhudi") as pool:
            futures = [pool.submit(run, item) for item in work]
        # The pool is empty here: all calls have ended. A skipped call comes with an error, which result() raises first
        # or later.
        for future in futures:
            error = future.exception()
            if error is not None:
                raise error
        return [future.result() for future in futures]  # type: ignore[misc]

    def at_least(self, calls: int) -> ThreadExecutor:
        return self if calls <= self.workers else ThreadExecutor(calls)
