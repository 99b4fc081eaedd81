"""The append handle: writes new versions of rows, and deletes, to a log file on top of a slice (Hudi's ``HoodieAppendHandle``).

Each write makes a new log file, so storages need no append, and a rollback deletes files (decision 0039). An upsert does not read the slice: the
winning version of a row is determined when the slice is read or compacted. The exception is a row that is older than the delete of its key in the
logs, if the plan says that this matters (`LateRows` in ``write/pipeline.py``): such a row is omitted, because it would come back when a compaction
removes the delete.

A delete has the ordering value of the row that it deletes. The logs of a slice are merged with each other before they meet the base file. So a late
row would win over a delete without ordering value, and then lose to the base file's row, which would reappear. Therefore a delete in a table with
event-time ordering reads keys and ordering values of its slice. Deletes and inserts on a slice with logs also read the slice, to find out which keys
exist.

A file group may begin with a log (non-blocking concurrency control): then its slice has no file yet.

Memory is bounded by the new rows of the file group and, where the slice is read, by its logs in these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.formats.log.writer import LogSchema, LogWriter
from pyhudi_core.index.base import TAG_POSITION, leaving
from pyhudi_core.merge.late_rows import older_than_deletes
from pyhudi_core.merge.law import MergeLaw, Versions, says_deleted
from pyhudi_core.merge.merged_slice import LivingRows
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, join
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.transaction import markers
from pyhudi_core.write.handles.base import (
    HandleContext,
    KnownKeys,
    LogSettings,
    WrittenFile,
    filled,
    known_keys,
    refuse_unknown_rows,
    stamped,
)
from pyhudi_core.write.handles.new_file import announce_partition, new_token
from pyhudi_core.write.plan import Bucket


class AppendHandle:
    """Writes the rows of a bucket to one log file; none if there is nothing to write."""

    def __init__(self, context: HandleContext, bucket: Bucket, piece: FileSlice) -> None:
        assert context.settings.logs is not None
        self._context = context
        self._logs: LogSettings = context.settings.logs
        self._bucket = bucket
        self._piece = piece
        self._output: OutputFile | None = None
        self._written: list[WrittenFile] = []

    def write(self, rows: pa.Table) -> None:
        """Write all rows of the bucket, in one call, as `WriteHandle.write`."""
        if self._context.settings.deletes:
            self._append(rows.slice(0, 0), self._deletes_of(rows))
        elif self._logs.known is KnownKeys.UPDATE:
            self._upsert(rows)
        else:
            self._insert(rows)

    def close(self) -> list[WrittenFile]:
        """Close as `WriteHandle.close`."""
        return self._written

    def abandon(self) -> None:
        """Give up as `WriteHandle.abandon`."""
        if self._output is not None:
            self._output.abort()

    def _upsert(self, rows: pa.Table) -> None:
        """Append new versions of rows. A row whose key moves to another partition is a delete here."""
        leaves = leaving(rows)
        flagged = says_deleted(rows) & ~leaves
        kept = self._without_late(rows.filter(pa.array(~(leaves | flagged))))
        if self._context.changes is not None:
            left = rows.column(RECORD_KEY).filter(pa.array(leaves))
            for keys in (left, self._deleted_by(rows.filter(pa.array(flagged)))):
                self._context.note_deleted(self._bucket.partition, self._bucket.file_id, keys)
        deletes = self._flagged_deletes(rows.filter(pa.array(leaves | flagged)))
        updates = self._context.settings.updates_only
        self._append(self._known_or_completed(kept) if updates else kept, deletes)
        self._note_new(kept.column(RECORD_KEY))

    def _insert(self, rows: pa.Table) -> None:
        """Append rows whose keys were deleted here. Raises `DuplicateKeyError` for the other rows, unless they are to be skipped."""
        rows = self._without_known(rows)
        flagged = says_deleted(rows)
        new = self._without_late(rows.filter(pa.array(~flagged)))
        self._append(new, self._flagged_deletes(rows.filter(pa.array(flagged))))
        self._note_new(new.column(RECORD_KEY))

    def _append(self, rows: pa.Table, deletes: Deletes) -> None:
        """Write the file: rows first, then deletes."""
        if not len(rows) and not len(deletes):
            return
        settings, bucket = self._context.settings, self._bucket
        if bucket.new_partition:
            announce_partition(self._context.runtime, settings.requested_time, bucket.partition)
        name = self._open()
        assert self._output is not None
        base = None if self._piece.base is None else self._piece.base.name.requested_time
        partial = settings.partial is not None and settings.partial.in_logs
        of = settings.partial if settings.partial is not None and partial else settings
        schema = LogSchema(settings.requested_time, of.schema, of.avro_schema, base)
        writer = LogWriter(self._output.stream, schema, self._logs.form, settings.codec, partial)
        if len(rows):
            # In logs the file name of a row is the file id alone.
            whole = stamped(self._context, rows, bucket.partition, bucket.file_id, of.schema)
            writer.write(whole, self._positions(rows))
        if len(deletes):
            writer.write_deletes(deletes)
        log = LogFile(bucket.partition, name, self._output.close().size)
        self._output = None
        new = len(rows) if bucket.base is None else 0
        stat = WriteStat(
            file_id=bucket.file_id,
            path=log.path,
            partition=bucket.partition,
            prev_commit=settings.requested_time,  # as in commits of Hudi
            rows=len(rows),
            inserts=new,
            updates=len(rows) - new,
            deletes=len(deletes),
            size=log.size,
            slice_logs=len(self._piece.logs) + 1,
        )
        stat = stat if settings.changes is None else self._with_slice(stat)
        self._written.append(WrittenFile(stat, writer.ranges))

    def _with_slice(self, stat: WriteStat) -> WriteStat:
        """Return the stat for a table with change data capture: Hudi finds the changes of a log by the files of the slice."""
        base, logs = self._piece.base, (*(str(log.name) for log in self._piece.logs), stat.path.rpartition("/")[2])
        name = "" if base is None else str(base.name)
        return replace(stat, prev_commit=self._piece.requested_time, base_file=name, log_files=logs)

    def _open(self) -> LogFileName:
        """Announce and open the log file; return its name. Hudi's markers of logs also say CREATE if each write makes its own logs."""
        settings, runtime, bucket = self._context.settings, self._context.runtime, self._bucket
        token = new_token(self._context.task, runtime.ids, salt=settings.salt)
        name = LogFileName(bucket.file_id, settings.requested_time, 1, token)
        path = join(bucket.partition, str(name))
        self._context.refuse_end()
        markers.create(runtime.storage, settings.requested_time, path, "CREATE")
        if settings.early is not None:
            settings.early.refuse(runtime.storage, runtime.clock, bucket.partition, bucket.file_id)
        self._output = self._context.output_at(path)
        return name

    def _positions(self, rows: pa.Table) -> pa.Array | None:
        """Return the positions of the old versions of rows; None unless the index knows all of them."""
        if not self._logs.positions or TAG_POSITION not in rows.column_names:
            return None
        found = rows.column(TAG_POSITION)
        return None if found.null_count else pa.array(found.to_numpy(), pa.int64())

    def _deletes(self, rows: pa.Table, orderings: pa.Table) -> Deletes:
        return Deletes(rows.column(RECORD_KEY), self._bucket.partition, orderings, self._positions(rows))

    def _flagged_deletes(self, rows: pa.Table) -> Deletes:
        """Return the deletes for rows that have their own ordering values."""
        ordering = list(self._context.settings.ordering)
        return self._deletes(rows, rows.select(ordering) if ordering else pa.table({}))

    def _deletes_of(self, rows: pa.Table) -> Deletes:
        """Return the deletes of existing keys, with the ordering values of their rows."""
        ordering, orderings = list(self._logs.merging.ordering), pa.table({})
        if ordering or self._piece.logs or self._bucket.hashed:
            living = self._living(rows.column(RECORD_KEY))
            found = pc.index_in(rows.column(RECORD_KEY), value_set=living.column(RECORD_KEY))
            rows = rows.filter(found.is_valid())
            orderings = living.select(ordering).take(found.drop_null()) if ordering else orderings
        # Only now it is certain that these keys are deleted: a row with a delete flag may be late, and then deletes nothing.
        self._context.note_deleted(self._bucket.partition, self._bucket.file_id, rows.column(RECORD_KEY))
        return self._deletes(rows, orderings)

    def _known_or_completed(self, rows: pa.Table) -> pa.Table:
        """Return updates as they are logged: partial rows unchanged, or completed. The index found their keys, but the logs may have deleted them."""
        partial = self._context.settings.partial
        completes = partial is not None and not partial.in_logs
        if not completes and not self._piece.logs and not self._bucket.hashed:
            return rows
        keys = rows.column(RECORD_KEY)
        living = self._living(keys, self._context.settings.schema.names if completes else ())
        found = pc.index_in(keys, value_set=living.column(RECORD_KEY))
        refuse_unknown_rows(self._context, found.null_count, self._piece.path)
        return filled(rows, living.take(found)) if completes else rows

    def _without_known(self, rows: pa.Table) -> pa.Table:
        """Return the rows of an insert whose keys were deleted. Raises `DuplicateKeyError` for the other rows, unless they are to be skipped."""
        living = self._living(rows.column(RECORD_KEY))
        known = pc.is_in(rows.column(RECORD_KEY), value_set=living.column(RECORD_KEY))
        count = pc.sum(known).as_py() or 0
        if count and self._logs.known is KnownKeys.REFUSE:
            raise known_keys(count, path=self._piece.path)
        return rows.filter(pc.invert(known))

    def _deleted_by(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the keys that rows with a delete flag really delete: a late delete loses to the stored row."""
        if not len(rows):
            return rows.column(RECORD_KEY)
        living, ordering = self._living(rows.column(RECORD_KEY)), self._context.settings.ordering
        found = pc.index_in(rows.column(RECORD_KEY), value_set=living.column(RECORD_KEY))
        newer, older = rows.filter(found.is_valid()), living.take(found.drop_null())
        wins = MergeLaw(ordering).newer_wins(Versions.of_rows(newer, ordering), Versions.of_stored(older, ordering))
        return newer.filter(pa.array(wins)).column(RECORD_KEY)

    def _without_late(self, rows: pa.Table) -> pa.Table:
        """Return the rows without late rows (older than their delete in the logs), if that matters.

        In a partial update, all keys are known to have rows.
        """
        if not self._bucket.keeps_late_out or self._context.settings.partial is not None or not len(rows):
            return rows
        storage, schema = self._context.runtime.storage, self._context.settings.schema
        late = older_than_deletes(storage, self._piece, self._logs.merging, rows, schema)
        return rows.filter(pa.array(~late)) if late.any() else rows

    def _note_new(self, keys: pa.ChunkedArray) -> None:
        """Note the appended keys that are new in the slice, or may be: a log may have deleted them, or they are new to a bucket.

        Readers see a row of each of these keys, because late rows on deleted keys are not among them.
        """
        if self._context.changes is None or self._logs.indexed or not len(keys):
            return
        if self._piece.logs or self._bucket.hashed:
            self._context.note_inserted(self._bucket.partition, self._bucket.file_id, keys)

    def _living(self, keys: pa.ChunkedArray, columns: Sequence[str] = ()) -> pa.Table:
        """Return key and ordering values (and ``columns``) of the visible rows that have one of the keys."""
        living = LivingRows(self._logs.merging, self._context.settings.schema)
        names = (*self._logs.merging.ordering, *columns)
        return living.with_keys(self._context.runtime.storage, self._piece, keys, names)
