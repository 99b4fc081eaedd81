"""Merge the logs of one file slice with each other into one log of the same file group (Hudi's log compaction).

The new log holds one entry for each key: the merged row or delete of the logs. Rows keep their meta columns, and deletes their ordering
values. The new entry of a key equals the merged state of its old entries. So a reader gets the same rows if it skips the old logs (the header
COMPACTED_BLOCK_TIMES names them) and if it merges them, too. Mergers that make rows, and partial updates, do not have this property; their logs are
not merged.

Memory is bounded by the logs of the slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.formats.log.writer import BlockFormat, LogSchema, LogWriter
from pyhudi_core.merge.fold import Folded, fold, take_rows
from pyhudi_core.merge.log_scan import LogScan
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, join
from pyhudi_core.transaction import markers
from pyhudi_core.write.handles.base import HandleContext, WrittenFile
from pyhudi_core.write.handles.new_file import new_token


@dataclass(frozen=True, slots=True)
class LogCompactor:
    """How logs are merged and written. ``form``: the format of data blocks."""

    merging: Merging
    form: BlockFormat

    def compact(self, context: HandleContext, piece: FileSlice) -> WrittenFile | None:
        """Write the new log of a slice; None if its logs have no entry, or partial updates. Raises `CorruptionError` and its kinds."""
        merging, schema = self.merging, context.settings.schema
        scan = LogScan(context.runtime.storage, piece.logs, piece.requested_times.__contains__)
        entries = scan.entries(merging.log_columns(schema))
        if entries is None or entries.present is not None:
            return None
        return self._write(context, piece, fold(entries, merging.law()), len(entries))

    def _write(self, context: HandleContext, piece: FileSlice, state: Folded, entries: int) -> WrittenFile:
        settings, storage = context.settings, context.runtime.storage
        token = new_token(context.task, context.runtime.ids, salt=settings.salt, of=settings.token_salt)
        path = join(piece.partition, str(LogFileName(piece.file_id, settings.requested_time, 1, token)))
        context.refuse_end()
        markers.create(storage, settings.requested_time, path, "CREATE")
        output = context.output_at(path)
        try:
            # Name all logs, also the logs that an earlier log compaction replaced: the list in its log is replaced together with this log.
            times = tuple(dict.fromkeys(log.name.requested_time for log in reversed(piece.logs)))
            of = LogSchema(settings.requested_time, settings.schema, settings.avro_schema, compacted_times=times)
            writer = LogWriter(output.stream, of, self.form, settings.codec)
            listed = state.entries.listed[state.entry]
            rows = np.flatnonzero(~listed)
            if len(rows):
                writer.write(take_rows(state, rows).select(settings.schema.names).cast(settings.schema))
            for chosen in (listed & ~state.outright, listed & state.outright):
                if chosen.any():
                    writer.write_deletes(_deletes(state, np.flatnonzero(chosen), piece.partition))
            size = output.close().size
        except BaseException:
            output.abort()
            raise
        stat = WriteStat(
            file_id=piece.file_id,
            path=path,
            partition=piece.partition,
            prev_commit=settings.requested_time,  # as in commits of Hudi
            rows=writer.rows,
            updates=writer.rows,
            deletes=writer.deletes,
            size=size,
            merged_logs=len(piece.logs),
            merged_bytes=sum(log.size for log in piece.logs),
            merged_entries=entries,
        )
        return WrittenFile(stat, writer.ranges)


def _deletes(state: Folded, which: np.ndarray, partition: str) -> Deletes:
    """Return the deletes in merged states that come from delete blocks. Deletes that win over every older version have no ordering value."""
    orderings = state.entries.orderings
    whole = orderings.num_columns > 0 and not state.outright[which[0]]
    taken = orderings.take(pa.array(state.entry[which])) if whole else pa.table({})
    return Deletes(state.keys.take(pa.array(which)), partition, taken)
