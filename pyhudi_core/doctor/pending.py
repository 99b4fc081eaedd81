"""Examine pending instants and heartbeats, and report which writers are running.

A writer is dead if its heartbeat has expired or its process on this machine has ended. It is foreign if it has no heartbeat. Only the instants of
dead writers are rolled back automatically. A service that fails or is interrupted removes its heartbeat, and its plan stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import AT_WORK, Area, FindingKind, Severity
from pyhudi_core.errors import CorruptionError, HudiError
from pyhudi_core.model.instant import Action, Instant, State, is_time
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, layout, lost_completions, plan_executors
from pyhudi_core.transaction.requested_rollbacks import what_ends
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_REPAIRED = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.ROLLBACK})
_SAVEPOINT = (
    "Its process died, and cleaning waits for it. Run table.failed_writes, or table.savepoints.delete(instant)."
)
_RESTORE = "No write is possible until it has ended: finish it with table.restore.take_over() or `pyhudi restore LOCATION --execute`."
_PLANNED_RESTORE = (
    "No write is possible until it has ended: finish it with `pyhudi restore LOCATION --execute` or table.restore.execute('{time}'), or take it back"
    " with `pyhudi restore LOCATION --cancel {time}` or table.restore.cancel('{time}')."
)
_RESTORE_OF_HUDI = (
    "No write is possible until it has ended: finish it with the program that began it. If that has ended, wait some"
    " minutes, then {ends}."
)
_WRITE = "It has no heartbeat, so its writer may be alive or dead. Roll it back with table.rollback('{time}') if the writer has ended."
_GOES_ON = "No action is needed: the next commit executes it."
_SERVICES = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.CLEAN, Action.INDEXING})


def examine(exam: Examination) -> None:
    """Examine every pending instant, and then the heartbeats without a pending instant."""
    pending = exam.timeline.pending
    beats = {_time(info): info for info in exam.below(Area.HEARTBEATS, f"{layout.HEARTBEATS}/")}
    exam.counts["heartbeats"] = len(beats)
    exam.add_summary(Area.HEARTBEATS, f"{len(beats):,} heartbeats")
    if exam.context is None:
        if len(pending):
            exam.not_examined(
                Area.TIMELINE,
                "The writers of pending instants were not examined, because the properties cannot be used",
            )
        return
    silent = [instant for instant in pending if instant.requested_time not in beats]
    ended = _ended(exam, exam.context, silent) if silent else frozenset()
    lost = _lost(exam, exam.context) if silent else {}
    for instant in pending:
        if instant in ended:
            exam.living.add(instant.requested_time)
        elif lost.get(instant) is False:
            exam.living.add(instant.requested_time)
            what = f"The {instant.action} was published, and its completed file is lost"
            exam.add(FindingKind.COMPLETED_FILE_LOST, what, exam.context.folder.file(instant), instant.requested_time)
        else:
            _examine_instant(exam, exam.context, instant, instant.requested_time in beats)
    waiting = {instant.requested_time for instant in pending}
    for time, info in sorted(beats.items()):
        if time not in waiting:
            _examine_beat(exam, exam.context, time, info)


def _lost(exam: Examination, context: TableContext) -> dict[Instant, bool]:
    """Return the instants whose completed file is lost, each with the answer whether a commit record has the file."""
    with exam.recording_failures(Area.TIMELINE, exam.timeline_folder):
        try:
            return {instant: record is not None for instant, record in lost_completions.find(context, exam.timeline)}
        except CorruptionError as error:  # the other examinations report it
            exam.not_examined(Area.TIMELINE, f"Lost completed files were not looked for: {describe(error)}", error.path)
    return {}


def _ended(exam: Examination, context: TableContext, silent: Iterable[Instant]) -> frozenset[Instant]:
    """Return the instants that ended after the timeline was read and before the heartbeats were read (a writer removes its heartbeat last)."""
    with exam.recording_failures(Area.TIMELINE, exam.timeline_folder):
        now = context.folder.load()
        found = ((instant, now.find(instant.requested_time, instant.action)) for instant in silent)
        return frozenset(instant for instant, later in found if later is None or not later.is_pending)
    return frozenset()


def _time(info: ObjectInfo) -> str:
    return info.path.rpartition("/")[2]


def _is_dead(exam: Examination, context: TableContext, instant: Instant) -> bool:
    with exam.recording_failures(Area.HEARTBEATS, layout.heartbeat(instant.requested_time)):
        return heartbeat.is_dead(context, instant)
    return False


def _examine_instant(exam: Examination, context: TableContext, instant: Instant, beats: bool) -> None:
    time, action = instant.requested_time, instant.action
    path = context.folder.file(instant)
    if action in _REPAIRED and action is not Action.ROLLBACK and _is_rolled_back(exam, context, instant):
        exam.dead.add(time)
        at_work = beats and not _is_dead(exam, context, instant)
        exam.add(
            FindingKind.ROLLED_BACK_NOT_FORGOTTEN,
            f"The {action} was rolled back, but its own timeline files still exist",
            path,
            time,
            severity=Severity.INFO if at_work else None,
            what_to_do=AT_WORK if at_work else None,
        )
    elif time in exam.decided:
        exam.living.add(time)  # the finding about the commit record says that it will be published
    elif beats and _is_dead(exam, context, instant):
        exam.dead.add(time)
        _dead(exam, context, instant, path)
    elif beats:
        exam.living.add(time)
        exam.add(FindingKind.PENDING_ALIVE, f"The {action} is {instant.state}, and its heartbeat is recent", path, time)
    elif action in _SERVICES and instant.state is State.REQUESTED:
        exam.living.add(time)
        exam.add(FindingKind.PENDING_PLAN, f"The {action} is planned, and its execution has not begun", path, time)
    else:
        exam.living.add(time)
        what, advice = _without_heartbeat(exam, context, instant)
        severity = Severity.REPAIRABLE if advice == _GOES_ON else None
        exam.add(FindingKind.PENDING_FOREIGN, what, path, time, severity=severity, what_to_do=advice)


def _without_heartbeat(exam: Examination, context: TableContext, instant: Instant) -> tuple[str, str]:
    """Return the finding's text about a pending instant without a heartbeat, and its advice."""
    time, action = instant.requested_time, instant.action
    what = f"The {action} is {instant.state} and has no heartbeat"
    if action in _SERVICES and _gave_up(exam, context, time):
        advice = _GOES_ON if _goes_on(context, instant) else _of_service(instant)
        return f"The {action} is {instant.state}, and its process has given it up", advice
    if action in _SERVICES:
        return what, f"If the program that began it has ended, wait some minutes, then {what_ends(instant)}."
    if action is Action.RESTORE and instant.state is State.INFLIGHT and not _gave_up(exam, context, time):
        return what, _RESTORE_OF_HUDI.format(ends=what_ends(instant))
    if action is Action.ROLLBACK:
        return what, _sentence(instant)
    if _rolled_back_by_others(exam, context, instant):
        return what, f"A rollback of it is pending: {what_ends(Instant(time, Action.ROLLBACK, State.REQUESTED))}."
    return what, _of_restore_or_savepoint(instant) or _WRITE.format(time=time)


