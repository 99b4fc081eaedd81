"""Examine the active timeline: names, times, states that belong together, and the content of every file (specification, "Timeline").

A completed file may exist without a requested file, because readers do not need the requested file. An inflight file may not. Savepoints have no
requested file, and have the requested time of the commit that they keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import CorruptionError, HudiError, LimitExceededError, UnsafePathError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import (
    DATA_ACTIONS,
    Action,
    Instant,
    State,
    epoch_ms,
    is_time,
    parse_file_name,
    parse_time,
)
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.restored import is_undone

_AREA = Area.TIMELINE
_COMPLETED = {
    Action.COMMIT: "HoodieCommitMetadata",
    Action.DELTACOMMIT: "HoodieCommitMetadata",
    Action.REPLACECOMMIT: "HoodieReplaceCommitMetadata",
    Action.CLEAN: "HoodieCleanMetadata",
    Action.ROLLBACK: "HoodieRollbackMetadata",
    Action.SAVEPOINT: "HoodieSavepointMetadata",
    Action.RESTORE: "HoodieRestoreMetadata",
    Action.INDEXING: "HoodieIndexCommitMetadata",
}
_PLANS = {
    Action.REPLACECOMMIT: "HoodieRequestedReplaceMetadata",
    Action.CLUSTERING: "HoodieRequestedReplaceMetadata",
    Action.COMPACTION: "HoodieCompactionPlan",
    Action.LOGCOMPACTION: "HoodieCompactionPlan",
    Action.CLEAN: "HoodieCleanerPlan",
    Action.ROLLBACK: "HoodieRollbackPlan",
    Action.RESTORE: "HoodieRestorePlan",
    Action.INDEXING: "HoodieIndexPlan",
}
_SKEW_SEEN_MS = 1_000
"""A file cannot be older than its completion time. Differences up to this are not reported, because the disk's clock may differ a little."""

Files = list[tuple[Instant, ObjectInfo]]


def load(exam: Examination) -> None:
    """List the timeline folder, and keep its instants for the later examinations."""
    found = exam.folder(_AREA, exam.timeline_folder).objects
    exam.timeline_files = found
    parsed = (parse_file_name(_name(info)) for info in found)
    shown = exam.timeline = Timeline.of(instant for instant in parsed if instant is not None)
    if exam.context is None:
        return
    try:
        with exam.recording_failures(_AREA, exam.timeline_folder):
            # Readers ignore archived instants, although their files may still exist. Instants that completed after the first listing are examined
            # later (`checkup`), because their content is not examined here.
            timeline, known = exam.context.folder.load(), frozenset(shown)
            exam.timeline = replace(timeline, instants=tuple(i for i in timeline if i.is_pending or i in known))
    except HudiError as error:
        exam.not_examined(Area.HISTORY, f"The archived instants cannot be read: {describe(error)}", error.path)


def examine(exam: Examination) -> None:
    """Examine the names of the files, then their contents, newest first."""
    load(exam)
    files: Files = []
    undone = exam.context.folder.undone if exam.context is not None else frozenset()
    for info in exam.timeline_files:
        instant = parse_file_name(_name(info))
        if instant is None:
            exam.add(
                FindingKind.NOT_AN_INSTANT, f"The name {_name(info)[:120]!r} is not the name of an instant", info.path
            )
        elif is_undone(instant, undone):
            _examine_undone(exam, instant, info)
        else:
            files.append((instant, info))
    _examine_times(exam, files)
    _examine_states(exam, files)
    _examine_contents(exam, files)
    done, pending = len(exam.timeline.completed), len(exam.timeline.pending)
    exam.counts.update(
        {"timeline files": len(exam.timeline_files), "completed instants": done, "pending instants": pending}
    )
    exam.add_summary(_AREA, f"{len(exam.timeline_files):,} files: {done:,} completed and {pending:,} pending instants")


def _examine_undone(exam: Examination, instant: Instant, info: ObjectInfo) -> None:
    """Report a completed file that exists after the end of the restore that undid it. While the restore is pending, such files are expected."""
    if instant.is_completed and not any(i.action is Action.RESTORE for i in exam.timeline.pending):
        what = f"A restore has undone the {instant.action}, and its completed file is there again; its process was only paused"
        exam.add(FindingKind.UNDONE_COMMIT_IS_BACK, what, info.path, instant.requested_time)


