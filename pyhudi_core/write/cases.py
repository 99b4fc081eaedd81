"""Read from the table the facts that the rules of ``write/refusals.py`` need. All reads for rules are here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import restore_error
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.file_groups.listing import list_folders
from pyhudi_core.index.base import TAG_FILE_ID
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.index.hashing_metadata import has_partition_numbers
from pyhudi_core.metadata_table import names
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import INSERTING, REPLACING, OperationType
from pyhudi_core.model.schema import reconcile
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.at_once import Ahead
from pyhudi_core.storage.own_part import other_tables
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.column_numbers import ColumnsThen
from pyhudi_core.write.indexing import asks_index, is_bucketed, known_buckets, listed
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.non_blocking import is_non_blocking
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.refusals import ALTER, Case

OtherTables: TypeAlias = tuple[frozenset[str], Ahead[list[str]]]
"""Partitions, and the other tables in their folders."""

_PLANS = {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.INDEXING}


def of_call(
    context: TableContext, operation: OperationType, *, partial: bool = False, allow_empty: bool = False
) -> Case:
    """Return the facts that are known before the state of the table is read."""
    return Case(
        operation=operation,
        table=context.table,
        config=context.config,
        options=context.options,
        partial=partial,
        allow_empty=allow_empty,
    )


def in_state(case: Case, context: TableContext, snapshot: Snapshot) -> Case:
    """Return the case in a state of the table."""
    by_index = case.gives == "rows" and asks_index(context, case.operation, snapshot)
    case = replace(
        case,
        restore=restore_error(context, snapshot.timeline),
        plan=plan_error(context, snapshot.timeline) if case.operation is ALTER else None,
        record_index=metadata_update.needs_keys(context.config),
    )
    return _with_buckets(case, context, snapshot, by_index=by_index)


def _with_buckets(case: Case, context: TableContext, snapshot: Snapshot, *, by_index: bool) -> Case:
    """Return the case with the facts about buckets. Folders are listed only if the operation needs them."""
    looks = by_index or case.operation in REPLACING or is_non_blocking(case.options)
    consistent = looks and has_consistent_hashing(context, snapshot)
    case = replace(case, loaded=True, by_index=by_index, bucketed=is_bucketed(snapshot), consistent=consistent)
    if not case.hashes:
        return case
    own = not case.becomes_consistent and has_partition_numbers(context.storage)
    return replace(case, own_numbers=own, known_buckets=known_buckets(snapshot) or "")


def at_begin(
    context: TableContext, operation: OperationType, schema: pa.Schema | None = None, *, removes: bool = False
) -> Case:
    """Return the facts that an attempt knows before its instant is announced: whether it can update the metadata table with these columns.

    ``removes``: the attempt removes the metadata table from the table's properties.
    """
    case = replace(of_call(context, operation), removes=removes)
    if schema is None:
        return replace(case, unkept=metadata_update.why_unkept_now(context))
    return replace(case, undefined=metadata_update.why_undefined_now(context, schema))


def in_attempt(
    context: TableContext,
    operation: OperationType,
    snapshot: Snapshot,
    prepared: Prepared,
    then: ColumnsThen | None,
    others: OtherTables | None = None,
) -> Case:
    """Return the facts about the rows of an attempt, in the state from which it began. ``then``: the columns for which the rows were prepared.

    ``others`` as `tables_in_new_partitions` has returned it.
    """
    case = replace(
        of_call(context, operation),
        moved=operation is not OperationType.DELETE and _moved(prepared.schema, then, snapshot),
        logs=_logs(snapshot, prepared.volumes) if operation in INSERTING else "",
        foreign=_foreign(context, snapshot, prepared.volumes, others),
        record_index=listed(context, snapshot, names.RECORD_INDEX) is not None,
    )
    is_tagged = TAG_FILE_ID in prepared.rows.schema.names  # the rows were found in their file groups
    return _with_buckets(case, context, snapshot, by_index=not is_tagged and asks_index(context, operation, snapshot))


def of_service(context: TableContext, operation: OperationType, snapshot: Snapshot) -> Case:
    """Return the facts that a service knows of the table, before it plans and when it begins."""
    unkept = metadata_update.why_unkept_now(context)
    undefined = "" if unkept else metadata_update.why_undefined_now(context, snapshot.schema)
    consistent = operation is OperationType.CLUSTER and has_consistent_hashing(context)
    case = of_call(context, operation)
    return replace(case, unkept=unkept, undefined=undefined, consistent=consistent, by_index=consistent)


def plan_error(context: TableContext, found: Timeline) -> CommitConflictError | None:
    """Return the error for a change of columns while a plan is pending; None without a plan."""
    plan = next((pending for pending in found.pending if pending.action in _PLANS), None)
    if plan is None:
        return None
    operation = OperationType.of(plan.action)
    return CommitConflictError(
        f"The {plan.action} {plan.requested_time} is pending, and its files would have other columns than their time says",
        conflict=Conflict(ConflictKind.OPERATION, plan, operation=operation, verdict=Verdict.ABORT),
        table=context.table,
        hint="Run it first (table.compaction.run(), table.clustering.run() or table.indexing.run()), then alter again. Nothing was changed.",
    )


def _moved(schema: pa.Schema, then: ColumnsThen | None, now: Snapshot) -> bool:
    """Say whether rows no longer fit the present columns. A present column of the same name and type may be another column."""
    other = then is not None and (then.moved(now) is not None or then.has_other_rules(now))
    return other or reconcile(now.schema, schema) != schema


def _logs(snapshot: Snapshot, partitions: Iterable[str]) -> str:
    """Return a file group without meta columns whose logs another writer made, so that their keys are unknown."""
    if snapshot.config.populate_meta_fields:
        return ""
    pieces = (piece for path in partitions for piece in snapshot.view.slices(path))
    return next((piece.path for piece in pieces if piece.logs), "")


def tables_in_new_partitions(context: TableContext, start: Timeline, partitions: Collection[str]) -> OtherTables | None:
    """Return the other tables in the folders of the first rows of a table, while other reads are made; None for later rows.

    All partitions of the first rows are new, so this check needs no list of files.
    """
    if context.root.capabilities.parallel_calls <= 1 or start.first_write is not None or start.has_history:
        return None
    return frozenset(partitions), Ahead.of(partial(_others, context, partitions))


def _others(context: TableContext, partitions: Iterable[str]) -> list[str]:
    return other_tables(partitions, partial(list_folders, context.storage, context.runtime.executor))


def _foreign(
    context: TableContext, snapshot: Snapshot, partitions: Iterable[str], known: OtherTables | None
) -> tuple[str, str] | None:
    """Return a new partition that lies in the folder of another table, and that folder; readers of this table would not find the partition."""
    snapshot.view.prepare(partitions)
    new = [path for path in partitions if not snapshot.view.slices(path)]
    if not new:
        return None
    others = known[1].get() if known is not None and known[0] == {*new} else _others(context, new)
    return (next(path for path in new if f"{path}/".startswith(f"{others[0]}/")), others[0]) if others else None
