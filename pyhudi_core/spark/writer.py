"""``frame.write.format("pyhudi")`` and ``frame.writeStream.format("pyhudi")``: tasks stage the rows, then one commit writes them.

Spark commits such a write in a Python process without a session. No process lives from the plan to the commit, so none can hold a reservation
(decision 0019). So each task writes its rows as a Parquet file below ``.hoodie/.aux/.pyhudi/sink``, and the committing process runs an ordinary
operation of the table with these files. It reads few rows into memory; many rows stay in files, so memory is bounded (`engine.spilled`).

A batch of a stream is written exactly once, as by `sink.StreamSink`. The messages of Spark do not name the files of tasks that Spark gave up, so
these files are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyhudi_core.engine.spilled import Scratch, SpilledRows
from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.errors import LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.runtime.system import RandomIds
from pyhudi_core.spark.settings import Settings
from pyhudi_core.spark.sink import StreamSink
from pyhudi_core.spark.streaming_query import QUERY_ID, planned_in
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.transaction import waiting_rows
from pyhudi_core.transaction.layout import ROWS
from pyhudi_core.write.streams import IN_MEMORY

_BATCH_BYTES, _MOST_ROWS = 2 << 20, 65_536
"""The maximum bytes and rows of a batch that is read from a staged file."""
PARTS = 4
"""The number of streams in which the commit reads staged files."""


@dataclass
class StagedTask(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types here
    """The staged rows of one task: a file (empty for no rows), the bytes of its rows in memory, their number, and the query of a stream."""

    path: str
    bytes: int
    rows: int = 0
    query: str | None = None


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged rows of one write; used at the driver and by tasks."""

    settings: Settings
    folder: str

    @classmethod
    def new(cls, settings: Settings, *, overwrite: bool) -> StagedRows:
        """Return the staged rows, still none, of a write that Spark plans now.

        Raises `UnsupportedTableError` if the write needs a session, `TableVersionError` for a table that is only read, and the errors of
        `open_table`.
        """
        if overwrite:
            raise UnsupportedTableError(
                'format("pyhudi") appends and changes rows; it replaces nothing',
                table=settings.path,
                hint='Use mode("append") (outputMode("append") or "update"), or table.insert_overwrite(df) and table.insert_overwrite_table(df).',
            )
        settings.open().config.refuse_writing(settings.path)
        return cls(settings, f"{ROWS}/{RandomIds().uuid()}")

    def storage(self) -> Storage:
        """Return the table's storage."""
        return open_storage(self.settings.path, dict(self.settings.storage_options))

    def write(self, batches: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of a task, in batches. Raises `LimitExceededError`."""
        context = TaskContext.get()
        attempt = "0-0" if context is None else f"{context.partitionId()}-{context.taskAttemptId()}"
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        path, seen, count = f"{self.folder}/{attempt}.parquet", 0, 0
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return StagedTask("", 0, query=query)
        output = self.storage().open_output(path)
        try:
            with pq.ParquetWriter(output.stream, first.schema) as writer:
                while first is not None:
                    seen, count = seen + first.nbytes, count + len(first)
                    self.refuse_more(seen)
                    writer.write_batch(first)
                    first = next(rows, None)
            output.close()
        except BaseException:
            output.abort()
            raise
        return StagedTask(path, seen, count, query)

    def rows(self, messages: Sequence[StagedTask | None], schema: pa.Schema) -> pa.Table | SpilledRows:
        """Return all staged rows: few rows in memory, many rows in their files. Raises `LimitExceededError` before it reads."""
        staged = [message for message in messages if message is not None and message.path]
        size = sum(message.bytes for message in staged)
        self.refuse_more(size)
        if not staged:
            return schema.empty_table()
        storage = self.storage().without_fsync()
        count = sum(message.rows for message in staged)
        rows = max(1, min(_MOST_ROWS, _BATCH_BYTES * count // max(1, size)))
        files = tuple(StagedFile(storage, message.path, rows) for message in staged)
        found = pa.unify_schemas([file.schema() for file in files], promote_options="permissive")
        if size <= IN_MEMORY:
            return pa.Table.from_batches([batch.cast(found) for file in files for batch in file], found)
        parts = [StagedFiles(files[number::PARTS], found) for number in range(min(PARTS, len(files)))]
        return SpilledRows(found, parts, Scratch(storage, self.folder), bytes=size, count=count)

    def refuse_more(self, seen: int) -> None:
        """Raise `LimitExceededError` if a commit would have more rows than the user allows."""
        limit = self.settings.max_bytes_per_write
        if limit is not None and seen > limit:
            raise LimitExceededError(
                f"The rows are more than the {limit:,} bytes that max_bytes_per_write allows in one commit",
                limit=limit,
                seen=seen,
                table=self.settings.path,
                hint="Nothing was changed. Write with table.upsert(df) or table.insert(df), which run on Spark's executors (for streams StreamSink in"
                " foreachBatch); or raise max_bytes_per_write.",
            )

    def remove(self, messages: Sequence[StagedTask | None]) -> None:
        """Remove the staged rows, including rows of tasks that Spark gave up. Spark plans each batch of a stream separately, with its own folder."""
        storage = self.storage()
        for folder in {self.folder, *(m.path.rpartition("/")[0] for m in messages if m is not None and m.path)}:
            waiting_rows.remove(storage, folder)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The batches of one staged file, with the number of rows; each iteration reads the file."""

    storage: Storage
    path: str
    rows: int

    def schema(self) -> pa.Schema:
        """Return the schema of its rows."""
        with self.storage.open_input(self.path) as source:
            return ParquetBaseFile(source, self.path).schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self.storage.open_input(self.path) as source:
            yield from ParquetBaseFile(source, self.path).iter_batches(None, use_threads=True, batch_rows=self.rows)


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The batches of several staged files, one after the other."""

    files: Sequence[StagedFile]
    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            yield from (batch.cast(self.schema) for batch in file)


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame as one commit."""

    def __init__(self, settings: Settings, schema: pa.Schema, *, overwrite: bool) -> None:
        self.operation = settings.of_write()
        self.schema = schema
        self.staging = StagedRows.new(settings, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of one task."""
        with raised_in_task():
            return self.staging.write(iterator)

    def commit(self, messages: list[StagedTask | None]) -> None:
        """Write the staged rows with the operation."""
        with raised_in_task():
            try:
                rows = self.staging.rows(messages, self.schema)
                getattr(self.staging.settings.open(), self.operation)(rows)
            finally:
                self.staging.remove(messages)

    def abort(self, messages: list[StagedTask | None]) -> None:
        """Remove the staged rows."""
        with raised_in_task():
            self.staging.remove(messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes each batch of a stream as one commit, once."""

    def __init__(self, settings: Settings, schema: pa.Schema, *, overwrite: bool) -> None:
        operation = settings.of_write(stream=True)
        self.schema = schema
        self.staging = StagedRows.new(settings, overwrite=overwrite)
        options = (dict(settings.storage_options), dict(settings.table_options))
        self.sink = StreamSink(settings.path, settings.stream, operation, *options, settings.replaces)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of one task."""
        with raised_in_task():
            return self.staging.write(iterator)

    def commit(self, messages: list[StagedTask | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Write the staged rows, unless a commit of the table has this batch."""
        settings = self.staging.settings
        query = next((message.query for message in messages if message is not None and message.query), None)
        with raised_in_task():
            try:
                planned = planned_in(settings.checkpoint, batchId, dict(settings.storage_options))
                self.sink.write(self.staging.rows(messages, self.schema), batchId, query, planned)
            finally:
                self.staging.remove(messages)

    def abort(self, messages: list[StagedTask | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Remove the staged rows."""
        with raised_in_task():
            self.staging.remove(messages)
