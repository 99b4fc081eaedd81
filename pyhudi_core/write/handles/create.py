"""The create handle: writes new rows to new file groups of the target size (Hudi's ``HoodieCreateHandle``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from pyhudi_core.merge.law import says_deleted
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.storage.at_once import all_of
from pyhudi_core.write.handles.base import HandleContext, WrittenFile, refuse_unknown_rows
from pyhudi_core.write.handles.new_file import NewFile, announce_partition
from pyhudi_core.write.plan import Bucket


@dataclass(slots=True)
class RollingFiles:
    """Base files of one partition, each in its own file group; when the last file has the target size, a new one begins.

    ``file_id``: the id of the first file; later files get new ids. ``rolls``: there may be later ones. ``announced``: the name of the first file, if
    it has its marker.
    """

    context: HandleContext
    partition: str
    file_id: str
    rolls: bool = True
    announced: BaseFileName | None = None
    _open: NewFile | None = None
    _written: list[WrittenFile] = field(default_factory=list)

    def announce(self) -> None:
        """Create the marker of the first file, unless it is there."""
        if self.announced is None:
            self.announced = NewFile.announce(self.context, {self.file_id: self.partition}, "CREATE")[self.file_id]

    def insert(self, rows: pa.Table) -> None:
        """Write new rows."""
        settings = self.context.settings
        for batch in rows.to_batches(max_chunksize=max(1, settings.row_group_rows // 4)):
            if self.rolls and self._open is not None and self._open.writer.bytes_written >= settings.target:
                self._finish()
                self.file_id = self.context.new_file_id()
            if self._open is None:
                name, self.announced = self.announced, None
                self._open = NewFile.open(self.context, self.partition, self.file_id, None, announced=name)
            self._open.insert(pa.Table.from_batches([batch]))

    def close(self) -> list[WrittenFile]:
        """Publish all files."""
        self._finish()
        return self._written

    def abandon(self) -> None:
        """Give up the open file."""
        if self._open is not None:
            self._open.abandon()

    def _finish(self) -> None:
        if self._open is not None:
            self._written.append(self._open.close())
            self._open = None


class CreateHandle:
    """Writes the rows of a new file group. Rows with a delete flag are omitted."""

    def __init__(self, context: HandleContext, bucket: Bucket, announced: BaseFileName | None = None) -> None:
        self._context = context
        self._bucket = bucket
        self._new_partition = bucket.new_partition
        self._files = RollingFiles(context, bucket.partition, bucket.file_id, not bucket.hashed, announced)

    def write(self, rows: pa.Table) -> None:
        """Write as `WriteHandle.write`."""
        merger = self._context.settings.merger
        deleted = says_deleted(rows) if merger is None else says_deleted(rows) | merger.deletes(rows)
        left = rows.filter(pa.array(~deleted)) if deleted.any() else rows
        refuse_unknown_rows(self._context, len(left), self._bucket.partition)
        if self._new_partition and len(left):
            runtime, time = self._context.runtime, self._context.settings.requested_time
            metafile = partial(announce_partition, runtime, time, self._bucket.partition)
            all_of(runtime.storage, runtime.executor, metafile, self._files.announce)
            self._new_partition = False
        self._files.insert(left)

    def close(self) -> list[WrittenFile]:
        """Close as `WriteHandle.close`."""
        return self._files.close()

    def abandon(self) -> None:
        """Give up as `WriteHandle.abandon`."""
        self._files.abandon()