def _name(info: ObjectInfo) -> str:
    return info.path.rpartition("/")[2]


def _examine_times(exam: Examination, files: Files) -> None:
    utc = exam.config is None or exam.config.timeline_timezone == "UTC"
    behind = 0
    for instant, info in files:
        for time in filter(None, (instant.requested_time, instant.completion_time)):
            if _is_odd(time):
                exam.add(
                    FindingKind.ODD_TIME,
                    f"{time[:40]} is not a valid date and time of 17 (or 14) digits",
                    info.path,
                    instant.requested_time[:40],
                )
        if instant.is_completed and instant.completion_time is None:
            exam.add(
                FindingKind.NO_COMPLETION_TIME,
                "The completed file's name has no completion time",
                info.path,
                instant.requested_time,
            )
        elif instant.completion_time is not None and instant.completion_time <= instant.requested_time:
            what = f"Its completion time {instant.completion_time} is not after its requested time"
            exam.add(FindingKind.COMPLETED_BEFORE_BEGUN, what, info.path, instant.requested_time)
        shown = epoch_ms(instant.completion_time or instant.requested_time, utc=utc)
        if shown is None:
            continue
        if shown > exam.now_ms + _SKEW_SEEN_MS:
            what = f"Its time is {(shown - exam.now_ms) / 1000:,.1f} s ahead of this machine's clock"
            exam.add(FindingKind.TIME_IN_FUTURE, what, info.path, instant.requested_time)
        elif utc and exam.config is not None and instant.is_completed:
            behind = max(behind, shown - info.modified_ms)
    if behind > _SKEW_SEEN_MS:
        exam.add(
            FindingKind.CLOCK_SKEW,
            f"Files are up to {behind / 1000:,.1f} s older than the completion times in their names",
        )
    exam.counts["clock skew seen (ms)"] = max(behind, 0)
    exam.add_summary(Area.CLOCK, f"{len(files):,} times compared with the clocks of this machine and of the storage")


def _is_odd(time: str) -> bool:
    if not is_time(time) or len(time) not in (14, 17):
        return True
    # Hudi's first instants have special times that begin with these zeros.
    return parse_time(time) is None and not time.startswith("0" * 12)


def _examine_states(exam: Examination, files: Files) -> None:
    completed: dict[tuple[str, Action], list[Instant]] = defaultdict(list)
    states: dict[str, dict[Action, set[State]]] = defaultdict(lambda: defaultdict(set))
    for instant, _ in files:
        states[instant.requested_time][instant.action.completes_as].add(instant.state)
        if instant.is_completed:
            completed[instant.group].append(instant)
    for (time, action), twins in completed.items():
        if len(twins) > 1:
            names = ", ".join(sorted(twin.file_name() for twin in twins)[:4])
            exam.add(
                FindingKind.TWO_COMPLETIONS, f"The {action} has {len(twins)} completed files: {names}", instant=time
            )
    for time, actions in states.items():
        different = [action for action in actions if action is not Action.SAVEPOINT]
        if len(different) > 1:
            exam.add(
                FindingKind.TIME_USED_TWICE,
                f"The same requested time is used by {' and '.join(sorted(different))}",
                instant=time,
            )
        for action in different:
            if actions[action] == {State.INFLIGHT}:
                exam.add(
                    FindingKind.INFLIGHT_WITHOUT_REQUESTED,
                    f"The {action} is inflight, but has no requested file",
                    instant=time,
                )


def _examine_contents(exam: Examination, files: Files) -> None:
    done = 0
    total = len(files)
    for instant, info in reversed(files):
        if instant.is_completed:
            done += 1
            if done > exam.limits.instants:
                exam.all_commits_known = exam.all_commits_known and instant.action not in DATA_ACTIONS
                continue
        record = _record_of(instant)
        if record is None or info.size == 0:
            if instant.is_completed and instant.action in DATA_ACTIONS and instant.completion_time is not None:
                exam.commits[instant] = CommitMetadata(None)
                exam.all_commits_known = False
                what = "The completed file is empty, so the files of the commit are not known"
                exam.add(FindingKind.METADATA_UNREADABLE, what, info.path, instant.requested_time)
            continue
        content = _decoded(exam, instant, info, record)
        if content is not None:
            _examine_content(exam, instant, info, content)
        if done % 200 == 0:
            exam.progress(str(_AREA), done, total)
    if done > exam.limits.instants:
        exam.not_examined(
            _AREA, f"The content of {done - exam.limits.instants:,} older completed instants was not read"
        )


