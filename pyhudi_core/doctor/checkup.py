"""The complete examination of a table, area by area. Read-only: damage gives findings, never an error, and the table is not changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyhudi_core.doctor import (
    commit_record,
    files,
    hash_ranges,
    history,
    iceberg_metadata,
    keys,
    leftovers,
    listing,
    locks,
    metadata_table,
    pending,
    properties,
    schema,
    timeline,
    transactions,
)
from pyhudi_core.doctor.examination import Examination, Limits, Progress, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.doctor.read_only import ReadOnlyStorage
from pyhudi_core.doctor.report import CheckReport
from pyhudi_core.errors import CorruptionError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.opened_table import OpenedTable


def _silent(area: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The scope of the examination. ``keys``: compare all record keys (only this reads rows); ``limits``: the limits; ``progress``: called with each
    step.
    """

    keys: bool = True
    limits: Limits = Limits()
    progress: Progress = _silent

    @classmethod
    def of(cls, keys: bool, limits: Limits | None, progress: Progress | None) -> CheckOptions:
        """Return the options; None selects the default."""
        return cls(keys, limits or Limits(), progress or _silent)


def check(opened: OpenedTable, options: CheckOptions | None = None) -> CheckReport:
    """Examine the table. Damage raises no error; `HudiError` is raised only if the storage itself cannot be used."""
    chosen = options or CheckOptions()
    runtime = opened.runtime
    exam = Examination(ReadOnlyStorage(opened.storage), runtime, chosen.limits, chosen.progress, runtime.clock.now_ms())
    _run(exam, Area.PROPERTIES, lambda: properties.examine(exam, opened))
    if not _exists(exam) or not exam.examines:
        return exam.report()
    _run(exam, Area.TIMELINE, lambda: timeline.examine(exam))
    _run(exam, Area.HISTORY, lambda: history.examine(exam))
    _run(exam, Area.COMMIT_RECORD, lambda: commit_record.examine(exam))
    _run(exam, Area.HEARTBEATS, lambda: pending.examine(exam))
    _run(exam, Area.COMMIT_RECORD, lambda: commit_record.examine_staged(exam))
    _run(exam, Area.COMMIT_RECORD, lambda: transactions.examine(exam))
    listed = Listed()
    _run(exam, Area.FILES, lambda: _examine_files(exam, listed))
    _run(exam, Area.LOCKS, lambda: locks.examine(exam))
    _run(exam, Area.METADATA_TABLE, lambda: metadata_table.examine(exam, listed, keys=chosen.keys))
    _run(exam, Area.SCHEMA, lambda: _examine_rows(exam, chosen.keys))
    return exam.report()


def _exists(exam: Examination) -> bool:
    """Say whether a table, or a part of one, exists."""
    if any(finding.kind is FindingKind.STORAGE_FAILED for finding in exam.findings):
        return False
    return all(finding.kind is not FindingKind.NO_TABLE for finding in exam.findings) or bool(
        exam.folder(Area.PROPERTIES, ".hoodie").folders
    )


def _run(exam: Examination, area: Area, examine: Callable[[], None]) -> None:
    """Examine one area; an unexpected failure must not hide the results of the other areas."""
    exam.progress(str(area), 0, 0)
    try:
        examine()
    except Exception as error:  # noqa: BLE001  (the last safeguard of a tool that is used on damaged tables)
        what = f"The examination ended with {type(error).__name__}: {error}"
        exam.add(FindingKind.EXAMINATION_FAILED, what[:300], area=area)


def _examine_files(exam: Examination, listed: Listed) -> None:
    listing.walk(exam, listed)
    files.examine(exam, listed, _later(exam))
    iceberg_metadata.examine(exam, listed)
    leftovers.examine(exam, listed.folders)


def _later(exam: Examination) -> dict[Instant, CommitMetadata]:
    """Return the commits completed since the timeline was examined."""
    context = exam.context
    if context is None:
        return {}
    found: dict[Instant, CommitMetadata] = {}
    known = frozenset(exam.timeline)
    try:
        with exam.recording_failures(Area.FILES, exam.timeline_folder):
            for instant in context.folder.load().commits:
                if instant not in known:
                    found[instant] = context.folder.read_commit(instant)
    except CorruptionError as error:  # such as a restore's plan, without which it is unknown which commits count
        exam.add(FindingKind.METADATA_UNREADABLE, describe(error), error.path)
    return found


def _examine_rows(exam: Examination, with_keys: bool) -> None:
    snapshot = schema.load(exam)
    if snapshot is None:
        return
    _run(exam, Area.FILES, lambda: hash_ranges.examine(exam, snapshot))
    schema.examine(exam, snapshot)
    if with_keys:
        _run(exam, Area.KEYS, lambda: keys.examine(exam, snapshot))
    else:
        exam.not_examined(Area.KEYS, "Keys were not compared, as requested")
