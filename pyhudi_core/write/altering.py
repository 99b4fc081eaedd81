"""A change of a table's columns (`table.alter`): what it refuses, and what becomes of the columns.

It is a commit of the operation ALTER_SCHEMA without files, as Hudi's ``ALTER TABLE`` writes it with ``hoodie.schema.on.read.enable``
(``write/numbers.py``). Older files stay as they are, and readers find their columns by number. It conflicts with all that writes files or plans to,
because a file's requested time says which columns it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.conflicts.conflict import Conflict, ConflictKind
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CommitConflictError, UnsupportedTableError, at_table
from pyhudi_core.merge.record_merger import find_merger, ordering_of, why_unfit
from pyhudi_core.metadata_table import names
from pyhudi_core.model.alteration import Altered, ColumnChanges, altered
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import IS_DELETED
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write import metadata_update
from pyhudi_core.write.numbers import refuse_other_numbers

_STATISTICS = {names.COLUMN_STATS, names.PARTITION_STATS}
_PLANS = {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.INDEXING}


@dataclass(frozen=True, slots=True)
class NewColumns:
    """The columns after a change. ``new_statistics``: those of the metadata table have names or types that are wrong then."""

    altered: Altered
    new_statistics: bool

    @property
    def schema(self) -> pa.Schema:
        """The table's, without meta columns."""
        return self.altered.schema


def new_columns(context: TableContext, changes: ColumnChanges, snapshot: Snapshot) -> NewColumns:
    """The columns after a change in this state. Raises `SchemaMismatchError` or `UnsupportedTableError`; nothing was written then."""
    with at_table(context.table):
        _refuse_bootstrapped(context)
        refuse_other_numbers(context, snapshot)
        allow_lossy = context.options.rows.allow_lossy_widening
        found = altered(snapshot.schema, changes, _protected(snapshot.config), allow_lossy=allow_lossy)
        _refuse_unfit_merger(context, found.schema)
        _refuse_indexed(context, changes)
        replaced = _replaces_statistics(context.config, snapshot, changes)
        if replaced:
            _refuse_other_indexes(context)
        metadata_update.refuse_undefined(context, found.schema)
        return NewColumns(found, replaced)


def _refuse_bootstrapped(context: TableContext) -> None:
    if context.config.bootstrap_base_path is not None:
        raise UnsupportedTableError(
            "The rows of a bootstrapped table are in files that have no number for their columns (hoodie.bootstrap.base.path)",
            table=context.table,
            hint="Copy the rows into a table of their own to change its columns. Nothing was changed.",
        )


def refuse_plans(context: TableContext, found: Timeline) -> None:
    """Raise `CommitConflictError` while a plan is pending: its files get the columns of now, and the time of the plan."""
    for plan in found.pending:
        if plan.action in _PLANS:
            raise CommitConflictError(
                f"The {plan.action} {plan.requested_time} is pending, and its files would have other columns than their time says",
                conflict=Conflict(
                    ConflictKind.OPERATION, plan, operation=OperationType.of(plan.action), verdict=Verdict.ABORT
                ),
                table=context.table,
                hint="Run it first (table.compaction.run(), table.clustering.run() or table.indexing.run()), then alter again. Nothing was changed.",
            )


def _protected(config: TableConfig) -> Mapping[str, str]:
    """Columns that name, order and merge the rows. A change of them would change which rows are the same, or how they are merged."""
    merger = find_merger(config)
    ordering = (*ordering_of(config), *(name for name in (config.raw.get("hoodie.table.precombine.field"),) if name))
    return {
        **dict.fromkeys(() if merger is None else merger.needs, "a column of the merger"),
        **{name.strip(): "an ordering column" for text in ordering for name in text.split(",")},
        **dict.fromkeys(config.partition_fields, "a partition column"),
        **dict.fromkeys(config.record_key_fields, "a column of the record key"),
        IS_DELETED: "the column that says which rows are deleted",
    }


def _refuse_unfit_merger(context: TableContext, schema: pa.Schema) -> None:
    """Raise `UnsupportedTableError` if the merger of the user fails with the columns after the change."""
    reason = why_unfit(context.config, schema)
    if reason is not None:
        raise UnsupportedTableError(
            reason,
            table=context.table,
            hint="Register a merger under this name that takes both these columns and those of now, then alter. Nothing was changed.",
        )


def _replaces_statistics(config: TableConfig, snapshot: Snapshot, changes: ColumnChanges) -> bool:
    """Whether statistics of older files would be found under wrong names, or in another type than the column's."""
    if not _STATISTICS & {*config.written_metadata_partitions}:
        return False
    history = () if snapshot.evolution is None else snapshot.evolution.history
    used = {column.name for version in history for column in version.columns}
    return bool(changes.touched) or not used.isdisjoint(changes.add)


def _refuse_indexed(context: TableContext, changes: ColumnChanges) -> None:
    """Raise `UnsupportedTableError` for a column that an index is made of."""
    listed = context.config.written_metadata_partitions
    for definition in metadata_update.definitions_of(context, listed).values():
        taken = [
            path
            for path in changes.touched
            if path.partition(".")[0] in {name.partition(".")[0] for name in (definition.column, *definition.more)}
        ]
        if taken:
            raise UnsupportedTableError(
                f"Column {taken[0]} has the index {definition.name}",
                table=context.table,
                hint="Drop the index (table.indexes.drop), alter the table, and create it again. Nothing was changed.",
            )


def _refuse_other_indexes(context: TableContext) -> None:
    """Statistics are made anew with the whole metadata table, which takes long if it has an index of rows."""
    config = context.config
    others = sorted({*config.metadata_partitions} - _STATISTICS - {names.FILES})
    if (others or config.metadata_partitions_inflight) and not context.options.metadata.remove_unkept:
        raise UnsupportedTableError(
            f"The metadata table has statistics, which the change makes wrong, beside {', '.join(others) or 'an index that is being built'}",
            table=context.table,
            path=names.FOLDER,
            hint="Drop column_stats and partition_stats (table.indexes.drop), alter the table, and build them again; or alter with"
            " pyhudi.metadata.remove_unkept=true, which removes the metadata table. Nothing was changed.",
        )
