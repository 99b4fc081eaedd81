"""The protocol of write handles, their input, and their result.

A task of a write (`write.tasks`) makes a handle for each of its buckets, one bucket after the other. The handle writes the bucket's rows and returns
the files that it wrote. Changes of keys are noted in `HandleContext.changes`, if the write wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts.early import EarlyCheck
from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import DuplicateKeyError, SchemaMismatchError
from pyhudi_core.file_groups.partition_values import Constants, constants_of
from pyhudi_core.formats.base_file import ColumnRange
from pyhudi_core.formats.bloom import BloomSizing
from pyhudi_core.formats.log.changes import ChangeForm
from pyhudi_core.formats.log.writer import BlockFormat
from pyhudi_core.merge.law import TableMerger
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import new_file_id
from pyhudi_core.model.internal_schema import Evolution
from pyhudi_core.model.meta_fields import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta_fields,
)
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import to_avro
from pyhudi_core.options import FileOptions
from pyhudi_core.runtime.base import Clock, Executor, Ids, Runtime
from pyhudi_core.runtime.system import RandomIds, SerialExecutor, SystemClock
from pyhudi_core.storage.base import OutputFile, Storage, StorageSpec
from pyhudi_core.storage.opening import storage_from_spec
from pyhudi_core.transaction.late_tasks import InCharge


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """The storage, ids and clock of one task. ``executor`` makes independent calls at the same time."""

    storage: Storage
    ids: Ids
    clock: Clock
    executor: Executor = SerialExecutor()


OpenRuntime = Callable[[], TaskRuntime]

_FEW = 256  # so many texts are made one by one, because a step over an array costs as much as some hundred values
_ONE_VALUE = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)


def runtime_opener(engine: Engine, storage: Storage, runtime: Runtime) -> OpenRuntime:
    """Return how tasks of this engine open their runtime: tasks in this process share ours, tasks on Spark open the storage from its specification.

    Raises `ConfigError` for a storage that exists only in this process.
    """
    if engine.in_process:
        shared = TaskRuntime(storage.opening_once(), runtime.ids, runtime.clock, runtime.executor)
        return lambda: shared
    return partial(_open, storage.spec())


def _open(spec: StorageSpec) -> TaskRuntime:
    return TaskRuntime(storage_from_spec(spec), RandomIds(), SystemClock())


class KnownKeys(StrEnum):
    """The meaning of rows whose key is already in a file group: new versions, an error, or nothing (the rows are omitted)."""

    UPDATE = "update"
    REFUSE = "refuse"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of the log files of a write.

    Attributes:
        merging: how a slice with logs is read.
        form: the format of data blocks.
        positions: blocks store the positions of the old versions of rows in the base file.
        known: the meaning of rows with an existing key.
        indexed: the record index found the file groups of the keys, so it already has these keys.
    """

    merging: Merging
    form: BlockFormat
    positions: bool
    known: KnownKeys = KnownKeys.UPDATE
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class PartialRows:
    """The columns of a partial update: the meta columns and the given columns, as an Arrow schema and as Avro text.

    ``in_logs``: logs hold only these columns. Otherwise the rows are completed from the slice before they are logged.
    """

    schema: pa.Schema
    avro_schema: str
    in_logs: bool = True


