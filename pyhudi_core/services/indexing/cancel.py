"""Remove the plan of an indexing, what was built for it, and the definitions of its indexes.

The process registers as the plan's executor first. So no other process builds it at the same time, and one that sleeps cannot complete it.
The requested file goes after what was built: a process that dies here leaves a plan, which is executed or cancelled again. The definitions go after
the plan, which needs them; one that stays behind is used by no reader.
"""

from __future__ import annotations

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.model.instant import Instant
from pyhudi_core.services.indexing import planned_definitions
from pyhudi_core.services.indexing.indexing_decisions import IndexingDecisions
from pyhudi_core.services.indexing.indexing_plan import IndexingWork
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.home import reopened
from pyhudi_core.transaction.instant_removal import remove_instant
from pyhudi_core.transaction.plan_executors import Refusal


def cancel_plan(context: TableContext, plan: Instant, work: IndexingWork | None) -> bool:
    """Remove it. False if it has ended. Raises `CommitAbortedError` if a process executes it."""
    begun = plan_executors.begin_execution(context, plan, by_name=True)
    if isinstance(begun, Refusal):
        still = context.folder.load().find(plan.requested_time, plan.action)
        if still is None or still.is_completed:
            return False
        raise CommitAbortedError(
            f"The plan cannot be removed now: {begun.why_not}",
            table=context.table,
            instant=plan.requested_time,
            hint="Wait for that process, or end it, and try again.",
        )
    try:
        if work is not None:
            IndexingDecisions(begun, work.partitions).take_back(reopened(context))
        remove_instant(context.folder, plan.requested_time, (plan.action,))
    finally:
        begun.heartbeat.handle.cancel()
    plan_executors.forget(context, plan.requested_time)
    begun.heartbeat.stop(context)
    if work is not None:
        planned_definitions.forget(context, work.partitions)
    return True
