"""A base file while it is written: marker first, then rows with their meta columns, then the footer, then its name.

The create handle and the merge handle use this module. An abandoned file leaves only its marker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi_core.errors import PreconditionFailedError
from pyhudi_core.formats.base_file import BaseFileFooter, BaseFileWriter
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup
from pyhudi_core.formats.bloom import BloomBuilder
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import PARTITION_METAFILE, TOKEN_BOUND, BaseFileName, join, write_token
from pyhudi_core.model.meta_fields import FILE_NAME, RECORD_KEY
from pyhudi_core.runtime.base import Ids
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.transaction import markers
from pyhudi_core.write.handles.base import HandleContext, TaskRuntime, WrittenFile, one_value, stamped


@dataclass(slots=True)
class NewFile:
    """A base file that is being written; ``previous``: the footer of the file that it replaces."""

    context: HandleContext
    partition: str
    name: BaseFileName
    output: OutputFile
    writer: BaseFileWriter
    keys_unknown: bool
    counts: dict[str, int] = field(default_factory=lambda: {"inserts": 0, "updates": 0, "deletes": 0})

    @classmethod
    def open(
        cls,
        context: HandleContext,
        partition: str,
        file_id: str,
        previous: BaseFileFooter | None,
        incoming: int = 0,
        announced: BaseFileName | None = None,
    ) -> NewFile:
        """Announce and open a file of a file group, for ``incoming`` rows in addition to the rows of ``previous``. ``announced``: the name from
        `announce`.
        """
        settings, runtime = context.settings, context.runtime
        if announced is not None:
            context.refuse_end()
        name = announced or cls.announce(context, {file_id: partition}, "MERGE" if previous else "CREATE")[file_id]
        path = join(partition, str(name))
        if previous and settings.early is not None:
            settings.early.refuse(runtime.storage, runtime.clock, partition, file_id)
        output = context.output_at(path)
        known = previous.bloom() if previous is not None else None
        if previous is not None and known is not None and settings.bloom.outgrown(known, previous.rows + incoming):
            known = None
        writer = BaseFileWriter(
            output.stream,
            settings.schema,
            avro_schema=settings.avro_schema,
            bloom=BloomBuilder(settings.bloom, known) if settings.populate else None,
            codec=settings.codec,
            row_group_rows=settings.row_group_rows,
            row_group_bytes=settings.row_group_bytes,
        )
        # All keys of the old file are added again if it has no filter that is large enough.
        unknown = previous is not None and known is None
        return cls(context, partition, name, output, writer, unknown)

    @classmethod
    def announce(cls, context: HandleContext, partitions: Mapping[str, str], kind: str) -> dict[str, BaseFileName]:
        """Choose the names of files, and create their markers. ``partitions`` and the returned names are by file id."""
        storage, settings = context.runtime.storage, context.settings
        context.refuse_end()
        names = {file_id: _name(context, file_id) for file_id in partitions}
        paths = [join(partitions[file_id], str(name)) for file_id, name in names.items()]
        if settings.marked_together and names:
            number = context.runtime.ids.below(TOKEN_BOUND)
            markers.create_together(storage, settings.requested_time, paths, kind, number)
            return names
        for path in paths:
            markers.create(storage, settings.requested_time, path, kind)
        return names

    @property
    def path(self) -> str:
        return join(self.partition, str(self.name))

    def keep(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows of the previous file unchanged, except for the name of the file."""
        self._bound(rows.column(RECORD_KEY))
        self.writer.write(self._named(rows))

    def copy(self, group: StoredRowGroup, keys: pa.ChunkedArray, with_nan: Collection[str]) -> None:
        """Append a row group of the previous file as bytes, unchanged except for the name of the file.

        Args:
            group: the row group.
            keys: the record keys of its rows.
            with_nan: the names of its columns that have NaN.
        """
        self._bound(keys)
        self.writer.copy(group, pa.table({FILE_NAME: one_value(str(self.name), group.rows)}), with_nan)

    def adopt(self, rows: pa.RecordBatch) -> None:
        """Write rows that already have meta columns, and whose keys the previous file does not have."""
        if not self.keys_unknown:
            self.writer.add_keys(rows.column(RECORD_KEY))
        self.keep(rows)

    def stamp(self, rows: pa.Table) -> pa.Table:
        """Give changed or new rows (with key and data columns) their meta columns, with the partition of the file."""
        return stamped(self.context, rows, self.partition, str(self.name))

    def insert(self, rows: pa.Table) -> None:
        """Write new rows."""
        whole = stamped(self.context, rows, self.partition, str(self.name), encoded=True)
        self.writer.write(whole)
        self.counts["inserts"] += len(rows)
        if self.context.settings.populate:
            keys = whole.column(RECORD_KEY)
            self.writer.add_keys(keys)
            self.context.note_inserted(self.partition, self.name.file_id, keys)

    def close(self, previous: tuple[str, str] | None = None) -> WrittenFile:
        """Publish the file; ``previous``: requested time and file name of the file that it replaces."""
        stats = self.writer.close()
        info = self.output.close()
        stat = WriteStat(
            file_id=self.name.file_id,
            path=self.path,
            partition=self.partition,
            prev_commit=previous[0] if previous else "null",
            prev_base_file=previous[1] if previous else None,
            rows=stats.rows,
            inserts=self.counts.get("inserts", 0),
            updates=self.counts.get("updates", 0),
            deletes=self.counts.get("deletes", 0),
            size=info.size,
        )
        return WrittenFile(stat, stats.ranges)

    def abandon(self) -> None:
        """Give the file up."""
        self.writer.abandon()
        self.output.abort()

    def _bound(self, keys: pa.Array | pa.ChunkedArray) -> None:
        # The rows determine the key range: a deleted key must not stay as its lowest or highest key.
        self.writer.add_keys(keys) if self.keys_unknown else self.writer.bound_keys(keys)

    def _named(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        names = one_value(str(self.name), len(rows))
        return rows.set_column(rows.schema.get_field_index(FILE_NAME), FILE_NAME, names)


def _name(context: HandleContext, file_id: str) -> BaseFileName:
    settings = context.settings
    token = new_token(context.task, context.runtime.ids, salt=settings.salt, of=settings.token_salt)
    return BaseFileName(file_id, token, settings.requested_time)


def new_token(task: int, ids: Ids, *, salt: bool = True, of: int | None = None) -> str:
    """Return a write token that no other attempt has; with a salt, the token of every attempt of the task.

    ``of`` is the same for all files of one execution.
    """
    if not salt:
        return write_token(task, 0, 0)
    return write_token(task, ids.below(TOKEN_BOUND) if of is None else of, ids.below(TOKEN_BOUND))


def announce_partition(runtime: TaskRuntime, requested_time: str, partition: str) -> None:
    """Write the partition's metafile, by which Spark finds partitions, unless it exists.

    On a network storage, this is one conditional write without a look before it, because a round costs more than a needless write.
    """
    depth = partition.count("/") + 1 if partition else 0
    body = f"#partition metadata\ncommitTime={requested_time}\npartitionDepth={depth}\n"
    path = join(partition, PARTITION_METAFILE)
    if runtime.storage.capabilities.parallel_calls > 1 or runtime.storage.head(path) is None:
        try:
            runtime.storage.put_if_absent(path, body.encode())
        except PreconditionFailedError:
            return  # another task or writer was first, with the same meaning
