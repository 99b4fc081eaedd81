"""Archive instants: make the rows for the archived timeline, and delete the files of archived instants."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder

# The file with an action's plan. insert_overwrite has only its workload profile, which Hudi archives from the inflight
# file.
_PLANS = {
    Action.CLEAN: State.REQUESTED,
    Action.COMPACTION: State.REQUESTED,
    Action.LOGCOMPACTION: State.REQUESTED,
    Action.CLUSTERING: State.REQUESTED,
    Action.REPLACECOMMIT: State.INFLIGHT,
}


def rows_of(folder: TimelineFolder, instants: Sequence[Instant]) -> list[HistoryRow]:
    """Return the rows of completed instants. Raises `ObjectNotFoundError` if one is no longer on the active timeline."""
    files, _ = folder.files()
    pending = {(file.group, file.action, file.state) for file in files if file.is_pending}
    rows = []
    for instant in sorted(instants):
        content = folder.storage.get(folder.file(instant)) or None
        plan = next(
            (
                Instant(instant.requested_time, action, state)
                for action, state in _PLANS.items()
                if (instant.group, action, state) in pending
            ),
            None,
        )
        rows.append(
            HistoryRow(
                instant.requested_time,
                instant.completion_time,
                str(instant.action),
                content,
                _plan(folder, plan) if plan is not None else None,
            )
        )
    return rows


def drop_archived(folder: TimelineFolder) -> int:
    """Delete the files of archived instants, and return their number. Pending files are deleted before completed files, the oldest first and one at a
    time. The archived timeline is read again before. If a pending write is not archived, newer instants stay: a delayed process may just have
    announced the write, and its requested time must remain the smallest on the timeline.
    """
    # The archived timeline is read first, so that the later listing shows every instant announced since.
    state = folder.history.state()
    files, _ = folder.files()
    archived = folder.history.among(files, state)
    others = {file.group for file in files if file.is_completed and file not in archived}
    groups = {instant.group for instant in archived} - others
    saved = {file.requested_time for file in files if file.action is Action.SAVEPOINT}
    active = [
        file.requested_time
        for file in files
        if file.group not in groups and file.action in WRITE_ACTIONS and file.requested_time not in saved
    ]
    first = min(active, default=None)
    gone = sorted(file for file in files if file.group in groups and (first is None or file.requested_time < first))
    # The pending files are deleted first: an instant without its completed file would look like a running one. The order of pending files does not
    # matter. The order of completed files does: every deleted one must be older than all that remain, or Hudi's readers take its data for
    # uncommitted.
    folder.storage.delete_many(folder.file(file) for file in gone if file.is_pending)
    for file in gone:
        if file.is_completed:
            folder.storage.delete(folder.file(file))
    return len(gone)


def _plan(folder: TimelineFolder, instant: Instant) -> bytes | None:
    try:
        return folder.storage.get(folder.file(instant)) or None
    except ObjectNotFoundError:
        return None
