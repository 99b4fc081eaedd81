"""Plan a clustering from a state of the table, and check the plan under the lock before it goes on the timeline.

Plans are made from listings, commits and pending plans; no data file is opened. File groups in pending plans are left out. Under the lock
nothing may have touched a planned file group since the plan was made: a log file that is not in the plan would be lost with its file group.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import pending_plans, pending_restores
from pyhudi_core.conflicts.conflict import Group, Touched
from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError, ObjectNotFoundError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.choice import IndexType
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.clustering.plan import ClusteringGroup, ClusteringPlan, RowOrder, decode
from pyhudi_core.services.clustering.rules import Trigger, chosen_partitions, gains, groups_of, is_small, trigger_of
from pyhudi_core.services.rewriting import refuse_taken, unfit_because
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.indexing import has_consistent_hashing, is_bucketed
from pyhudi_core.write.states import load


def plan_clustering(context: TableContext, timeline: Timeline, *, triggered: bool = False) -> ClusteringPlan:
    """What to cluster in the state of a timeline. ``triggered``: nothing, unless the trigger of the options says that it is due.

    Raises `InvalidOptionError` for sort columns that the table does not have or that have no order. A table that cannot be clustered raises nothing:
    the plan says why.
    """
    options = context.options.clustering
    trigger = _trigger(context, timeline)
    if triggered and not trigger.due:
        return ClusteringPlan(why_not=trigger.text)
    if pending_restores(timeline):
        return ClusteringPlan(why_not="a restore is pending, so the content of the table is not known")
    snapshot = load(context, timeline)
    # The table does not store that it has buckets, and this handle may be without the option.
    named = context.options.index.type == IndexType.BUCKET
    if named or is_bucketed(snapshot) or has_consistent_hashing(context):
        return ClusteringPlan(why_not="its file groups are buckets, which keep their keys")
    unfit = unfit_because(context, snapshot)
    if unfit is not None:
        return ClusteringPlan(why_not=unfit)
    order = RowOrder(options.order, options.layout)
    refuse_unsortable(snapshot.schema, order)
    found = _Candidates.of(context, snapshot, timeline, order)
    taken = found.groups[: options.max_groups]
    left = len(found.groups) - len(taken)
    reasons = [
        "no file is small enough, or a rewrite would change nothing" if not found.groups and not found.planned else "",
        f"{found.planned} small file groups are in pending plans" if found.planned else "",
        f"{left} groups are left for the next plan" if left else "",
    ]
    why_not = "; ".join(filter(None, reasons))
    return ClusteringPlan(tuple(taken), order, why_not, trigger.text, trigger.due, context.table)


def refuse_unsortable(schema: pa.Schema, order: RowOrder) -> None:
    """Raise `InvalidOptionError` unless each sort column is there and its values have an order."""
    known = with_meta_fields(schema)
    for name in order.columns:
        if name not in known.names or pa.types.is_nested(known.field(name).type):
            what = "is not a column of the table" if name not in known.names else "has values without an order"
            raise InvalidOptionError(
                f"hoodie.clustering.plan.strategy.sort.columns: {name!r} {what}",
                hint=f"Give some of {', '.join(name for name in schema.names if not pa.types.is_nested(schema.field(name).type))}",
            )


def refuse_outdated(transaction: Transaction, plan: ClusteringPlan, found: Timeline) -> None:
    """Under the lock: raise `CommitConflictError` if a planned file group was changed or planned since the plan was made."""
    refuse_taken(transaction, plan.file_groups, found, lambda _, commit: Touched.by(commit).file_groups)


class _Candidates:
    """The groups that could be clustered, and how many small file groups are in pending plans."""

    def __init__(self, groups: list[ClusteringGroup], planned: int) -> None:
        self.groups = groups
        self.planned = planned

    @classmethod
    def of(cls, context: TableContext, snapshot: Snapshot, timeline: Timeline, order: RowOrder) -> _Candidates:
        options, size = context.options.clustering, context.options.files.max_size
        taken: frozenset[Group] = frozenset().union(*(groups for _, groups in pending_plans(context, timeline)))
        made = _Layouts(context, timeline, order)
        groups: list[ClusteringGroup] = []
        planned = 0
        partitions = chosen_partitions(snapshot.view.partitions(), options)
        snapshot.view.prepare(partitions)
        for partition in partitions:
            small = [piece for piece in snapshot.view.slices(partition) if is_small(piece, options)]
            free = [piece for piece in small if piece.group not in taken]
            planned += len(small) - len(free)
            groups += [group for group in groups_of(free, options, size) if gains(group, order, made.laid_out)]
        return cls(groups, planned)


class _Layouts:
    """Which clusterings of the timeline have made files in the wanted order."""

    def __init__(self, context: TableContext, timeline: Timeline, order: RowOrder) -> None:
        self._context = context
        self._order = order
        self._replacing = {i.requested_time for i in timeline.commits if i.action is Action.REPLACECOMMIT}
        self._has_order = cache(self._find_order)

    def laid_out(self, piece: FileSlice) -> str | None:
        """As `clustering_rules.LaidOut`."""
        time = piece.requested_time
        return time if time in self._replacing and self._has_order(time) else None

    def _find_order(self, requested_time: str) -> bool:
        path = self._context.folder.file(Instant(requested_time, Action.CLUSTERING, State.REQUESTED))
        try:
            return decode(self._context.storage.get(path), path).order == self._order
        except (ObjectNotFoundError, CorruptTimelineError):
            return False  # an overwrite, or the clustering of a program that keeps no plan, or one that this package would not execute


def _trigger(context: TableContext, timeline: Timeline) -> Trigger:
    planned = [i.requested_time for i in timeline.pending if i.action is Action.CLUSTERING]
    for instant in reversed(timeline.commits.instants):
        if (
            instant.action is Action.REPLACECOMMIT
            and context.folder.read_commit(instant).operation == OperationType.CLUSTER
        ):
            planned.append(instant.requested_time)
            break
    times = (i.requested_time for i in timeline.commits)
    return trigger_of(times, max(planned, default=None), context.options.clustering.max_commits)
