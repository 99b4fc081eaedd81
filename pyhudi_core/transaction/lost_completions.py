"""Commits whose completed file is lost: the file was published, and then the file was deleted.

Such an instant looks like a write that has not completed. Readers would not see the rows of the commit, and the next write would overwrite the rows.
The following facts distinguish a lost commit from a write that has not completed. A writer of this package removes its heartbeat last, so a pending
write without a heartbeat is examined. The commit of a pending write was decided if a commit record names the commit, or if a later commit changed the
files of the commit. The commit was also decided if the metadata table has a completed commit with the same requested time, because that commit is
published only after the decision. And a write of this package without heartbeat and markers was decided, because a writer removes both only after
publishing.

A commit record keeps the bytes of the completed file. So readers get the newest commit, and on a disk the newest few, from the records, and the next
write publishes the completed file again. Any other lost commit raises an error.

For each pending write with a heartbeat, a reader makes one request for the heartbeat file. Without pending writes there is no request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pyhudi_core.errors import CorruptionError, CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import DATA_ACTIONS, WRITE_ACTIONS, Instant, State, parse_file_name
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.restored import is_undone
from pyhudi_core.transaction import group, layout
from pyhudi_core.transaction.begin import TOKEN_KEY
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent, PublicationKind, Record, record_store
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_log = logging.getLogger(__name__)


def names_commit(intent: Intent) -> bool:
    """Say whether the last file of a decision is the completed file of its own commit."""
    last = intent.publications[-1]
    folder, _, name = last.path.rpartition("/")
    instant = parse_file_name(name)
    if instant is None or not instant.is_completed or instant.action not in DATA_ACTIONS:
        return False
    mine = instant.requested_time == intent.requested_time and folder == intent.inflight.rpartition("/")[0]
    return mine and last.kind is PublicationKind.CREATE


def error_for(context: TableContext, requested_time: str, path: str) -> CorruptTimelineError:
    """Return the error for a reader or writer that needs the lost commit."""
    return CorruptTimelineError(
        "The completed file of a commit is lost: the commit was published, and its file is not on the timeline any more",
        table=context.table,
        path=path,
        instant=requested_time,
        hint="Run `pyhudi recover LOCATION`, which publishes it again or says what is missing. Nothing was changed.",
    )


def load(context: TableContext) -> Timeline:
    """Return the current timeline for readers. Raises as `restored`."""
    return restored(context, context.folder.load())


def restored(context: TableContext, timeline: Timeline) -> Timeline:
    """Return a timeline with the lost commits whose completed file a commit record has. Changes nothing on the storage.

    Raises `CorruptTimelineError` for a lost commit that no record has, because rows would be missing without the commit.
    """
    found = []
    for instant, record in find(context, timeline):
        if record is None:
            raise error_for(context, instant.requested_time, context.folder.file(instant))
        path = record.intent.publications[-1].path
        _log.warning(
            "%s of %s is lost, and is read from the commit record; the next write publishes it", path, context.table
        )
        kept = parse_file_name(path.rpartition("/")[2])
        assert kept is not None
        context.folder.keep(kept, record.last_file)
        found.append(kept)
    return Timeline.of([*timeline.instants, *found], timeline.has_history) if found else timeline


def published_again(context: TableContext, timeline: Timeline) -> Timeline:
    """Return the timeline, with every lost commit published again from the commit records. Nothing changes if no commit is lost.

    Any process may call this at any time. A completed file is created only once, and only for an existing instant that nobody has undone.

    Raises as `restored`.
    """
    lost = list(find(context, timeline))
    for _, record in lost:
        if record is not None:
            path = record.intent.publications[-1].path
            _log.warning("%s of %s is lost, and is published again from the commit record", path, context.table)
            create_once(context.root, path, record.last_file)
    return load(context) if lost else timeline


def find(context: TableContext, timeline: Timeline) -> Iterator[tuple[Instant, Record | None]]:
    """Yield the published commits that look pending on a timeline. Each comes with the commit record that has the completed file, or with None."""
    pending = [i for i in timeline.instants if i.action in WRITE_ACTIONS and i.state is State.INFLIGHT]
    if not pending:
        return
    executor = context.runtime.executor.at_least(context.root.capabilities.parallel_calls)
    beats = executor.map(lambda i: context.root.head(layout.heartbeat(i.requested_time)), pending)
    silent = [i for i, beat in zip(pending, beats, strict=True) if beat is None]
    if not silent:
        return
    # A writer that ended after the timeline was loaded has published first, and then has removed its heartbeat.
    now = context.folder.load()
    still = [i for i in silent if now.find(i.requested_time, i.action) == i and not is_undone(i, context.folder.undone)]
    if not still:
        return
    rolled_back = names_rolled_back(context, now, min(still).requested_time)
    records = {r.intent.requested_time: r for r in record_store(context.root).kept() if _is_of(context, r)}
    for instant in still:
        time = instant.requested_time
        record = records.get(time)
        if time in rolled_back or (record is not None and (_is_there(context, record) or _is_void(context, record))):
            continue  # the commit is undone or void, or the listing is older than the completed file
        if record is not None:
            yield instant, record if record.last_file else None
        elif _is_followed(context, now, time) or _has_part(context, time) or _was_swept(context, instant):
            yield instant, None


def _is_of(context: TableContext, record: Record) -> bool:
    """Say whether a record is about a commit of this table."""
    return names_commit(record.intent) and context.has(record.intent.inflight)


def _is_there(context: TableContext, record: Record) -> bool:
    return context.root.head(record.intent.publications[-1].path) is not None


def _is_void(context: TableContext, record: Record) -> bool:
    """Say whether a record is part of an aborted decision over several tables."""
    return bool(record.intent.group) and group.is_void(context, record.intent)


def _is_followed(context: TableContext, timeline: Timeline, requested_time: str) -> bool:
    """Say whether a later commit names this commit as the previous commit of files that the later commit changed."""
    later = (i for i in timeline.commits if i.requested_time > requested_time)
    stats = (stat for i in later for stat in context.folder.read_commit(i).stats)
    return any(stat.prev_commit == requested_time and context.folder.layout.follows(stat) for stat in stats)


def _has_part(context: TableContext, requested_time: str) -> bool:
    """Say whether a companion table has a completed commit of this package with this requested time."""
    for place in context.companions:
        timeline = place.folder.load()
        part = timeline.commits.find(requested_time) or place.folder.archived(timeline, requested_time)
        if part is not None and TOKEN_KEY in place.folder.read_commit(part).extra:
            return True
    return False


def _was_swept(context: TableContext, instant: Instant) -> bool:
    """Say whether a writer of this package began the instant, and the markers of the instant are gone."""
    return _is_ours(context, instant) and not context.storage.list(f"{layout.markers(instant.requested_time)}/")


def _is_ours(context: TableContext, instant: Instant) -> bool:
    """Say whether a writer of this package began the instant."""
    path = context.folder.file(instant)
    try:
        data = context.storage.get(path)
        found = decode_record(data, "HoodieCommitMetadata", path=path) if data else {}
    except (ObjectNotFoundError, CorruptionError):
        return False
    return TOKEN_KEY in (found.get("extraMetadata") or {})
