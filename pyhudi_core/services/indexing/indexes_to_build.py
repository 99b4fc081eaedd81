"""Find the partitions of the metadata table that an indexing would build (specification, "Indexing"): requested and missing ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyhudi_core.errors import CommitConflictError, CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.defined_indexes import needs_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, read_definitions
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexing_plan import IndexingPlan, decode
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.service import Refused
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write import non_blocking
from pyhudi_core.write.first_metadata import metadata_build
from pyhudi_core.write.states import load

_OF_FOOTERS = frozenset({names.FILES, names.COLUMN_STATS, names.PARTITION_STATS, names.BLOOM_FILTERS})
"""Partitions that are made from names and footers. Logs have no statistics, so they are not read for these partitions."""


def plan_indexing(
    context: TableContext,
    timeline: Timeline,
    asked: Sequence[str] | None,
    definitions: Sequence[IndexDefinition] = (),
) -> IndexingPlan:
    """Return what would be built now. ``asked``: the requested partitions; None for the partitions that the options name. ``definitions``:
    definitions of new indexes among them.

    Raises `InvalidOptionError` for a partition that this service does not build.
    """
    if asked is None and not context.options.metadata.enable:
        return IndexingPlan(
            why_not="no index is asked for: hoodie.metadata.enable is not set, and no partitions were named"
        )
    wanted = metadata_build.asked_for(context, asked, {item.name for item in definitions})
    config = reopened(context).config  # this process may have executed other plans since
    listed = config.metadata_partitions
    missing = {name: count for name, count in wanted.items() if name not in listed}
    if not missing:
        return IndexingPlan(why_not=f"the table lists {described(context, listed)} already")
    planned = pending_partitions(context, timeline)
    left = {name: count for name, count in missing.items() if name not in planned}
    if not left:
        times = sorted({planned[name] for name in missing})
        return IndexingPlan(why_not=f"{', '.join(missing)} is planned already ({', '.join(times)})")
    waits = [name for name in missing if name in planned and any(name in needs_of(one) for one in left)]
    if waits:
        return IndexingPlan(why_not=f"it needs {waits[0]}, which is planned already ({planned[waits[0]]})")
    if not len(timeline.commits):
        return IndexingPlan(why_not="the table has no commit yet; its first one can make the metadata table")
    why = metadata_build.why_unfit(config, wanted) or non_blocking.why_no_index(context.options, left)
    if why:
        return IndexingPlan(why_not=why, refused=Refused(metadata_build.refusal(context, why)))
    return IndexingPlan(left, newest(timeline), definitions=tuple(item for item in definitions if item.name in left))


def described(context: TableContext, partitions: Sequence[str]) -> str:
    """Return the names of existing partitions; for indexes on a column or an expression, with the column or expression."""
    path = reopened(context).config.index_defs_path
    of_columns = (names.SECONDARY_INDEX_PREFIX, names.EXPRESSION_INDEX_PREFIX)
    found = read_definitions(context.storage, path)
    defined = {item.name: str(item) for item in found if item.name.startswith(of_columns)}
    return ", ".join(defined.get(name, name) for name in partitions)


def of_table(context: TableContext, plan: IndexingPlan) -> IndexingPlan:
    """Return the plan with the number of the table's files and the bytes of rows to read. Only the figures of the plan need them."""
    if not plan:
        return plan
    files = [file for piece in load(context).view.all_slices() for file in piece.files]
    by_rows = bool(plan.partitions.keys() - _OF_FOOTERS)
    return replace(plan, files=len(files), size=sum(file.size for file in files) if by_rows else 0)


def newest(timeline: Timeline) -> str:
    """Return the requested time of the commit that completed last."""
    last = max(timeline.commits, key=lambda instant: instant.completion_time or instant.requested_time)
    return last.requested_time


def pending_partitions(context: TableContext, timeline: Timeline) -> dict[str, str]:
    """Return the partitions of pending plans, each with the requested time of its plan. An unreadable plan counts as empty."""
    found: dict[str, str] = {}
    for instant in timeline.pending:
        if instant.action is not Action.INDEXING:
            continue
        path = context.folder.file(Instant(instant.requested_time, instant.action, State.REQUESTED))
        try:
            work = decode(context.storage.get(path), path)
        except (ObjectNotFoundError, CorruptTimelineError):
            continue
        found |= dict.fromkeys(work.partitions, instant.requested_time)
    return found


def outdating(transaction: Transaction, plan: IndexingPlan) -> Outdating:
    """Return what makes a plan outdated: another process planned or built one of the partitions, or dropped one that they need."""
    return Outdating(also=partial(_refuse_built, transaction, plan))


def _refuse_built(transaction: Transaction, plan: IndexingPlan, found: Timeline) -> None:
    context = transaction.context
    listed = {*reopened(context).config.metadata_partitions}
    both = sorted((listed | pending_partitions(context, found).keys()) & plan.partitions.keys())
    lost = sorted({need for name in plan.partitions for need in needs_of(name)} - listed - plan.partitions.keys())
    if both or lost:
        raise CommitConflictError(
            f"Another process {'planned or built' if both else 'dropped'} {', '.join(both or lost)} at the same time",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was planned; plan again.",
        )
