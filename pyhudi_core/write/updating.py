"""Update: new values for columns of the rows that a condition finds. The rows are found in one state of the table, and written as newer versions.

The method of a table is `update`. It is an upsert of the found rows (`write_found` in ``write/handle.py``), so it has the properties of upserts: the
merge law, indexes, conflicts, validators. Only file groups with such rows are read and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.engine.base import TaskInfo
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import InvalidOptionError, at_table
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates.assignments import Assignments
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.default_values import with_defaults
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.replacing import keeps_values, refuse_nulls, refuse_older, refuse_renamed, with_generated_keys
from pyhudi_core.write.result import Commit
from pyhudi_core.write.row_rules import completed, refuse_generated
from pyhudi_core.write.write import rows_total


def update_found(write: Write, values: Mapping[str, object], where: object, spark: Any = None) -> Commit:
    """Give columns new values in the rows that a condition finds.

    Raises `InvalidOptionError` for a column that an update cannot set, `PredicateError` for an invalid expression, and `DataError` for a value that
    its column cannot hold; nothing is written then.
    """
    refuse_fixed(write.context.config, values, write.context.table)
    changed = partial(_changed, write.context, values, spark)
    return write_found(
        write, None, where, changed, meta=write.context.config.generates_keys
    )  # without key columns, the meta column with the generated key identifies the row


def rows_to_update(write: Write, values: Mapping[str, object], where: object) -> int:
    """Return the number of rows that `update_found` would change. Write nothing, but raise the errors of `update_found` for values and rows."""
    refuse_fixed(write.context.config, values, write.context.table)
    found = write.scan(None, where, meta=write.context.config.generates_keys)
    return rows_total(write.prepare(UserRows(_changed(write.context, values, None, found)))[0].batch)


def _changed(context: TableContext, values: Mapping[str, object], spark: Any, found: Any) -> object:
    """Return the rows of a scan with new values."""
    config = context.config
    found = with_generated_keys(found, config)
    columns = pa.schema([field for field in found.schema if field.name != RECORD_KEY])
    with at_table(context.table):
        given = with_defaults(values, config.rules, columns, columns.names)
        new = Assignments.of(given, columns, found.schema, context.options.condition_zone)
        update = _Update(
            new, ordering_of(config), config.naming_fields, keeps_values(config), config.rules.enforced, columns
        )
    if spark is None:
        return pa.RecordBatchReader.from_batches(found.schema, update(TaskInfo(0), found.to_batches()))
    rows = engine_for(None, context.runtime.executor, spark).dataset(found.to_spark(spark))
    return rows.map(update, found.schema)


def refuse_fixed(config: TableConfig, values: Mapping[str, object], table: str) -> None:
    """Raise `InvalidOptionError` if there is nothing to set, or if a row would get another key or go to another partition."""
    if not isinstance(values, Mapping) or not values:
        hint = 'Write table.update({"price": "price * 1.1"}).'
        raise InvalidOptionError(
            "update takes the new values as a dict from columns to expressions", table=table, hint=hint
        )
    refuse_generated(values, config.rules, table)
    fixed = {name.lower(): name for name in config.naming_fields}
    for name in values:
        if name.lower() in fixed:
            is_key = fixed[name.lower()] in config.identifying_fields
            kind = "part of the record key" if is_key else "a partition column"
            raise InvalidOptionError(
                f"Column {name} cannot be set: it is {kind}",
                table=table,
                hint="A row with another key or partition is another row: delete the old rows, and insert the new ones.",
            )


@dataclass(frozen=True, slots=True)
class _Update:
    """Task function: takes found rows, and returns the same rows with new values.

    Attributes:
        naming: the columns that identify a row.
        keeps_values: the merger of the table keeps the stored value where the new one is null.
        rules: the table's rules, by which its generated columns are computed again.
        columns: the columns of the table.
    """

    assignments: Assignments
    ordering: tuple[str, ...]
    naming: tuple[str, ...]
    keeps_values: bool
    rules: TableRules
    columns: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            before = pa.Table.from_batches([batch])
            after = self.assignments.applied(before)
            if self.rules.generated:
                after = completed(after, self.rules, self.columns, anew=True).select(before.column_names)
                generated = [name for name in self.naming if name in self.rules.generated]
                refuse_renamed(before, after, generated, self.rules, "The update")
            refuse_older(before, after, self.ordering, "The updated rows")
            if self.keeps_values:
                refuse_nulls(before, after, (*self.assignments.values, *self.rules.generated), "The update")
            yield from after.combine_chunks().to_batches()
