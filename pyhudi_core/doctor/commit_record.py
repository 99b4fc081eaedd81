"""Examine the commit record, and decided commits that are not published yet.

The record names the files that a decided commit creates. Like any file, the record is untrusted, so its names are checked: only completed files of
the timeline and staged objects of this package are allowed.
"""

from __future__ import annotations

from pyhudi_core.doctor import locks
from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import AT_WORK, Area, FindingKind, Severity
from pyhudi_core.errors import CorruptionError, HudiError
from pyhudi_core.file_groups.skeletons import INDEX_BY_FILE, INDEX_BY_PARTITION, SKELETON_TIME
from pyhudi_core.index.hashing_metadata import FOLDER, META
from pyhudi_core.model.instant import Action, Instant, State, is_time, parse_file_name
from pyhudi_core.model.safe_path import is_safe
from pyhudi_core.model.version_changes import VERSION
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.snapshot.evolution import FOLDER as HISTORY
from pyhudi_core.snapshot.evolution import history_name
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import group, heartbeat, layout
from pyhudi_core.transaction.plan_executors import PLANNED
from pyhudi_core.transaction.record import Intent, PublicationKind, Record, record_store
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_AREA = Area.COMMIT_RECORD
_METADATA_TABLE = f"{METADATA_TABLE}/.hoodie/"
_BY_RESERVATION = {*map(str, PLANNED), str(Action.SAVEPOINT)}
"""Actions whose intents name a reservation: plans, builds of a metadata table, savepoints."""


def examine(exam: Examination) -> None:
    """Examine the record and its intent. A decided and unpublished commit is passed to the next areas."""
    records = exam.below(_AREA, layout.COMMIT_RECORD)
    exam.counts["commit records"] = len(records)
    exam.add_summary(_AREA, f"{len(records)} record files")
    large = [info for info in records if info.size > exam.limits.metadata_bytes]
    for info in large:
        exam.not_examined(_AREA, f"The record has {info.size:,} bytes", info.path)
    record = None if large or exam.context is None else _read(exam, exam.context)
    if record is not None and exam.context is not None:
        _examine_intent(exam, exam.context, record)
        locks.examine_identity(exam, record.lock_identity, record.intent.requested_time)


def examine_staged(exam: Examination) -> None:
    """Report staged objects that neither a pending nor a decided commit needs."""
    staged = exam.below(_AREA, f"{layout.STAGED}/")
    exam.counts["staged commits"] = len(staged)
    exam.add_summary(_AREA, f"{exam.counts['commit records']} record files, {len(staged)} staged commits")
    pending = {instant.requested_time for instant in exam.timeline.pending}
    for info in staged:
        time = info.path.rpartition("/")[2].partition("-")[0]
        if time not in pending and time not in exam.living:
            exam.add(
                FindingKind.STAGED_LEFT,
                "The staged bytes of a decided or rolled-back commit still exist",
                info.path,
                time,
            )


def _read(exam: Examination, context: TableContext) -> Record | None:
    try:
        with exam.recording_failures(_AREA, layout.COMMIT_RECORD):
            return record_store(context.root).read()
    except CorruptionError as error:
        exam.add(FindingKind.COMMIT_RECORD_DAMAGED, f"{describe(error)}: {error.detail or ''}"[:300], error.path)
    return None


def _examine_intent(exam: Examination, context: TableContext, record: Record) -> None:
    """Report whether the decided commit is published."""
    intent = record.intent
    unsafe = _unsafe(context, intent)
    if unsafe:
        exam.add(
            FindingKind.COMMIT_RECORD_UNSAFE,
            f"The decided commit names {unsafe[:200]!r}, which no commit may create",
            layout.COMMIT_RECORD,
        )
        return
    with exam.recording_failures(_AREA):
        missing = [item for item in intent.publications if exam.storage.head(item.path) is None]
        if missing and _has_changed_properties(exam, intent):
            return  # a copy of the properties is removed after the change
        if missing and intent.group and group.is_void(context, intent):
            return
        if not missing or _is_void(exam, context, intent):
            return
        gone = [item.staged for item in missing if exam.storage.head(item.staged) is None]
        at_work = _is_at_work(exam, context, intent)
        missing = [item for item in missing if exam.storage.head(item.path) is None]
        if not missing:
            return  # published between the two checks
        exam.decided.add(intent.requested_time)
        what = "A commit is decided, but not published yet"
        if gone and record.last_file and missing == [intent.publications[-1]]:
            lost = "The completed file of the newest commit is lost; the commit record has it, and readers use that"
            advice = "The next write publishes it again, as does `pyhudi recover LOCATION`."
            exam.add(
                FindingKind.DECIDED_NOT_PUBLISHED, lost, missing[0].path, intent.requested_time, what_to_do=advice
            )  # fmt: skip
        elif gone:
            advice = "The commit cannot be published: write its rows again after rolling the instant back."
            exam.add(
                FindingKind.DECIDED_NOT_PUBLISHED, f"{what}, and its staged bytes do not exist", gone[0], intent.requested_time,
                severity=Severity.ERROR, what_to_do=advice,
            )  # fmt: skip
        elif at_work:
            exam.add(
                FindingKind.DECIDED_NOT_PUBLISHED, what, missing[0].path, intent.requested_time,
                severity=Severity.INFO, what_to_do=AT_WORK,
            )  # fmt: skip
        else:
            exam.add(FindingKind.DECIDED_NOT_PUBLISHED, what, missing[0].path, intent.requested_time)


