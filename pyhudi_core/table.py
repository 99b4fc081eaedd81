"""The public table class. Every method delegates. Read this module first, then ``write/write.py``, then ``transaction/commit.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import InvalidOptionError, at_table
from pyhudi_core.lazy import lazy, lazy_in
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.table_services import TableServices
from pyhudi_core.timeline.active import Timeline

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi_core import doctor, validators
    from pyhudi_core.batches import combined
    from pyhudi_core.conflicts import explain
    from pyhudi_core.conflicts.explanation import ConflictExplanation
    from pyhudi_core.conflicts.requirement import CommitRequirement
    from pyhudi_core.model.snapshot_token import SnapshotToken
    from pyhudi_core.opened_table.table_context import TableContext
    from pyhudi_core.read import change_feed, history_rows, looks, lookups, reads, sizes, snapshots
    from pyhudi_core.read.bounds import TimePoint
    from pyhudi_core.read.changes import ChangeFeed
    from pyhudi_core.read.scan import Scan
    from pyhudi_core.read.sizes import Partition, Size, TableSize
    from pyhudi_core.services import registry
    from pyhudi_core.snapshot.snapshot import Snapshot
    from pyhudi_core.transaction import status
    from pyhudi_core.validators import Validator
    from pyhudi_core.write import batch as given
    from pyhudi_core.write import handle, meeting, merging, replacing, result, states, updating
    from pyhudi_core.write.handle import Write
    from pyhudi_core.write.merging import Merge
    from pyhudi_core.write.result import Commit
else:
    registry, explain = lazy("pyhudi_core.services.registry"), lazy("pyhudi_core.conflicts.explain")
    change_feed, history_rows, lookups = lazy_in("pyhudi_core.read", "change_feed", "history_rows", "lookups")
    doctor, validators = lazy_in("pyhudi_core", "doctor", "validators")
    combined, given = lazy("pyhudi_core.batches.combined"), lazy("pyhudi_core.write.batch")
    handle, meeting, merging = lazy_in("pyhudi_core.write", "handle", "meeting", "merging")
    replacing, result = lazy_in("pyhudi_core.write", "replacing", "result")
    states, updating = lazy_in("pyhudi_core.write", "states", "updating")
    looks, reads, sizes, snapshots = lazy_in("pyhudi_core.read", "looks", "reads", "sizes", "snapshots")
    status = lazy("pyhudi_core.transaction.status")


@set_module("pyhudi")
@printable
class HudiTable(TableServices):
    """A Hudi table, returned by `create_table` and `open_table`. Each call reads the latest state.

    ``data`` is a PySpark DataFrame, or any object with ``__arrow_c_stream__``. A DataFrame is written on its session, other data by this process.
    Errors are `HudiError`; bad data raises `DataError` before anything is written.

    If a write has nothing to change, it makes no commit and raises no error. Its result is then false (``changed`` is False), its
    counts are zero, and ``reason`` says why (`pyhudi_core.write.states`).

    ``pre_commit``: callables that can refuse a commit (`pyhudi_core.validators`). A refused commit raises `PreCommitError`, and publishes nothing.
    """

    def __init__(self, opened: OpenedTable) -> None:
        if not isinstance(opened, OpenedTable):
            raise InvalidOptionError("HudiTable(...) opens no table", hint="Write hudi.open_table(location).")
        self._opened = opened

    @property
    def location(self) -> str:
        """The table's folder."""
        return self._opened.storage.location

    @property
    def config(self) -> TableConfig:
        """The table's current properties."""
        return self._opened.context().config

    @property
    def name(self) -> str:
        """The property ``hoodie.table.name``."""
        return self.config.name

    @property
    def schema(self) -> pa.Schema:
        """The table's current columns, without the meta columns."""
        return self.snapshot().schema

    @property
    def timeline(self) -> Timeline:
        """The instants of the active timeline, newest last."""
        return self._opened.context().folder.load()

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return the metadata of a completed commit: files, counts and extra metadata."""
        if not isinstance(instant, Instant):
            raise InvalidOptionError(
                f"commit_metadata takes an instant, not {type(instant).__name__}",
                table=self.location,
                hint="Give one of table.timeline.commits, or table.timeline.find(commit.instant).",
            )
        with self._opened.verb() as context:
            return context.folder.read_commit(instant)

    @refuses_wrong_types
    def archived_commits(self, after: str = "") -> Iterator[CommitMetadata]:
        """Iterate over archived commits that completed after ``after``, newest first. Reads each commit when it is requested."""
        return self._opened.context().folder.archived_commits(after)

    @refuses_wrong_types
    def commits_with(self, key: str, after: str = "") -> Iterator[tuple[Instant, CommitMetadata]]:
        """Iterate over active and archived commits, newest first. Reads each commit when it is requested.

        Returns the commits that completed after ``after`` and have an extra metadata key that begins with ``key`` (empty: every commit).
        """
        return history_rows.commits_with(self._opened.context(), key, after)

    @refuses_wrong_types
    def history(self, limit: int | None = None) -> history_rows.CommitHistory:
        """Return the completed commits as rows, newest first: times, operation, counts, writer and extra metadata (`read.history_rows.SCHEMA`)."""
        with self._opened.verb() as context:
            return history_rows.history_rows(history_rows.commits_with(context, ""), utc=context.utc, limit=limit)

    def snapshot(self, as_of: TimePoint | None = None) -> Snapshot:
        """Return the table's state, now or as of a time: configuration, timeline and file groups."""
        with at_table(self.location):
            context, seen = self._opened.context_and_look(snapshots.look)
            return snapshots.snapshot(context, as_of, seen)

    def snapshot_token(self, as_of: TimePoint | None = None) -> SnapshotToken:
        """Return a token that identifies the table's state, now or as of a time. Lists all partitions.

        ``scan(as_of=token)`` later reads the same rows, or raises `SnapshotExpiredError`.
        """
        return snapshots.token_for(self.snapshot(as_of))

    @refuses_wrong_types
    def wait(self, after: TimePoint | None = None, timeout: float | None = None, every: float = 1.0) -> Instant | None:
        """Wait for a commit after a state. The state is a token, a commit or a time; None means the newest commit now.

        Args:
            timeout: maximum seconds to wait; None waits without a limit.
            every: seconds between two checks. A check of an unchanged table costs one request.

        Returns the newest commit; None if there was no commit in time. Raises `InvalidOptionError` if ``after`` is not a state, or if a time is
        negative.
        """
        with at_table(self.location):
            return looks.wait(self._opened, after, timeout, every)

    @refuses_wrong_types
    def size(self, as_of: TimePoint | None = None, known: TableSize | None = None) -> TableSize:
        """Count the rows, bytes and file groups of the table, now or as of a commit or time. Uses listings and commits; reads no rows.

        ``known`` is an earlier size of the table. With it, only later changes are read, so the cost does not grow with the table.
        """
        with self._opened.verb() as context:
            return sizes.table_size(context, as_of, known)

    @refuses_wrong_types
    def partition_sizes(
        self, partitions: Sequence[Partition] | None = None, as_of: TimePoint | None = None
    ) -> dict[Partition, Size]:
        """Count rows, bytes and file groups of each partition, or of the given partitions (paths or values). Lists only these partitions."""
        with self._opened.verb() as context:
            return sizes.partition_sizes(context, partitions, as_of)

    # --- writing: each call makes one commit

    def upsert(
        self,
        data: object,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
        *,
        partial: bool = False,
        batch: bool | None = None,
    ) -> Commit:
        """Insert rows with new keys and replace rows with existing keys.

        If a key occurs twice in a batch, the highest ordering value wins, or the last row if the table has no ordering column.

        With ``partial``, the rows may omit columns; the stored values of these columns stay. The key, partition and ordering columns are required.
        Raises `SchemaMismatchError` if a key is not in the table.

        With ``batch``, small batches of concurrent writers share one commit (`pyhudi_core.batches`). The result has the counts, the token and the
        extra metadata of this batch. There is a separate commit for a large batch, a batch that deletes rows, and a call with ``spark``,
        ``pre_commit`` or ``partial``. None uses the option ``pyhudi.commit.batch``.
        """
        with self._writing(OperationType.UPSERT, extra_metadata, spark, pre_commit, partial=partial) as write:
            shares = write.context.options.shares_commits if batch is None else batch
            if shares and not (partial or pre_commit != () or self._opened.pre_commit is not None or spark is not None):
                return combined.upsert(write, self._upserting, data)
            return write.until_committed(given.UserRows(data))

    def insert(
        self,
        data: object,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Insert rows with new keys. Raises `DuplicateKeyError` and writes nothing if a key exists already."""
        with self._writing(OperationType.INSERT, extra_metadata, spark, pre_commit) as write:
            return write.until_committed(given.UserRows(data))

    append = insert
    """The same as `insert`; other libraries use this name."""

    def bulk_insert(
        self,
        data: object,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Insert rows with new keys into new file groups, for first loads. Raises `DuplicateKeyError` as `insert` does."""
        with self._writing(OperationType.BULK_INSERT, extra_metadata, spark, pre_commit) as write:
            return write.until_committed(given.UserRows(data))

    def insert_overwrite(
        self,
        data: object,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Replace all rows of every partition that occurs in the data."""
        with self._writing(OperationType.INSERT_OVERWRITE, extra_metadata, spark, pre_commit) as write:
            return write.until_committed(given.UserRows(data))

    def insert_overwrite_table(
        self,
        data: object,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Replace all rows of the table."""
        with self._writing(OperationType.INSERT_OVERWRITE_TABLE, extra_metadata, spark, pre_commit) as write:
            return write.until_committed(given.UserRows(data))

    def delete(
        self,
        keys: object = None,
        where: object = None,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Delete rows, given either by ``keys`` (the key columns and the partition columns) or by ``where`` (a condition)."""
        if (keys is None) == (where is None):
            raise InvalidOptionError("delete takes either keys or where", table=self.location, hint="Give one.")
        if isinstance(keys, str):
            hint = f"Write delete(where={keys[:80]!r})."
            raise InvalidOptionError("delete takes data as keys, not text", table=self.location, hint=hint)
        if keys is not None:
            with self._writing(OperationType.DELETE, extra_metadata, spark, pre_commit) as write:
                return write.until_committed(given.UserRows(keys))

        def keys_of(found: Scan) -> object:
            return found.to_arrow() if spark is None else found.to_spark(spark)

        with self._writing(OperationType.DELETE, extra_metadata, spark, pre_commit) as write:
            return handle.write_found(write, write.context.config.naming_fields, where, keys_of)

    def update(
        self,
        set: Mapping[str, object],  # noqa: A002  (the word of SQL, which other libraries use too)
        where: object = None,
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Set columns to new values in all rows, or in the rows that match ``where``. The stats count the updated rows.

        Args:
            set: the new value of each column: SQL text such as ``"price * 1.1"``, a ``pyarrow.compute.Expression``, or a Python value. A text value
                has quotes inside: ``{"state": "'paid'"}``. All values are computed from the row before the update.
            where: SQL text or a ``pyarrow.compute.Expression``, as in `scan`.
            spark: a session that reads and writes the rows; by default this process reads and writes them.

        Raises:
            InvalidOptionError: a column is part of the record key or a partition column, which identify a row.
            PredicateError: a column does not exist, or an expression is not valid or does not fit its column.
            DataError: a value that the column cannot hold exactly, or a lower ordering value. Nothing was written.
        """
        with self._writing(OperationType.UPSERT, extra_metadata, spark, pre_commit) as write:
            return updating.update_found(write, set, where, spark)

    def replace(
        self,
        data: object,
        where: object,
        extra_metadata: Mapping[str, str] | None = None,
        pre_commit: Sequence[Validator] = (),
        spark: Any = None,
    ) -> Commit:
        """Replace the rows that match a condition with the given rows, which must match the condition, too. Other rows stay. But if the key of a
        given row exists elsewhere in its partition, the given row replaces that row. In a table that generates its keys, all matching rows are
        deleted, and the given rows are new rows. If several given rows have one key, one of them is written, as in `upsert`. Raises `DataError` and
        writes nothing if a given row does not match the condition.
        """
        spark = meeting.spark_of(data, spark)
        with self._writing(OperationType.UPSERT, extra_metadata, spark, pre_commit, leaves=True) as write:
            return replacing.replace_found(write, data, where, spark)

    @refuses_wrong_types
    def merge(
        self,
        source: object,
        on: str | Sequence[str],
        source_alias: str = "source",
        target_alias: str = "target",
        extra_metadata: Mapping[str, str] | None = None,
        pre_commit: Sequence[Validator] = (),
        spark: Any = None,
    ) -> Merge:
        """Begin a merge: rows of a source are matched with rows of the table, and clauses define the change of each row. Call ``run()`` to execute
        it, as in ``table.merge(changes, on="id").when_matched_update_all().when_not_matched_insert_all().run()``.

        Args:
            source: rows, as `upsert` takes them. Rows of a PySpark DataFrame are matched in tasks of its session.
            on: columns of both sides, or a condition such as ``"target.id = source.key AND target.day >= '2026-01-01'"``.
            source_alias: the name of the source in conditions and values.
            target_alias: the name of the table in conditions and values.
            spark: a session that matches and writes the rows; by default the session of the source, or this process.
        """
        spark = meeting.spark_of(source, spark)
        open_write = partial(self._writing, OperationType.UPSERT, extra_metadata, spark, pre_commit, leaves=True)
        return merging.Merge(meeting.again(source), on, (source_alias, target_alias), open_write, spark)

    def truncate(self, extra_metadata: Mapping[str, str] | None = None, pre_commit: Sequence[Validator] = ()) -> Commit:
        """Delete all rows. The columns, the options and the history of the table stay."""
        return self.insert_overwrite_table(self.schema.empty_table(), extra_metadata, None, pre_commit)

    def delete_partitions(
        self,
        partitions: Sequence[str],
        missing_ok: bool = False,
        extra_metadata: Mapping[str, str] | None = None,
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Delete all rows of partitions, given by paths such as ``day=2026-01-31``; ``stats.rows_deleted`` counts the rows.

        Raises `PartitionNotFoundError` for a path without rows, before anything is changed, unless ``missing_ok=True``.
        """
        with self._writing(OperationType.DELETE_PARTITION, extra_metadata, None, pre_commit) as write:
            return write.until_committed(given.Partitions(partitions, missing_ok))

    @refuses_wrong_types
    def begin(
        self,
        operation: str = "upsert",
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        requirements: Sequence[CommitRequirement] = (),
        allow_empty: bool = False,
        partial: bool = False,
        pre_commit: Sequence[Validator] = (),
    ) -> Write:
        """Begin a write in steps: ``write``, ``staged``, ``would_commit``, ``commit``. A write whose ``with`` block ends without a commit is rolled
        back.

        ``requirements`` are checked during the commit; if one is not met, `CommitRequirementError` is raised and nothing is published. With
        ``allow_empty``, a write without rows makes a commit that only stores ``extra_metadata``. With ``partial``, the rows of an upsert may lack
        columns, as in `upsert`.
        """
        with self._opened.verb() as context:
            kind = handle.operation_type(operation)
            request = self._request(context, kind, extra_metadata, spark, pre_commit)
            request = replace(request, requirements=requirements, allow_empty=allow_empty, partial=partial)
            return handle.Write(request, reads)

    def commit_status(self, token: str) -> status.CommitStatus:
        """Return whether the write with this token is committed, not committed, or undecided. Only the answer "undecided" can change later."""
        with self._opened.verb() as context:
            if isinstance(token, str) and token.startswith("batch-"):
                return combined.status(self._upserting, context, token)
            return status.commit_status(context, token)

    @refuses_wrong_types
    def explain_conflict(
        self, mine: Write | Commit | explain.SideOrInstant, theirs: Write | Commit | explain.SideOrInstant
    ) -> ConflictExplanation:
        """Explain why two writes conflict, or why both can commit: the rule, the common changes, and what to do. Each argument is a write in steps, a
        commit, an instant, a requested time or a commit token. The verdict applies to the later commit.
        """
        with self._opened.verb() as context:
            return explain.explain(context, _side(mine), _side(theirs))

    @refuses_wrong_types
    def check(
        self, keys: bool = True, limits: doctor.Limits | None = None, progress: doctor.Progress | None = None
    ) -> doctor.CheckReport:
        """Examine the table, and change nothing. Each kind of damage is a finding. With ``keys=False``, rows are not read."""
        return doctor.check(self._opened, doctor.CheckOptions.of(keys, limits, progress))

    def record_incident(self) -> doctor.Incident:
        """Record the files of the commit protocol for ``pyhudi.testing.replay_incident``. The record has no rows, and secrets are masked."""
        return doctor.record(self._opened)

    # --- reading

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: object = None, as_of: TimePoint | None = None
    ) -> pa.Table:
        """Read rows into an Arrow table, without the meta columns: ``scan(columns, where, as_of, meta=False).to_arrow()``."""
        return self.scan(columns, where, as_of, meta=False).to_arrow()

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: object = None, as_of: TimePoint | None = None
    ) -> Any:
        """Read rows into a pandas DataFrame, as `to_arrow`."""
        return self.scan(columns, where, as_of, meta=False).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: object = None, as_of: TimePoint | None = None
    ) -> Any:
        """Read rows into a polars DataFrame, as `to_arrow`."""
        return self.scan(columns, where, as_of, meta=False).to_polars()

    def head(self, n: int = 5) -> pa.Table:
        """Read at most ``n`` rows, in no defined order, without the meta columns."""
        with at_table(self.location):
            return self.scan(meta=False).head(n)

    def count(self, where: object = None) -> int:
        """Count all rows, or the rows that match a condition."""
        return self.scan(where=where).count()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: object = None,
        as_of: TimePoint | None = None,
        mode: str = "snapshot",
        semi_join: tuple[object, str] | None = None,
        refuse_pending_deletes: bool = False,
        meta: bool = True,
    ) -> Scan:
        """Read the table's state: the newest one, or as of a time, an instant or a token. A state as of an instant includes its commit.

        Without ``columns``, all columns are read, the meta columns first; ``meta=False`` omits the meta columns. ``where`` is SQL text or a
        ``pyarrow.compute.Expression``. ``semi_join=(keys, column)`` returns only rows whose value in the column is one of the keys, and skips files
        without these keys. ``mode="read_optimized"`` reads only base files; ``scan.staleness()`` counts the unread log files and their rows. With
        ``refuse_pending_deletes``, this mode raises `PendingDeletesError` if log files contain deletes.
        """
        optimized = mode == "read_optimized"
        if not optimized and (mode != "snapshot" or refuse_pending_deletes):
            raise InvalidOptionError(
                f"mode={mode!r} is unknown, or cannot be combined with refuse_pending_deletes",
                table=self.location,
                hint='Use mode="snapshot" or mode="read_optimized"; refuse_pending_deletes needs mode="read_optimized".',
            )
        with at_table(self.location):
            context, seen = self._opened.context_and_look(snapshots.look)
            return reads.scan(
                context,
                columns,
                where,
                as_of,
                semi_join,
                meta=meta,
                optimized=optimized,
                refuse_deletes=refuse_pending_deletes,
                seen=seen,
            )

    def incremental(
        self,
        after: TimePoint | None = None,
        until: TimePoint | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
        meta: bool = True,
    ) -> Scan:
        """Read the rows that were changed by commits completed in (after, until], each row in its latest state."""
        with self._opened.verb() as context:
            return reads.incremental(context, after, until, columns, where, meta=meta)

    def changes(
        self,
        after: TimePoint | None = None,
        until: TimePoint | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
    ) -> ChangeFeed:
        """Read every change of a row by commits completed in (after, until]. Columns: op (i, u, d), ts_ms (of the commit), before and after."""
        with self._opened.verb() as context:
            return change_feed.changes(context, after, until, columns, where)

    def lookup(self, keys: object, columns: Sequence[str] | None = None, index: str | None = None) -> Scan:
        """Read the rows with the given keys, or with the given values of the secondary index ``index``."""
        with self._opened.verb() as context:
            return lookups.lookup(context, keys, columns, index)

    @contextmanager
    def _writing(
        self,
        operation: OperationType,
        extra: Mapping[str, str] | None,
        spark: Any,
        pre_commit: Sequence[Validator],
        *,
        partial: bool = False,
        leaves: bool = False,
    ) -> Iterator[Write]:
        """Open one write."""
        with at_table(self.location):
            context, seen = self._opened.context_and_look(states.look)
            request = self._request(context, operation, extra, spark, pre_commit)
            with handle.Write(replace(request, partial=partial, leaves=leaves, seen=seen), reads) as write:
                yield write

    def _upserting(self) -> AbstractContextManager[Write]:
        """Return the write that shares its commit with other batches."""
        return self._writing(OperationType.UPSERT, {}, None, ())

    def _request(
        self,
        context: TableContext,
        operation: OperationType,
        extra: Mapping[str, str] | None,
        spark: Any,
        pre_commit: Sequence[Validator],
    ) -> states.WriteSpec:
        """Return the description of a write; the table services use it, too."""
        asked = validators.Validators.of(pre_commit) if pre_commit != () else None
        after = registry.following(context)
        return states.WriteSpec(context, operation, extra or {}, spark, pre_commit=asked, after=after)

    def __repr__(self) -> str:
        config = self.config
        key, partitions = ", ".join(config.record_key_fields), ", ".join(config.partition_fields) or "not partitioned"
        return f"HudiTable {config.name} ({config.table_type.value}, key {key}; {partitions}) at {self.location}"


def _side(of: Write | Commit | explain.SideOrInstant) -> explain.SideOrInstant:
    if isinstance(of, result.Commit):
        if not of:
            what = f"This write changed nothing ({of.reason}), so it conflicts with no other write"
            raise InvalidOptionError(what, hint="Give a write that has a commit.")
        return of.instant
    return of.conflict_side() if hasattr(of, "conflict_side") else of
