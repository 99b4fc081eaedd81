"""The table, as users hold it. Everything here delegates; read this first, then ``write/operations.py``, then ``transaction/commit.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata, OperationType
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.snapshot_token import SnapshotToken
from pyhudi_core.read import change_feed, lookups, reads, sizes
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.read.changes import Changes
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.sizes import Partition, Size, TableSize
from pyhudi_core.read.snapshots import snapshot, token_for
from pyhudi_core.services import auto, doctor
from pyhudi_core.services.archival import Archival
from pyhudi_core.services.doctor import CheckReport, Incident, Limits, Progress
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.commit_search import commits_holding
from pyhudi_core.transaction.explanation import Explanation
from pyhudi_core.transaction.home import TableHome
from pyhudi_core.transaction.parties import Side, explain
from pyhudi_core.transaction.requirement import CommitRequirement
from pyhudi_core.transaction.rollback_result import Rollback, roll_back_on_request
from pyhudi_core.transaction.status import CommitStatus, commit_status
from pyhudi_core.write import operations
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit


class HudiTable:
    """A Hudi table of version 8. Made by `create_table` and `open_table`; looks for the newest state at every verb.

    ``data`` is a PySpark DataFrame (the write runs on its session), or anything that speaks the Arrow C stream interface (it runs in this
    process). Errors are `HudiError`; bad data raises `DataError` before anything is written.

    Every verb that writes follows one rule: where there is nothing to change there is no commit and no error. The result is false then
    (``changed`` is False), its counts are zero, and its ``reason`` says why (`pyhudi_core.write.nothing`).
    """

    def __init__(self, home: TableHome) -> None:
        self._home = home

    @property
    def location(self) -> str:
        """The table's folder, as it was opened."""
        return self._home.storage.location

    @property
    def config(self) -> TableConfig:
        """The table's properties, as they are now."""
        return self._home.context().config

    @property
    def name(self) -> str:
        """``hoodie.table.name``."""
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
        if not isinstance(instant, Instant):
            raise InvalidOptionError(
                f"commit_metadata takes an instant, not {type(instant).__name__}",
                table=self.location,
                hint="Give one of table.timeline.commits, or table.timeline.find(commit.instant).",
            )
        with self._home.verb() as context:
            return context.folder.read_commit(instant)

    def archived_commits(self, after: str = "") -> Iterator[CommitMetadata]:
        """What commits say that have left the active timeline and completed after a time; newest first, read as they are asked for."""
        return self._home.context().folder.archived_commits(after)

    def commits_with(self, key: str, after: str = "") -> Iterator[tuple[Instant, CommitMetadata]]:
        """Commits with an extra metadata key that begins with ``key`` (empty: all), active and archived, newest first, read as they are asked for.

        ``after`` is a completion time: only commits that completed later are looked at.
        """
        return commits_holding(self._home.context().folder, key, after)

    def snapshot(self, as_of: TimePoint | None = None) -> Snapshot:
        """The table's state: configuration, timeline and file groups."""
        with self._home.verb() as context:
            return snapshot(context, as_of)

    def snapshot_token(self, as_of: TimePoint | None = None) -> SnapshotToken:
        """Names this state: ``scan(as_of=token)`` reads the same rows later, or raises `SnapshotExpiredError`; lists every partition."""
        return token_for(self.snapshot(as_of))

    def size(self, as_of: TimePoint | None = None, known: TableSize | None = None) -> TableSize:
        """How many rows, bytes and file groups the table has, now or as of a commit or time; by listings and commits, no row is read.

        With ``known``, an earlier size of the table, only what changed since is added up, so that the cost does not grow with the table.
        """
        with self._home.verb() as context:
            return sizes.table_size(context, as_of, known)

    def partition_sizes(
        self, partitions: Sequence[Partition] | None = None, as_of: TimePoint | None = None
    ) -> dict[Partition, Size]:
        """The same of each partition: of these, each named by its path or by its values, or of all. Lists only the partitions asked for."""
        with self._home.verb() as context:
            return sizes.partition_sizes(context, partitions, as_of)

    # --- writing: each is one commit

    def upsert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys, replace rows with known ones; the last row of a key in a batch wins, or the highest ordering value."""
        self._refuse_partial(partial)
        return self._run(OperationType.UPSERT, data, extra_metadata, spark)

    def insert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys. Raises `DuplicateKeyError`, and writes nothing, if a key is there already."""
        self._refuse_partial(partial)
        return self._run(OperationType.INSERT, data, extra_metadata, spark)

    def bulk_insert(
        self, data: object, partial: bool = False, extra_metadata: Mapping[str, str] | None = None, spark: Any = None
    ) -> Commit:
        """Insert rows with new keys into new file groups: for first loads. Raises as `insert`."""
        self._refuse_partial(partial)
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
        if isinstance(keys, str):
            raise InvalidOptionError(
                "delete was given text as keys", table=self.location, hint=f"Write delete(where={keys[:80]!r})."
            )
        if keys is not None:
            return self._run(OperationType.DELETE, keys, extra_metadata, spark)

        def keys_of(found: Scan) -> object:
            return found.to_arrow() if spark is None else found.to_spark(spark)

        with self._home.verb() as context:
            commit = operations.delete_found(context, reads, where, keys_of, extra_metadata or {}, spark)
            return auto.followed(context, commit)

    def delete_partitions(
        self, partitions: Sequence[str], missing_ok: bool = False, extra_metadata: Mapping[str, str] | None = None
    ) -> Commit:
        """Take whole partitions away, given by their paths such as ``day=2026-01-31``; ``stats.rows_deleted`` is how many rows went.

        A path without rows raises `PartitionNotFoundError`, before anything is changed, unless ``missing_ok=True``.
        """
        with self._home.verb() as context:
            extra = extra_metadata or {}
            return auto.followed(
                context, operations.delete_partitions(context, partitions, extra, missing_ok=missing_ok)
            )

    def begin(
        self,
        operation: str = "upsert",
        extra_metadata: Mapping[str, str] | None = None,
        spark: Any = None,
        requirements: Sequence[CommitRequirement] = (),
        allow_empty: bool = False,
    ) -> Write:
        """A write in steps: ``write``, ``staged``, ``would_commit``, ``commit`` or leave to roll back.

        ``requirements`` must hold at the moment of the commit; else it raises `CommitRequirementError`, and nothing is published.
        ``allow_empty``: a batch without rows, or none at all, makes a commit that changes no rows and keeps ``extra_metadata``.
        """
        with self._home.verb() as context:
            kind = operations.operation_type(operation)
            extra = extra_metadata or {}
            return auto.ServicedWrite(
                context, kind, extra, spark, reads, requirements=requirements, allow_empty=allow_empty
            )

    @property
    def archival(self) -> Archival:
        """Moves old instants to the archived timeline: ``plan()`` and ``run()``; commits do it by themselves when it is due."""
        return Archival(self._home.context())

    def rollback(self, instant: Instant | str) -> Rollback:
        """Roll back a pending write, whoever began it; false, with a reason, if it is not pending. The caller knows that its writer is gone."""
        time = instant.requested_time if isinstance(instant, Instant) else instant
        with self._home.verb() as context:
            return roll_back_on_request(context, time)

    def commit_status(self, token: str) -> CommitStatus:
        """What became of the write with this token."""
        with self._home.verb() as context:
            return commit_status(context, token)

    def explain_conflict(self, mine: Write | Commit | Side, theirs: Write | Commit | Side) -> Explanation:
        """Why two writes commute or get in each other's way: which rule, what they share, what to do.

        Each is a write in steps, a commit, an instant, its requested time or a commit token. The one that completed later is judged.
        """
        with self._home.verb() as context:
            return explain(context, _side(mine), _side(theirs))

    def check(self, keys: bool = True, limits: Limits | None = None, progress: Progress | None = None) -> CheckReport:
        """The doctor: examine the whole table and change nothing; damage becomes findings. ``keys=False`` leaves out the rows."""
        return doctor.check(self._home, doctor.CheckOptions.of(keys, limits, progress))

    def record_incident(self) -> Incident:
        """What the commit protocol left in the table, for ``pyhudi_core.testing.replay_incident``: no rows, and secrets masked."""
        return doctor.record(self._home)

    # --- reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: object = None,
        as_of: TimePoint | None = None,
        mode: str = "snapshot",
        semi_join: tuple[object, str] | None = None,
        refuse_pending_deletes: bool = False,
    ) -> Scan:
        """Read the table's state now, or as of a time (what had completed by then), an instant (up to and including it) or a token.

        The meta columns come first unless ``columns`` says otherwise. ``where`` is SQL text or a ``pyarrow.compute.Expression``.
        ``mode="read_optimized"`` reads base files alone; ``scan.staleness()`` says what they leave out, and with ``refuse_pending_deletes``
        deletes among it raise `PendingDeletesError`. ``semi_join=(keys, column)`` keeps rows whose column is among the keys, and reads only files
        that can hold one.
        """
        if mode == "read_optimized":
            with self._home.verb() as context:
                return reads.read_optimized(context, columns, where, as_of, semi_join, refuse_pending_deletes)
        if mode != "snapshot" or refuse_pending_deletes:
            raise InvalidOptionError(
                f"mode={mode!r} is unknown, or has no deletes to refuse",
                table=self.location,
                hint='Use mode="snapshot", or mode="read_optimized", which refuse_pending_deletes belongs to.',
            )
        with self._home.verb() as context:
            return reads.scan(context, columns, where, as_of, semi_join)

    def incremental(
        self,
        after: TimePoint | None = None,
        until: TimePoint | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
    ) -> Scan:
        """The latest state of the rows that commits completed in (after, until] changed."""
        with self._home.verb() as context:
            return reads.incremental(context, after, until, columns, where)

    def changes(
        self,
        after: TimePoint | None = None,
        until: TimePoint | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
    ) -> Changes:
        """What commits completed in (after, until] did to every row: op (i, u, d), ts_ms (the commit), before and after."""
        with self._home.verb() as context:
            return change_feed.changes(context, after, until, columns, where)

    def lookup(self, keys: object, columns: Sequence[str] | None = None, index: str | None = None) -> Scan:
        """The rows with the given keys; with ``index`` those with the given values of a secondary index's column."""
        with self._home.verb() as context:
            return lookups.lookup(context, keys, columns, index)

    def _run(self, operation: OperationType, data: object, extra: Mapping[str, str] | None, spark: Any) -> Commit:
        with self._home.verb() as context:
            return auto.followed(context, operations.run(context, operation, data, extra or {}, spark))

    def _refuse_partial(self, partial: bool) -> None:
        if partial:
            raise InvalidOptionError(
                "Partial updates are not written by this release",
                table=self.location,
                hint="Give whole rows, with every column of the table.",
            )

    def __repr__(self) -> str:
        config = self.config
        key, partitions = ", ".join(config.record_key_fields), ", ".join(config.partition_fields) or "not partitioned"
        return f"HudiTable {config.name} at {self.location} ({config.table_type.value}, key {key}; {partitions})"


def _side(of: Write | Commit | Side) -> Side:
    if isinstance(of, Commit) and not of:
        raise InvalidOptionError(
            f"This write changed nothing ({of.reason}), so it is in nobody's way",
            hint="Give a write that has a commit.",
        )
    return of.party() if isinstance(of, Write) else of.instant if isinstance(of, Commit) else of