def _record_of(instant: Instant) -> str | None:
    if instant.is_completed:
        # The content of a completed file without a completion time is JSON of an older version.
        return _COMPLETED.get(instant.action) if instant.completion_time is not None else None
    return _PLANS.get(instant.action) if instant.state is State.REQUESTED else None


def _decoded(exam: Examination, instant: Instant, info: ObjectInfo, record: str) -> Mapping[str, Any] | None:
    data = exam.read(_AREA, info)
    if data is None:
        exam.all_commits_known = exam.all_commits_known and not (
            instant.is_completed and instant.action in DATA_ACTIONS
        )
        return None
    try:
        return decode_record(data, record, path=info.path)
    except (CorruptionError, LimitExceededError) as error:
        kind = FindingKind.METADATA_UNREADABLE if instant.is_completed else FindingKind.PLAN_UNREADABLE
        exam.add(kind, describe(error), info.path, instant.requested_time)
    if instant.is_completed and instant.action in DATA_ACTIONS:
        exam.all_commits_known = False
    return None


def _examine_content(exam: Examination, instant: Instant, info: ObjectInfo, content: Mapping[str, Any]) -> None:
    if instant.is_completed and instant.action in DATA_ACTIONS:
        try:
            commit = CommitMetadata.from_avro(content)
        except (HudiError, TypeError, AttributeError) as error:
            exam.all_commits_known = False
            exam.add(
                FindingKind.METADATA_UNREADABLE,
                f"The commit metadata is not valid: {error}"[:300],
                info.path,
                instant.requested_time,
            )
            return
        exam.commits[instant] = commit
        paths = [stat.path for stat in commit.stats if stat.path]
        _examine_paths(exam, [*paths, *commit.partitions], info, instant)
        return
    elsewhere = [path for path in _planned_paths(content) if _is_elsewhere(exam, path, info, instant)]
    if elsewhere:
        what = f"The plan names {len(elsewhere):,} files outside the table, such as {elsewhere[0][:200]!r}"
        exam.add(FindingKind.PLAN_NAMES_OTHER_PLACE, what, info.path, instant.requested_time)


def _examine_paths(exam: Examination, paths: Iterable[str], info: ObjectInfo, instant: Instant) -> None:
    """Report unsafe paths; the paths in commits are relative to the table."""
    for path in paths:
        try:
            safe_relative_path(path)
        except UnsafePathError as error:
            exam.add(FindingKind.UNSAFE_PATH, describe(error), info.path, instant.requested_time)


_OUTSIDE = ("extraMetadata", "strategy", "bootstrapFilePath")
"""Fields of plans that are no paths below the table; the rows of a bootstrapped table are elsewhere."""


def _planned_paths(content: object) -> Iterable[str]:
    """Return every text in a plan that looks like a path; plans contain full paths."""
    waiting: list[object] = [content]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend(value for key, value in item.items() if key not in _OUTSIDE)
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif isinstance(item, str) and ("/" in item or "\\" in item or item in (".", "..")):
            yield item


def _is_elsewhere(exam: Examination, path: str, info: ObjectInfo, instant: Instant) -> bool:
    """Say whether a path of a plan is outside the table. A path with ``..`` is reported as unsafe instead."""
    location = exam.storage.location.rstrip("/")
    inner = path.removeprefix("file:").removeprefix("//")
    relative = inner[len(location) + 1 :] if inner.startswith(f"{location}/") else inner
    try:
        safe_relative_path(relative)
    except UnsafePathError as error:
        climbs = ".." in path.replace("\\", "/").split("/") or "\0" in path
        if climbs:
            exam.add(FindingKind.UNSAFE_PATH, describe(error), info.path, instant.requested_time)
        return not climbs
    return False
