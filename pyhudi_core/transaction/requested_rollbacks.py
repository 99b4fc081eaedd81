"""Rollbacks on request. A rollback has one step or two. With two steps, one process decides the plan, and any process executes it.

After the decision, the write cannot commit. The heartbeat of a scheduled rollback is not renewed: if no process executes the plan before the
heartbeat expires, the next writer executes the plan, like the plan of a process that died.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyhudi_core.model.bounded_json import PROTOCOL_BYTES, parse_json
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, heartbeat
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.rollback import put_plan, resume, roll_back
from pyhudi_core.transaction.rollback_plans import names_rolled_back, rolled_back_by

_PLANS = {
    Action.COMPACTION: ("compaction", "compact LOCATION --execute --instant {time}"),
    Action.LOGCOMPACTION: ("log_compaction", "log-compact LOCATION --execute --instant {time}"),
    Action.CLUSTERING: ("clustering", "cluster LOCATION --execute --instant {time}"),
    Action.CLEAN: ("cleaning", "clean LOCATION --execute --instant {time}"),
    Action.INDEXING: ("indexing", "index LOCATION execute {time}"),
    Action.RESTORE: ("restore", "restore LOCATION --execute --instant {time}"),
}
_REMOVALS = {
    Action.CLUSTERING: "cluster LOCATION --cancel {time}",
    Action.INDEXING: "index LOCATION cancel {time}",
    Action.RESTORE: "restore LOCATION --cancel {time}",
}
_OF_OTHERS = "the program that began the rollback finishes it, Hudi with its next write"


def what_ends(instant: Instant) -> str:
    """Return, as part of a sentence, how to end a pending instant that is not a write. The text is empty for writes: writes are rolled back."""
    time, action = instant.requested_time, instant.action
    if action is Action.ROLLBACK:
        return _OF_OTHERS
    if action is Action.SAVEPOINT:
        return f"remove it with table.savepoints.delete('{time}')"
    if action not in _PLANS:
        return ""
    service, command = _PLANS[action]
    execute = f"execute it with table.{service}.execute('{time}') or `pyhudi {command.format(time=time)}`"
    if action not in _REMOVALS or (action is Action.RESTORE and instant.state is not State.REQUESTED):
        return execute
    return f"{execute}, or remove it with table.{service}.cancel('{time}') or `pyhudi {_REMOVALS[action].format(time=time)}`"


def schedule(context: TableContext, requested_time: str) -> Instant | None:
    """Decide the rollback of a pending write; return the pending rollback, or None if no such write is pending.

    The caller knows that the writer is dead.
    """
    transaction = begin.reserve(context, Action.ROLLBACK)
    try:
        victim = put_plan(transaction, requested_time)
        if victim is None:
            transaction.heartbeat.stop(context)
            return None
    except BaseException:
        transaction.heartbeat.handle.cancel()  # the heartbeat file expires
        raise
    transaction.heartbeat.handle.cancel()
    mark = {"nonce": transaction.nonce, "process": "", "scheduled": True}
    context.storage.put(transaction.heartbeat.path, json.dumps(mark).encode())
    return transaction.inflight


def is_free(context: TableContext, rollback: Instant) -> bool:
    """Say whether no living process executes the pending rollback: the rollback is only scheduled, or its process is dead."""
    try:
        body = parse_json(heartbeat.read(context, rollback.requested_time) or b"{}", PROTOCOL_BYTES)
    except (ValueError, RecursionError):
        body = {}
    return (isinstance(body, dict) and body.get("scheduled") is True) or heartbeat.is_dead(context, rollback)


def execute(context: TableContext, requested_time: str, gate: Gate | None = None) -> Instant | None:
    """Execute a pending rollback to its end. Return the write that was rolled back; None if no such write was left.

    Two processes may execute one plan: they do the same work twice, and both succeed.
    """
    timeline = context.folder.load()
    found = timeline.find(requested_time, Action.ROLLBACK)
    if found is None or not found.is_pending:
        return None
    time = rolled_back_by(context, requested_time)
    victim = timeline.find(time) if time else None
    ask_gate(gate, context, f"the rollback {requested_time}")
    resume(context, timeline, found)
    return victim if victim is not None and victim.is_pending else None


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Rollback:
    """The result of a request to roll a write back. The result is true if the write was rolled back, and false if no such write was pending.

    Attributes:
        of: the requested time of the write.
        instant: the completed rollback; None if there was nothing to roll back.
        reason: why there was nothing to roll back.
    """

    of: str
    instant: Instant | None = None
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is a rollback."""
        return self.instant is not None

    def __bool__(self) -> bool:
        return self.changed

    def __str__(self) -> str:
        return f"Rollback of {self.of}: {self.instant or 'nothing to roll back, ' + self.reason}"


def roll_back_on_request(context: TableContext, requested_time: str) -> Rollback:
    """Roll a pending write back, and return what was done. Raises as `roll_back`."""
    done = roll_back(context, requested_time)
    if done is not None:
        return Rollback(requested_time, done)
    timeline = context.folder.load()
    found = timeline.find(requested_time) or context.folder.archived(timeline, requested_time)
    if found is None:
        return Rollback(requested_time, reason="it is not on the timeline: rolled back already, or never there")
    if found.is_completed:
        return Rollback(
            requested_time,
            reason=f"the {found.action} has completed, and only pending writes are rolled back without completed=True",
        )
    return Rollback(requested_time, reason=_not_rolled_back(context, timeline, found))


def _not_rolled_back(context: TableContext, timeline: Timeline, found: Instant) -> str:
    """Say why a pending instant is not rolled back, and what to do instead."""
    ends = what_ends(found)
    if ends:
        return f"a pending {found.action} is not rolled back: {ends}"
    if found.requested_time in names_rolled_back(context, timeline.pending, found.requested_time):
        return f"another program rolls the {found.action} back, and has not ended: {_OF_OTHERS}"
    return f"a pending {found.action} is not rolled back"
