"""From the active timeline to the history: what a row keeps of an instant's files, and the deletion of files whose instants are archived."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder

# Where the plan of an action is: insert_overwrite has none but its workload, which Hudi keeps from the inflight file.
_PLANS = {
    Action.CLEAN: State.REQUESTED,
    Action.COMPACTION: State.REQUESTED,
    Action.LOGCOMPACTION: State.REQUESTED,
    Action.CLUSTERING: State.REQUESTED,
    Action.REPLACECOMMIT: State.INFLIGHT,
}


def rows_of(folder: TimelineFolder, instants: Sequence[Instant]) -> list[HistoryRow]:
    """The rows of completed instants. Raises `ObjectNotFoundError` if one is not on the active timeline any more."""
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
    """Delete the files of instants that the history holds: pending ones first, then completed ones, oldest first. Returns how many.

    The history is read back for it. An active write that is not archived keeps everything that is newer than itself: a process that slept through
    the archival may just have announced it, and its requested time has to stay the least on the timeline.
    """
    # The history first: what has been announced since shows in the listing after it.
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
    gone = sorted(
        (file for file in files if file.group in groups and (first is None or file.requested_time < first)),
        key=lambda file: (file.is_completed, file.requested_time),
    )
    for file in gone:
        folder.storage.delete(folder.file(file))
    return len(gone)


def _plan(folder: TimelineFolder, instant: Instant) -> bytes | None:
    try:
        return folder.storage.get(folder.file(instant)) or None
    except ObjectNotFoundError:
        return None
