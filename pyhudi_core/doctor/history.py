"""Examine the archived timeline (specification, "LSM Timeline") through its own reader: pointer, manifest, and the times in every file."""

from __future__ import annotations

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.errors import CorruptionError, LimitExceededError
from pyhudi_core.formats.history_file import HistoryFileReader
from pyhudi_core.formats.history_manifest import VERSION_FILE, HistoryFile, manifest_number
from pyhudi_core.model.instant import DATA_ACTIONS
from pyhudi_core.opened_table.old_timeline import FOLDER, OldTimeline, left_behind
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.history import ArchivedTimeline, HistoryState
from pyhudi_core.timeline.layout_one.layout import LayoutOne

_AREA = Area.HISTORY
_FILES = 10_000


def examine(exam: Examination) -> None:
    """Follow the pointer to the instants. ``archived`` is None without an archived timeline, and empty if it cannot be read completely."""
    _examine_old_timeline(exam)
    history = ArchivedTimeline(exam.storage, exam.history_folder)
    state: HistoryState | None = None
    exam.add_summary(_AREA, "no history")
    try:
        with exam.recording_failures(_AREA, exam.history_folder):
            if not history.exists():
                return
            exam.archived = frozenset()
            exam.add_summary(_AREA, "a history that cannot be read")
            state = history.state()
    except (CorruptionError, LimitExceededError) as error:
        exam.add(FindingKind.HISTORY_DAMAGED, describe(error), error.path or exam.history_folder)
    if state is not None:
        _examine_state(exam, state)


def _examine_old_timeline(exam: Examination) -> None:
    """Report the files that an upgrade from version 6 left, and the commits of writers that did not notice the upgrade."""
    if exam.context is None or exam.context.config.timeline_layout == 1:
        return
    if not exam.context.config.raised_at:
        if exam.context.config.was_raised:
            _examine_upgrade_of_hudi(exam, exam.context)
        return
    with exam.recording_failures(_AREA, FOLDER):
        old = OldTimeline.of(exam.context.folder, exam.context.config.raised_at)
        for instant in old.late:
            what = f"The {instant.action} was written to the timeline of version 6 after the table was raised"
            path = f"{FOLDER}/{LayoutOne().file_name(instant)}"
            exam.add(FindingKind.WRITTEN_BY_OLD_RELEASE, what, path, instant.requested_time)
        if old.files:
            exam.add(FindingKind.OLD_TIMELINE_LEFT, f"{len(old.files):,} files of the timeline of version 6", FOLDER)


def _examine_upgrade_of_hudi(exam: Examination, context: TableContext) -> None:
    """Report commits that are only on the timeline of version 6: Hudi's upgrade logs a file that it cannot read, and continues without the file."""
    with exam.recording_failures(_AREA, FOLDER):
        for instant in left_behind(context.folder):
            path = f"{FOLDER}/{LayoutOne().file_name(instant)}"
            try:
                commit = LayoutOne().decode(exam.storage.get(path), instant, path)
                rows = f"of {sum(stat.rows for stat in commit.stats):,} rows "
            except CorruptionError:
                rows = "that cannot be read "
            what = f"The {instant.action} {rows}is only on the timeline of version 6: the upgrade left it out, or an old release wrote it later"
            exam.add(FindingKind.WRITTEN_BY_OLD_RELEASE, what, path, instant.requested_time)


def _examine_state(exam: Examination, state: HistoryState) -> None:
    if state.problem is not None:
        exam.add(FindingKind.HISTORY_DAMAGED, state.problem, exam.history_folder)
    elif state.version != state.number:
        said = "is missing" if state.version is None else f"contains {state.version}"
        what = f"{VERSION_FILE} {said}, but the newest manifest is {state.number}: an archival was interrupted"
        path = f"{exam.history_folder}/{VERSION_FILE}"
        exam.add(FindingKind.HISTORY_LEFTOVER, what, path, what_to_do="The next archival corrects it.")
    times: set[str] = set()
    complete = state.problem is None and len(state.files) <= _FILES
    for file in state.files[:_FILES]:
        found = _examine_file(exam, state, file)
        complete = complete and found is not None
        times.update(found or ())
    if len(state.files) > _FILES:
        exam.not_examined(_AREA, f"{len(state.files) - _FILES:,} of {len(state.files):,} files were not read")
    named = {file.name for file in state.files}
    loose = [
        name for name in state.objects if name not in named and name != VERSION_FILE and manifest_number(name) is None
    ]
    if loose:
        what = f"{len(loose):,} files are not in the newest manifest, such as {min(loose)!r}"
        exam.add(FindingKind.HISTORY_LEFTOVER, what, exam.history_folder, severity=Severity.INFO)
    if complete:
        exam.archived = frozenset(times)
    exam.counts["archived writes"] = len(times)
    exam.add_summary(_AREA, f"manifest {state.number}, {len(state.files):,} files, {len(times):,} archived writes")


def _examine_file(exam: Examination, state: HistoryState, file: HistoryFile) -> list[str] | None:
    """Return the requested times of completed writes; None if they are unknown."""
    path = f"{exam.history_folder}/{file.name}"
    info = state.objects.get(file.name)
    if info is not None and info.size != file.size:
        exam.add(
            FindingKind.HISTORY_DAMAGED,
            f"The manifest records {file.size:,} bytes, but the file has {info.size:,}",
            path,
        )
    if file.has_false_name:
        what = "The times in the file's name are those of its first and last row, as Hudi's upgrade from version 6 gives them, and no range"
        exam.add(FindingKind.NAMES_OF_VERSION_6, what, path, area=_AREA)
    try:
        with exam.recording_failures(_AREA, path), exam.storage.open_input(path) as source:
            rows = HistoryFileReader(source, path).times()
            return [row.requested_time for row in rows if row.action in DATA_ACTIONS]
    except CorruptionError as error:
        exam.add(FindingKind.HISTORY_DAMAGED, describe(error), path)
    return None