@dataclass(frozen=True, slots=True)
class HandleSettings:
    """Common settings of all files of a write.

    Attributes:
        schema: the schema of the files; it begins with the meta columns.
        target: the target size of a base file, in bytes.
        ordering: columns of event-time ordering; empty for commit time.
        merger: makes one row from a stored and a new row; None for deletes, and in tables whose mode chooses one of the two.
        deletes: the rows are keys to delete.
        early: looks for other writers of a file group; None if this is off.
        logs: how log files are written; None for a table without logs.
        partial: the columns of partial rows; None if the rows are complete.
        known: the meaning of rows whose key exists in a rewritten base file, if the index did not look up keys.
        changes: how change logs are written; None for a table without change data capture.
        marked_together: all files are new, and few marker files announce them.
        token_salt: the common number of all write tokens; None for a random number in each token.
        populate: rows get their meta columns; otherwise these are null, and files have no bloom filter and no key range.
        generates_keys: rows get a generated key: their number in the commit.
        known_only: every row is a version of a stored row; its key was generated earlier.
        config: the properties of the table, for the values of partition columns that base files lack.
        evolution: the names of the columns in older files, if columns have numbers.
        in_charge: the process of the write; None if the tasks run in this process, so that none outlives the write.
    """

    requested_time: str
    schema: pa.Schema
    avro_schema: str
    codec: str
    row_group_rows: int
    row_group_bytes: int
    bloom: BloomSizing
    target: int
    ordering: tuple[str, ...] = ()
    merger: TableMerger | None = None
    deletes: bool = False
    salt: bool = True
    early: EarlyCheck | None = None
    logs: LogSettings | None = None
    partial: PartialRows | None = None
    known: KnownKeys = KnownKeys.UPDATE
    changes: ChangeForm | None = None
    marked_together: bool = False
    token_salt: int | None = None
    populate: bool = True
    generates_keys: bool = False
    known_only: bool = False
    config: TableConfig | None = None
    evolution: Evolution | None = None
    in_charge: InCharge | None = None

    @property
    def updates_only(self) -> bool:
        """Say whether every row must be a version of a stored row; see `refuse_unknown_rows`."""
        return self.known_only or self.partial is not None

    def constants_of(self, partition: str) -> Constants:
        """Return the values of the partition columns in a partition, for files that do not have them."""
        return {} if self.config is None else constants_of(partition, self.config, self.schema)

    @classmethod
    def of(cls, requested_time: str, schema: pa.Schema, config: TableConfig, files: FileOptions) -> HandleSettings:
        """Return the settings of every file, by the table and the options. ``schema``: the table's schema, without meta columns."""
        operation = config.operation_field or files.operation_field
        return cls(
            requested_time=requested_time,
            schema=with_meta_fields(schema, operation=operation),
            avro_schema=to_avro(schema, config.name, meta_fields=True, operation=operation),
            codec=files.compression,
            row_group_rows=files.row_group_rows,
            row_group_bytes=files.row_group_bytes,
            bloom=BloomSizing(files.bloom_entries, files.bloom_fpp, files.bloom_max_entries),
            target=files.max_size,
            populate=config.populate_meta_fields,
            generates_keys=config.generates_keys,
            config=config,
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One written file, with the ranges of its columns."""

    stat: WriteStat
    ranges: Mapping[str, ColumnRange]


@dataclass(frozen=True, slots=True)
class KeyChange:
    """Keys that were added to a file group, or removed from it (``deleted``)."""

    partition: str
    file_id: str
    keys: pa.Array | pa.ChunkedArray
    deleted: bool


@dataclass(slots=True)
class HandleContext:
    """The surroundings of a handle; one for each run of a task.

    Attributes:
        task: the number of the task.
        changes: takes the changes of keys; None if the write does not want them.
    """

    settings: HandleSettings
    runtime: TaskRuntime
    task: int
    changes: list[KeyChange] | None = None
    _next: int = field(default=0)
    _encoded: pa.Schema | None = None

    def refuse_end(self) -> None:
        """Raise `CommitAbortedError` if this task outlives its write. Call this before a file is announced, or opened long after that."""
        if self.settings.in_charge is not None:
            self.settings.in_charge.refuse_end(self.runtime.storage)

    def output_at(self, path: str) -> OutputFile:
        """Open an announced data file. If the task outlives its write, the close of the file raises `CommitAbortedError`, and the file is gone."""
        if self.settings.in_charge is not None:
            return self.settings.in_charge.watched(self.runtime.storage, path)
        return self.runtime.storage.open_output(path)

    def next_numbers(self, count: int) -> pa.Array:
        """Return values of ``_hoodie_commit_seqno`` for the next rows: ``<requested time>_<task>_<row>``."""
        first, self._next = self._next, self._next + count
        front = f"{self.settings.requested_time}_{self.task}"
        if count <= _FEW:
            return pa.array([f"{front}_{number}" for number in range(first, self._next)], pa.string())
        return pc.binary_join_element_wise(front, pa.array(np.arange(first, self._next)).cast(pa.string()), "_")

    def encoded_schema(self) -> pa.Schema:
        """Return the schema of files, in which columns with one value are dictionaries. It is made once, because a load may have many small files."""
        if self._encoded is None:
            one = pa.dictionary(pa.int32(), pa.string())
            constant = _ONE_VALUE if self.settings.populate else ()
            fields = [field.with_type(one) if field.name in constant else field for field in self.settings.schema]
            self._encoded = pa.schema(fields)
        return self._encoded

    def new_file_id(self) -> str:
        """Return the id of a file group that is not in the plan."""
        return new_file_id(self.runtime.ids.uuid)

    def note_inserted(self, partition: str, file_id: str, keys: pa.Array | pa.ChunkedArray) -> None:
        """Note that keys are new in the file group."""
        if self.changes is not None:
            self.changes.append(KeyChange(partition, file_id, keys, deleted=False))

    def note_deleted(self, partition: str, file_id: str, keys: pa.Array | pa.ChunkedArray) -> None:
        """Note that keys are no longer in the file group."""
        if self.changes is not None:
            self.changes.append(KeyChange(partition, file_id, keys, deleted=True))


def refuse_unknown_rows(context: HandleContext, count: int, path: str) -> None:
    """Raise `SchemaMismatchError` for rows with unknown keys, if the write may only update rows.

    A new partial row would lack columns. A key that the table has generated cannot be the key of a new row.
    """
    partial = context.settings.partial
    if count and context.settings.known_only:
        raise SchemaMismatchError(
            f"{count} rows of the update have a generated record key that the table does not have in their partition",
            path=path or None,
            hint="Nothing was published. Their rows were deleted, or are in another partition: read them again with scan(where=...). Insert new"
            " rows; to move a row to another partition, insert it there and delete the old one.",
        )
    if partial is None or not count:
        return
    missing = [name for name in context.settings.schema.names if name not in partial.schema.names]
    raise SchemaMismatchError(
        f"{count} rows of the partial update have a record key that the table does not have in their partition, and no"
        f" {', '.join(map(repr, missing))}",
        path=path or None,
        hint="Nothing was published. Upsert new rows with all columns (nulls are fine), and only known keys with partial=True. A key that is in"
        " another partition is a known one only with a global index (hoodie.index.type) that updates rows where they are"
        " (hoodie.{simple,bloom,record}.index.update.partition.path=false): a partial row cannot move.",
    )


def stamped(
    context: HandleContext,
    rows: pa.Table,
    partition: str,
    file_name: str,
    schema: pa.Schema | None = None,
    *,
    encoded: bool = False,
) -> pa.Table:
    """Return rows with key and data columns, preceded by their meta columns; in the schema of the files, or in another one.

    ``encoded``: columns with one value are dictionaries, as the writer of base files needs them, so their text is not repeated for each row.
    """
    settings, count = context.settings, len(rows)
    constant = one_value if encoded else pa.repeat
    schema = settings.schema if schema is None else schema
    if settings.populate:
        numbers = context.next_numbers(count)
        meta = {
            COMMIT_TIME: constant(settings.requested_time, count),
            COMMIT_SEQNO: numbers,
            RECORD_KEY: numbers if settings.generates_keys else rows.column(RECORD_KEY),
            PARTITION_PATH: constant(partition, count),
            FILE_NAME: constant(file_name, count),
        }
    else:
        meta = dict.fromkeys(META_FIELDS, pa.nulls(count, pa.string()))
    if OPERATION in schema.names:
        meta[OPERATION] = pa.nulls(count, pa.string())
    columns = [meta[name] if name in meta else rows.column(name) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=context.encoded_schema() if encoded else schema)


def one_value(text: str, count: int) -> pa.DictionaryArray:
    """Return a text ``count`` times, as a dictionary array."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [text])


def filled(rows: pa.Table, stored: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return partial rows, completed row by row with the columns of the stored rows that they replace."""
    for item in stored.schema:
        if item.name not in rows.column_names:
            rows = rows.append_column(item, stored.column(item.name))
    return rows


def known_keys(rows: int, *, table: str | None = None, path: str | None = None) -> DuplicateKeyError:
    """Return the error for an insert of existing keys."""
    return DuplicateKeyError(
        f"{rows} rows of the batch have a record key that the table has already",
        table=table,
        path=path,
        hint="Nothing was published. Upsert them, or set hoodie.datasource.write.insert.drop.duplicates=true.",
    )


class WriteHandle(Protocol):
    """Writes the rows of one file group."""

    def write(self, rows: pa.Table) -> None:
        """Write rows: record key and data columns, one row for each key. New groups get their rows in parts, existing groups in one call."""
        ...

    def close(self) -> list[WrittenFile]:
        """Publish the files under their names. Readers see a file when a commit names it."""
        ...

    def abandon(self) -> None:
        """Abandon all files that are not closed; their markers remain."""
        ...
