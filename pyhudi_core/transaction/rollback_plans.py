"""Which instants the rollbacks on a timeline name."""

from __future__ import annotations

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext


def names_rolled_back(context: TableContext, timeline: Timeline, since: str) -> frozenset[str]:
    """The requested times that rollbacks begun after ``since`` name, finished or not."""
    rollbacks = (i for i in timeline if i.action is Action.ROLLBACK and i.requested_time > since)
    named = (rolled_back_by(context, rollback.requested_time) for rollback in rollbacks)
    return frozenset(time for time in named if time is not None)


def rolled_back_by(context: TableContext, requested_time: str) -> str | None:
    """The instant that a rollback's plan names; None if the plan is gone (the rollback ended) or empty."""
    path = context.folder.file(Instant(requested_time, Action.ROLLBACK, State.REQUESTED))
    try:
        data = context.storage.get(path)
    except ObjectNotFoundError:
        return None
    plan = decode_record(data, "HoodieRollbackPlan", path=path) if data else {}
    return (plan.get("instantToRollback") or {}).get("commitTime")
