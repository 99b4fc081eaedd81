"""The merge handle: rewrite a base file with new versions of its rows (Hudi's ``HoodieMergeHandle``).

Memory is bounded by the new rows of the file group, a row group of the base file and the file being written; not by the size of the file group.
"""

from __future__ import annotations

import pyarrow as pa

from pyhudi_core.file_groups.slice import BaseFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.merge.law import Mask, MergeLaw
from pyhudi_core.model.schema import conform
from pyhudi_core.write.handles.base import HandleContext, WrittenFile
from pyhudi_core.write.handles.create import RollingFiles
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.merging import Incoming, Match, replace_rows
from pyhudi_core.write.plan import Bucket


class MergeHandle:
    """Rewrites the base file ``base`` of a bucket. New rows that do not fit into it go to new file groups of its partition."""

    def __init__(self, context: HandleContext, bucket: Bucket, base: BaseFile) -> None:
        self._context = context
        self._bucket = bucket
        self._base = base
        self._open: NewFile | None = None
        self._overflow: RollingFiles | None = None
        self._written: list[WrittenFile] = []

    def write(self, rows: pa.Table) -> None:
        """As `WriteHandle.write`; called once, for all rows of the bucket."""
        incoming = Incoming(rows, MergeLaw(self._context.settings.ordering))
        settings, base, bucket = self._context.settings, self._base, self._bucket
        with self._context.runtime.storage.open_input(base.path) as source:
            reader = BaseFileReader(source, base.path)
            self._open = NewFile.open(self._context, bucket.partition, bucket.file_id, reader.footer(), len(rows))
            for batch in reader.iter_batches():
                self._merge(self._open, incoming, conform(batch, settings.schema))
            left = incoming.rows.slice(0, 0) if settings.deletes else incoming.unmatched()
            fitting = self._fitting(self._open, left)
            if fitting:
                self._open.insert(left.slice(0, fitting))
            self._finish(self._open)
        if fitting < len(left):
            self._overflow = RollingFiles(self._context, bucket.partition, self._context.new_file_id())
            self._overflow.insert(left.slice(fitting))

    def close(self) -> list[WrittenFile]:
        """As `WriteHandle.close`."""
        return self._written + (self._overflow.close() if self._overflow is not None else [])

    def abandon(self) -> None:
        """As `WriteHandle.abandon`."""
        if self._open is not None:
            self._open.abandon()
        if self._overflow is not None:
            self._overflow.abandon()

    def _merge(self, file: NewFile, incoming: Incoming, batch: pa.RecordBatch) -> None:
        match = incoming.match(batch)
        winners = incoming.winners(batch, match) if match is not None else None
        if winners is None:
            file.keep(batch)
        else:
            gone = incoming.deleted[winners.places] | self._context.settings.deletes
            self._replace(file, incoming, batch, winners, gone)

    def _replace(self, file: NewFile, incoming: Incoming, batch: pa.RecordBatch, winners: Match, gone: Mask) -> None:
        """Write a batch of the file with the winners in place of their old versions; without those that are ``gone``."""
        places = winners.places[~gone]
        if len(places):
            new = file.stamp(incoming.rows.take(pa.array(places)))
            batch = replace_rows(batch, winners.only(~gone), new)
        if gone.any():
            batch = batch.filter(pa.array(~winners.only(gone)))
            self._context.note_deleted(
                self._bucket.partition, self._bucket.file_id, incoming.keys.take(pa.array(winners.places[gone]))
            )
        file.keep(batch)
        file.counts["updates"] += len(places)
        file.counts["deletes"] += int(gone.sum())

    def _fitting(self, file: NewFile, left: pa.Table) -> int:
        """How many new rows the rewritten file takes: all while it stays below the target, none if it was not small."""
        if self._bucket.room <= 0 or len(left) == 0:
            return 0
        per_row = max(1.0, file.writer.bytes_written / max(1, file.writer.rows))
        return min(len(left), max(1, int(self._bucket.room / per_row)))

    def _finish(self, file: NewFile) -> None:
        """Publish the rewritten file; a rewrite that changed nothing is given up."""
        self._open = None
        if any(file.counts.values()):
            self._written.append(file.close((self._base.name.requested_time, str(self._base.name))))
        else:
            file.abandon()
