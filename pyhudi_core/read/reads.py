"""The reads of a table: snapshot, time travel, read-optimized, incremental, and of an unpublished write. Each returns a `Scan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from pyhudi_core.file_groups.listing import AddedFiles, FixedListing
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant, State, time_after
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint, interval_bound, settled_bound
from pyhudi_core.read.expired import naming_clean
from pyhudi_core.read.lookups import SemiJoinOn, joined, located, probing
from pyhudi_core.read.read_optimized import refuse_pending_deletes, without_logs
from pyhudi_core.read.retention import refuse_cleaned, refuse_forgotten
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.snapshots import Columns, StateSeen, archived_between, make_scan, search_archived, snapshot
from pyhudi_core.snapshot.evolution import find_evolution
from pyhudi_core.snapshot.snapshot import Beside, Snapshot, build
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import lost_completions
from pyhudi_core.transaction.begin import metadata_timeline


def scan(
    context: TableContext,
    columns: Columns,
    where: object,
    as_of: TimePoint | None,
    semi_join: SemiJoinOn | None = None,
    *,
    meta: bool = True,
    optimized: bool = False,
    refuse_deletes: bool = False,
    seen: StateSeen | None = None,
) -> Scan:
    """Choose what a scan reads: the state, then the rows, then the files. `Scan.to_batches` reads these files, and merges logs with base files.

    Args:
        seen: the state of the table that the caller has just read.
        optimized: read base files alone. With ``refuse_deletes``, `PendingDeletesError` is raised if the logs have deletes.
    """
    state = snapshot(context, as_of, seen)  # 1. the state: now, or as of a time; which commits and files count
    if refuse_deletes:
        refuse_pending_deletes(state, context.storage)
    found = make_scan(context, without_logs(state) if optimized else state, columns, where, meta=meta)  # 2. the rows
    found = joined(found, semi_join)
    if not optimized:  # base files still have rows that logs have deleted; the record index has no entries for them
        found = probing(found) if semi_join is None else located(found)  # 3. file groups, by the record index
    return found.pinned()  # 4. list the partitions, and prune files by partition, statistics and indexes


def pinned(
    context: TableContext,
    timeline: Timeline,
    columns: Columns,
    where: object,
    *,
    meta: bool = True,
    companions: Sequence[Timeline] = (),
) -> Scan:
    """Read the table as of a loaded timeline. ``companions``: the timelines of the metadata tables, if they were read with it."""
    own, executor = metadata_timeline(context, companions), context.runtime.executor
    beside = None if own is None else Beside(own)
    state = build(context.storage, context.folder, context.config, timeline, executor=executor, beside=beside)
    return make_scan(context, state, columns, where, meta=meta)


def incremental(
    context: TableContext,
    after: TimePoint | None,
    until: TimePoint | None,
    columns: Columns = None,
    where: object = None,
    *,
    meta: bool = True,
) -> Scan:
    """Read the latest state, as of ``until``, of the rows that commits completed in (after, until] changed.

    Deleted rows are not returned. Raises `SnapshotExpiredError` if commits after ``after`` were archived and the history cannot be read, or if files
    with the rows at ``until`` were cleaned.
    """
    timeline = lost_completions.load(context)
    archived = search_archived(context, timeline)
    upper = None if until is None else interval_bound(until, timeline, archived, utc=context.utc, name="until")
    upper = settled_bound(upper, timeline)
    state = build(context.storage, context.folder, context.config, timeline, upper, executor=context.runtime.executor)
    if after is None:
        refuse_forgotten(state, context.table)
        with naming_clean(context.folder):
            refuse_cleaned(state, context.table)
        return make_scan(context, state, columns, where, meta=meta).pinned()
    lower = interval_bound(after, timeline, archived, utc=context.utc, name="after")
    since = [i for i in state.visibility.commits if (i.completion_time or i.requested_time) > lower]
    # Log compactions of release 1.2 write their own time into rows that they copy, so the instants must include a data write.
    some = any(state.visibility.read_commit(i).operation not in SERVICE_OPERATIONS for i in since)
    changed = {i.requested_time for i in since} if some else set()
    changed.update(archived_between(context, state, lower))
    with naming_clean(context.folder):
        refuse_cleaned(state, context.table, frozenset(changed))
    return make_scan(context, state, columns, where, frozenset(changed), meta=meta).pinned()


class UnpublishedWrite(Protocol):
    """An unpublished write (``write.states.Staged`` or ``Unchanged``)."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def requested(self) -> Instant: ...
    @property
    def metadata(self) -> CommitMetadata: ...
    @property
    def schema(self) -> pa.Schema: ...


