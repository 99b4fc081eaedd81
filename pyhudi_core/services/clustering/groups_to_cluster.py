"""Plan a clustering from a state of the table, and check the plan under the lock before it goes on the timeline.

The plan strategy chooses the slices that are rewritten together (the rules below, and `buckets`). With consistent hashing, a partition has at most
one planned clustering at a time, because each clustering changes the ranges of hashes.

Plans are made from listings, commits and pending plans; no data file is opened. File groups in pending plans are omitted. Under the lock, no planned
file group may have changed since the plan was made: a log file that is not in the plan would be lost with its file group.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import conflict_error, pending_plans, pending_restores
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group
from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError, ObjectNotFoundError
from pyhudi_core.file_groups.skeletons import may_be_skeleton
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.choice import IndexType
from pyhudi_core.index.hash_ranges import has_consistent_hashing, ranges_of
from pyhudi_core.model.file_names import new_file_prefix
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.clustering import (
    COMMIT_BASED,
    CONSISTENT_BUCKET,
    SINGLE_FILE_SORT,
    SIZE_BASED,
    ClusteringOptions,
)
from pyhudi_core.services.clustering.buckets import BucketLimits, bucket_groups
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup, ClusteringPlan, RowOrder, decode
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.rewriting import refusal_of, within
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.indexing import is_bucketed
from pyhudi_core.write.states import load


def plan_clustering(context: TableContext, timeline: Timeline, *, triggered: bool = False) -> ClusteringPlan:
    """Return a plan for the state of the table at this timeline. With ``triggered``, the plan is empty unless the trigger of the options is reached.

    Raises `InvalidOptionError` for sort columns that the table does not have or that have no order. For a table that cannot be clustered, no error is
    raised: the plan has the reason.
    """
    options = context.options.clustering
    trigger = _trigger(context, timeline)
    if triggered and not trigger.due:
        return ClusteringPlan(why_not=trigger.text)
    if pending_restores(timeline):
        return ClusteringPlan(why_not="a restore is pending, so the content of the table is not known")
    snapshot = load(context, timeline)
    consistent = has_consistent_hashing(context)
    kind = options.plan_strategy or (CONSISTENT_BUCKET if consistent else SIZE_BASED)
    why_not = _of_other_kind(context, snapshot, kind, consistent=consistent)
    if why_not is not None:
        return ClusteringPlan(why_not=why_not, kind=kind)
    refused = refusal_of(context, snapshot, OperationType.CLUSTER)
    if refused is not None:
        why_not = refused.error.message
        return ClusteringPlan(why_not=why_not, trigger=trigger.text, due=trigger.due, kind=kind, refused=refused)
    order = RowOrder(options.order, options.layout)
    refuse_unsortable(snapshot.schema, order)
    found = candidates(context, snapshot, timeline, order, kind)
    taken = within(found.groups, options.most_bytes, lambda group: group.size)[: options.max_groups]
    left = len(found.groups) - len(taken)
    nothing = _NOTHING[CONSISTENT_BUCKET if kind == CONSISTENT_BUCKET else SIZE_BASED]
    reasons = [
        nothing if not found.groups and not found.planned else "",
        f"{found.planned} file groups are in pending plans" if found.planned else "",
        f"{left} groups are left for the next plan" if left else "",
    ]
    why_not = "; ".join(filter(None, reasons))
    checkpoint = (
        "" if left or found.planned else found.checkpoint
    )  # without a checkpoint, the next plan considers the omitted groups again
    return ClusteringPlan(tuple(taken), order, why_not, trigger.text, trigger.due, context.table, kind, checkpoint)


_NOTHING = {
    SIZE_BASED: "no file is small enough, or a rewrite would change nothing",
    CONSISTENT_BUCKET: "no bucket is to be split or merged, or has rows in another order",
}


def _of_other_kind(context: TableContext, snapshot: Snapshot, kind: str, *, consistent: bool) -> str | None:
    """Say why plans of this kind cannot cluster the table; None if they can."""
    if consistent:
        return None if kind == CONSISTENT_BUCKET else f"it has consistent hashing, and plans of {kind} know no buckets"
    # The table does not store that it has buckets, and this handle may lack the option.
    if context.options.index.type == IndexType.BUCKET or is_bucketed(snapshot):
        return "its file groups are buckets, which keep their keys"
    return "it has no consistent hashing, so no buckets are split or merged" if kind == CONSISTENT_BUCKET else None


def refuse_unsortable(schema: pa.Schema, order: RowOrder) -> None:
    """Raise `InvalidOptionError` unless each sort column exists and its values have an order."""
    known = with_meta_fields(schema)
    for name in order.columns:
        if name not in known.names or pa.types.is_nested(known.field(name).type):
            what = "is not a column of the table" if name not in known.names else "has values without an order"
            raise InvalidOptionError(
                f"hoodie.clustering.plan.strategy.sort.columns: {name!r} {what}",
                hint=f"Give some of {', '.join(name for name in schema.names if not pa.types.is_nested(schema.field(name).type))}",
            )


def outdating(transaction: Transaction, plan: ClusteringPlan) -> Outdating:
    """Return what makes a plan outdated: another process changed or planned one of its file groups, or the ranges of hashes of its partition."""
    ranges = partial(_refuse_other_ranges, transaction, plan) if plan.kind == CONSISTENT_BUCKET else None
    return Outdating(plan.file_groups, also=ranges)


def _refuse_other_ranges(transaction: Transaction, plan: ClusteringPlan, found: Timeline) -> None:
    """Raise `CommitConflictError` if another clustering has changed, or will change, ranges of hashes of the plan's partitions."""
    context, time = transaction.context, transaction.requested_time
    seen = concurrent.since(context, transaction.start, found, time)
    mine = {partition for partition, _ in plan.file_groups}
    changed = [(instant, commit.replaced) for instant, commit in seen.completed]
    planned = [(plan, groups) for plan, groups in seen.plans if plan.action is Action.CLUSTERING]
    others = [(instant, set(replaced)) for instant, replaced in changed]
    others += [(instant, {partition for partition, _ in groups}) for instant, groups in planned]
    for instant, partitions in others:
        if mine & partitions:
            places = tuple(sorted(mine & partitions))
            conflict = Conflict(ConflictKind.PENDING_CLUSTERING, instant, (), places, OperationType.CLUSTER)
            raise conflict_error(context, conflict, time)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The slices that could be clustered, and the number of file groups in pending plans.

    ``checkpoint``: the last commit that a commit-based plan considered.
    """

    groups: list[ClusteringGroup]
    planned: int
    checkpoint: str = ""


def candidates(context: TableContext, snapshot: Snapshot, timeline: Timeline, order: RowOrder, kind: str) -> Candidates:
    """Return the slices that a plan of this kind could take."""
    options, size = context.options.clustering, context.options.files.max_size
    plans = pending_plans(context, timeline)
    taken: frozenset[Group] = frozenset().union(*(groups for _, groups in plans))
    made = _OrderedClusterings(context, timeline, order)
    since = written_since(context, timeline) if kind == COMMIT_BASED else None
    buckets = _Buckets(context, snapshot, plans) if kind == CONSISTENT_BUCKET else None
    groups: list[ClusteringGroup] = []
    planned = 0
    partitions = chosen_partitions(snapshot.view.partitions(), options)
    snapshot.view.prepare(partitions)
    for partition in partitions:
        wanted = [
            piece
            for piece in snapshot.view.slices(partition)
            if not may_be_skeleton(piece.path)  # the size of the slice says nothing about its rows
            and (piece.group in since.groups if since is not None else buckets is not None or is_small(piece, options))
        ]
        free = [piece for piece in wanted if piece.group not in taken]
        planned += len(wanted) - len(free)
        if buckets is not None:
            found = buckets.groups(
                partition, free, lambda one: bool(order.columns) and gains(one, order, made.clustering_of)
            )
        elif kind == SINGLE_FILE_SORT:
            found = [ClusteringGroup((piece,), 1, size) for piece in free]
        else:
            found = groups_of(free, options, size)
        groups += [group for group in found if group.children or gains(group, order, made.clustering_of)]
    return Candidates(groups, planned, since.last if since is not None else "")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Chooses the buckets of consistent hashing to split, merge or sort. ``plans`` are the pending plans."""

    context: TableContext
    snapshot: Snapshot
    plans: Sequence[tuple[Instant, frozenset[Group]]]

    def groups(
        self, partition: str, free: list[FileSlice], gains_alone: Callable[[ClusteringGroup], bool]
    ) -> list[ClusteringGroup]:
        """Return the groups of a partition; none if a clustering of the partition is planned."""
        context, options = self.context, self.context.options
        if any(
            path == partition for plan, found in self.plans if plan.action is Action.CLUSTERING for path, _ in found
        ):
            return []
        ring = ranges_of(context, self.snapshot, partition)
        if ring is None:
            return []
        size, limits = options.files.max_size, BucketLimits.of(options.index, options.files)

        def gains_order(piece: FileSlice) -> bool:
            return is_small(piece, options.clustering) and gains_alone(ClusteringGroup((piece,), 1, size))

        return bucket_groups(ring, free, limits, gains_order, partial(new_file_prefix, context.runtime.ids.uuid), size)


