"""The one rule for the types of data: the columns of a table after a write, and the conversion of values of other types.

The rule applies to all rows: batches, streams, Spark's rows, files of an import, and files of a bootstrap. `schema_after` determines the columns, and
refuses data that does not fit. `cast_batch` of ``model/schema.py`` converts the values to these columns, without changing a value. The rules for
columns also apply to fields of structs, in lists and in values of maps, too.

A column of integers can become a column of doubles if the data has numbers that are not integers, so such values are examined first. 32-bit integers
become double without loss. 64-bit integers may be rounded, which is an error unless an option allows it. Key and partition columns never become
floating: the text of their values would change, and every row would be in the table twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Literal

import pyarrow as pa

from pyhudi_core.engine.base import ORDER, SORT, TASK
from pyhudi_core.errors import SchemaMismatchError, columns_named
from pyhudi_core.index.base import POSITION, TAG_LEAVES, TAGS
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.schema import (
    cast_batch,
    floats_for_integers,
    normalise,
    reconcile,
    unfit_for_integers,
)
from pyhudi_core.model.schema_types import ColumnRule, Level, joined, keep_rules, walk

INTERNAL = (POSITION, TASK, SORT, ORDER, *TAGS.names, TAG_LEAVES)
"""Names that columns of a table cannot have."""

FindUnfit = Callable[[pa.Schema], Mapping[str, str]]
"""Looks at the values of these columns; returns the columns (dotted paths) with a number that is no integer, each with its first such number."""

_ALLOW_LOSSY = "pyhudi.schema.allow.lossy.widening"


def schema_after(
    before: pa.Schema,
    data: pa.Schema,
    find_unfit: FindUnfit,
    *,
    table: str,
    keys: Sequence[str],
    ordering: Sequence[str] = (),
    allow_lossy: bool = False,
    may_lack: Literal["nothing", "columns", "anything"] = "nothing",
    takes: Sequence[str] = (),
) -> pa.Schema:
    """Return the columns of a table after a write of data with this Arrow schema.

    Args:
        before: the table's columns.
        find_unfit: called only if the data has floating-point numbers for a column of integers.
        table: the table's location, for errors.
        keys: the key and partition columns.
        ordering: the ordering columns.
        allow_lossy: 64-bit integers may become double.
        may_lack: columns and fields of the table that the data may lack. A partial update lacks ``"columns"``, but not the fields of a struct.

        takes: the meta columns that the write uses.

    Raises `SchemaMismatchError` if the data does not fit.
    """
    incoming = normalise(data, known=before)
    refuse_internal_names(data, table, takes)
    if may_lack != "anything":
        refuse_missing(before, incoming, table, may_lack == "columns")
    fixed = (*keys, *ordering)
    doubtful = floats_for_integers(before, incoming, fixed)
    if not doubtful:
        return reconcile(before, incoming)
    names = dict.fromkeys(path.partition(".")[0] for path in doubtful)
    narrow = reconcile(before, incoming, doubtful)
    unfit = find_unfit(pa.schema([narrow.field(name) for name in names]))
    for path, value in sorted(unfit.items()):
        _refuse_floating(path, doubtful[path], value, keys, allow_lossy=allow_lossy)
    return reconcile(before, incoming, doubtful.keys() - unfit.keys())


def unfit_of(batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> dict[str, str]:
    """Return `FindUnfit` for batches that have the columns."""
    found: dict[str, str] = {}
    for batch in batches:
        found = unfit_for_integers(batch.select(columns.names), columns) | found
    return found


def whole_as_integers(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Return rows in which floating-point numbers for a column of integers are integers, and NaN is null, if all of them are whole or missing.

    A column whose values or fields do not fit stays as it is.
    """
    known = {field.name.lower(): field for field in table}
    for number, field in enumerate(rows.schema):
        stored = known.get(field.name.lower())
        if stored is None:
            continue
        before = pa.schema([stored.with_name(field.name)])
        try:
            data = normalise(pa.schema([field]), known=before)
            refuse_missing(before, data, "")
            doubtful = floats_for_integers(before, data)
            if not doubtful:
                continue
            column = pa.table([rows.column(number)], data.names).combine_chunks().to_batches()
            narrow = reconcile(before, data, doubtful)
            kept = reconcile(before, data, doubtful.keys() - unfit_of(column, narrow).keys())
        except SchemaMismatchError:
            continue
        made = pa.Table.from_batches([cast_batch(batch, kept) for batch in column], kept)
        rows = rows.set_column(number, kept.field(0), made.column(0))
    return rows


