"""Heartbeats: how others see that the writer of a pending instant lives.

``.hoodie/.heartbeat/<requested time>``, rewritten every interval; its age is its modification time, and it has expired after interval x
tolerable misses (Hudi's rule and options). Created before the requested file with put-if-absent, the same file is the reservation of
the requested time: its body carries the writer's nonce. A pending instant without a heartbeat belongs to a Java writer that keeps none; it is
never taken for dead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.model.instant import Instant
from pyhudi_core.runtime.base import TimerHandle
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.context import TableContext


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A running heartbeat."""

    path: str
    body: bytes
    handle: TimerHandle

    def stop(self, context: TableContext) -> None:
        """End it and remove the file."""
        self.handle.cancel()
        context.storage.delete(self.path)


def body(context: TableContext, nonce: str) -> bytes:
    """The reservation: who wants the requested time."""
    return json.dumps({"nonce": nonce, "process": context.runtime.process.identity()}).encode()


def start(context: TableContext, requested_time: str, content: bytes) -> Heartbeat:
    """Keep the reserved heartbeat young until it is stopped."""
    path = layout.heartbeat(requested_time)
    interval_s = context.options.heartbeat_interval_ms / 1000

    def beat() -> None:
        # A rollback by somebody else removes the file; it must not come back.
        if context.storage.head(path) is not None:
            context.storage.put(path, content)

    return Heartbeat(path, content, context.runtime.timer.every(interval_s, beat, f"heartbeat {requested_time}"))


def is_dead(context: TableContext, instant: Instant) -> bool:
    """Whether the writer of a pending instant is known to be gone: its process ended on this host, or its heartbeat expired."""
    path = layout.heartbeat(instant.requested_time)
    info = context.storage.head(path)
    if info is None:
        return False
    limit = context.options.heartbeat_interval_ms * context.options.heartbeat_tolerable_misses
    if context.runtime.clock.now_ms() - info.modified_ms > limit:
        return True
    try:
        writer = json.loads(context.storage.get(path) or b"{}").get("process", "")
    except (ObjectNotFoundError, ValueError, AttributeError):
        return False
    return bool(writer) and context.runtime.process.is_gone(str(writer))