@dataclass(frozen=True, slots=True)
class WrittenSince:
    """The file groups that commits after a given one wrote, and the requested time of the last of these commits."""

    groups: frozenset[Group]
    last: str


def written_since(context: TableContext, timeline: Timeline) -> WrittenSince:
    """Return the input of a commit-based plan: the commits after the commit of the options, or after the last commit that an earlier plan considered.

    Only commits of the active timeline are read. File groups that clusterings and overwrites have written are omitted, as in Hudi 1.2.
    """
    first = context.options.clustering.earliest_commit
    if first is None:
        first = _last_checkpoint(context, timeline)
    groups: set[Group] = set()
    last = first
    running = min((i.requested_time for i in timeline.pending if i.action in DATA_ACTIONS), default=None)
    for instant in sorted(timeline.commits, key=lambda instant: instant.requested_time):
        if instant.requested_time <= first or instant.action is Action.REPLACECOMMIT:
            continue
        commit = context.folder.read_commit(instant)
        groups.update((stat.partition, stat.file_id) for stat in commit.stats)
        if (
            running is None or instant.requested_time < running
        ):  # a running write may complete with an earlier requested time
            last = instant.requested_time
    return WrittenSince(frozenset(groups), last)


def _last_checkpoint(context: TableContext, timeline: Timeline) -> str:
    """Return the last commit that the newest commit-based plan on the timeline has considered; empty if there is no such plan."""
    plans = [i for i in timeline if i.action in (Action.CLUSTERING, Action.REPLACECOMMIT)]
    for instant in sorted(plans, key=lambda instant: instant.requested_time, reverse=True):
        path = context.folder.file(Instant(instant.requested_time, Action.CLUSTERING, State.REQUESTED))
        try:
            checkpoint = decode(context.storage.get(path), path).checkpoint
        except (ObjectNotFoundError, CorruptTimelineError):
            continue  # an overwrite, or a plan that this package would not execute
        if checkpoint:
            return checkpoint
    return ""


