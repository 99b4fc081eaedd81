"""The task that writes files: buckets one after the other, each by the handle that suits it.

Memory is bounded by the new rows of one bucket (of one part of it, for new groups), a row group of the base file and the file being written; not by
the size of the file group. The task's payload has its own buckets by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK, TaskInfo
from pyhudi_core.engine.grouping import runs
from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, OpenRuntime, WriteHandle, WrittenFile
from pyhudi_core.write.handles.choice import handle_for
from pyhudi_core.write.prepare import POSITION
from pyhudi_core.write.routing import bucket_of
from pyhudi_core.write.written import changes_batch, files_batch


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Task function: routed rows in, `WRITTEN` out.

    Args:
        unique: two rows with one key are an error instead of being reduced to one.
        key_changes: note which keys came into file groups and which left them.
    """

    open_runtime: OpenRuntime
    settings: HandleSettings
    unique: bool
    key_changes: bool = False

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number, [] if self.key_changes else None)
        files: list[WrittenFile] = []
        handle: WriteHandle | None = None
        number = -1
        try:
            for sort, rows in runs(batches, SORT):
                if bucket_of(sort) != number:
                    if handle is not None:
                        files += handle.close()
                    number = bucket_of(sort)
                    handle = handle_for(context, task.payload[number])
                assert handle is not None
                handle.write(self._single(rows.drop_columns([SORT, TASK])))
                yield from _noted(context)
            if handle is not None:
                files += handle.close()
        except BaseException:
            if handle is not None:
                handle.abandon()
            raise
        yield from _noted(context)
        yield from files_batch(files, self.settings.schema)

    def _single(self, rows: pa.Table) -> pa.Table:
        """One row a key."""
        single = MergeLaw(self.settings.ordering).reduce(rows, RECORD_KEY, POSITION)
        if self.unique and len(single) < len(rows):
            raise DuplicateKeyError(
                f"{len(rows) - len(single)} rows of the batch repeat a record key",
                hint="Upsert them (the last row of a key wins), or set hoodie.combine.before.insert=true.",
            )
        return single.drop_columns([POSITION])


def _noted(context: HandleContext) -> Iterator[pa.RecordBatch]:
    """What happened to keys since the last call."""
    while context.changes:
        yield from changes_batch(context.changes.pop())
