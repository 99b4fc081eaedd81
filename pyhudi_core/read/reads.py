"""The reads of a table: snapshot, time travel, incremental, look-up by key. Each gives a `Scan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import (
    CorruptionError,
    InvalidOptionError,
    LimitExceededError,
    ObjectNotFoundError,
    SchemaMismatchError,
    SnapshotExpiredError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.listing import FixedListing
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.metadata_table.names import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi_core.model.commit import SERVICE_OPERATIONS, CommitMetadata
from pyhudi_core.model.instant import Instant, State, time_after, time_before
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import CdcMode
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.predicates import Predicate, SemiJoin
from pyhudi_core.read.bounds import TimePoint, as_text, completion_bound
from pyhudi_core.read.changes import ChangeReader, Changes, GroupChange
from pyhudi_core.read.merged import Merging
from pyhudi_core.read.read_optimized import refuse_pending_deletes, without_logs
from pyhudi_core.read.scan import RowFilter, Scan
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext

Columns = Sequence[str] | None
_MOST_LOOKED_UP = 100_000


def snapshot(context: TableContext, as_of: TimePoint | None = None) -> Snapshot:
    """The table's state now, or as of a time or an instant."""
    timeline = context.folder.load()

    def archived(requested_time: str) -> Instant | None:
        return context.folder.archived(timeline, requested_time)

    bound = None if as_of is None else completion_bound(as_of, timeline, archived, utc=context.utc)
    by_name = context.protections.admission_by_name
    return build(context.storage, context.folder, context.config, timeline, bound, by_name=by_name)


def scan(
    context: TableContext,
    columns: Columns,
    where: object,
    as_of: TimePoint | None,
    semi_join: tuple[object, str] | None = None,
) -> Scan:
    """Read a snapshot."""
    found = _scan(context, snapshot(context, as_of), columns, where)
    return found if semi_join is None else _joined(found, *semi_join)


def _joined(found: Scan, keys: object, on: str) -> Scan:
    """The scan, limited to rows whose column is among the keys; a record index says which file groups can hold them."""
    rows = found.rows
    also = rows.predicate if isinstance(rows.predicate, Predicate) else None
    limited = replace(found, rows=replace(rows, predicate=SemiJoin.of(keys, on, rows.schema, also)), _chosen=[])
    join = limited.rows.predicate
    if (
        isinstance(join, SemiJoin)
        and found.snapshot.config.record_key_fields == (on,)
        and join.values.type == pa.string()
    ):
        return _located(limited, join.values.to_pylist())
    return limited


def _located(found: Scan, keys: list[str]) -> Scan:
    """The scan, limited to the file groups in which the record index has the keys; as it is where there is no index for its state."""
    metadata = found.snapshot.metadata
    if (
        metadata is None
        or found.snapshot.bound is not None
        or not metadata.has(RECORD_INDEX)
        or len(keys) > _MOST_LOOKED_UP
    ):
        return found
    places = metadata.record_locations(keys)
    groups = zip(places.column("partition").to_pylist(), places.column("file_id").to_pylist(), strict=True)
    return found.in_groups(frozenset(groups))


def read_optimized(
    context: TableContext, columns: Columns, where: object, as_of: TimePoint | None, refuse_deletes: bool
) -> Scan:
    """Read base files alone. Raises `PendingDeletesError` on request."""
    state = snapshot(context, as_of)
    if refuse_deletes:
        refuse_pending_deletes(state, context.storage)
    return _scan(context, without_logs(state), columns, where)


def pinned(context: TableContext, timeline: Timeline, columns: Columns, where: object) -> Scan:
    """Read the table as of a timeline that is already loaded."""
    return _scan(context, build(context.storage, context.folder, context.config, timeline), columns, where)


def incremental(
    context: TableContext,
    after: TimePoint | None,
    until: TimePoint | None,
    columns: Columns = None,
    where: object = None,
) -> Scan:
    """The latest state, as of ``until``, of the rows that commits completed in (after, until] changed.

    Deleted rows do not show. Raises `SnapshotExpiredError` if commits after ``after`` were archived and the history cannot be read.
    """
    timeline = context.folder.load()
    upper = None if until is None else as_text(until, utc=context.utc, name="until")
    state = build(context.storage, context.folder, context.config, timeline, upper)
    if after is None:
        return _scan(context, state, columns, where)
    lower = as_text(after, utc=context.utc, name="after")
    commits = state.visibility.commits
    changed = {i.requested_time for i in commits if (i.completion_time or i.requested_time) > lower}
    changed.update(_archived_between(context, state, lower))
    return _scan(context, state, columns, where, frozenset(changed))