def _goes_on(context: TableContext, instant: Instant) -> bool:
    """Say whether the next commit executes this plan (`services.cleaning.cleaning`)."""
    return instant.action is Action.CLEAN and context.options.cleaning.by_commits


def _gave_up(exam: Examination, context: TableContext, time: str) -> bool:
    """Say whether a process of this package executed the plan, and then removed its heartbeat."""
    with exam.recording_failures(Area.HEARTBEATS, layout.executions(time)):
        return plan_executors.newest_executor(context, time) is not None
    return False


def _sentence(instant: Instant) -> str:
    text = what_ends(instant)
    return f"{text[:1].upper()}{text[1:]}."


def _of_service(instant: Instant) -> str:
    return f"{_sentence(instant)} The next run of the service executes it, too."


def _of_restore_or_savepoint(instant: Instant) -> str:
    if instant.action is Action.RESTORE:
        return _PLANNED_RESTORE.format(time=instant.requested_time) if instant.state is State.REQUESTED else _RESTORE
    return _SAVEPOINT if instant.action is Action.SAVEPOINT else ""


def _dead(exam: Examination, context: TableContext, instant: Instant, path: str) -> None:
    what = f"The {instant.action} is {instant.state}, and its writer is dead"
    if _goes_on(context, instant):
        exam.add(FindingKind.PENDING_DEAD, what, path, instant.requested_time, what_to_do=_GOES_ON)
    elif instant.action not in _REPAIRED:
        advice = _of_service(instant) if instant.action in _SERVICES else _of_restore_or_savepoint(instant)
        advice = advice or f"Run the {instant.action} again with the program that began it, or roll it back there."
        exam.add(
            FindingKind.PENDING_DEAD, what, path, instant.requested_time, severity=Severity.WARNING, what_to_do=advice
        )
    elif context.options.heartbeat.failed_writes_policy == "NEVER":
        advice = "No write rolls it back, because hoodie.cleaner.policy.failed.writes is NEVER: call table.rollback(instant)."
        exam.add(
            FindingKind.PENDING_DEAD, what, path, instant.requested_time, severity=Severity.WARNING, what_to_do=advice
        )
    else:
        exam.add(FindingKind.PENDING_DEAD, what, path, instant.requested_time)


def _is_rolled_back(exam: Examination, context: TableContext, instant: Instant) -> bool:
    return _named_by(exam, context, exam.timeline.completed, instant)


def _rolled_back_by_others(exam: Examination, context: TableContext, instant: Instant) -> bool:
    return _named_by(exam, context, exam.timeline.pending, instant)


def _named_by(exam: Examination, context: TableContext, timeline: Timeline, instant: Instant) -> bool:
    """Say whether a rollback of this timeline names the instant."""
    try:
        return instant.requested_time in names_rolled_back(context, timeline, instant.requested_time)
    except HudiError as error:
        exam.not_examined(
            Area.TIMELINE,
            f"The plan of a rollback cannot be read, so the instant that it rolls back is not known: {describe(error)}",
            error.path,
        )
        return False


def _examine_beat(exam: Examination, context: TableContext, time: str, info: ObjectInfo) -> None:
    """Examine a heartbeat without a pending instant: a reservation, or a remnant of a finished or dead writer."""
    if not is_time(time):
        exam.add(
            FindingKind.HEARTBEAT_WITHOUT_INSTANT,
            f"The name {time[:120]!r} is not a time",
            info.path,
            what_to_do="Remove it; no program reads it.",
        )
    elif _is_dead(exam, context, Instant(time, Action.COMMIT, State.REQUESTED)):
        exam.add(
            FindingKind.HEARTBEAT_LEFT,
            "The heartbeat belongs to no pending instant, and its writer is dead",
            info.path,
            time,
        )
    else:
        exam.living.add(time)
        exam.add(
            FindingKind.HEARTBEAT_WITHOUT_INSTANT,
            "The heartbeat belongs to no pending instant, and is recent",
            info.path,
            time,
        )
