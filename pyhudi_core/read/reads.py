"""The reads of a table: snapshot, time travel, incremental, look-up by key. Each gives a `Scan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, SnapshotExpiredError, UnsupportedTableError
from pyhudi_core.file_groups.listing import FixedListing
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant, State, time_after
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.bounds import TimePoint, as_text, completion_bound
from pyhudi_core.read.scan import RowFilter, Scan
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext

Columns = Sequence[str] | None


def snapshot(context: TableContext, as_of: TimePoint | None = None) -> Snapshot:
    """The table's state now, or as of a time or an instant."""
    timeline = context.folder.load()
    bound = None if as_of is None else completion_bound(as_of, timeline, utc=context.utc)
    return build(context.storage, context.folder, context.config, timeline, bound)


def scan(context: TableContext, columns: Columns, where: object, as_of: TimePoint | None) -> Scan:
    """Read a snapshot."""
    return _scan(context, snapshot(context, as_of), columns, where)


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

    Deleted rows do not show. Raises `SnapshotExpiredError` if commits after ``after`` have left the active timeline.
    """
    timeline = context.folder.load()
    upper = None if until is None else as_text(until, utc=context.utc, name="until")
    state = build(context.storage, context.folder, context.config, timeline, upper)
    if after is None:
        return _scan(context, state, columns, where)
    lower = as_text(after, utc=context.utc, name="after")
    commits = state.visibility.commits
    changed = frozenset(i.requested_time for i in commits if (i.completion_time or i.requested_time) > lower)
    if len(changed) == len(commits) and commits and state.visibility.is_archived(""):
        raise SnapshotExpiredError(
            f"Commits after {lower} have been archived, so what they changed cannot be told apart any more",
            table=context.table,
            hint=f"Read the whole table with scan(), then go on from {state.completion_time}.",
        )
    return _scan(context, state, columns, where, changed)


def lookup(context: TableContext, keys: object, columns: Columns = None) -> Scan:
    """The rows with the given keys; ``keys`` holds the key columns, and the partition columns where they are known."""
    state = snapshot(context)
    config = context.config
    given = as_table(keys)
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
    located = _scan(context, state, columns, None, keys=pc.unique(record_keys(typed, config)))
    if config.is_partitioned and all(name in names for name in config.partition_fields):
        return located.in_partitions(frozenset(partition_paths(typed, config).to_pylist()))
    return located


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
