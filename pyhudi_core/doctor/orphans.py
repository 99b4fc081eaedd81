"""Examine data files that no commit names: files of running writers, files of dead writers, and leaked files (``file_groups/unnamed_files.py``)."""

from __future__ import annotations

from collections import Counter, defaultdict

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, Kind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.file_groups.unnamed_files import Owner, Owners
from pyhudi_core.timeline.active import Timeline

_AREA = Area.FILES


def examine(exam: Examination, listed: Listed, named: set[str]) -> None:
    """Classify every file that no commit names."""
    owners = _owners(exam)
    of_writers: dict[Kind, Counter[str]] = defaultdict(Counter)
    unjudged = 0
    for path, file in sorted(listed.files.items()):
        time = file.name.requested_time
        if path in named or time in exam.decided:
            continue
        owner = owners.of(time)
        if owner is Owner.UNKNOWN or (time in owners.completed and not exam.all_commits_known):
            unjudged += 1
        elif owner in _WHAT:
            exam.add(*_WHAT[owner], path, time)
        elif owner in _WRITES:
            of_writers[_WRITES[owner]][time] += 1
    for kind, files in of_writers.items():
        for time, count in sorted(files.items()):
            exam.add(kind, f"{count:,} files belong to an uncommitted write", instant=time)
    if unjudged:
        exam.not_examined(_AREA, f"{unjudged:,} files could not be judged, because their commits could not be read")


_WHAT = {
    Owner.NOBODY: (Kind.LEAKED_FILE, "No commit names the file, and its instant is not pending"),
    Owner.NOBODY_BUT_SHOWN: (
        Kind.LEAKED_FILE_VISIBLE,
        "The file's instant is neither on the active nor on the archived timeline",
    ),
}
_WRITES = {Owner.DEAD_WRITE: Kind.FILE_OF_DEAD_WRITE, Owner.LIVING_WRITE: Kind.FILE_OF_LIVING_WRITE}


def _owners(exam: Examination) -> Owners:
    """Whose files are, as far as the examination knows."""
    archived = exam.archived

    def was_archived(time: str) -> bool | None:
        if archived is None:
            return False
        return time in archived if archived else None

    timeline = Timeline(exam.timeline.instants, has_history=archived is not None)
    return Owners(timeline, exam.living, exam.dead, was_archived)
