"""Many rows of a stream: they go into files of the table's storage, and the write reads them there, so that they are never all in memory.

The write looks at rows several times: it counts them, looks their keys up, and writes them again after a conflict. A stream gives each row once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa

from pyhudi_core.engine.spilled import IpcPart, Scratch, SpilledRows
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.layout import PRIVATE

SINK = f"{PRIVATE}/sink"
"""The folder of staged rows; each write has a folder below it, which is removed at its end."""
IN_MEMORY = 64 << 20
"""So many bytes of rows are written from memory, more from files."""
_PART_BYTES = 32 << 20
"""Of the rows of one file."""
_BATCH_ROWS = 65_536


@contextmanager
def kept(context: TableContext, data: object) -> Iterator[object]:
    """The data of a write. The rows of a `pyarrow.RecordBatchReader` are a table if they are few; otherwise files, which are removed at the end.

    Raises `SchemaMismatchError` if the stream ends with an error, and `TableVersionError` for a table that is only read; no file stays.
    """
    if not isinstance(data, pa.RecordBatchReader):
        yield data
        return
    context.config.refuse_writing(context.table)
    batches = _read(data)
    first: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        first.append(batch)
        size += batch.nbytes
        if size > IN_MEMORY:
            break
    else:
        yield pa.Table.from_batches(first, data.schema)
        return
    folder = f"{SINK}/{context.runtime.ids.uuid()}"
    storage = context.root.without_fsync()
    try:
        scratch = Scratch(storage, folder)
        rows = chain(first, batches)
        del first, batches
        yield _staged(scratch, data.schema, rows)
    finally:
        storage.delete_many([info.path for info in storage.list(f"{folder}/")])
        storage.remove_empty_folders(folder)


def _read(data: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        for batch in data:
            yield from (batch.slice(start, _BATCH_ROWS) for start in range(0, len(batch), _BATCH_ROWS))
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"The data cannot be read as Arrow: {'; '.join(map(str, error.args))}",
            hint="Look at where the data comes from; each column takes values of one type.",
        ) from error


def _staged(scratch: Scratch, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> SpilledRows:
    """The rows in files, which follow each other."""
    parts: list[IpcPart] = []
    size = count = 0
    for batch in rows:
        written = _Counted(chain([batch], rows))
        parts.append(IpcPart(scratch.files, scratch.write(written, schema)))
        size, count = size + written.bytes, count + written.rows
    return SpilledRows(schema, parts, scratch, bytes=size, count=count)


class _Counted:
    """The batches of one file, and what they were."""

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
