"""Replace: delete the rows that fulfil a condition, and write new rows that fulfil the condition, in one commit.

The commit is an upsert in which some rows remove their key from the table (`TAG_LEAVES`).
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
from pyhudi_core.merge.law import Versions, by_ordering
from pyhudi_core.merge.partial_updates import PartialUpdates
from pyhudi_core.merge.payloads import NonDefaultsPayload, PartialUpdatePayload
from pyhudi_core.merge.record_merger import find_merger, ordering_of
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.meta_fields import META_FIELDS, RECORD_KEY
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch, normalise, reconcile
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.write.coercion import refuse_missing
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.meeting import Meeting, Names, each, mixed
from pyhudi_core.write.result import Commit
from pyhudi_core.write.row_rules import completed, inputs_of
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
            names = _spread if config.generates_keys else tag_names(write)
            if not config.generates_keys and ordering_of(config):
                _refuse_older_stored(write, meeting, rows, columns, names)
            work = partial(_replaced, config, stored.schema, names)
            return meeting.to_write(meeting.met(rows, stored, (names, names), work))

        return write_found(write, None, where, made, meta=config.generates_keys, anew=True)


def with_generated_keys(found: Any, config: TableConfig) -> Any:
    """Return a scan with the columns of the table, and with the record keys if these are generated: they identify the rows."""
    if not config.generates_keys:
        return found
    return found.narrowed([RECORD_KEY, *(name for name in found.schema.names if name not in META_FIELDS)], None)


def _fitted_rows(config: TableConfig, columns: pa.Schema, rows: pa.Table) -> pa.Table:
    return in_types_of(completed(rows, config.rules.enforced, columns), columns)


def _spread(rows: pa.Table) -> pa.Array:
    """Return texts that distribute rows over all tasks."""
    return pa.array(np.arange(len(rows))).cast(pa.string())


def _refuse_older_stored(write: Write, meeting: Meeting, rows: Dataset, columns: pa.Schema, names: Names) -> None:
    """Raise `DataError` if a row would lose to its stored version, also if that version does not fulfil the condition."""
    config, ordering = write.context.config, ordering_of(write.context.config)
    whole = (name if name in columns.names else name.partition(".")[0] for name in (*config.naming_fields, *ordering))
    read = tuple(dict.fromkeys(whole))
    stored = write.scan(read, keys_among(config, meeting, rows, columns), meta=False)
    meeting.met(rows, stored, (names, names), partial(_not_older, names, ordering)).collect()


def _not_older(names: Names, ordering: Sequence[str], rows: pa.Table, parts: Iterable[pa.Table]) -> pa.Table:
    mine = names(rows)
    for part in parts:
        places = pc.index_in(mine, value_set=names(part))
        refuse_older(
            part.take(places.drop_null()), rows.filter(places.is_valid()), ordering, "The rows to replace others"
        )
    return rows.slice(0, 0)


def keys_among(config: TableConfig, meeting: Meeting, rows: Dataset, columns: pa.Schema) -> pc.Expression | None:
    """Return a condition that the stored rows with the keys of these rows fulfil; None if there is no simple condition."""
    key = config.record_key_fields[0]
    is_column = key in rows.schema.names and key in columns.names  # such a name is not a field of a struct
    if meeting.spark is not None or not is_column or rows.schema.field(key).type != columns.field(key).type:
        return None
    asked = rows.collect()[key].combine_chunks()
    return None if asked.null_count or pa.types.is_floating(asked.type) else pc.field(key).isin(asked)


def _replaced(
    config: TableConfig, columns: pa.Schema, names: Names, rows: pa.Table, parts: Iterable[pa.Table]
) -> pa.Table:
    """Return the rows to write, and the rows to delete because no new row has their identity."""
    stored = pa.concat_tables([columns.empty_table(), *parts])
    if config.generates_keys:
        return mixed(rows, stored)
    return mixed(rows, stored.filter(pc.invert(pc.is_in(names(stored), value_set=names(rows)))))


def refuse_older(before: pa.Table, after: pa.Table, ordering: Sequence[str], what: str) -> None:
    """Raise `DataError` if a row would lose to its stored version by the merge law, for which NaN is the highest value and null the lowest."""
    if ordering and not by_ordering(*(Versions.of_stored(rows, ordering) for rows in (after, before))).all():
        name = ordering[0] if len(ordering) == 1 else f"({', '.join(ordering)})"
        raise DataError(
            f"{what} have a lower {name} or null where the table has a value, and {name} decides which version of a row is newer",
            hint="Such a row would have no effect. Give a value that is not lower; NaN is higher than all numbers.",
        )


def refuse_renamed(before: pa.Table, after: pa.Table, naming: Iterable[str], rules: TableRules, what: str) -> None:
    """Raise `DataError` if a row would get another key or go to another partition. ``naming``: the columns that identify a row."""
    for name in naming:
        if name not in after.column_names or pc.all(_same(before[name], after[name]), min_count=0).as_py():
            continue
        hint = "A row with another key or partition is another row: leave the column out, or delete and insert."
        if name in rules.generated:
            columns = pa.schema([field for field in after.schema if field.name not in META_FIELDS])
            inputs = ", ".join(sorted(inputs_of(name, rules.generated[name], columns)))
            hint = f"The table generates {name} of {inputs}, and a row with another {name} is another row: delete the old ones, insert the new ones."
        raise DataError(
            f"{what} gives {name} another value in some rows, and {name} is part of what names a row", hint=hint
        )


def _same(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say where two columns give a row the same identity: nulls are equal, NaN equals NaN, and the two zeros differ."""
    if pa.types.is_floating(before.type):
        before, after = before.cast(pa.string()), after.cast(pa.string())
    return pc.or_(pc.fill_null(pc.equal(before, after), False), pc.and_(before.is_null(), after.is_null()))


