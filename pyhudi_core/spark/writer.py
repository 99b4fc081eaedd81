"""``frame.write.format("pyhudi")`` and ``frame.writeStream.format("pyhudi")``: tasks stage the rows, then one commit writes them.

Spark commits such a write in a Python process without a session, and no process lives from the plan to the commit, which could hold a reservation
(decision 0073). So each task writes its rows as a Parquet file below ``.hoodie/.aux/.pyhudi/sink``, and the commit is an ordinary operation of the
table over these files, in that process. A limit on the staged rows bounds its memory (``max_bytes_per_write``); more is refused before the table is
changed.

A batch of a stream is written exactly once, as by `sink.StreamSink`. Files of tasks that Spark gave up are in no message, so they are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.errors import LimitExceededError, UnsupportedTableError
from pyhudi_core.runtime.clock import RandomIds
from pyhudi_core.spark.settings import Settings
from pyhudi_core.spark.sink import StreamSink
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.transaction.layout import PRIVATE

SINK = f"{PRIVATE}/sink"
"""The folder of staged rows; each write has a folder below it, which is removed at its end."""


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types here
    """What one task staged: a file (empty for no rows), and the bytes of its rows in memory."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Staging:
    """The staged rows of one write; used at the driver and by tasks."""

    settings: Settings
    folder: str

    @classmethod
    def new(cls, settings: Settings, *, overwrite: bool) -> Staging:
        """For a write that Spark plans now. Raises `UnsupportedTableError` for what needs a session, and what opening the table raises."""
        if overwrite:
            raise UnsupportedTableError(
                'format("pyhudi") appends and changes rows; it replaces nothing',
                table=settings.path,
                hint='Use mode("append") (outputMode("append") or "update"), or table.insert_overwrite(df) and table.insert_overwrite_table(df).',
            )
        settings.open()
        return cls(settings, f"{SINK}/{RandomIds().uuid()}")

    def storage(self) -> Storage:
        """The table's storage."""
        return open_storage(self.settings.path, dict(self.settings.storage_options))

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task, a batch at a time. Raises `LimitExceededError`."""
        context = TaskContext.get()
        attempt = "0-0" if context is None else f"{context.partitionId()}-{context.taskAttemptId()}"
        path, seen = f"{self.folder}/{attempt}.parquet", 0
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return Staged("", 0)
        output = self.storage().open_output(path)
        try:
            with pq.ParquetWriter(output.stream, first.schema) as writer:
                while first is not None:
                    seen += first.nbytes
                    self.refuse_more(seen)
                    writer.write_batch(first)
                    first = next(rows, None)
            output.close()
        except BaseException:
            output.abort()
            raise
        return Staged(path, seen)

    def rows(self, messages: Sequence[Staged | None], schema: pa.Schema) -> pa.Table:
        """All staged rows. Raises `LimitExceededError` before they are read."""
        staged = [message for message in messages if message is not None and message.path]
        self.refuse_more(sum(message.bytes for message in staged))
        storage, parts = self.storage(), []
        for message in staged:
            with storage.open_input(message.path) as source:
                parts.append(pq.read_table(source))
        return pa.concat_tables(parts, promote_options="permissive") if parts else schema.empty_table()

    def refuse_more(self, seen: int) -> None:
        """Raise `LimitExceededError` for more rows than the commit's process may hold."""
        limit = self.settings.max_bytes_per_write
        if seen > limit:
            raise LimitExceededError(
                f'format("pyhudi") writes at most {limit:,} bytes of rows in one commit, because one process writes them',
                limit=limit,
                seen=seen,
                table=self.settings.path,
                hint="Nothing was changed. Write with table.upsert(df) or table.insert(df), which run on Spark's executors (for streams StreamSink in"
                " foreachBatch); or raise max_bytes_per_write.",
            )

    def remove(self, messages: Sequence[Staged | None]) -> None:
        """Remove the staged rows, also of tasks that Spark gave up. Spark plans each batch of a stream anew, in a folder of its own."""
        storage = self.storage()
        for folder in {self.folder, *(m.path.rpartition("/")[0] for m in messages if m is not None and m.path)}:
            storage.delete_many([info.path for info in storage.list(f"{folder}/")])
            storage.remove_empty_folders(folder)


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame as one commit."""

    def __init__(self, settings: Settings, schema: pa.Schema, *, overwrite: bool) -> None:
        self.operation = settings.of_write()
        self.schema = schema
        self.staging = Staging.new(settings, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task."""
        with raised_in_task():
            return self.staging.write(iterator)

    def commit(self, messages: list[Staged | None]) -> None:
        """Write the staged rows with the operation."""
        with raised_in_task():
            try:
                rows = self.staging.rows(messages, self.schema)
                getattr(self.staging.settings.open(), self.operation)(rows)
            finally:
                self.staging.remove(messages)

    def abort(self, messages: list[Staged | None]) -> None:
        """Remove the staged rows."""
        with raised_in_task():
            self.staging.remove(messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes each batch of a stream as one commit, once."""

    def __init__(self, settings: Settings, schema: pa.Schema, *, overwrite: bool) -> None:
        operation = settings.of_write(stream=True)
        self.schema = schema
        self.staging = Staging.new(settings, overwrite=overwrite)
        options = (dict(settings.storage_options), dict(settings.table_options))
        self.sink = StreamSink(settings.path, settings.stream, operation, *options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task."""
        with raised_in_task():
            return self.staging.write(iterator)

    def commit(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Write the staged rows, unless a commit of the table has this batch."""
        with raised_in_task():
            try:
                self.sink.write(self.staging.rows(messages, self.schema), batchId)
            finally:
                self.staging.remove(messages)

    def abort(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Remove the staged rows."""
        with raised_in_task():
            self.staging.remove(messages)
