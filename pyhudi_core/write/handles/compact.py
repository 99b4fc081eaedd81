"""Rewrite one file slice with logs as a base file of the same file group (Hudi's ``HoodieMergeHandle`` in a compaction).

Rows keep their meta columns, so they keep the commit that changed them; only the name of the file is new. The merge is the same as in reads
(``merge/merged_slice.py``). Memory is bounded by the slice's logs, a row group of the base file and the file being written. If the logs are larger
than ``hoodie.memory.merge.max.size``, this option is the bound, and rows are in the order of parts of the keys.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileFooter, BaseFileReader
from pyhudi_core.merge.merged_slice import Merging, PartRows, slice_rows
from pyhudi_core.storage.base import Storage
from pyhudi_core.write.handles.base import HandleContext, WrittenFile
from pyhudi_core.write.handles.new_file import NewFile


def compact(context: HandleContext, piece: FileSlice, merging: Merging) -> WrittenFile:
    """Write the new base file of a slice. The new file may have no rows. Raises `CorruptionError` and its kinds, and `UnsupportedTableError`."""
    storage, schema = context.runtime.storage, context.settings.schema
    rows = slice_rows(storage, piece, merging, schema, schema)
    file = NewFile.open(context, piece.partition, piece.file_id, _footer(storage, piece), rows.entries)
    try:
        entries = sum(_write(file, part, schema) for part in rows.parts)
        previous = None if piece.base is None else (piece.base.name.requested_time, str(piece.base.name))
        written = file.close(previous)
    except BaseException:
        file.abandon()
        raise
    stat = replace(
        written.stat,
        merged_logs=len(piece.logs),
        merged_bytes=sum(log.size for log in piece.logs),
        merged_entries=entries,
    )
    return WrittenFile(stat, written.ranges)


def _write(file: NewFile, rows: PartRows, schema: pa.Schema) -> int:
    """Write a part; return the number of entries in its logs."""
    for batch in rows.kept():
        file.keep(batch.select(schema.names).cast(schema))
    for batch in rows.added():
        file.adopt(batch.select(schema.names).cast(schema))
        file.counts["inserts"] += len(batch)
    if rows.merge is not None:
        file.counts["updates"] += rows.merge.updates
        file.counts["deletes"] += rows.merge.deletes
    return rows.entries


def _footer(storage: Storage, piece: FileSlice) -> BaseFileFooter | None:
    """Return the key information in the footer of the slice's base file."""
    if piece.base is None:
        return None
    with storage.open_input(piece.base.path) as source:
        return BaseFileReader(source, piece.base.path, []).footer()
