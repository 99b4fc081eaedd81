"""A change of a table's columns and rules (`table.alter`): which changes are refused, and the columns and rules after the change.

The change is a commit of the operation ALTER_SCHEMA without files, as Hudi's ``ALTER TABLE`` writes it with ``hoodie.schema.on.read.enable``
(``write/column_numbers.py``). Older files stay as they are, and readers find their columns by number. The commit conflicts with every operation that
writes or plans files: a file's requested time says which columns it has, and rows are checked by the rules of one state. Rules are properties of the
table, which change with the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, at_table
from pyhudi_core.merge.record_merger import find_merger, ordering_of
from pyhudi_core.metadata_table import names
from pyhudi_core.model.alteration import Altered, ColumnChanges, altered
from pyhudi_core.model.meta_fields import IS_DELETED
from pyhudi_core.model.numbering import Origins
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import conform
from pyhudi_core.model.table_rules import NO_RULES, TableRules
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write import cases, refusals, row_rules
from pyhudi_core.write.column_numbers import has_left_numbers
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.refusals import ALTER

_STATISTICS = {names.COLUMN_STATS, names.PARTITION_STATS}


@dataclass(frozen=True, slots=True)
class NewColumns:
    """The columns and rules after a change.

    Attributes:
        new_statistics: the statistics in the metadata table would have wrong names or types.
        properties: the changes of properties that make the rules.
        of_columns: columns change, not only rules.
    """

    altered: Altered
    new_statistics: bool
    rules: TableRules = NO_RULES
    properties: tuple[tuple[str, str | None], ...] = ()
    of_columns: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Return the table's columns, without meta columns."""
        return self.altered.schema

    @property
    def origins(self) -> Origins | None:
        """Return the earlier names of the columns; None if the columns do not change."""
        return self.altered.origins if self.of_columns else None

    @property
    def unchanged(self) -> bool:
        """Say whether columns and rules stay the same."""
        return self.altered.unchanged and not self.properties


def new_columns(context: TableContext, changes: ColumnChanges, snapshot: Snapshot) -> NewColumns:
    """Return the columns after a change in this state. Raises `SchemaMismatchError` or `UnsupportedTableError` before anything is written."""
    with at_table(context.table):
        case = replace(cases.of_call(context, ALTER), other_numbers=has_left_numbers(context, snapshot))
        refusals.before_rows(case)
        allow_lossy = context.options.rows.allow_lossy_widening
        found = altered(snapshot.schema, changes, _protected(snapshot.config), allow_lossy=allow_lossy)
        replaced = _replaces_statistics(context.config, snapshot, changes)
        before = context.config.rules
        rules = _rules_after(before, changes, snapshot.schema, found.schema)
        row_rules.refuse_expiry(rules, context.config.partition_fields, context.table)
        demands = rules.refusing and rules.enforced != before.enforced
        indexed = _indexed(context, changes)
        case = replace(case, after=found.schema, indexed=indexed, statistics=replaced, demands=demands)
        refusals.after_rows(case)
        refusals.at_begin(cases.at_begin(context, ALTER, found.schema))
        return NewColumns(found, replaced, rules, rules.changes_from(before), changes.of_columns)


def _rules_after(before: TableRules, changes: ColumnChanges, old: pa.Schema, new: pa.Schema) -> TableRules:
    """Return the rules after a change. The rules of a renamed column get its new name; the rules of a dropped column are removed.

    Raises `SchemaMismatchError` if a dropped column is used by a check or a generated column, and for rules that do not fit.
    """
    if not before and not changes.rules:
        return before
    gone = {*changes.drop, *changes.rename}
    kept = changes.rules.applied(before)
    if gone:
        for what, needed in row_rules.made_of(before, old):
            taken = sorted(path for path in gone if path.partition(".")[0] in needed)
            if taken:
                raise SchemaMismatchError(
                    f"Column {taken[0]} cannot be dropped or renamed: it is part of {what}",
                    hint="Drop the rule first: alter(drop_check=...), or alter(generated={column: None}). Nothing was changed.",
                )
        kept = kept.renamed({**dict.fromkeys(changes.drop), **changes.rename})
    kept = row_rules.in_spelling_of(kept, new)
    row_rules.refuse_unfit(kept.enforced, new)
    return kept


def refuse_rows(context: TableContext, changes: ColumnChanges, snapshot: Snapshot, scan: Callable[..., Any]) -> None:
    """Raise `DataError` if a row of the table violates a new rule. ``scan``: reads columns of this state."""
    if changes.touched or changes.order:
        raise InvalidOptionError(
            "alter changes columns and adds a rule that the rows must keep",
            table=context.table,
            hint="Change the columns first, then add the rule by a second alter. Nothing was changed.",
        )
    new = new_columns(context, changes, snapshot)
    before = context.config.rules
    added = new.rules.beyond(before)
    if not added.refusing:
        return
    naming = context.config.naming_fields
    measure = row_rules.rules_for(added, new.schema, new.schema.names, naming=naming)
    needed = row_rules.columns_in(added, new.schema)
    columns = pa.schema([field for field in new.schema if field.name in needed])
    stored = [name for name in dict.fromkeys((*naming, *columns.names)) if name not in changes.add]
    with at_table(context.table):
        for batch in scan(stored).to_batches():
            rows = pa.Table.from_batches([conform(batch, columns)])
            for name in naming:
                rows = rows if name in rows.column_names else rows.append_column(name, batch.column(name))
            measure.refuse(rows)


def refuse_plans(context: TableContext, found: Timeline) -> None:
    """Raise `CommitConflictError` under the lock while a plan is pending (`cases.plan_error`)."""
    if error := cases.plan_error(context, found):
        raise error


def _protected(config: TableConfig) -> Mapping[str, str]:
    """Return the columns of the key, the partition, the ordering and the merger. A change of such a column would change the keys of rows, or how
    rows are merged.
    """
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
    """Say whether the statistics of older files would have wrong column names, or types that are not the types of the columns."""
    if not _STATISTICS & {*config.written_metadata_partitions}:
        return False
    history = () if snapshot.evolution is None else snapshot.evolution.history
    used = {column.name for version in history for column in version.columns}
    return bool(changes.touched) or not used.isdisjoint(changes.add)


def _indexed(context: TableContext, changes: ColumnChanges) -> tuple[str, str] | None:
    """Return a column that would change and that has an index, with the index; None if there is none."""
    definitions = metadata_update.definitions_of(context, context.config.written_metadata_partitions)
    for definition in definitions.values():
        of = {name.partition(".")[0] for name in (definition.column, *definition.more)}
        if taken := [path for path in changes.touched if path.partition(".")[0] in of]:
            return taken[0], definition.name
    return None
