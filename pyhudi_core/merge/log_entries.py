"""The entries of a file slice's logs as one Arrow table: every record and every delete, in the order of their arrival.

Specification, "Log Format" and "Merge Modes". A delete block stores the Java class of each ordering value. If the class does not fit the ordering
column, the values cannot be compared, and the delete counts as one without an ordering value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi_core.formats.log.contents import SEVERAL, DeleteRecord
from pyhudi_core.merge.law import Ints, Mask, Versions

_INTEGER_ZERO = ("IntWrapper", 0)
_DELETE_BYTES = 32
"""What a delete takes beside its key, at least."""


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries in the order of their arrival.

    Attributes:
        rows: one row for each entry, in the reader's columns; null in deletes, and in columns that a partial block does not have.
        keys: record keys.
        deleted: which entries are deletes.
        outright: which deletes win over any older version: those without an ordering value that can be compared.
        listed: which deletes come from delete blocks; the other deletes are rows that say they are deleted.
        orderings: ordering values, one column for each ordering field; null where there is none.
        present: for each column of ``rows``, which entries have it; None if there was no partial block.
        first_partial: number of the first entry of the first partial block; the number of entries if there is no such block.
    """

    rows: pa.Table
    keys: pa.ChunkedArray
    deleted: Mask
    outright: Mask
    listed: Mask
    orderings: pa.Table
    present: tuple[Mask, ...] | None
    first_partial: int

    def __len__(self) -> int:
        return self.rows.num_rows

    def versions(self, entries: Ints, deleted: Mask, outright: Mask) -> Versions:
        """What the law compares of these entries; whether the state that they stand for is a delete is given."""
        columns = self.orderings
        taken = columns.take(pa.array(entries)) if columns.num_columns else columns
        return Versions(taken, deleted, outright, self.listed[entries])

    def followed_by(self, rows: pa.Table) -> LogEntries:
        """The same entries, followed by rows that a merger made; these rows have no keys."""
        none = np.zeros(rows.num_rows, bool)
        orderings = rows.select(self.orderings.column_names)
        return replace(
            self,
            rows=pa.concat_tables([self.rows, rows]),
            deleted=np.concatenate([self.deleted, none]),
            outright=np.concatenate([self.outright, none]),
            listed=np.concatenate([self.listed, none]),
            orderings=pa.concat_tables([self.orderings, orderings]) if orderings.num_columns else self.orderings,
        )