def keeps_values(config: TableConfig) -> bool:
    """Say whether the merger of a table keeps the stored value where the new one is null."""
    return isinstance(find_merger(config), NonDefaultsPayload | PartialUpdatePayload | PartialUpdates)


def refuse_nulls(before: pa.Table, after: pa.Table, columns: Iterable[str], what: str) -> None:
    """Raise `DataError` if a value would become null, in a table whose merger keeps the stored value (`keeps_values`)."""
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
    """Return the identity of each row in the table: its partition and its record key."""
    paths = [partition_paths(batch, config) for batch in rows.combine_chunks().to_batches()]
    partitions = pa.concat_arrays(paths) if paths else pa.array([], pa.string())
    return pc.binary_join_element_wise(partitions, keys_of(rows, config), "\x00")


def is_global(write: Write) -> bool:
    """Say whether a key is unique in the table, because the index of the write has one location for each key."""
    if write.context.options.index.type is not None:
        return finds_by_key(write)
    return RECORD_INDEX in write.context.config.metadata_partitions


def finds_by_key(write: Write) -> bool:
    """Say whether a written row replaces the stored row with its key in any partition, because the index of the write is global."""
    named = write.context.options.index.type or ""
    return named.startswith("GLOBAL") or named == "RECORD_INDEX"


def tag_names(write: Write) -> Names:
    """Return the function that gives one text to a row to write and to the stored row that it replaces."""
    return partial(keys_of if finds_by_key(write) else names_of, config=write.context.config)


def naming(write: Write) -> Names:
    """Return the function that returns the identity of each row: its key, and its partition unless the index is global."""
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
    """Return one row: the number of rows that do not fulfil a condition, and the number of all rows."""
    plain = pa.Table.from_batches([cast_batch(batch, schema) for batch in rows.to_batches()], schema)
    return pa.table({"outside": [len(plain) - len(matching(plain, condition))], "total": [len(plain)]})