class _OrderedClusterings:
    """The clusterings of the timeline that wrote files in the wanted order."""

    def __init__(self, context: TableContext, timeline: Timeline, order: RowOrder) -> None:
        self._context = context
        self._order = order
        self._replacing = {i.requested_time for i in timeline.commits if i.action is Action.REPLACECOMMIT}
        self._has_order = cache(self._find_order)

    def clustering_of(self, piece: FileSlice) -> str | None:
        """Return the requested time of the clustering that wrote a slice in the wanted order; None if no such clustering is known."""
        time = piece.requested_time
        return time if time in self._replacing and self._has_order(time) else None

    def _find_order(self, requested_time: str) -> bool:
        path = self._context.folder.file(Instant(requested_time, Action.CLUSTERING, State.REQUESTED))
        try:
            return decode(self._context.storage.get(path), path).order == self._order
        except (ObjectNotFoundError, CorruptTimelineError):
            return (
                False  # it is an overwrite, or its plan is missing, or is of a kind that this package does not execute
            )


def _trigger(context: TableContext, timeline: Timeline) -> ClusteringTrigger:
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


# --- The functions below are pure. They decide when a clustering is due, and which slices it rewrites together: Hudi's trigger, partition filters
# and size-based groups, with Hudi's options. They follow the specification, "Re-writing", and the rules of release 1.0.2, with one difference: a
# group is omitted if its rewrite would change nothing (`gains`). Hudi rewrites the last small file of a partition again and again.

