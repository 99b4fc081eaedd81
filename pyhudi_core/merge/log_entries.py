"""What the logs of a file slice say, as one Arrow table: every record and every delete, in the order of their arrival.

Specification, "Log Format" and "Merge Modes"; the classes of ordering values are those of Hudi's Java writers, which matter because a delete whose
ordering value is of another class than the column's cannot be compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.log_contents import SEVERAL, DeleteRecord

IS_DELETED = "_hoodie_is_deleted"
Mask = npt.NDArray[np.bool_]
_INTEGER_ZERO = ("IntWrapper", 0)


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries in the order of their arrival.

    Attributes:
        rows: one row an entry, in the reader's columns; nulls for deletes and for columns that a partial block has not.
        keys: record keys.
        deleted: which entries are deletes.
        outright: which deletes win whatever was there: those without an ordering value that can be compared.
        orderings: ordering values, one column for each ordering field; null where there is none.
        present: for each column of ``rows``, which entries have it; None if there was no partial block.
    """

    rows: pa.Table
    keys: pa.ChunkedArray
    deleted: Mask
    outright: Mask
    orderings: pa.Table
    present: tuple[Mask, ...] | None

    def __len__(self) -> int:
        return self.rows.num_rows

    def followed_by(self, rows: pa.Table) -> LogEntries:
        """The same entries with rows that were made out of them behind; keys are those of the first ones only."""
        none = np.zeros(rows.num_rows, bool)
        orderings = rows.select(self.orderings.column_names)
        return replace(
            self,
            rows=pa.concat_tables([self.rows, rows]),
            deleted=np.concatenate([self.deleted, none]),
            outright=np.concatenate([self.outright, none]),
            orderings=pa.concat_tables([self.orderings, orderings]) if orderings.num_columns else self.orderings,
        )


@dataclass(slots=True)
class EntryCollector:
    """Puts blocks together. ``schema`` is the reader's, meta columns first; ``ordering`` names the ordering columns."""

    schema: pa.Schema
    ordering: Sequence[str]
    _rows: list[pa.Table] = field(default_factory=list)
    _keys: list[pa.Array] = field(default_factory=list)
    _deleted: list[Mask] = field(default_factory=list)
    _outright: list[Mask] = field(default_factory=list)
    _orderings: list[pa.Table] = field(default_factory=list)
    _present: list[list[Mask]] = field(default_factory=list)
    _partial: bool = False

    def add_records(self, batch: pa.RecordBatch, keys: pa.Array, columns: frozenset[str], partial: bool) -> None:
        """Records in the reader's schema; ``columns`` are those that the block has."""
        count = batch.num_rows
        table = pa.Table.from_batches([batch])
        self._rows.append(table)
        self._keys.append(keys.cast(pa.string()))
        deleted = np.zeros(count, bool)
        if IS_DELETED in batch.schema.names:
            deleted = np.asarray(pc.fill_null(batch.column(IS_DELETED), False).to_numpy(zero_copy_only=False), bool)
        self._deleted.append(deleted)
        self._outright.append(np.zeros(count, bool))
        self._orderings.append(table.select(list(self.ordering)))
        self._partial = self._partial or partial
        self._present.append([np.full(count, name in columns or not partial) for name in self.schema.names])

    def add_deletes(self, deletes: Sequence[DeleteRecord]) -> None:
        """Deletes; their rows are null but for the key."""
        count = len(deletes)
        self._rows.append(pa.table([pa.nulls(count, item.type) for item in self.schema], schema=_nullable(self.schema)))
        self._keys.append(pa.array([item.record_key for item in deletes], pa.string()))
        self._deleted.append(np.ones(count, bool))
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
        """The entries; None if there are none."""
        if not self._rows:
            return None
        present = tuple(_join(parts) for parts in zip(*self._present, strict=True)) if self._partial else None
        schema = _nullable(self.schema)
        orderings = pa.concat_tables(self._orderings) if self.ordering else pa.table({})
        return LogEntries(
            pa.concat_tables([rows.cast(schema) for rows in self._rows]).combine_chunks(),
            pa.chunked_array(self._keys, pa.string()),
            _join(self._deleted),
            _join(self._outright),
            orderings,
            present,
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
            found.append(pa.scalar(None, column) if part is None else pa.scalar(part[1]).cast(column))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
    return tuple(found)


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