def _has_changed_properties(exam: Examination, intent: Intent) -> bool:
    """Say whether an intent ends with a change of the properties that is already made: then everything before it is published, too."""
    last = intent.publications[-1]
    if last.kind is not PublicationKind.PROPERTIES or not last.changes:
        return False
    now = properties_file.read(exam.storage)
    return all(now.get(name) == value for name, value in last.changes)


def _is_at_work(exam: Examination, context: TableContext, intent: Intent) -> bool:
    """Say whether the writer that decided the commit is running, and may still publish it."""
    writer = Instant(intent.requested_time, Action.COMMIT, State.INFLIGHT)
    beats = exam.storage.head(layout.heartbeat(intent.requested_time)) is not None
    return beats and not heartbeat.is_dead(context, writer)


def _is_void(exam: Examination, context: TableContext, intent: Intent) -> bool:
    """Say whether no process publishes the decision any more: its instant, or an instant of a companion, was rolled back or removed.

    Hudi's writers remove the metadata table, with its part of our newest commit, if they are configured to write none.
    """
    if any(exam.storage.head(path) is None for path in (intent.inflight, *intent.companions)):
        return True
    try:
        return intent.requested_time in names_rolled_back(context, exam.timeline, intent.requested_time)
    except HudiError as error:
        exam.not_examined(_AREA, f"A rollback's plan cannot be read: {describe(error)}", error.path)
        return True


def _unsafe(context: TableContext, intent: Intent) -> str | None:
    """Return a path of the intent that no commit would create; None if there is no such path."""
    for item in intent.publications:
        if item.kind is not PublicationKind.CREATE:
            if not _may_be_replaced(item.path, context, intent) or (
                item.staged and not item.staged.startswith(f"{layout.STAGED}/")
            ):
                return item.path
            continue
        if not item.staged.startswith(f"{layout.STAGED}/") and not item.staged.startswith(_METADATA_TABLE):
            return item.staged
        if not _may_be_made(item.path, context.folder.path, intent):
            return item.path
    if intent.inflight == layout.heartbeat(intent.requested_time) and intent.action in _BY_RESERVATION:
        return None
    # The intent of a rollback names the file of the write that it ends, which may have no inflight file; the intent of an executor names the plan.
    any_state = intent.action == str(Action.ROLLBACK) or intent.action in PLANNED
    states = (State.REQUESTED, State.INFLIGHT) if any_state else (State.INFLIGHT,)
    folder, _, name = intent.inflight.rpartition("/")
    instant = parse_file_name(name)
    sound = (
        (folder == context.folder.path or (any_state and folder.startswith(_METADATA_TABLE)))
        and instant is not None
        and instant.state in states
        and is_time(intent.requested_time)
    )
    return None if sound else intent.inflight


def _may_be_replaced(path: str, context: TableContext, intent: Intent) -> bool:
    """Say whether a commit may replace this file; the build of a metadata table makes all of its files."""
    building = intent.action == str(Action.INDEXING) and path.startswith(f"{METADATA_TABLE}/") and is_safe(path)
    return building or path in (properties_file.PATH, context.config.index_defs_path)


def _may_be_made(path: str, folder: str, intent: Intent) -> bool:
    """Say whether a commit may create this file: a completed file, a plan of a rollback or service, its executor, or a bootstrap index."""
    if path in (INDEX_BY_FILE, INDEX_BY_PARTITION) and intent.requested_time == SKELETON_TIME:
        return True
    if path.startswith(f"{folder}/") and any(VERSION in dict(item.changes) for item in intent.publications):
        return is_safe(path)  # an upgrade makes all files of the new timeline
    if intent.action in PLANNED:
        action = Action(intent.action)
        states = (State.REQUESTED, State.INFLIGHT)
        begun = [Instant(intent.requested_time, action, state).file_name() for state in states]
        parent, _, name = path.rpartition("/")
        if name in begun and (parent == folder or parent.startswith(_METADATA_TABLE)):
            return True
        if path.startswith(f"{layout.executions(intent.requested_time)}/"):
            return True
        if action is Action.CLUSTERING and path.startswith(f"{FOLDER}/") and name == f"{intent.requested_time}{META}":
            return True  # new ranges of hashes for a bucket index
        if action is Action.RESTORE and path == layout.restore(intent.requested_time):
            return True
    plan = Instant(intent.requested_time, Action.ROLLBACK, State.REQUESTED)
    if intent.action == str(Action.ROLLBACK) and path == f"{folder}/{plan.file_name()}":
        return True
    requested_time = intent.requested_time
    parent, _, name = path.rpartition("/")
    instant = parse_file_name(name)
    if parent == HISTORY and name == history_name(requested_time):
        return True  # the file of the columns with their numbers
    if intent.action == str(Action.SAVEPOINT):
        return parent == folder and instant is not None and instant.action is Action.SAVEPOINT
    if (
        instant is None
        or not instant.is_completed
        or instant.completion_time is None
        or instant.requested_time != requested_time
    ):
        return False
    return parent == folder or parent.startswith(_METADATA_TABLE)
