"""Streams of many rows: the rows are stored in files of the table's storage, and the write reads them there, so that they are never all in memory.

The write reads rows several times: it counts them, looks up their keys, and writes them again after a conflict. But a stream yields each row only
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from pyhudi_core.engine.local import readable
from pyhudi_core.engine.spilled import IpcPart, Scratch, SpilledRows
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import waiting_rows

IN_MEMORY = 64 << 20
"""The maximum bytes of rows that are written from memory. More rows are written from files."""
_PART_BYTES = 32 << 20
"""The maximum bytes of the rows in one file."""
_BATCH_ROWS = 65_536


@dataclass(slots=True)
class Streams:
    """The files of one write's streams. Call `remove` at its end."""

    context: TableContext
    _claimed: list[waiting_rows.Claimed] = field(default_factory=list)

    def kept(self, data: pa.RecordBatchReader) -> pa.Table | SpilledRows:
        """Return the rows of a stream: few rows in memory, many rows in files. Raises the errors of the stream, and `StorageError`."""
        batches = _read(data)
        first: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            first.append(batch)
            size += batch.nbytes
            if size > IN_MEMORY:
                break
        else:
            return pa.Table.from_batches(first, data.schema)
        waiting_rows.remove_dead(self.context)
        claimed = waiting_rows.claim(self.context)
        self._claimed.append(claimed)
        rows = chain(first, batches)
        del first, batches  # otherwise the first batches stay in memory until the last one is written
        return _staged(Scratch(self.context.root.without_fsync(), claimed.folder), data.schema, rows)

    def remove(self) -> None:
        """Remove the files. A failure is logged."""
        while self._claimed:
            waiting_rows.give_back(self.context, self._claimed.pop())


def _read(data: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with readable():
        for number, batch in enumerate(data, 1):
            if not batch.schema.equals(data.schema):
                raise SchemaMismatchError(
                    f"Batch {number} of the stream has {_columns(batch.schema)}, and the stream has {_columns(data.schema)}",
                    hint="Give each batch the columns of the stream: batch.select(schema.names).cast(schema).",
                )
            yield from (batch.slice(start, _BATCH_ROWS) for start in range(0, len(batch), _BATCH_ROWS))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _staged(scratch: Scratch, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> SpilledRows:
    """Return the rows in files, one file after the other."""
    parts: list[IpcPart] = []
    size = count = 0
    for batch in rows:
        written = _Counted(chain([batch], rows))
        parts.append(IpcPart(scratch.files, scratch.write(written, schema)))
        size, count = size + written.bytes, count + written.rows
    return SpilledRows(schema, parts, scratch, bytes=size, count=count)


class _Counted:
    """Counts the batches of one file."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self.bytes = self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.bytes += batch.nbytes
            self.rows += len(batch)
            yield batch
            if self.bytes >= _PART_BYTES:
                return
