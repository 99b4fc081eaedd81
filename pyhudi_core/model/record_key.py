"""The record key of every row of a batch.

Format reference: timeline 6.2. One key field gives the text of its value; several fields give ``field1:value1,field2:value2`` with ``__null__`` and
``__empty__`` for missing parts. Nothing is escaped, as in Hudi, so different values can have the same text: ``a="1,b:2", b="3"`` and ``a="1",
b="2,b:3"``. Such values are refused, because one of the two rows would replace the other.

Releases of Hudi differ for a COMPLEX generator over a single field: 1.0.2 writes the plain value, 1.1 and newer
``field:value``. The plain value is used, unless the caller says that the table holds the newer encoding. New tables never
use this combination (see ``new_table``).

Invariants: no key is null or empty; different keys have different texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import InvalidRecordKeyError
from pyhudi_core.model.key_text import as_text, key_column, text_problem
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import KeyGenerator, TableConfig

NULL_PART = "__null__"
EMPTY_PART = "__empty__"
LONGEST_INDEXED = (1 << 15) - 1
"""The maximum bytes of a key in an index of the metadata table: an HFile stores the length in two bytes with a sign."""


def record_keys(
    batch: pa.RecordBatch, config: TableConfig, complex_single_new_encoding: bool = False, *, stored: bool = False
) -> pa.Array:
    """Return the record key of every row as a string array without nulls.

    Args:
        batch: rows with the key columns; with ``_hoodie_record_key`` if the table generates keys, which cannot be computed from other columns.
        config: the table.
        complex_single_new_encoding: a COMPLEX generator over one field writes ``field:value`` as Hudi 1.1 does.
        stored: whether the rows are from the table. Then ambiguous keys are accepted, because no other row has their text.

    Raises:
        InvalidRecordKeyError: a column is missing, its type has no agreed text, a row's key is null or empty, or another key has its text.
    """
    fields = config.identifying_fields
    columns = [_text_column(batch, field) for field in fields]
    if len(fields) == 1 and not (complex_single_new_encoding and config.keygenerator_type is KeyGenerator.COMPLEX):
        _check_single(columns[0], fields[0])
        return columns[0]
    _check_composite(columns, fields)
    if not stored and len(fields) > 1:
        _refuse_ambiguous(columns, fields)
    parts = [part for field, column in zip(fields, columns, strict=True) for part in (f"{field}:", _part(column), ",")]
    return pc.binary_join_element_wise(*parts[:-1], "")


def refuse_long_keys(keys: pa.Array, config: TableConfig) -> None:
    """Raise `InvalidRecordKeyError` for keys that are too long for the record index of the table."""
    if "record_index" not in config.written_metadata_partitions:
        return
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    if longest > LONGEST_INDEXED:
        raise InvalidRecordKeyError(
            f"A record key has {longest:,} bytes, and the record index of the table has keys of at most {LONGEST_INDEXED:,} bytes",
            hint="Take a shorter key, such as a hash of the text, or drop the index: table.indexes.drop('record_index'). Nothing was written",
        )


def key_columns(config: TableConfig) -> tuple[str, ...]:
    """Return the columns of data files that `stored_keys` needs."""
    return (RECORD_KEY,) if config.populate_meta_fields else config.record_key_fields


def stored_keys(batch: pa.RecordBatch, config: TableConfig) -> pa.Array:
    """Return the record keys of stored rows: their meta column, or computed from the key columns in a table without meta columns."""
    return batch.column(RECORD_KEY) if config.populate_meta_fields else record_keys(batch, config, stored=True)


def ambiguous_part(fields: Sequence[str]) -> str:
    """Return the regular expression for values that make the text of a key ambiguous; empty for a key of one column.

    A value is ambiguous if it contains the text of a missing part, or the beginning of a later part. RE2 and Java understand the expression in the
    same way.
    """
    later = "|".join(re.escape(field) for field in fields[1:])
    return f"^(?:{NULL_PART}|{EMPTY_PART})$|,(?:{later}):" if later else ""


def _refuse_ambiguous(columns: Sequence[pa.Array], fields: tuple[str, ...]) -> None:
    pattern = ambiguous_part(fields)
    for field, column in zip(fields, columns, strict=True):
        found = column.filter(pc.match_substring_regex(column, pattern))
        if len(found):
            raise ambiguous_key(f"{field}={found[0].as_py()[:80]!r}", fields)


def ambiguous_key(example: str, fields: Sequence[str]) -> InvalidRecordKeyError:
    """Return the error for rows whose key has the same text as a key of other values."""
    names = [f"',{field}:'" for field in fields[1:]]
    return InvalidRecordKeyError(
        f"The key of a row can be confused with another one ({example}): Hudi joins the key columns {', '.join(fields)} to one text",
        hint=f"Values of key columns cannot be '{NULL_PART}' or '{EMPTY_PART}', nor contain {' or '.join(names)}. Change the values, or use one key"
        " column. A row that is in the table is deleted with delete(where=...). Nothing was written",
    )


def _text_column(batch: pa.RecordBatch, field: str) -> pa.Array:
    column = key_column(batch, field)
    if column is None:
        raise InvalidRecordKeyError(
            f"the data has no key column {field!r}; it has {', '.join(batch.schema.names[:20])}",
            hint="Add the column, or rename the one that holds the key. Nothing was written",
        )
    problem = text_problem(column.type, timestamps=True)
    if problem is not None:
        raise InvalidRecordKeyError(
            f"the key column {field!r} has the type {column.type}: {problem}",
            hint="Use string, integer, boolean, decimal, date or timestamp columns as keys (pandas makes numbers with gaps floating-point). "
            "Nothing was written",
        )
    try:
        return as_text(column)
    except pa.ArrowInvalid as error:
        raise InvalidRecordKeyError(
            f"the key column {field!r} of type {column.type} holds values that microseconds cannot hold: {error}",
            hint="Round the column to microseconds. Nothing was written",
        ) from None


def _check_single(column: pa.Array, field: str) -> None:
    bad = column.null_count + (pc.sum(pc.equal(column, "")).as_py() or 0)
    if bad:
        raise without_key(bad, (field,))


def _check_composite(columns: list[pa.Array], fields: tuple[str, ...]) -> None:
    present = [pc.fill_null(pc.not_equal(column, ""), False) for column in columns]
    any_present = present[0]
    for column in present[1:]:
        any_present = pc.or_(any_present, column)
    bad = len(any_present) - (pc.sum(any_present).as_py() or 0)
    if bad:
        raise without_key(bad, fields)


def without_key(rows: int, fields: tuple[str, ...]) -> InvalidRecordKeyError:
    """Return the error for rows whose key columns are all null or empty."""
    if len(fields) == 1:
        return InvalidRecordKeyError(
            f"At least {rows} of the rows have no value in the key column {fields[0]!r} (null or empty)",
            hint="Fill in or drop these rows. Nothing was written",
        )
    return InvalidRecordKeyError(
        f"At least {rows} of the rows have no value in any of the key columns {', '.join(fields)}",
        hint="Fill in or drop these rows; one of the columns may be null, not all. Nothing was written",
    )


def _part(column: pa.Array) -> pa.Array:
    filled = pc.fill_null(column, NULL_PART)
    return pc.if_else(pc.equal(filled, ""), EMPTY_PART, filled)