@dataclass(slots=True)
class EntryCollector:
    """Puts blocks together. ``schema`` is the reader's, meta columns first; ``ordering`` names the ordering columns; ``bytes`` are held so far."""

    schema: pa.Schema
    ordering: Sequence[str]
    _rows: list[pa.Table] = field(default_factory=list)
    _keys: list[pa.Array] = field(default_factory=list)
    _deleted: list[Mask] = field(default_factory=list)
    _outright: list[Mask] = field(default_factory=list)
    _listed: list[Mask] = field(default_factory=list)
    _orderings: list[pa.Table] = field(default_factory=list)
    _present: list[list[Mask]] = field(default_factory=list)
    _first_partial: int | None = None
    bytes: int = 0

    def add_records(self, batch: pa.RecordBatch, keys: pa.Array, columns: frozenset[str], partial: bool) -> None:
        """Add records in the reader's schema; ``columns`` are the names that the block has."""
        count = batch.num_rows
        if partial and self._first_partial is None:
            self._first_partial = sum(map(len, self._keys))
        table = pa.Table.from_batches([batch])
        self.bytes += table.nbytes + keys.nbytes
        self._rows.append(table)
        self._keys.append(keys.cast(pa.string()))
        versions = Versions.of_rows(table, self.ordering)
        self._deleted.append(versions.deleted)
        self._outright.append(versions.outright)
        self._listed.append(versions.listed)
        self._orderings.append(versions.orderings)
        self._present.append([np.full(count, name in columns or not partial) for name in self.schema.names])

    def add_deletes(self, deletes: Sequence[DeleteRecord]) -> None:
        """Add the deletes of a delete block; their rows are null."""
        count = len(deletes)
        self.bytes += sum(len(item.record_key or "") for item in deletes) + _DELETE_BYTES * count
        self._rows.append(pa.table([pa.nulls(count, item.type) for item in self.schema], schema=_nullable(self.schema)))
        self._keys.append(pa.array([item.record_key for item in deletes], pa.string()))
        self._deleted.append(np.ones(count, bool))
        self._listed.append(np.ones(count, bool))
        kinds = [self.schema.field(name).type for name in self.ordering]
        values = [_comparable(item, kinds) for item in deletes]
        self._outright.append(np.array([known is None for known in values], bool))
        columns = {
            name: pa.array([None if known is None else known[number] for known in values], kind)
            for number, (name, kind) in enumerate(zip(self.ordering, kinds, strict=True))
        }
        self._orderings.append(pa.table(columns) if columns else pa.table({}).select([]))
        self._present.append([np.ones(count, bool) for _ in self.schema.names])

    def finish(self) -> LogEntries | None:
        """All entries; None if there are none, which can happen although there are blocks."""
        count = sum(map(len, self._keys))
        if not count:
            return None
        partial = self._first_partial is not None
        present = tuple(_join(parts) for parts in zip(*self._present, strict=True)) if partial else None
        schema = _nullable(self.schema)
        orderings = pa.concat_tables(self._orderings) if self.ordering else pa.table({})
        return LogEntries(
            pa.concat_tables([rows.cast(schema) for rows in self._rows]).combine_chunks(),
            pa.chunked_array(self._keys, pa.string()),
            _join(self._deleted),
            _join(self._outright),
            _join(self._listed),
            orderings,
            present,
            count if self._first_partial is None else self._first_partial,
        )


def _join(parts: Iterable[Mask]) -> Mask:
    return np.concatenate(list(parts))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([item.with_nullable(True) for item in schema])


def _comparable(item: DeleteRecord, columns: Sequence[pa.DataType]) -> tuple[pa.Scalar, ...] | None:
    """A delete's ordering values, if they can be compared with the columns'; None for a delete that wins outright."""
    if item.kind is None or not columns:
        return None
    parts = item.ordering if item.kind == SEVERAL else ((item.kind, item.ordering),)
    if len(parts) != len(columns) or parts == (_INTEGER_ZERO,):
        return None
    found = []
    for part, column in zip(parts, columns, strict=True):
        if part is not None and part[0] not in _classes_of(column):
            return None
        try:
            found.append(pa.scalar(None, column) if part is None else _value(part[1], column))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
    return tuple(found)


def _value(value: Any, column: pa.DataType) -> pa.Scalar:
    """A value in the column's type; Spark's dates are ints, the days since 1970."""
    days = pa.types.is_date32(column) and isinstance(value, int)
    return (pa.scalar(value, pa.int32()) if days else pa.scalar(value)).cast(column)


def _classes_of(column: pa.DataType) -> frozenset[str]:
    """The wrappers in which Java writers put values of a column."""
    types = pa.types
    if types.is_int32(column):
        return frozenset({"IntWrapper"})
    if types.is_int64(column):
        return frozenset({"LongWrapper"})
    if types.is_timestamp(column):
        return frozenset({"LongWrapper", "TimestampMicrosWrapper"})
    if types.is_date32(column):
        return frozenset({"DateWrapper", "LocalDateWrapper", "IntWrapper"})
    if types.is_decimal(column):
        return frozenset({"DecimalWrapper"})
    if types.is_string(column):
        return frozenset({"StringWrapper"})
    named = {pa.float32(): "FloatWrapper", pa.float64(): "DoubleWrapper", pa.bool_(): "BooleanWrapper"}
    return frozenset({named[column]}) if column in named else frozenset()
