"""Find new rows that are older than the delete of their key in the logs of a file slice.

A slice's logs contain a delete until they are compacted. Until then the delete wins over an older row, even if the row was written after the delete.
The compaction removes the delete and the row. After the compaction, an older row in a new log would suddenly become visible.

Memory is bounded by the slice's logs in the compared columns. If the logs are larger than a limit, memory is bounded by the limit
(``merge/key_parts.py``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.fold import Folded, fold
from pyhudi_core.merge.key_parts import KeyPart, LogsTooLargeError
from pyhudi_core.merge.law import Mask, Versions, mask
from pyhudi_core.merge.log_scan import LogScan
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.storage.base import Storage


def older_than_deletes(storage: Storage, piece: FileSlice, merging: Merging, rows: pa.Table, schema: pa.Schema) -> Mask:
    """Return which rows lose against a delete: the result of the logs for the row's key is the delete. Reads no base file.

    Only ordering values decide. After a partial block, readers let any row replace a delete, so a late row would bring the old base row back.

    Args:
        rows: rows with record key and ordering columns, without deletes.
        schema: the schema of the table's files; meta columns come first.

    Raises `CorruptionError` and its kinds, and `LimitExceededError`.
    """
    columns = merging.columns(pa.schema([schema.field(RECORD_KEY)]), schema)
    scan = LogScan(storage, piece.logs, piece.requested_times.__contains__)
    found = merging.log_columns(columns)
    late = np.zeros(len(rows), bool)

    def look(part: KeyPart) -> None:
        into, entries = 0, None
        try:
            entries = scan.entries(found, part, merging.most_log_bytes)
        except LogsTooLargeError as error:
            into = error.parts
        for smaller in part.cut(into):  # not inside the except block, where the error still holds the entries in memory
            look(smaller)
        if entries is not None:
            late[_lost(rows, fold(entries, merging.law()), merging)] = True

    look(KeyPart())
    return late


def _lost(rows: pa.Table, folded: Folded, merging: Merging) -> np.ndarray:
    """Return the places of the rows that lose because the state of their key is a delete."""
    deleted = np.flatnonzero(folded.deleted)
    found = pc.index_in(rows.column(RECORD_KEY), value_set=folded.keys.take(pa.array(deleted)))
    met = np.flatnonzero(mask(found.is_valid()))
    newer = Versions.of_rows(rows, merging.ordering).take(met)
    older = folded.versions(deleted[found.drop_null().to_numpy()])
    return met[~merging.law().newer_wins(newer, older, in_logs=True)]
