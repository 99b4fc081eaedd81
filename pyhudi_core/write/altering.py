"""A change of a table's columns (`table.alter`): what it refuses, and what becomes of the columns.

It is a commit of the operation ALTER_SCHEMA without files, as Hudi's ``ALTER TABLE`` writes it with ``hoodie.schema.on.read.enable``
(``write/column_numbers.py``). Older files stay as they are, and readers find their columns by number. The commit conflicts with all that
writes files or plans to, because a file's requested time says which columns it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.errors import at_table
from pyhudi_core.merge.record_merger import find_merger, ordering_of
from pyhudi_core.metadata_table import names
from pyhudi_core.model.alteration import Altered, ColumnChanges, altered
from pyhudi_core.model.meta_fields import IS_DELETED
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.column_numbers import has_left_numbers
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.refusals import ALTER

_STATISTICS = {names.COLUMN_STATS, names.PARTITION_STATS}


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
    """Return the columns after a change in this state. Raises `SchemaMismatchError` or `UnsupportedTableError`; nothing was written then."""
    with at_table(context.table):
        case = replace(cases.of_call(context, ALTER), other_numbers=has_left_numbers(context, snapshot))
        refusals.before_rows(case)
        allow_lossy = context.options.rows.allow_lossy_widening
        found = altered(snapshot.schema, changes, _protected(snapshot.config), allow_lossy=allow_lossy)
        replaced = _replaces_statistics(context.config, snapshot, changes)
        case = replace(case, after=found.schema, indexed=_indexed(context, changes), statistics=replaced)
        refusals.after_rows(case)
        refusals.at_begin(cases.at_begin(context, ALTER, found.schema))
        return NewColumns(found, replaced)


def refuse_plans(context: TableContext, found: Timeline) -> None:
    """Under the lock: raise `CommitConflictError` while a plan is pending (`cases.plan_error`)."""
    if error := cases.plan_error(context, found):
        raise error


def _protected(config: TableConfig) -> Mapping[str, str]:
    """Return columns that name, order and merge the rows. A change of them would change which rows are the same, or how they are merged."""
    merger = find_merger(config)
    ordering = (*ordering_of(config), *(name for name in (config.raw.get("hoodie.table.precombine.field"),) if name))
    return {
        **dict.fromkeys(() if merger is None else merger.needs, "a column of the merger"),
        **{name.strip(): "an ordering column" for text in ordering for name in text.split(",")},
        **dict.fromkeys(config.partition_fields, "a partition column"),
        **dict.fromkeys(config.record_key_fields, "a column of the record key"),
        IS_DELETED: "the column that says which rows are deleted",
    }


def _replaces_statistics(config: TableConfig, snapshot: Snapshot, changes: ColumnChanges) -> bool:
    """Say whether statistics of older files would be found under wrong names, or in another type than the column's."""
    if not _STATISTICS & {*config.written_metadata_partitions}:
        return False
    history = () if snapshot.evolution is None else snapshot.evolution.history
    used = {column.name for version in history for column in version.columns}
    return bool(changes.touched) or not used.isdisjoint(changes.add)


def _indexed(context: TableContext, changes: ColumnChanges) -> tuple[str, str] | None:
    """Return a column that is to be changed, and the index that is made of it; None if there is none."""
    definitions = metadata_update.definitions_of(context, context.config.written_metadata_partitions)
    for definition in definitions.values():
        of = {name.partition(".")[0] for name in (definition.column, *definition.more)}
        if taken := [path for path in changes.touched if path.partition(".")[0] in of]:
            return taken[0], definition.name
    return None
