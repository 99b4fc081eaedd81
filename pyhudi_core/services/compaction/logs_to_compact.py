"""Plan a log compaction from a state of the table: select the file groups with many logs since their last log compaction.

As for a compaction, a plan names all logs whose commits completed before its requested time (``services/compaction/slices_to_compact.py``). Logs are
counted by their names and commits; no data file is opened. Hudi counts blocks, and a log has one or more.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.conflicts.concurrent import pending_plans, pending_restores
from pyhudi_core.conflicts.conflict import Group
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.compaction.compaction_plan import CompactionPlan
from pyhudi_core.services.compaction.slices_to_compact import operation_of
from pyhudi_core.services.rewriting import refusal_of
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.states import load

UNMERGED_KEY = "pyhudi.log_compaction.unmerged"
"""A key in the extra metadata of a log compaction. The value has the ids of the file groups that could not be compacted."""


def plan_log_compaction(context: TableContext, timeline: Timeline) -> CompactionPlan:
    """Return a plan with every file group that has at least ``hoodie.log.compaction.blocks.threshold`` logs at this timeline.

    For a table whose logs cannot be compacted, no error is raised: the plan has the reason.
    """
    config = context.config
    if config.table_type is not TableType.MERGE_ON_READ:
        return CompactionPlan(why_not="the table is copy-on-write, so it has no log files", log_only=True)
    if config.merges_values:
        why_not = "a merger makes the table's rows, and would meet the rows of the logs twice"
        return CompactionPlan(why_not=why_not, log_only=True)
    if pending_restores(timeline):
        why_not = "a restore is pending, so the content of the table is not known"
        return CompactionPlan(why_not=why_not, log_only=True)
    snapshot = load(context, timeline)
    refused = refusal_of(context, snapshot, OperationType.LOG_COMPACT)
    if refused is not None:
        return CompactionPlan((), refused.error.message, due=True, log_only=True, refused=refused)
    threshold = context.options.compaction.log_threshold
    compacted = _log_compactions(context, timeline)
    many = [piece for piece in snapshot.view.all_slices() if _count(piece, compacted) >= threshold]
    due = [piece for piece in many if not _is_unmerged(piece, compacted)]
    taken: frozenset[Group] = frozenset().union(*(groups for _, groups in pending_plans(context, timeline)))
    free = [operation_of(context, piece) for piece in due if piece.group not in taken]
    trigger = f"{len(due)} file groups with at least {threshold} log files"
    reasons = [
        "" if many else f"no file group has {threshold} log files since the last log compaction",
        f"{len(many) - len(due)} file groups have partial updates in their logs" if len(many) > len(due) else "",
        f"{len(due) - len(free)} file groups are in pending plans" if len(due) > len(free) else "",
    ]
    return CompactionPlan(tuple(free), "; ".join(filter(None, reasons)), trigger, bool(free), log_only=True)


def _log_compactions(context: TableContext, timeline: Timeline) -> dict[str, frozenset[str]]:
    """Return the log compactions on the active timeline by requested time, each with the ids of the file groups that could not be compacted."""
    deltas = (instant for instant in timeline.commits if instant.action is Action.DELTACOMMIT)
    commits = {instant.requested_time: context.folder.read_commit(instant) for instant in deltas}
    return {
        time: frozenset(filter(None, commit.extra.get(UNMERGED_KEY, "").split(",")))
        for time, commit in commits.items()
        if OperationType.of(commit.operation) is OperationType.LOG_COMPACT
    }


def _count(piece: FileSlice, compacted: Mapping[str, frozenset[str]]) -> int:
    """Return how many logs a reader merges: the log of the last log compaction, and later ones."""
    times = [log.name.requested_time for log in piece.logs]
    last = max((number for number, time in enumerate(times) if time in compacted), default=0)
    return len(times) - last


def _is_unmerged(piece: FileSlice, compacted: Mapping[str, frozenset[str]]) -> bool:
    """Say whether a log compaction of this slice has found that its logs cannot be merged."""
    return any(piece.file_id in left and time > piece.requested_time for time, left in compacted.items())
