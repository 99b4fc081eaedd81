"""Replace: the rows that fulfil a condition are deleted, and new rows that fulfil the condition come in their place, in one commit.

The commit is an upsert in which some rows take their key out of the table (`TAG_LEAVES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset
from pyhudi_core.errors import DataError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.merge.partial_updates import PartialUpdates
from pyhudi_core.merge.payloads import NonDefaultsPayload, PartialUpdatePayload
from pyhudi_core.merge.record_merger import find_merger, ordering_of
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.meta_fields import META_FIELDS, RECORD_KEY
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch, normalise, reconcile
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.write.coercion import refuse_missing
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.meeting import Meeting, Names, each, mixed
from pyhudi_core.write.result import Commit
from pyhudi_core.write.row_rules import completed
from pyhudi_core.write.states import load


def replace_found(write: Write, data: object, where: object, spark: Any = None) -> Commit:
    """Delete the rows that a condition finds, and write rows in their place. ``write`` takes rows that leave.

    Raises `DataError` if a row does not fulfil the condition, before anything is written.
    """
    context = write.context
    if where is None:
        hint = "Give a condition, or replace the whole table by insert_overwrite_table(rows)."
        raise InvalidOptionError("replace needs a condition", table=context.table, hint=hint)
    meeting, config = Meeting.of(context, data, spark), context.config
    with ExitStack() as kept:
        given = meeting.given(data, load(context).schema).persist()
        kept.callback(given.release)

        def made(found: Any) -> object:
            stored = with_generated_keys(found, config)
            columns = pa.schema([field for field in stored.schema if field.name != RECORD_KEY])
            refuse_missing(
                columns,
                normalise(completed(given.schema.empty_table(), config.rules.enforced, columns).schema, known=columns),
                context.table,
            )
            rows = each(given, partial(_fitted_rows, config, columns))
            _refuse_outside(context, rows, where, columns)
            work = partial(_replaced, config, stored.schema)
            names = _spread if config.generates_keys else partial(names_of, config=config)
            return meeting.to_write(meeting.met(rows, stored, (names, names), work))

        return write_found(write, None, where, made, meta=config.generates_keys)


def with_generated_keys(found: Any, config: TableConfig) -> Any:
    """Return a scan with the columns of the table, and with the record keys if these are generated: they name the rows."""
    if not config.generates_keys:
        return found
    return found.narrowed([RECORD_KEY, *(name for name in found.schema.names if name not in META_FIELDS)], None)


def _fitted_rows(config: TableConfig, columns: pa.Schema, rows: pa.Table) -> pa.Table:
    return in_types_of(completed(rows, config.rules.enforced, columns), columns)


def _spread(rows: pa.Table) -> pa.Array:
    """Return texts that bring rows to all tasks."""
    return pa.array(np.arange(len(rows))).cast(pa.string())


def _replaced(config: TableConfig, columns: pa.Schema, rows: pa.Table, parts: Iterable[pa.Table]) -> pa.Table:
    """Return the rows to write, and those that leave because no new row has their name."""
    stored = pa.concat_tables([columns.empty_table(), *parts])
    if config.generates_keys:
        return mixed(rows, stored)
    names, olds = names_of(rows, config), names_of(stored, config)
    refuse_older(
        stored.take(pc.index_in(names, value_set=olds)), rows, ordering_of(config), "The rows to replace others"
    )
    return mixed(rows, stored.filter(pc.invert(pc.is_in(olds, value_set=names))))


def refuse_older(before: pa.Table, after: pa.Table, ordering: Sequence[str], what: str) -> None:
    """Raise `DataError` if a row would lose against its stored version, which has a higher ordering value. A stored null is lower than all values."""
    for name in ordering:
        lower = pc.fill_null(pc.less(after[name], before[name]), True)
        if pc.any(pc.and_(lower, before[name].is_valid())).as_py():
            raise DataError(
                f"{what} have a lower {name} or null where the table has a value, and {name} decides which version of a row is newer",
                hint="Such a row would have no effect. Give a value that is not lower.",
            )


def keeps_values(config: TableConfig) -> bool:
    """Say whether the merger of a table keeps the stored value where the new one is null."""
    return isinstance(find_merger(config), NonDefaultsPayload | PartialUpdatePayload | PartialUpdates)


def refuse_nulls(before: pa.Table, after: pa.Table, columns: Iterable[str], what: str) -> None:
    """Raise `DataError` if a value would become null, for a table whose merger keeps the stored one (`keeps_values`)."""
    for name in columns:
        if pc.any(pc.and_(after[name].is_null(), before[name].is_valid())).as_py():
            raise DataError(
                f"{what} gives {name} the value null in some rows, and the merger of the table keeps the stored value in place of a null",
                hint="Give another value, or delete and insert the rows.",
            )


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


def naming(write: Write) -> Names:
    """Return the function that gives the text that names each row: its key, and its partition unless the index is global."""
    return partial(keys_of if is_global(write) else names_of, config=write.context.config)


def _refuse_outside(context: TableContext, rows: Dataset, where: object, schema: pa.Schema) -> None:
    condition = Predicate.of(where, schema, context.options.condition_zone)
    assert condition is not None
    counts = each(rows, partial(_outside, condition.expression, schema)).collect()
    outside, total = (pc.sum(counts[name]).as_py() or 0 for name in ("outside", "total"))
    if outside:
        raise DataError(
            f"{outside:,} of {total:,} rows do not fulfil the condition {str(where)[:120]!r}, so they would not replace the rows that do",
            table=context.table,
            hint="Leave these rows out, widen the condition, or write them by upsert. Nothing was written.",
        )


def _outside(condition: pc.Expression, schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Return one row: how many rows do not fulfil a condition, and of how many."""
    plain = pa.Table.from_batches([cast_batch(batch, schema) for batch in rows.to_batches()], schema)
    return pa.table({"outside": [len(plain) - len(matching(plain, condition))], "total": [len(plain)]})
