"""The table, as users hold it. Everything here delegates; read this first, then ``write/operations.py``, then ``transaction/commit.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata, OperationType
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.read import reads
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.read.scan import Scan
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.home import TableHome
from pyhudi_core.transaction.rollback import roll_back
from pyhudi_core.transaction.status import CommitStatus, commit_status
from pyhudi_core.write import operations
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit


class HudiTable:
    """A Hudi table of version 8. Made by `create_table` and `open_table`; looks for the newest state at every verb.

    ``data`` is a PySpark DataFrame (the write runs on its session), or anything that speaks the Arrow C stream interface (it runs in this
    process). Errors are `HudiError`; bad data raises `DataError` before anything is written.
    """

    def __init__(self, home: TableHome) -> None:
        self._home = home

    @property
    def location(self) -> str:
        return self._home.storage.location

    @property
    def config(self) -> TableConfig:
        """The table's properties, as they are now."""
        return self._home.context().config

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as they are now, without the meta columns."""
        return self.snapshot().schema

    @property
    def timeline(self) -> Timeline:
        """The active timeline's instants, newest last."""
        return self._home.context().folder.load()

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """What a completed commit says: files, counts, extra metadata."""
        return self._home.context().folder.read_commit(instant)

    def snapshot(self, as_of: TimePoint | None = None) -> Snapshot:
        """The table's state: configuration, timeline and file groups."""
        return reads.snapshot(self._home.context(), as_of)

    # --- writing: each is one commit

    def upsert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys, replace rows with known ones; the last row of a key in a batch wins, or the highest ordering value."""
        _refuse_partial(partial)
        return self._run(OperationType.UPSERT, data, extra_metadata, spark)

    def insert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys. Raises `DuplicateKeyError`, and writes nothing, if a key is there already."""
        _refuse_partial(partial)
        return self._run(OperationType.INSERT, data, extra_metadata, spark)

    def bulk_insert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys into new file groups: for first loads. Raises as `insert`."""
        _refuse_partial(partial)
        return self._run(OperationType.BULK_INSERT, data, extra_metadata, spark)

    def insert_overwrite(
        self, data: object, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Replace every partition that the data touches by the data."""
        return self._run(OperationType.INSERT_OVERWRITE, data, extra_metadata, spark)

    def insert_overwrite_table(
        self, data: object, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Replace the whole table by the data."""
        return self._run(OperationType.INSERT_OVERWRITE_TABLE, data, extra_metadata, spark)

    def delete(
        self,
        keys: object = None,
        where: object = None,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
    ) -> Commit:
        """Delete rows: ``keys`` holds the key columns and the partition columns, or ``where`` is a condition."""
        if (keys is None) == (where is None):
            raise InvalidOptionError("delete takes keys or where, one of them", table=self.location, hint="Give one.")
        if keys is not None:
            return self._run(OperationType.DELETE, keys, extra_metadata, spark)

        def keys_of(found: Scan) -> object:
            if spark is not None:
                return found.to_spark(spark)
            rows = found.to_arrow()
            operations.refuse_empty(rows, self.location)
            return rows

        return operations.delete_found(self._home.context(), reads, where, keys_of, extra_metadata or {}, spark)

    def delete_partitions(self, partitions: Sequence[str], extra_metadata: Mapping[str, str] | None = None) -> Commit:
        """Take whole partitions away, given by their paths such as ``day=2026-01-31``."""
        return operations.delete_partitions(self._home.context(), partitions, extra_metadata or {})

    def begin(
        self, operation: str = "upsert", extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Write:
        """A write in steps: ``write``, ``staged``, ``would_commit``, ``commit`` or leave to roll back."""
        return Write(self._home.context(), operations.operation_type(operation), extra_metadata or {}, spark, reads)

    def rollback(self, instant: Instant | str) -> Instant | None:
        """Roll back a pending write, whoever began it; None if it is not pending. The caller knows that its writer is gone."""
        time = instant.requested_time if isinstance(instant, Instant) else instant
        return roll_back(self._home.context(), time)

    def commit_status(self, token: str) -> CommitStatus:
        """What became of the write with this token."""
        return commit_status(self._home.context(), token)

    # --- reading

    def scan(self, columns: Sequence[str] | None = None, where: object = None, as_of: TimePoint | None = None) -> Scan:
        """Read the table's state now, or as of a time (what had completed by then) or an instant (up to and including it).

        The meta columns come first unless ``columns`` says otherwise. ``where`` is SQL text or a ``pyarrow.compute.Expression``.
        """
        return reads.scan(self._home.context(), columns, where, as_of)

    def incremental(
        self,
        after: TimePoint | None = None,
        until: TimePoint | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
    ) -> Scan:
        """The latest state of the rows that commits completed in (after, until] changed."""
        return reads.incremental(self._home.context(), after, until, columns, where)

    def lookup(self, keys: object, columns: Sequence[str] | None = None) -> Scan:
        """The rows with the given keys."""
        return reads.lookup(self._home.context(), keys, columns)

    def _run(self, operation: OperationType, data: object, extra: Mapping[str, str] | None, spark: Any) -> Commit:
        return operations.run(self._home.context(), operation, data, extra or {}, spark)

    def __repr__(self) -> str:
        config = self.config
        key, partitions = ", ".join(config.record_key_fields), ", ".join(config.partition_fields) or "not partitioned"
        return f"HudiTable {config.name} at {self.location} ({config.table_type.value}, key {key}; {partitions})"


def _refuse_partial(partial: bool) -> None:
    if partial:
        raise InvalidOptionError(
            "Partial updates are not written by this release", hint="Give whole rows, with every column of the table."
        )
