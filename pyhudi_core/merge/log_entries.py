"""The entries of a file slice's logs as one Arrow table: every record and every delete, in the order of their arrival.

Specification, "Log Format" and "Merge Modes". ``delete_orderings`` decides which deletes can be compared with rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pyhudi_core.formats.log.delete_columns import DeleteColumns
from pyhudi_core.merge.delete_orderings import comparable
from pyhudi_core.merge.law import Ints, Mask, Versions


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries in the order of their arrival.

    Attributes:
        rows: one row for each entry, in the reader's columns; null in deletes, and in columns that a partial block does not have.
        keys: record keys; if all entries have positions in the base file (`by_position`), the positions, as integers.
        deleted: which entries are deletes.
        outright: which deletes win over any older version: deletes without a comparable ordering value.
        listed: which deletes come from delete blocks; the other deletes are rows that are marked as deleted.
        orderings: ordering values, one column for each ordering field; null for a missing value.
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

    @property
    def by_position(self) -> bool:
        """Whether entries meet their base rows by position."""
        return pa.types.is_integer(self.keys.type)

    def versions(self, entries: Ints, deleted: Mask, outright: Mask) -> Versions:
        """Return these entries as versions for the law. ``deleted`` and ``outright`` are the values of the states."""
        columns = self.orderings
        taken = columns.take(pa.array(entries)) if columns.num_columns else columns
        return Versions(taken, deleted, outright, self.listed[entries])

    def followed_by(self, rows: pa.Table) -> LogEntries:
        """Return the same entries, followed by rows that a merger made; these rows have no keys."""
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
    """Collects the entries of blocks. ``schema`` is the reader's, meta columns first; ``ordering`` names the ordering columns; ``bytes`` is the size
    so far.

    ``marked``: a column and a word; a row with this word in this column is a delete (`Versions.of_rows`).
    """

    schema: pa.Schema
    ordering: Sequence[str]
    marked: tuple[str, str] = ("", "")
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
        """Add records in the reader's schema, with their keys or positions; ``columns`` are the names of the block's columns."""
        count = batch.num_rows
        if partial and self._first_partial is None:
            self._first_partial = sum(map(len, self._keys))
        table = pa.Table.from_batches([batch])
        self.bytes += table.nbytes + keys.nbytes
        self._rows.append(table)
        self._keys.append(keys if pa.types.is_integer(keys.type) else keys.cast(pa.string()))
        versions = Versions.of_rows(table, self.ordering, self.marked)
        self._deleted.append(versions.deleted)
        self._outright.append(versions.outright)
        self._listed.append(versions.listed)
        self._orderings.append(versions.orderings)
        self._present.append([np.full(count, name in columns or not partial) for name in self.schema.names])

    def add_deletes(self, deletes: DeleteColumns, positions: pa.Array | None = None) -> None:
        """Add the deletes of a delete block, with null in their rows. If entries have positions, the deletes have theirs, too."""
        count = len(deletes)
        rows = pa.table([pa.nulls(count, item.type) for item in self.schema], schema=_nullable(self.schema))
        kinds = [self.schema.field(name).type for name in self.ordering]
        values, compared = comparable(deletes, kinds)
        orderings = pa.table(dict(zip(self.ordering, values, strict=True))) if kinds else pa.table({}).select([])
        present = [np.ones(count, bool) for _ in self.schema.names]
        masks = [np.ones(count, bool), np.ones(count, bool), ~compared]
        self.bytes += (
            rows.nbytes + deletes.keys.nbytes + orderings.nbytes + sum(mask.nbytes for mask in masks + present)
        )
        self._rows.append(rows)
        self._keys.append(deletes.keys if positions is None else positions)
        self._deleted.append(masks[0])
        self._listed.append(masks[1])
        self._outright.append(masks[2])
        self._orderings.append(orderings)
        self._present.append(present)

    def finish(self) -> LogEntries | None:
        """Return all entries; None if there are none. Blocks can be without entries."""
        count = sum(map(len, self._keys))
        if not count:
            return None
        partial = self._first_partial is not None
        present = tuple(_join(parts) for parts in zip(*self._present, strict=True)) if partial else None
        schema = _nullable(self.schema)
        orderings = pa.concat_tables(self._orderings) if self.ordering else pa.table({})
        return LogEntries(
            pa.concat_tables([rows.cast(schema) for rows in self._rows]).combine_chunks(),
            pa.chunked_array(self._keys),
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
