"""Plan a compaction from a state of the table, and check the plan under the lock before it goes on the timeline.

A plan names the base file and the logs of each chosen file group. The logs are exactly those whose commits completed before the plan's requested
time. An earlier log that the plan does not name would be lost; a later log belongs to the slice after the compaction (``file_groups/slice.py``). The
reserved requested time is above all times on the timeline, and the plan is made from the timeline that the reservation read. So only a commit that
was being published at this moment can be missing. `outdating` detects such a commit under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.conflicts.concurrent import pending_plans, pending_restores
from pyhudi_core.conflicts.conflict import Group, Touched
from pyhudi_core.file_groups.skeletons import bootstrap_path
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.compaction.compaction_plan import CompactionOperation, CompactionPlan
from pyhudi_core.services.compaction.compaction_rules import chosen, trigger_of
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.rewriting import refusal_of, within
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.states import load


def plan_compaction(context: TableContext, timeline: Timeline, *, triggered: bool = False) -> CompactionPlan:
    """Return a plan for the state of the table at this timeline. With ``triggered``, the plan is empty unless the trigger of the options is reached.

    Reads listings and pending plans, and no data file. For a table that cannot be compacted, no error is raised: the plan has the reason.
    """
    if context.config.table_type is not TableType.MERGE_ON_READ:
        return CompactionPlan(why_not="the table is copy-on-write, so it has no log files")
    options = context.options.compaction
    now = context.now()
    trigger = trigger_of(timeline, options, now)
    if triggered and not trigger.due:
        return CompactionPlan(why_not=trigger.text)
    if pending_restores(timeline):
        return CompactionPlan(why_not="a restore is pending, so the content of the table is not known")
    snapshot = load(context, timeline)
    refused = refusal_of(context, snapshot, OperationType.COMPACT)
    if refused is not None:
        return CompactionPlan((), refused.error.message, trigger.text, trigger.due, refused=refused)
    found = _candidates(context, snapshot, timeline)
    wanted = chosen(found.free, options, now)
    taken = tuple(within(wanted, options.most_bytes, lambda operation: operation.base_bytes + operation.log_bytes))
    left, beyond = len(found.free) - len(wanted), len(wanted) - len(taken)
    reasons = [
        "no file group has log files" if not found.free and not found.planned else "",
        f"{found.planned} file groups with log files are in pending plans" if found.planned else "",
        f"the strategy {options.strategy} leaves {left} file groups with log files out" if left else "",
        f"{beyond} file groups are beyond the limit of this run" if beyond else "",
    ]
    return CompactionPlan(taken, "; ".join(filter(None, reasons)), trigger.text, trigger.due)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The slices with logs that no plan contains, and the number of file groups with logs in pending plans."""

    free: list[CompactionOperation]
    planned: int


def _candidates(context: TableContext, snapshot: Snapshot, timeline: Timeline) -> _Candidates:
    taken: frozenset[Group] = frozenset().union(*(groups for _, groups in pending_plans(context, timeline)))
    with_logs = [piece for piece in snapshot.view.all_slices() if piece.logs]
    free = [operation_of(context, piece) for piece in with_logs if piece.group not in taken]
    return _Candidates(free, len(with_logs) - len(free))


def operation_of(context: TableContext, piece: FileSlice) -> CompactionOperation:
    """Return the operation on a slice. Reads the bootstrap index if the base file is a skeleton."""
    rows = None if piece.base is None else bootstrap_path(context.storage, piece.base.path)
    return CompactionOperation(piece, context.options.files.max_size, rows)


def outdating(transaction: Transaction, plan: CompactionPlan) -> Outdating:
    """Return what makes a plan outdated: a planned file group has another slice at the requested time, or another plan."""

    def taken(instant: Instant, commit: CommitMetadata) -> frozenset[Group]:
        touched = Touched.by(commit)
        if commit.operation == OperationType.LOG_COMPACT:
            return touched.file_groups  # the new log holds the rows of the logs in the plan
        before = (instant.completion_time or instant.requested_time) < transaction.requested_time
        return touched.file_groups if before else touched.file_groups - touched.appended

    return Outdating(plan.groups, taken)
