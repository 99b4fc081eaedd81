"""Replace: the rows that fulfil a condition are deleted, and new rows that fulfil the condition come in their place, in one commit.

The commit is an upsert in which some rows take their key out of the table (`TAG_LEAVES`). `mixed` makes its rows, also for a merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import (
    ConfigError,
    DataError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedTableError,
)
from pyhudi_core.index.base import TAG_LEAVES
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch, normalise, reconcile
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.write.coercion import refuse_missing
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.result import Commit
from pyhudi_core.write.row_rules import completed


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
    new = rows_here(data, "replace", context.table)

    def made(found: Any) -> pa.Table:
        given = completed(as_table(new, found.schema), context.config.rules.enforced, found.schema)
        refuse_missing(found.schema, normalise(given.schema, known=found.schema), context.table)
        rows = in_types_of(given, found.schema)
        _refuse_outside(context, rows, where, found.schema)
        stored = found.to_arrow()
        names, olds = names_of(rows, context.config), names_of(stored, context.config)
        at = pc.index_in(names, value_set=olds)
        refuse_older(stored.take(at), rows, ordering_of(context.config), "The rows to replace others")
        return mixed(rows, stored.filter(pc.invert(pc.is_in(olds, value_set=names))))

    return write_found(write, None, where, made)


def refuse_older(before: pa.Table, after: pa.Table, ordering: Sequence[str], what: str) -> None:
    """Raise `DataError` if a row would lose against its stored version, which has a higher ordering value. A stored null is lower than all values."""
    for name in ordering:
        lower = pc.fill_null(pc.less(after[name], before[name]), True)
        if pc.any(pc.and_(lower, before[name].is_valid())).as_py():
            raise DataError(
                f"{what} have a lower {name} or null where the table has a value, and {name} decides which version of a row is newer",
                hint="Such a row would have no effect. Give a value that is not lower.",
            )


def refuse_without_keys(context: TableContext, verb: str, hint: str) -> None:
    """Raise `UnsupportedTableError` for a table that generates its keys: new rows and rows of the table cannot come in one commit."""
    if context.config.generates_keys:
        raise UnsupportedTableError(
            f"{verb} needs a table with a record key, and this one generates its keys", table=context.table, hint=hint
        )


def rows_here(data: object, verb: str, table: str) -> object:
    """Return rows that this process holds, and that can be read more than once. Raises `ConfigError` for a Spark DataFrame."""
    if type(data).__module__.startswith("pyspark.sql"):
        hint = "Give frame.toArrow(), or write on Spark by upsert and delete."
        raise ConfigError(f"{verb} runs in this process, and does not take a Spark DataFrame", table=table, hint=hint)
    return data.read_all() if isinstance(data, pa.RecordBatchReader) else data


def in_types_of(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Return rows in the types of the table's columns, as an upsert takes them. A column that does not fit keeps its own type, for expressions."""
    own = pa.schema([_fitted(field, table) for field in normalise(rows.schema, known=table)])
    return pa.Table.from_batches([cast_batch(batch, own) for batch in rows.to_batches()], own)


def _fitted(field: pa.Field, table: pa.Schema) -> pa.Field:
    if field.name not in table.names:
        return field
    stored = table.field(field.name)
    try:
        refuse_missing(pa.schema([stored]), pa.schema([field]), "")
        return stored if reconcile(pa.schema([stored]), pa.schema([field])).field(0).type == stored.type else field
    except SchemaMismatchError:
        return field


def mixed(rows: pa.Table, leaving: pa.Table) -> pa.Table:
    """Return rows to write together with rows to delete. Columns that one of them lacks are null there."""
    marks = pa.array(np.repeat([False, True], [len(rows), len(leaving)]))
    return pa.concat_tables([rows, leaving], promote_options="permissive").append_column(TAG_LEAVES, marks)


def keys_of(rows: pa.Table, config: TableConfig) -> pa.Array:
    """Return the record key of each row."""
    found = [record_keys(batch, config) for batch in rows.combine_chunks().to_batches()]
    return pa.concat_arrays(found) if found else pa.array([], pa.string())


def names_of(rows: pa.Table, config: TableConfig) -> pa.Array:
    """Return what names each row in the table: its partition and its record key."""
    paths = [partition_paths(batch, config) for batch in rows.combine_chunks().to_batches()]
    partitions = pa.concat_arrays(paths) if paths else pa.array([], pa.string())
    return pc.binary_join_element_wise(partitions, keys_of(rows, config), "\x00")


def is_global(write: Write) -> bool:
    """Say whether a key may be in one partition of the table alone, because the index of the write has one place for a key."""
    named = write.context.options.index.type
    if named is not None:
        return named.startswith("GLOBAL") or named == "RECORD_INDEX"
    return RECORD_INDEX in write.context.config.metadata_partitions


def names_in(rows: pa.Table, write: Write) -> pa.Array:
    """Return what names each row: its key, and its partition unless the index is global."""
    if not is_global(write):
        return names_of(rows, write.context.config)
    return keys_of(rows, write.context.config)


def _refuse_outside(context: TableContext, rows: pa.Table, where: object, schema: pa.Schema) -> None:
    condition = Predicate.of(where, schema, context.options.condition_zone)
    assert condition is not None
    plain = pa.Table.from_batches([cast_batch(batch, schema) for batch in rows.to_batches()], schema)
    outside = len(plain) - len(matching(plain, condition.expression))
    if outside:
        raise DataError(
            f"{outside:,} of {len(plain):,} rows do not fulfil the condition {str(where)[:120]!r}, so they would not replace the rows that do",
            table=context.table,
            hint="Leave these rows out, widen the condition, or write them by upsert. Nothing was written.",
        )