def staged(context: TableContext, write: UnpublishedWrite, columns: Columns, where: object) -> Scan:
    """Read the rows that an unpublished write changed or added: a snapshot with only its files, and the slices that its logs extend.

    For a table service, which changes no rows, these are all rows of its files.
    """
    before, own = write.snapshot, write.requested
    files: dict[str, list[ObjectInfo]] = {}
    for stat in write.metadata.stats:
        files.setdefault(stat.partition, []).append(ObjectInfo(stat.path, stat.size, 0, ""))
    logged = {
        (stat.partition, stat.file_id) for stat in write.metadata.stats if stat.path.rpartition("/")[2].startswith(".")
    }
    for partition in sorted({partition for partition, _ in logged}):
        below = [piece for piece in before.view.slices(partition) if piece.group in logged]
        files[partition] += [ObjectInfo(file.path, file.size, 0, "") for piece in below for file in piece.files]
    visibility = _with_write(before, write, alone=not logged)
    listing = FixedListing({partition: tuple(infos) for partition, infos in files.items()})
    view = FileGroupView(listing, visibility, context.table)
    evolution = find_evolution(context.storage, visibility)
    state = Snapshot(context.config, visibility.timeline, None, write.schema, view, None, evolution)
    # Rows without meta columns are never updated, so all rows of new files are new, except rows that a small file had before.
    all_rows = write.metadata.operation in SERVICE_OPERATIONS or not context.config.populate_meta_fields
    changed = None if all_rows else frozenset({own.requested_time})
    return make_scan(context, state, columns, where, changed)


def as_committed(
    context: TableContext, write: UnpublishedWrite, before: Snapshot, columns: Columns, where: object
) -> Scan:
    """Read the table as it would be if an unpublished write were the next commit after ``before``."""
    files: dict[str, tuple[ObjectInfo, ...]] = {}
    for stat in write.metadata.stats:
        files[stat.partition] = (*files.get(stat.partition, ()), ObjectInfo(stat.path, stat.size, 0, ""))
    visibility = _with_write(before, write)
    view = FileGroupView(AddedFiles(before.view.listing, files), visibility, context.table)
    # This read does not use the metadata table: its statistics do not know the new files. The evolution is that of the write. For a table service,
    # This read does not use the metadata table: its statistics do not know the new files. The columns follow the write. If the write is a table
    # service, perhaps no commit of the active timeline has the names of columns; then the columns of the state before the write count.
    evolution = find_evolution(context.storage, visibility) or before.evolution
    state = Snapshot(context.config, visibility.timeline, None, write.schema, view, None, evolution)
    return make_scan(context, state, columns, where)


def _with_write(before: Snapshot, write: UnpublishedWrite, *, alone: bool = False) -> Visibility:
    """Return what a reader would see if the write had completed after this state; ``alone``: only the files of this write."""
    own, known = write.requested, before.visibility
    last = max(own.requested_time, known.completed_until)
    completed = replace(own, action=own.action.completes_as, state=State.COMPLETED, completion_time=time_after(last))
    others = (instant for instant in before.timeline if instant.requested_time != own.requested_time)
    timeline = Timeline((completed,)) if alone else Timeline.of((*others, completed), before.timeline.has_history)

    def read_commit(instant: Instant) -> CommitMetadata:
        return write.metadata if instant.requested_time == own.requested_time else known.read_commit(instant)

    return Visibility.of(timeline, None, read_commit, known.has_history, history=known.history, raised=known.raised)
