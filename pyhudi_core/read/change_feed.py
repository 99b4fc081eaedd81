"""Find the file groups that the commits of a range changed, before and after each commit: the input of `changes.ChangeFeed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pyhudi_core.errors import SnapshotExpiredError, UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import DUPLICATES_REPAIR, REPAIR_KEY, CommitMetadata
from pyhudi_core.model.instant import Instant, time_before
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.properties import CdcMode
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.bounds import TimePoint, interval_bound, settled_bound
from pyhudi_core.read.changes import ChangeFeed, ChangeReader, GroupChange
from pyhudi_core.read.expired import naming_clean, to_keep_changes
from pyhudi_core.read.retention import refuse_cleaned, refuse_cleaned_change
from pyhudi_core.read.snapshots import Columns, archived_between, make_scan, search_archived
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline.lost_files import newest_policy
from pyhudi_core.transaction import lost_completions

Group = tuple[str, str]
"""A file group: partition and file id."""


def changes(
    context: TableContext,
    after: TimePoint | None,
    until: TimePoint | None,
    columns: Columns = None,
    where: object = None,
) -> ChangeFeed:
    """Return every change of a row by commits that completed in (after, until].

    Raises `SnapshotExpiredError` if some of the commits were archived, or their files cleaned.
    """
    timeline = lost_completions.load(context)
    archived = search_archived(context, timeline)
    upper = None if until is None else interval_bound(until, timeline, archived, utc=context.utc, name="until")
    upper = settled_bound(upper, timeline)
    lower = "" if after is None else interval_bound(after, timeline, archived, utc=context.utc, name="after")
    last = build(context.storage, context.folder, context.config, timeline, upper, executor=context.runtime.executor)
    if next(iter(archived_between(context, last, lower)), None) is not None:
        raise SnapshotExpiredError(
            f"Commits after {lower or 'the beginning'} have been archived, and their changes cannot be read any more",
            table=context.table,
            hint="Follow the table more closely, or read its rows with incremental() and continue from there."
            f" {to_keep_changes(newest_policy(context.folder))}",
        )
    if not context.config.populate_meta_fields:
        raise UnsupportedTableError(
            "The table has no meta columns (hoodie.populate.meta.fields=false), which changes need",
            table=context.table,
            hint="Compare two snapshots instead.",
        )
    state = make_scan(context, last, columns, where)
    chosen = tuple(name for name in state.rows.columns if name in last.schema.names)
    reader = ChangeReader(
        chosen,
        last.schema,
        Predicate.of(where, last.schema, context.options.condition_zone),
        Merging(context.config, last.evolution),
    )
    groups: list[GroupChange] = []
    for instant in last.visibility.commits:
        completed = instant.completion_time or instant.requested_time
        commit = context.folder.read_commit(instant)
        if completed > lower and changes_rows(commit):
            groups.extend(changes_of(context, last, instant, commit))
    return ChangeFeed(context.storage, context.runtime.executor, reader, tuple(groups))


def changes_rows(commit: CommitMetadata) -> bool:
    """Say whether readers of changes see this commit.

    They skip a removal of duplicates: the keys would look deleted, but they stay.
    """
    return commit.operation not in SERVICE_OPERATIONS and commit.extra.get(REPAIR_KEY) != DUPLICATES_REPAIR


def changes_of(
    context: TableContext,
    last: Snapshot,
    instant: Instant,
    commit: CommitMetadata,
    wanted: Callable[[Group], bool] = lambda _: True,
    *,
    by_logs: bool = True,
) -> Iterable[GroupChange]:
    """Return the requested file groups that a commit changed: each group before the commit and with the commit. ``by_logs``: change logs with both
    images may replace cleaned files.
    """
    completed = instant.completion_time or instant.requested_time
    both_images = by_logs and context.config.cdc_enabled and context.config.cdc_mode is CdcMode.DATA_BEFORE_AFTER
    before, after = (view_at(context, last, bound) for bound in (time_before(completed), completed))
    logs: dict[tuple[str, str], tuple[str, ...]] = {}
    for stat in commit.stats:
        logs[stat.partition, stat.file_id] = logs.get((stat.partition, stat.file_id), ()) + tuple(stat.change_logs)
    replaced = {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
    if replaced:  # such a commit does not name the files that it replaced
        with naming_clean(context.folder):
            refuse_cleaned(replace(last, bound=time_before(completed), view=before), context.table, only=replaced)
    # Replaced groups come first: their rows are deletes, and the same keys may follow as inserts in other file groups.
    for partition, file_id in sorted(
        filter(wanted, logs.keys() | replaced), key=lambda group: (group not in replaced, group)
    ):
        change_logs = logs.get((partition, file_id), ()) if both_images else ()
        old, new = _group(before, partition, file_id), _group(after, partition, file_id)
        is_whole = True
        try:
            with naming_clean(context.folder):
                refuse_cleaned_change(last.view.listing, context.table, commit, (partition, file_id), old)
        except SnapshotExpiredError:
            if not change_logs:
                raise
            is_whole = False
        yield GroupChange(instant.requested_time, old, new, change_logs, is_whole)


def view_at(context: TableContext, last: Snapshot, bound: str) -> FileGroupView:
    """Return the file groups at another bound, from the files of an earlier listing."""
    history = context.folder.history
    raised = context.config.was_raised
    visibility = Visibility.of(
        last.timeline, bound, context.folder.read_commit, history.exists, history=history, raised=raised
    )
    return FileGroupView(last.view.listing, visibility, context.table)


def _group(view: FileGroupView, partition: str, file_id: str) -> FileSlice | None:
    return next((piece for piece in view.slices(partition) if piece.file_id == file_id), None)
