"""Early conflict detection: a write stops before it has written all its files if the markers of another write show a conflict.

Hudi's ``hoodie.write.concurrency.early.conflict.detection.enable`` with direct markers. If two running writes rewrite one file group, the write with
the greater requested time stops when it makes the marker of that group. It first makes its own marker, and then looks for the other marker. So of two
simultaneous writes, at least one sees the other. A write that has ended, or whose heartbeat has expired, stops no other.

Early detection saves work. Safety comes from the commit, which finds every conflict that is missed here.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Touched
from pyhudi_core.conflicts.explanation import of_conflict
from pyhudi_core.errors import EarlyConflictError
from pyhudi_core.model.file_names import join
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant, State, is_time
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.runtime.base import Clock
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, layout, markers


@dataclass(frozen=True, slots=True)
class EarlyCheck:
    """The input of the check in a task; it is sent to Spark's workers.

    Attributes:
        rivals: requested times of older writes that were running when this write was planned.
        limit_ms: age at which a heartbeat has expired.
    """

    rivals: tuple[str, ...]
    limit_ms: int

    def refuse(self, storage: Storage, clock: Clock, partition: str, file_id: str) -> None:
        """Raise `EarlyConflictError` if a rival has announced the file group. Call it after the write's own marker exists."""
        group = join(partition, file_id)
        names = (group, join(partition, f".{file_id}"))  # the names of log files begin with a dot
        for rival in self.rivals:
            announced = any(storage.list(f"{layout.markers(rival)}/{name}_") for name in names)
            if announced and self._counts(storage, clock, rival):
                raise EarlyConflictError(
                    f"The write {rival}, which began earlier, is rewriting the same file group",
                    path=group,
                    instant=rival,
                    hint="Nothing was published; write again when the other write has ended.",
                )

    def _counts(self, storage: Storage, clock: Clock, rival: str) -> bool:
        """Return whether the rival is running, or has committed a moment ago; its markers are removed last."""
        beat = storage.head(layout.heartbeat(rival))
        return beat is None or clock.now_ms() - beat.modified_ms <= self.limit_ms


def early_check(context: TableContext, start: Timeline, own: str) -> EarlyCheck | None:
    """Return the check for a write that is planned from ``start``; None without an older write."""
    reserved = (info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/"))
    pending = {i.requested_time: i for i in start.pending if i.action in WRITE_ACTIONS}
    times = sorted(time for time in {*reserved, *pending} if is_time(time) and time < own)
    living = tuple(time for time in times if not heartbeat.is_dead(context, pending.get(time) or _unknown(time)))
    limit = context.options.heartbeat.expires_after_ms
    return EarlyCheck(living, limit) if living else None


def _unknown(time: str) -> Instant:
    """Return a write that so far has only reserved its time."""
    return Instant(time, Action.COMMIT, State.REQUESTED)


def stopped(
    context: TableContext, own: str, operation: str, found: EarlyConflictError, planned_bytes: float
) -> EarlyConflictError:
    """Return the error for the caller: with the conflict, the written bytes, and the bytes that were not written.

    ``planned_bytes`` is the estimated size of the attempt.
    """
    rival = found.instant or ""
    partition, _, file_id = (found.path or "").rpartition("/")
    written = 0
    for path in markers.announced(context.storage, own):
        info = context.storage.head(path)
        written += info.size if info is not None else 0
    conflict = Conflict(ConflictKind.EARLY, _unknown(rival), ((partition, file_id),), (partition,))
    mine = Touched(frozenset({(partition, file_id)}), frozenset(), frozenset(), OperationType.of(operation))
    saved = max(0, round(planned_bytes) - written)
    error = EarlyConflictError(
        f"{found.message}; this one stopped after {written:,} bytes and left about {saved:,} unwritten",
        conflict=conflict,
        explanation=of_conflict(own, mine, conflict),
        table=context.table,
        path=found.path,
        instant=own,
        hint=found.hint,
    )
    error.bytes_written, error.bytes_saved = written, saved
    return error