def _archived_between(context: TableContext, state: Snapshot, lower: str) -> Iterable[str]:
    """The requested times of archived commits that completed after ``lower`` and within the snapshot's bound."""
    upper = state.visibility.completed_until
    if not state.timeline.has_history or lower >= upper:
        return ()
    try:
        return [i.requested_time for i in context.folder.history.completed_between(lower, upper)]
    except (CorruptionError, LimitExceededError, ObjectNotFoundError) as error:
        raise SnapshotExpiredError(
            f"Commits after {lower} may have been archived, and the archived timeline cannot be read: {error.message}",
            table=context.table,
            path=error.path,
            hint=f"Read the whole table with scan(), then go on from {max(state.visibility.completed_until, lower)}.",
        ) from error


def changes(
    context: TableContext,
    after: TimePoint | None,
    until: TimePoint | None,
    columns: Columns = None,
    where: object = None,
) -> Changes:
    """What commits completed in (after, until] did to every row. Raises `SnapshotExpiredError` if some of them were archived."""
    timeline = context.folder.load()
    upper = None if until is None else as_text(until, utc=context.utc, name="until")
    lower = "" if after is None else as_text(after, utc=context.utc, name="after")
    last = build(context.storage, context.folder, context.config, timeline, upper)
    if next(iter(_archived_between(context, last, lower)), None) is not None:
        raise SnapshotExpiredError(
            f"Commits after {lower or 'the beginning'} have been archived, and their changes with them",
            table=context.table,
            hint="Follow the table more closely, or read its rows with incremental() and go on from there.",
        )
    if not context.config.populate_meta_fields:
        raise UnsupportedTableError(
            "The table has no meta columns (hoodie.populate.meta.fields=false), which changes are told by",
            table=context.table,
            hint="Compare two snapshots instead.",
        )
    state = _scan(context, last, columns, where)
    chosen = tuple(name for name in state.rows.columns if name in last.schema.names)
    reader = ChangeReader(chosen, last.schema, Predicate.of(where, last.schema), Merging(context.config))
    groups: list[GroupChange] = []
    for instant in last.visibility.commits:
        completed = instant.completion_time or instant.requested_time
        commit = context.folder.read_commit(instant)
        if completed > lower and commit.operation not in SERVICE_OPERATIONS:
            groups.extend(_changes_of(context, last, instant, commit))
    return Changes(context.storage, context.runtime.executor, reader, tuple(groups))


