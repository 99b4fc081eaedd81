"""Heartbeats: how other processes see that the writer of a pending instant lives.

The writer rewrites the heartbeat file ``.hoodie/.heartbeat/<requested time>`` every interval. The age of a heartbeat follows from the modification
time of the file. A heartbeat has expired after interval x tolerable misses (Hudi's rule and options). The same file is the reservation of the
requested time: the writer creates the file with put-if-absent, before the requested file, and the body has the writer's nonce. A pending instant
without a heartbeat belongs to a Java writer without heartbeats; such an instant never counts as dead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.model.bounded_json import PROTOCOL_BYTES, parse_json
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.runtime.base import TimerHandle
from pyhudi_core.transaction import layout


@dataclass(slots=True)
class Pulse:
    """The time of the last beat, by the process's monotonic clock."""

    beat_s: float


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A running heartbeat."""

    path: str
    body: bytes
    handle: TimerHandle
    pulse: Pulse

    def is_young(self, context: TableContext) -> bool:
        """Say whether, by this process's clock, no other process can consider this writer dead now or soon."""
        age_ms = (context.runtime.clock.monotonic() - self.pulse.beat_s) * 1000
        return age_ms < _limit_ms(context) * 3 / 4

    def revive(self, context: TableContext) -> None:
        """Create the heartbeat file again, if another process removed the file because this process was paused and seemed dead.

        Without the file nobody would ever detect the death of the writer of an announced instant. A young heartbeat needs no look at the file.
        """
        if not self.is_young(context) and context.root.head(self.path) is None:
            context.root.put(self.path, self.body)

    def stop(self, context: TableContext) -> None:
        """Stop the heartbeat and remove the file."""
        self.handle.cancel()
        context.root.delete(self.path)


def body(context: TableContext, nonce: str) -> bytes:
    """Return the content of the reservation: who reserves the requested time."""
    return json.dumps({"nonce": nonce, "process": context.runtime.process.identity()}).encode()


def read(context: TableContext, requested_time: str) -> bytes:
    """Return the body of a heartbeat; empty if the file is gone."""
    return _content(context, layout.heartbeat(requested_time))


def _content(context: TableContext, path: str) -> bytes:
    try:
        return context.root.get(path)
    except ObjectNotFoundError:
        return b""


def start(context: TableContext, requested_time: str, content: bytes) -> Heartbeat:
    """Keep the heartbeat of a reserved time young, until the heartbeat is stopped."""
    return keep_young(context, layout.heartbeat(requested_time), content)


def keep_young(context: TableContext, path: str, content: bytes) -> Heartbeat:
    """Keep an existing file young, as `start` does. The file may be in another folder, and shows that this process lives."""
    interval_s = context.options.heartbeat.interval_ms / 1000
    clock = context.runtime.clock
    pulse = Pulse(clock.monotonic())

    def beat() -> None:
        # A rollback by another process removes the file; the file must not be created again.
        if context.root.head(path) is not None:
            now = clock.monotonic()
            context.root.put(path, content)
            pulse.beat_s = now

    timer = context.runtime.timer.every(interval_s, beat, f"heartbeat {path}")
    return Heartbeat(path, content, timer, pulse)


def is_dead(context: TableContext, instant: Instant, *, ask_storage: bool = False) -> bool:
    """Say whether the writer of a pending instant is known to be gone: its process ended on this host, or its heartbeat expired.

    The age of a heartbeat is its modification time in the storage, compared with the clock of this machine. The clock of this machine may be wrong.
    With ``ask_storage``, the age of an old heartbeat is also compared with the storage's clock, which needs the write of an object. A caller that
    only reads may omit ``ask_storage``. A rollback must use ``ask_storage``.
    """
    if not context.protections.heartbeat_before_rollback:
        return True
    return is_left(context, layout.heartbeat(instant.requested_time), ask_storage=ask_storage)


def is_left(context: TableContext, path: str, *, ask_storage: bool = False) -> bool:
    """Say whether the process that keeps this file young is known to be gone, as `is_dead` does; False if the file does not exist."""
    info = context.root.head(path)
    if info is None:
        return False
    limit = _limit_ms(context)
    expired = context.runtime.clock.now_ms() - info.modified_ms > limit
    if expired and (not ask_storage or storage_time_ms(context) - info.modified_ms > limit):
        return True
    try:
        writer = parse_json(_content(context, path) or b"{}", PROTOCOL_BYTES).get("process", "")
    except (ValueError, AttributeError, RecursionError):
        return False
    return bool(writer) and context.runtime.process.is_gone(str(writer))


def is_ours(context: TableContext, instant: Instant) -> bool:
    """Say whether a pending instant has a heartbeat that this package wrote. Hudi's heartbeats are empty."""
    try:
        return "nonce" in parse_json(read(context, instant.requested_time), PROTOCOL_BYTES)
    except (ValueError, TypeError, RecursionError):
        return False


def _limit_ms(context: TableContext) -> int:
    """Return the age at which a heartbeat has expired."""
    return context.options.heartbeat.expires_after_ms


def storage_time_ms(context: TableContext) -> int:
    """Return the time of the clock by which the storage dates its objects, in milliseconds since 1970. Writes an object, and deletes the object."""
    path = f"{layout.PRIVATE}/time/{context.runtime.ids.uuid()}"
    written = context.root.put(path, b"")
    context.root.delete(path)
    return written.modified_ms