def name_rules(table: str, takes: Sequence[str] = ()) -> tuple[ColumnRule, ...]:
    """Return the rules for the names of written columns. ``takes``: the meta columns that the write uses."""
    return (
        ColumnRule(
            "a meta column",
            of_level=partial(_meta_name, table, takes),
            why_top="a write fills the columns of rows, and no fields",
        ),
        ColumnRule(
            "a name of writes", of_level=partial(_own_name, table), why_top="writes add columns to rows, and no fields"
        ),
    )


def refuse_internal_names(data: pa.Schema, table: str, takes: Sequence[str] = ()) -> None:
    """Raise `SchemaMismatchError` for columns with the name of an internal column, and for incomplete meta columns."""
    keep_rules(name_rules(table, takes), walk(data))


def _meta_name(table: str, takes: Sequence[str], level: Level) -> SchemaMismatchError | None:
    """Return the error for rows with only some meta columns; rows of a scan have all of them, which are ignored.

    If only some meta columns are given, another program made them, and their values would be lost.
    """
    own = [name for name in META_FIELDS if name in level.data and name not in takes]
    if not own or {*META_FIELDS} <= {*level.data, *takes}:
        return None
    return SchemaMismatchError(
        f"Column {own[0]} has the name of a meta column, which is filled by each write, so its values would be lost",
        table=table,
        hint="Rename the column, or leave it out. Rows of a scan are taken with all of their meta columns, or with none: scan(meta=False).",
    )


def _own_name(table: str, level: Level) -> SchemaMismatchError | None:
    taken = [name for name in level.data if name in INTERNAL]
    if not taken:
        return None
    message = f"Column {taken[0]} has a name that writes use for themselves"
    return SchemaMismatchError(message, table=table, hint="Rename the column.")


def meant(name: str, known: Sequence[str]) -> str | None:
    """Return the known name of one level that a misspelt name may mean."""
    return next(iter(get_close_matches(name, known, n=1)), None)


def refuse_missing(before: pa.Schema, data: pa.Schema, table: str, fields_only: bool = False) -> None:
    """Raise `SchemaMismatchError` for columns of the table (or only fields of structs) that the data lacks."""
    seen = [level for level in walk(data, before) if isinstance(level, Level) and level.missing]
    levels = [level for level in seen if level.parent or not fields_only]
    if levels:
        missing = [joined(level.parent, name) for level in levels for name in level.missing]
        whole = (
            "Add the columns (nulls are fine): a row is written whole, so a missing one would wipe out values. "
            "To keep the stored values: upsert(rows, partial=True). If a column was added by mistake: table.alter(drop=[...])."
        )
        if fields_only:
            whole = "Give structs with all their fields: a partial update keeps columns, and a struct is one value."
        raise SchemaMismatchError(
            f"The data has no {columns_named(missing)}, which the table has",
            table=table,
            hint=" ".join(filter(None, map(_renamed, levels))) or whole,
        )


def _renamed(level: Level) -> str:
    """Say which known names the new names of a level may mean; empty if no name is similar."""
    lowered = {name.lower() for name in level.missing}
    if similar := [joined(level.parent, name) for name in level.new if name.lower() in lowered]:
        return f"Names are compared with their case, and the data has {', '.join(map(repr, similar))}: rename."
    near = {joined(level.parent, name): meant(name, level.missing) for name in level.new}
    return " ".join(
        f"The data has {name!r}; did you mean {joined(level.parent, like)!r}?" for name, like in near.items() if like
    )


def _refuse_floating(path: str, kind: pa.DataType, value: str, keys: Sequence[str], *, allow_lossy: bool) -> None:
    if path in keys:
        raise SchemaMismatchError(
            f"Column {path} is a key or partition column of {kind}, and the data has the value {value}",
            hint="Give whole numbers, in a column of integers (pandas: Int64) where they are large; such a column never becomes floating",
        )
    if kind == pa.int64() and not allow_lossy:
        raise SchemaMismatchError(
            f"Column {path} is {kind} in the table, and the data has the value {value}, for which it would have to become double and could lose"
            " values that are in the table",
            hint="Give whole numbers or nulls, in a column of integers (pandas: Int64) where they are large. If the column is to become double for"
            f" good, open the table with options={{{_ALLOW_LOSSY!r}: 'true'}}",
        )
