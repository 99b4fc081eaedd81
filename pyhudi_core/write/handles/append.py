"""The append handle: new versions of rows, and deletes, to a log file on top of a slice (Hudi's ``HoodieAppendHandle``).

Each write makes a new log file, so storages need no append, and a rollback deletes files (decision 0039). An upsert reads nothing of the slice: which
version of a row wins is decided when the slice is read, or compacted.

A delete has the ordering value of the row that it deletes. The logs of a slice are merged with each other before they meet the base file. So a late
row would beat a delete without ordering value, and then lose against the base file's row, which would be back. Therefore a delete in a table with
event-time ordering reads keys and ordering values of its slice. Deletes and inserts on a slice with logs read the slice too, to know which keys
are there.

Memory is bounded by the new rows of the file group and, where the slice is read, by its logs in these columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.formats.log.writer import LogSchema, LogWriter
from pyhudi_core.index.base import TAG_POSITION
from pyhudi_core.merge.law import says_deleted
from pyhudi_core.merge.merged_slice import merged_batches
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, join
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.transaction import markers
from pyhudi_core.write.handles.base import HandleContext, KnownKeys, LogSettings, WrittenFile, stamped
from pyhudi_core.write.handles.new_file import new_token
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
        """As `WriteHandle.write`; called once, for all rows of the bucket."""
        if self._context.settings.deletes:
            self._append(rows.slice(0, 0), self._deletes_of(rows))
            return
        if self._logs.known is not KnownKeys.UPDATE:
            rows = self._without_known(rows)
        gone = pa.array(says_deleted(rows))
        ordering = list(self._context.settings.ordering)
        deleted = rows.filter(gone)
        deletes = self._deletes(deleted, deleted.select(ordering) if ordering else pa.table({}))
        self._append(rows.filter(pc.invert(gone)), deletes)

    def close(self) -> list[WrittenFile]:
        """As `WriteHandle.close`."""
        return self._written

    def abandon(self) -> None:
        """As `WriteHandle.abandon`."""
        if self._output is not None:
            self._output.abort()

    def _append(self, rows: pa.Table, deletes: Deletes) -> None:
        """Write the file: rows first, then deletes."""
        if not len(rows) and not len(deletes):
            return
        settings, bucket = self._context.settings, self._bucket
        path = self._open()
        assert self._output is not None
        base = None if self._piece.base is None else self._piece.base.name.requested_time
        schema = LogSchema(settings.requested_time, settings.schema, settings.avro_schema, base)
        writer = LogWriter(self._output.stream, schema, self._logs.form, settings.codec)
        if len(rows):
            # In logs the file name of a row is the file id alone.
            writer.write(stamped(self._context, rows, bucket.partition, bucket.file_id), self._positions(rows))
        if len(deletes):
            writer.write_deletes(deletes)
        size = self._output.close().size
        self._output = None
        stat = WriteStat(
            file_id=bucket.file_id,
            path=path,
            partition=bucket.partition,
            prev_commit=settings.requested_time,  # as Hudi has it
            rows=len(rows),
            updates=len(rows),
            deletes=len(deletes),
            size=size,
        )
        self._written.append(WrittenFile(stat, writer.ranges))

    def _open(self) -> str:
        """Announce and open the log file; returns its path. Hudi's markers of logs say CREATE too, as each write makes its own logs."""
        settings, runtime, bucket = self._context.settings, self._context.runtime, self._bucket
        token = new_token(self._context.task, runtime.ids, salt=settings.salt)
        path = join(bucket.partition, str(LogFileName(bucket.file_id, settings.requested_time, 1, token)))
        markers.create(runtime.storage, settings.requested_time, path, "CREATE")
        if settings.early is not None:
            settings.early.refuse(runtime.storage, runtime.clock, bucket.partition, bucket.file_id)
        self._output = runtime.storage.open_output(path)
        return path

    def _positions(self, rows: pa.Table) -> pa.Array | None:
        """The positions of the old versions of rows; None unless the index knows all of them."""
        if not self._logs.positions or TAG_POSITION not in rows.column_names:
            return None
        found = rows.column(TAG_POSITION)
        return None if found.null_count else pa.array(found.to_numpy(), pa.int64())

    def _deletes(self, rows: pa.Table, orderings: pa.Table) -> Deletes:
        return Deletes(rows.column(RECORD_KEY), self._bucket.partition, orderings, self._positions(rows))

    def _deletes_of(self, rows: pa.Table) -> Deletes:
        """The deletes of keys that are there, with the ordering values of their rows."""
        ordering, orderings = list(self._logs.merging.ordering), pa.table({})
        if ordering or self._piece.logs:
            living = self._living(rows.column(RECORD_KEY))
            found = pc.index_in(rows.column(RECORD_KEY), value_set=living.column(RECORD_KEY))
            rows = rows.filter(found.is_valid())
            orderings = living.select(ordering).take(found.drop_null()) if ordering else orderings
        # Only here it is sure that the keys are gone: a row that says it is deleted may turn out to be late.
        self._context.note_deleted(self._bucket.partition, self._bucket.file_id, rows.column(RECORD_KEY))
        return self._deletes(rows, orderings)

    def _without_known(self, rows: pa.Table) -> pa.Table:
        """The rows of an insert whose keys were deleted. Raises `DuplicateKeyError` for the others, unless they are left out."""
        living = self._living(rows.column(RECORD_KEY))
        known = pc.is_in(rows.column(RECORD_KEY), value_set=living.column(RECORD_KEY))
        count = pc.sum(known).as_py() or 0
        if count and self._logs.known is KnownKeys.REFUSE:
            raise DuplicateKeyError(
                f"{count} rows of the batch have a record key that the table has already",
                path=self._piece.path,
                hint="Nothing was published. Upsert them, or set hoodie.datasource.write.insert.drop.duplicates=true.",
            )
        new = rows.filter(pc.invert(known))
        self._context.note_inserted(self._bucket.partition, self._bucket.file_id, new.column(RECORD_KEY))
        return new

    def _living(self, keys: pa.ChunkedArray) -> pa.Table:
        """Key and ordering values of the slice's rows that have one of the keys, as readers see them now."""
        merging, schema = self._logs.merging, self._context.settings.schema
        wanted = pa.schema([field for field in schema if field.name in {RECORD_KEY, *merging.ordering}])
        asked = keys.combine_chunks()

        def found() -> Iterator[pa.RecordBatch]:
            for batch in merged_batches(self._context.runtime.storage, self._piece, merging, wanted, schema):
                known = pc.is_in(batch.column(RECORD_KEY), value_set=asked)
                yield batch.select(wanted.names).filter(known).cast(wanted)

        return pa.Table.from_batches(found(), wanted).combine_chunks()