def _changes_of(
    context: TableContext, last: Snapshot, instant: Instant, commit: CommitMetadata
) -> Iterable[GroupChange]:
    """The file groups that a commit touched, as they were before it became visible and with it."""
    completed = instant.completion_time or instant.requested_time
    both_images = context.config.cdc_enabled and context.config.cdc_mode is CdcMode.DATA_BEFORE_AFTER
    before, after = (_view_at(context, last, bound) for bound in (time_before(completed), completed))
    logs: dict[tuple[str, str], tuple[str, ...]] = {}
    for stat in commit.stats:
        logs[stat.partition, stat.file_id] = logs.get((stat.partition, stat.file_id), ()) + tuple(stat.change_logs)
    replaced = {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
    for partition, file_id in sorted(logs.keys() | replaced):
        told = logs.get((partition, file_id), ()) if both_images else ()
        yield GroupChange(
            instant.requested_time, _group(before, partition, file_id), _group(after, partition, file_id), told
        )


def _view_at(context: TableContext, last: Snapshot, bound: str) -> FileGroupView:
    """The file groups at another bound, from files that are listed already."""
    history = context.folder.history
    visibility = Visibility.of(last.timeline, bound, context.folder.read_commit, history.exists, history=history)
    return FileGroupView(last.view.listing, visibility, context.table)


def _group(view: FileGroupView, partition: str, file_id: str) -> FileSlice | None:
    return next((piece for piece in view.slices(partition) if piece.file_id == file_id), None)


def lookup(context: TableContext, keys: object, columns: Columns = None, index: str | None = None) -> Scan:
    """The rows with the given keys; ``keys`` holds the key columns, and the partition columns where they are known.

    With ``index`` the rows with the given values of a secondary index's column, which ``keys`` holds. Raises `InvalidOptionError` if
    there is no such index.
    """
    state = snapshot(context)
    given = as_table(keys)
    if index is not None:
        return _by_secondary_key(context, state, given, columns, index)
    config = context.config
    names = [
        name
        for name in dict.fromkeys((*config.record_key_fields, *config.partition_fields))
        if name in given.schema.names
    ]
    missing = [name for name in config.record_key_fields if name not in names]
    if missing:
        raise SchemaMismatchError(
            f"The keys have no column {', '.join(map(repr, missing))}",
            table=context.table,
            hint=f"Give the key columns: {', '.join(config.record_key_fields)}.",
        )
    batch = given.combine_chunks().to_batches()[0] if given.num_rows else given.schema.empty_table().to_batches()
    if not isinstance(batch, pa.RecordBatch):
        return _scan(context, state, columns, None, keys=pa.array([], pa.string()))
    typed = cast_batch(batch.select(names), pa.schema([state.schema.field(name) for name in names]))
    wanted = pc.unique(record_keys(typed, config))
    located = _located(_scan(context, state, columns, None, keys=wanted), wanted.to_pylist())
    if config.is_partitioned and all(name in names for name in config.partition_fields):
        return located.in_partitions(frozenset(partition_paths(typed, config).to_pylist()))
    return located


def _by_secondary_key(context: TableContext, state: Snapshot, given: pa.Table, columns: Columns, index: str) -> Scan:
    name = index if index.startswith(SECONDARY_INDEX_PREFIX) else SECONDARY_INDEX_PREFIX + index
    metadata = state.metadata
    if metadata is None or not metadata.has(name) or given.num_columns != 1:
        known = [
            p.removeprefix(SECONDARY_INDEX_PREFIX)
            for p in (metadata.partitions if metadata else ())
            if p.startswith(SECONDARY_INDEX_PREFIX)
        ]
        raise InvalidOptionError(
            f"There is no secondary index {index!r} to look {given.num_columns} columns up in",
            table=context.table,
            hint=f"The table has: {', '.join(known) or 'none'}; give keys with one column.",
        )
    column = given.schema.names[0]
    values = [str(value) for value in pc.unique(given.column(0)).drop_null().cast(pa.string()).to_pylist()]
    record = metadata.record_keys_of(name, values)
    found = _located(_scan(context, state, columns, None, keys=pa.array(record, pa.string())), record)
    # The index may be ahead of or behind a row's own value for a moment, so the value itself decides.
    return _joined(found, given.column(0), column)


class Staged(Protocol):
    """An unpublished write (``write.staged.StagedWrite``)."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def requested(self) -> Instant: ...
    @property
    def metadata(self) -> CommitMetadata: ...
    @property
    def schema(self) -> pa.Schema: ...


def staged(context: TableContext, write: Staged, columns: Columns, where: object) -> Scan:
    """The rows that an unpublished write changed or added: a snapshot in which its files are the only ones."""
    files: dict[str, list[ObjectInfo]] = {}
    for stat in write.metadata.stats:
        files.setdefault(stat.partition, []).append(ObjectInfo(stat.path, stat.size, 0, ""))
    completed = replace(
        write.requested, state=State.COMPLETED, completion_time=time_after(write.requested.requested_time)
    )
    timeline = Timeline((completed,))
    visibility = Visibility.of(timeline, None, lambda _instant: write.metadata, lambda: False)
    listing = FixedListing({partition: tuple(infos) for partition, infos in files.items()})
    view = FileGroupView(listing, visibility, context.table)
    state = Snapshot(context.config, timeline, None, write.schema, view)
    return _scan(context, state, columns, where, frozenset({write.requested.requested_time}))


def _scan(
    context: TableContext,
    state: Snapshot,
    columns: Columns,
    where: object,
    changed: frozenset[str] | None = None,
    keys: pa.Array | None = None,
) -> Scan:
    if not context.config.populate_meta_fields and (changed is not None or keys is not None):
        raise UnsupportedTableError(
            "The table has no meta columns (hoodie.populate.meta.fields=false), which this read needs",
            table=context.table,
            hint="Read it with scan(where=...).",
        )
    full = with_meta_fields(state.schema)
    if isinstance(columns, str) or (columns is not None and not columns):
        raise InvalidOptionError(
            f"columns={columns!r} is not a list of column names",
            table=context.table,
            hint="Name at least one column in a list, or leave it away for all.",
        )
    chosen = tuple(full.names if columns is None else columns)
    unknown = [name for name in chosen if name not in full.names]
    if unknown:
        raise SchemaMismatchError(
            f"The table has no column {', '.join(map(repr, unknown))}",
            table=context.table,
            hint=f"It has: {', '.join(state.schema.names)}; and the meta columns that begin with _hoodie_.",
        )
    rows = RowFilter(chosen, full, Predicate.of(where, full), changed, keys)
    return Scan(state, context.storage, context.runtime.executor, rows, changed)
