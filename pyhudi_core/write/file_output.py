"""One base file in the making: marker first, then rows with their meta columns, then the footer, then its name.

The write handles of Hudi's "create" and "merge" share it. A file that is given up leaves nothing but its marker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PreconditionFailedError
from pyhudi_core.formats.base_file import BaseFileFooter, BaseFileWriter
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import PARTITION_METAFILE, TOKEN_BOUND, BaseFileName, join, write_token
from pyhudi_core.model.meta_fields import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from pyhudi_core.runtime.base import Ids
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.transaction import markers
from pyhudi_core.transaction.early_conflict import EarlyCheck
from pyhudi_core.write.task_world import TaskWorld


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What all files of a write have in common; ``schema`` begins with the meta columns."""

    requested_time: str
    schema: pa.Schema
    avro_schema: str
    codec: str
    row_group_rows: int
    row_group_bytes: int
    bloom_entries: int
    bloom_fpp: float
    bloom_max_entries: int
    salt: bool = True
    early: EarlyCheck | None = None


@dataclass(slots=True)
class Sequence:
    """Numbers the rows of a task, for ``_hoodie_commit_seqno``: ``<requested time>_<task>_<row>``."""

    prefix: str
    next: int = 0

    def take(self, count: int) -> pa.Array:
        numbers = pa.array(np.arange(self.next, self.next + count)).cast(pa.string())
        self.next += count
        return pc.binary_join_element_wise(self.prefix, numbers, "_")


@dataclass(slots=True)
class NewFile:
    """A base file that is being written; ``previous`` is the footer of the file it replaces."""

    world: TaskWorld
    settings: FileSettings
    partition: str
    name: BaseFileName
    output: OutputFile
    writer: BaseFileWriter
    keys_unknown: bool
    counts: dict[str, int] = field(default_factory=lambda: {"inserts": 0, "updates": 0, "deletes": 0})

    @classmethod
    def open(
        cls,
        world: TaskWorld,
        settings: FileSettings,
        task: int,
        place: tuple[str, str],
        previous: BaseFileFooter | None,
    ) -> NewFile:
        """Announce and open a file of the (partition, file id) of ``place``."""
        partition, file_id = place
        token = new_token(task, world.ids, salt=settings.salt)
        name = BaseFileName(file_id, token, settings.requested_time)
        path = join(partition, str(name))
        markers.create(world.storage, settings.requested_time, path, "MERGE" if previous else "CREATE")
        if previous and settings.early is not None:
            settings.early.refuse(world.storage, world.clock, partition, file_id)
        output = world.storage.open_output(path)
        known = previous.bloom() if previous is not None else None
        bloom = known or BloomFilter.empty(settings.bloom_entries, settings.bloom_fpp, settings.bloom_max_entries)
        writer = BaseFileWriter(
            output.stream,
            settings.schema,
            avro_schema=settings.avro_schema,
            bloom=bloom,
            codec=settings.codec,
            row_group_rows=settings.row_group_rows,
            row_group_bytes=settings.row_group_bytes,
        )
        if previous is not None:
            writer.seed_keys(previous.min_key, previous.max_key)
        # A file that was written without a filter or a key range tells nothing about its keys: they are taken in anew.
        unknown = previous is not None and (known is None or previous.min_key is None)
        return cls(world, settings, partition, name, output, writer, unknown)

    @property
    def path(self) -> str:
        return join(self.partition, str(self.name))

    def keep(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows of the previous file as they are, but for the name of the file."""
        if self.keys_unknown:
            self.writer.add_keys(rows.column(RECORD_KEY))
        self.writer.write(self._named(rows))

    def stamp(self, rows: pa.Table, sequence: Sequence) -> pa.Table:
        """Give changed or new rows (with key, partition and data columns) their meta columns."""
        count = len(rows)
        meta = {
            COMMIT_TIME: pa.repeat(self.settings.requested_time, count),
            COMMIT_SEQNO: sequence.take(count),
            RECORD_KEY: rows.column(RECORD_KEY),
            PARTITION_PATH: rows.column(PARTITION_PATH),
            FILE_NAME: pa.repeat(str(self.name), count),
        }
        data = [rows.column(field.name) for field in self.settings.schema if field.name not in meta]
        return pa.Table.from_arrays([*(meta[name] for name in META_FIELDS), *data], schema=self.settings.schema)

    def insert(self, rows: pa.Table, sequence: Sequence) -> None:
        """Write new rows."""
        self.writer.write(self.stamp(rows, sequence))
        self.writer.add_keys(rows.column(RECORD_KEY))
        self.counts["inserts"] += len(rows)

    def close(self, previous: tuple[str, str] | None = None) -> WriteStat:
        """Publish the file; ``previous`` is (requested time, file name) of the one it replaces."""
        stats = self.writer.close()
        info = self.output.close()
        return WriteStat(
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

    def abandon(self) -> None:
        """Give the file up."""
        self.writer.abandon()
        self.output.abort()

    def _named(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        names = pa.repeat(str(self.name), len(rows))
        return rows.set_column(rows.schema.get_field_index(FILE_NAME), FILE_NAME, names)


def new_token(task: int, ids: Ids, *, salt: bool = True) -> str:
    """A write token that no other attempt has; without salt, that of every attempt of the task."""
    return write_token(task, ids.below(TOKEN_BOUND), ids.below(TOKEN_BOUND)) if salt else write_token(task, 0, 0)


def announce_partition(world: TaskWorld, requested_time: str, partition: str) -> None:
    """Write the partition's metafile, by which Spark finds partitions, unless it is there."""
    depth = partition.count("/") + 1 if partition else 0
    body = f"#partition metadata\ncommitTime={requested_time}\npartitionDepth={depth}\n"
    path = join(partition, PARTITION_METAFILE)
    if world.storage.head(path) is None:
        try:
            world.storage.put_if_absent(path, body.encode())
        except PreconditionFailedError:
            return  # another task or writer was first, with the same meaning
