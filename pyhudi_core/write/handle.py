"""A write in steps: write, look at what is staged, ask whether it would commit, commit through a gate, or roll back.

The operations of a table (`operations`) are this handle used in one go. A write that is left without a commit is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from pyhudi_core.engine import engine_for
from pyhudi_core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
)
from pyhudi_core.formats.avro import encode_record
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, OperationType, WriteStat
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.model.schema import reconcile, to_avro
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import concurrent, markers, removal
from pyhudi_core.transaction.begin import Transaction, begin_write
from pyhudi_core.transaction.commit import Gate, finish
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.rollback import repair, roll_back
from pyhudi_core.write.pipeline import WriteJob, replaced_groups
from pyhudi_core.write.prepare import Prepared, prepare, prepare_keys
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.writable import refuse_unwritable

_log = logging.getLogger(__name__)

TOKEN_KEY = "pyhudi.commit_token"  # noqa: S105  (a name, not a secret)
_OVERWRITING = frozenset({OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """Whether a write would commit now, and why not. True or false as a condition."""

    commits: bool
    reason: str

    def __bool__(self) -> bool:
        return self.commits


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """What a write has put on disk and not published: the state it started from, its instant, its commit, the schema after it."""

    snapshot: Snapshot
    requested: Instant
    metadata: CommitMetadata
    schema: pa.Schema


StagedReader = Callable[[TableContext, StagedWrite, Sequence[str] | None, object], Any]


class Write:
    """One write to one table.

    Args:
        context: the table and the outside.
        operation: what kind of write.
        extra_metadata: strings to keep in the commit.
        spark: a session to run on; None chooses by the data.
        reader: makes the scan of what is staged (reading is another floor's work).
        since: the timeline that the data was read from, if it was; what completed after it can be in conflict.
    """

    def __init__(
        self,
        context: TableContext,
        operation: OperationType,
        extra_metadata: Mapping[str, str],
        spark: Any = None,
        reader: StagedReader | None = None,
        since: Timeline | None = None,
    ) -> None:
        self._reader = reader
        self._since = since
        self._context = context
        self._operation = operation
        self._extra = _checked_extra(extra_metadata)
        self._spark = spark
        self._engine: Any = None
        self._prepared: Prepared | None = None
        self._partitions: tuple[str, ...] = ()
        self._transaction: Transaction | None = None
        self._snapshot: Snapshot | None = None
        self._metadata: CommitMetadata | None = None
        self._retries = 0
        self._commit: Commit | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, CommitStateUnknownError):
                self._stop_beating()
            elif self._commit is None:
                self.rollback()
        except HudiError as failure:
            if error is None:
                raise
            _log.warning("could not roll back the failed write; the next writer will: %s", failure)
        finally:
            if self._prepared is not None:
                self._prepared.rows.release()

    @property
    def instant(self) -> str | None:
        """The requested time; None before `write`."""
        return self._transaction.requested_time if self._transaction else None

    @property
    def token(self) -> str | None:
        """Names this attempt for ``commit_status``; None before `write`."""
        return self._transaction.token if self._transaction else None

    @property
    def stats(self) -> CommitStats:
        """What is staged so far."""
        return CommitStats.of(self._staged_metadata())

    def write(self, data: object) -> Self:
        """Check the data, then write its files; nothing of it is visible yet. One batch a handle.

        Raises `DataError` before anything is written if the data does not fit the table.
        """
        self._refuse_second()
        self._engine = engine_for(data, self._context.runtime.executor, self._spark)
        snapshot = self._load()
        refuse_unwritable(self._context, snapshot)
        how = prepare_keys if self._operation is OperationType.DELETE else prepare
        try:
            dataset = self._engine.dataset(data)
            self._prepared = how(dataset, self._context.config, snapshot.schema, self._context.table)
        except HudiError as error:
            raise self._context.where(error) from error.__cause__
        self._attempt()
        return self

    def drop(self, partitions: tuple[str, ...]) -> Self:
        """Take whole partitions (paths) away."""
        self._refuse_second()
        refuse_unwritable(self._context, self._load())
        self._partitions = tuple(safe_relative_path(partition) for partition in partitions)
        self._attempt()
        return self

    def staged(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """A scan of the rows that this write changed or added, as they will be; nothing else sees them yet. Deleted rows do not show."""
        transaction = self._started()
        assert self._reader is not None
        staged = StagedWrite(self.snapshot, transaction.requested, self._staged_metadata(), self.schema)
        return self._reader(self._context, staged, columns, where)

    def would_commit(self) -> CommitVerdict:
        """Check against the timeline as it is now, without the lock and without publishing anything."""
        transaction = self._started()
        try:
            self._check(self._context.folder.load())
        except HudiError as error:
            return CommitVerdict(False, str(error))
        return CommitVerdict(True, f"nothing that completed since {transaction.requested_time} began conflicts with it")

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish what was written. Raises `CommitError`; see `pyhudi_core.transaction.commit` for what holds then."""
        transaction = self._started()
        self._refuse_committed()
        metadata = self._staged_metadata()
        self._remove_leaks(metadata.stats)
        notes: dict[str, str] = {}

        def encode(added: Mapping[str, str]) -> bytes:
            notes.update(added)
            final = replace(metadata, extra={**metadata.extra, **added})
            action = transaction.requested.action
            return encode_record(final.record_name(action), final.to_avro(action), sync_marker=transaction.sync_marker)

        finished = finish(transaction, encode, self._check, gate)
        self._commit = Commit(
            instant=transaction.requested_time,
            completion_time=finished.instant.completion_time or "",
            token=transaction.token,
            operation=str(self._operation),
            retries=self._retries,
            stats=CommitStats.of(metadata),
            lock_wait=finished.lock_wait,
            lock_held=finished.lock_held,
            notes=tuple(sorted(notes.items())),
        )
        return self._commit

    def again(self) -> None:
        """Plan and write anew from the table's present state; the batch is not evaluated again."""
        self.rollback()
        self._retries += 1
        self._attempt()

    def rollback(self) -> None:
        """Remove what was written; the table is as if nothing had happened. Does nothing after a commit."""
        if self._transaction is None or self._commit is not None:
            return
        transaction, self._transaction = self._transaction, None
        self._metadata = None
        transaction.heartbeat.handle.cancel()
        roll_back(self._context, transaction.requested_time)
        transaction.heartbeat.stop(self._context)

    @property
    def snapshot(self) -> Snapshot:
        """The state that the write started from."""
        self._started()
        assert self._snapshot is not None
        return self._snapshot

    @property
    def metadata(self) -> CommitMetadata:
        """The commit as it would be published now."""
        return self._staged_metadata()

    @property
    def schema(self) -> pa.Schema:
        """The table's schema after this write."""
        return self._prepared.schema if self._prepared is not None else self.snapshot.schema

    def _attempt(self) -> None:
        if self._context.options.failed_writes_policy != "NEVER":
            repair(self._context)
        self._transaction = begin_write(self._context, self._operation.action, str(self._operation))
        self._snapshot = self._load(self._transaction.start)
        stats: tuple[WriteStat, ...] = ()
        if self._prepared is not None:
            self._fit_schema(self._snapshot.schema)
            job = WriteJob(self._operation, self._engine, self._prepared, self._snapshot, self._transaction)
            try:
                stats = job.run()
            except HudiError as error:
                raise self._context.where(error) from error.__cause__
        self._metadata = self._describe(stats)

    def _stop_beating(self) -> None:
        """Nobody knows whether the commit was decided; when the heartbeat has expired, the next writer finishes it or rolls it back."""
        if self._transaction is not None:
            self._transaction.heartbeat.handle.cancel()

    def _load(self, timeline: Timeline | None = None) -> Snapshot:
        context = self._context
        found = context.folder.load() if timeline is None else timeline
        return build(context.storage, context.folder, context.config, found)

    def _describe(self, stats: tuple[WriteStat, ...]) -> CommitMetadata:
        assert self._transaction is not None
        extra = {
            **self._extra,
            TOKEN_KEY: self._transaction.token,
            SCHEMA_KEY: to_avro(self.schema, self._context.config.name),
        }
        return CommitMetadata(str(self._operation), stats, extra, self._replaced())

    def _replaced(self) -> dict[str, tuple[str, ...]]:
        if self._operation is OperationType.INSERT_OVERWRITE_TABLE:
            return replaced_groups(self.snapshot, self.snapshot.view.partitions())
        if self._operation in _OVERWRITING and self._prepared is not None:
            return replaced_groups(self.snapshot, self._prepared.volumes)
        return replaced_groups(self.snapshot, self._partitions)

    def _touched(self) -> Touched:
        touched = Touched.by(self._staged_metadata())
        if self._operation is OperationType.INSERT_OVERWRITE_TABLE:
            return replace(touched, replaced=None)
        if self._operation is OperationType.DELETE_PARTITION:
            return replace(touched, replaced=frozenset(self._partitions))
        if self._operation in _OVERWRITING and self._prepared is not None:
            return replace(touched, replaced=frozenset(self._prepared.volumes))
        return replace(touched, replaced=frozenset())

    def _check(self, found: Timeline) -> None:
        """Raise `CommitConflictError` if another commit came first."""
        transaction = self._started()
        start = self._since or transaction.start
        own, touched = transaction.requested_time, self._touched()
        concurrent.refuse_conflicts(self._context, start, found, own, touched, self.schema)

    def _remove_leaks(self, stats: tuple[WriteStat, ...]) -> None:
        """Remove files of task attempts that Spark gave up: announced by a marker, but not part of the result."""
        transaction = self._started()
        wanted = {stat.path for stat in stats}
        announced = markers.announced(self._context.storage, transaction.requested_time)
        removal.delete_data_files(self._context.storage, [path for path in announced if path not in wanted])

    def _fit_schema(self, now: pa.Schema) -> None:
        """Deletes keep the table's columns as they are now; rows that were prepared for other columns cannot be written any more."""
        assert self._prepared is not None
        if self._operation is OperationType.DELETE:
            self._prepared = replace(self._prepared, schema=now)
        elif reconcile(now, self._prepared.schema) != self._prepared.schema:
            raise SchemaMismatchError(
                "Another writer changed the table's columns meanwhile",
                table=self._context.table,
                hint="Nothing was published; write again with these columns.",
            )

    def _staged_metadata(self) -> CommitMetadata:
        self._started()
        assert self._metadata is not None
        return self._metadata

    def _started(self) -> Transaction:
        if self._transaction is None:
            raise InvalidOptionError(
                "Nothing was written in this handle yet", table=self._context.table, hint="Call write(data) first."
            )
        return self._transaction

    def _refuse_committed(self) -> None:
        if self._commit is not None:
            raise InvalidOptionError(
                "This handle has committed already",
                table=self._context.table,
                instant=self._commit.instant,
                hint="Begin another write for more data.",
            )

    def _refuse_second(self) -> None:
        if self._transaction is not None or self._prepared is not None:
            raise InvalidOptionError(
                "This handle has written its batch already",
                table=self._context.table,
                hint="Put all rows into one batch (a RecordBatchReader for streams), or begin another write.",
            )


def _checked_extra(extra: Mapping[str, str]) -> dict[str, str]:
    wrong = [key for key, value in extra.items() if not isinstance(key, str) or not isinstance(value, str)]
    reserved = [key for key in extra if key in (SCHEMA_KEY, TOKEN_KEY)]
    if wrong or reserved:
        raise InvalidOptionError(
            f"extra_metadata cannot hold {', '.join(map(repr, wrong + reserved))}",
            hint=f"Keys and values are strings, and {SCHEMA_KEY!r} and {TOKEN_KEY!r} belong to the commit itself.",
        )
    return dict(extra)


def commit_with_retries(write: Write, context: TableContext, gate: Gate | None = None) -> Commit:
    """Commit; when another commit came first, plan anew from its state, with full-jitter back-off."""
    attempt = 0
    while True:
        try:
            return write.commit(gate)
        except CommitConflictError as conflict:
            attempt = back_off(context, attempt, conflict)
            write.again()


def back_off(context: TableContext, attempt: int, conflict: CommitConflictError) -> int:
    """Wait before the next attempt and return its number; raises the conflict if there have been enough."""
    if attempt >= context.options.commit_retries:
        raise conflict
    ceiling_ms = min(20 * 2**attempt, 5_000)
    context.runtime.clock.sleep(context.runtime.ids.below(ceiling_ms + 1) / 1000)
    return attempt + 1