ClusteringOf = Callable[[FileSlice], str | None]
"""Returns the requested time of the clustering that wrote a slice in the wanted order; None if no such clustering is known."""


@dataclass(frozen=True, slots=True)
class ClusteringTrigger:
    """Whether a clustering is due, and the figures that decide it."""

    due: bool
    text: str


def trigger_of(requested_times: Iterable[str], last: str | None, most: int) -> ClusteringTrigger:
    """Count the completed commits (their requested times) since the requested time of the last clustering, including a planned one."""
    since = sum(1 for time in requested_times if last is None or time > last)
    return ClusteringTrigger(since >= most, f"{since} of {most} commits since the last clustering")


def chosen_partitions(partitions: Iterable[str], options: ClusteringOptions) -> list[str]:
    """Return the partitions that the options select. Raises `InvalidOptionError` for a pattern that is not a regular expression."""
    found = sorted(partitions)
    if options.partitions is not None:
        named = {name.strip() for name in options.partitions.split(",")}
        found = [path for path in found if path in named]
    elif options.partition_pattern is not None:
        try:
            pattern = re.compile(options.partition_pattern)
        except re.error as error:
            raise InvalidOptionError(
                f"hoodie.clustering.plan.strategy.partition.regex.pattern is no regular expression: {error}",
                hint="Give a pattern that matches whole partition paths, such as day=2026-01-.*",
            ) from error
        found = [path for path in found if pattern.fullmatch(path)]
    if options.partition_filter == "RECENT_DAYS":
        newest = found[::-1][options.skipped_partitions :]
        return newest[: options.recent_partitions]
    if options.partition_filter == "SELECTED_PARTITIONS":
        first, last = options.first_partition or "", options.last_partition or ""
        return [path for path in found if first <= path <= last]
    return found


def is_small(piece: FileSlice, options: ClusteringOptions) -> bool:
    """Say whether the base file is so small that the slice is to be clustered."""
    return (0 if piece.base is None else piece.base.size) < options.small_limit


def groups_of(slices: Sequence[FileSlice], options: ClusteringOptions, default_bytes: int) -> list[ClusteringGroup]:
    """Return groups of the slices of one partition, the largest slices first. A slice without a base file counts as ``default_bytes``."""

    def size_of(piece: FileSlice) -> int:
        return default_bytes if piece.base is None else piece.base.size

    def made(pieces: list[FileSlice]) -> ClusteringGroup:
        outputs = max(1, math.ceil(sum(map(size_of, pieces)) / options.target_size))
        return ClusteringGroup(tuple(pieces), outputs, default_bytes)

    found: list[ClusteringGroup] = []
    current: list[FileSlice] = []
    size = 0
    for piece in sorted(slices, key=lambda piece: (-size_of(piece), piece.file_id)):
        if current and size + size_of(piece) > options.group_bytes:
            found.append(made(current))
            current, size = [], 0
            if len(found) >= options.max_groups:
                return found
        current.append(piece)
        size += size_of(piece)
    if len(current) > 1 or (current and (options.single_groups or options.order)):
        found.append(made(current))
    return found


def gains(group: ClusteringGroup, order: RowOrder, clustering_of: ClusteringOf) -> bool:
    """Return whether a rewrite has an effect: fewer files, merged logs, or another order of the rows."""
    if group.outputs < len(group.slices) or any(piece.logs for piece in group.slices):
        return True
    if not order.columns:
        return False
    made_by = {clustering_of(piece) for piece in group.slices}
    return len(made_by) > 1 or None in made_by
