"""Rollbacks in two steps: one process decides the plan, and any process executes it.

From the decision on the write cannot commit. The heartbeat of a scheduled rollback is not renewed: if no process executes the plan before the
heartbeat expires, the next writer does, as after a process that died.
"""

from __future__ import annotations

import json

from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.transaction import begin, heartbeat
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.rollback import put_plan, resume
from pyhudi_core.transaction.rollback_plans import rolled_back_by


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
        transaction.heartbeat.handle.cancel()  # the file expires
        raise
    transaction.heartbeat.handle.cancel()
    mark = {"nonce": transaction.nonce, "process": "", "scheduled": True}
    context.storage.put(transaction.heartbeat.path, json.dumps(mark).encode())
    return transaction.inflight


def is_free(context: TableContext, rollback: Instant) -> bool:
    """Whether no living process executes the pending rollback: it is scheduled, or its process is dead."""
    try:
        body = json.loads(heartbeat.read(context, rollback.requested_time) or b"{}")
    except (ValueError, RecursionError):
        body = {}
    return (isinstance(body, dict) and body.get("scheduled") is True) or heartbeat.is_dead(context, rollback)


def execute(context: TableContext, requested_time: str, gate: Gate | None = None) -> Instant | None:
    """Execute a pending rollback to its end; return the write that was rolled back, or None if there was nothing to roll back any more.

    Two processes that execute one plan do the same work twice, and both end well.
    """
    timeline = context.folder.load()
    found = timeline.find(requested_time, Action.ROLLBACK)
    if found is None or not found.is_pending:
        return None
    time = rolled_back_by(context.place, requested_time)
    victim = timeline.find(time) if time else None
    ask_gate(gate, context, f"the rollback {requested_time}")
    resume(context, timeline, found)
    return victim if victim is not None and victim.is_pending else None
