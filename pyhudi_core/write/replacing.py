"""Replace: the rows that fulfil a condition are deleted, and new rows that fulfil the condition come in their place, in one commit.

The commit is an upsert in which some rows take their key out of the table (`TAG_LEAVES`). `mixed` makes its rows, also for a merge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import ConfigError, DataError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.index.base import TAG_LEAVES
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.result import Commit


def replace_found(write: Write, data: object, where: object) -> Commit:
    """Delete the rows that a condition finds, and write rows in their place. ``write`` takes rows that leave.

    Raises `DataError` if a row does not fulfil the condition, before anything is written.
    """
    context = write.context
    refuse_without_keys(
        context, "replace", "Replace whole partitions by insert_overwrite, or delete(where=...) and insert."
    )
    if where is None:
        hint = "Give a condition, or replace the whole table by insert_overwrite_table(rows)."
        raise InvalidOptionError("replace needs a condition", table=context.table, hint=hint)
    new = rows_here(data, None, "replace", context.table)

    def made(found: Any) -> pa.Table:
        rows = as_table(new, found.schema)
        _refuse_outside(context, rows, where, found.schema)
        stored = found.to_arrow()
        stays = pc.is_in(names_of(stored, context.config), value_set=names_of(rows, context.config))
        return mixed(rows, stored.filter(pc.invert(stays)))

    return write_found(write, None, where, made)


def refuse_without_keys(context: TableContext, verb: str, hint: str) -> None:
    """Raise `UnsupportedTableError` for a table that generates its keys: new rows and rows of the table cannot come in one commit."""
    if context.config.generates_keys:
        raise UnsupportedTableError(
            f"{verb} needs a table with a record key, and this one generates its keys", table=context.table, hint=hint
        )


def rows_here(data: object, known: pa.Schema | None, verb: str, table: str) -> object:
    """Return rows that this process holds. Raises `ConfigError` for a Spark DataFrame."""
    if type(data).__module__.startswith("pyspark.sql"):
        hint = "Give frame.toArrow(), or write on Spark by upsert and delete."
        raise ConfigError(f"{verb} runs in this process, and does not take a Spark DataFrame", table=table, hint=hint)
    return data.read_all() if isinstance(data, pa.RecordBatchReader) else data


def mixed(rows: pa.Table, leaving: pa.Table) -> pa.Table:
    """Return rows to write together with rows to delete. Columns that one of them lacks are null there."""
    marks = pa.array(np.repeat([False, True], [len(rows), len(leaving)]))
    return pa.concat_tables([rows, leaving], promote_options="permissive").append_column(TAG_LEAVES, marks)


def names_of(rows: pa.Table, config: TableConfig) -> pa.Array:
    """Return what names each row in the table: its partition and its record key."""
    batch = rows.combine_chunks().to_batches(max_chunksize=None)
    found = [
        pc.binary_join_element_wise(partition_paths(part, config), record_keys(part, config), "\x00") for part in batch
    ]
    return pa.concat_arrays(found) if found else pa.array([], pa.string())


def _refuse_outside(context: TableContext, rows: pa.Table, where: object, schema: pa.Schema) -> None:
    condition = Predicate.of(where, schema, context.options.condition_zone)
    missing = [name for name in schema.names if name not in rows.column_names]
    if condition is None or missing:
        return  # the write refuses rows that lack columns
    plain = pa.Table.from_batches([cast_batch(batch, schema) for batch in rows.to_batches()], schema)
    outside = len(plain) - len(matching(plain, condition.expression))
    if outside:
        raise DataError(
            f"{outside:,} of {len(plain):,} rows do not fulfil the condition {str(where)[:120]!r}, so they would not replace the rows that do",
            table=context.table,
            hint="Leave these rows out, widen the condition, or write them by upsert. Nothing was written.",
        )
