"""Examine data files that no commit names: files of running writers, files of dead writers, and leaked files.

This package does not read such a file while its instant is on the active timeline. If the file is older than the active timeline, every reader treats
it as a file of an archived commit, so its instant is searched in the archived timeline.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, Kind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.model.instant import WRITE_ACTIONS

_AREA = Area.FILES


def examine(exam: Examination, listed: Listed, named: set[str]) -> None:
    """Classify every file that no commit names."""
    judge = _Judge(exam)
    of_writers: dict[Kind, Counter[str]] = defaultdict(Counter)
    unjudged = 0
    for path, file in sorted(listed.files.items()):
        time = file.name.requested_time
        if path in named or time in exam.decided:
            continue
        kind = judge.kind(time)
        if kind is None:
            unjudged += judge.is_unknown(time)
        elif kind in _WHAT:
            exam.add(kind, _WHAT[kind], path, time)
        else:
            of_writers[kind][time] += 1
    for kind, files in of_writers.items():
        for time, count in sorted(files.items()):
            exam.add(kind, f"{count:,} files belong to an uncommitted write", instant=time)
    if unjudged:
        exam.not_examined(_AREA, f"{unjudged:,} files could not be judged, because their commits could not be read")


_WHAT = {
    Kind.LEAKED_FILE: "No commit names the file, and its instant is not pending",
    Kind.LEAKED_FILE_VISIBLE: "The file's instant is neither on the active nor on the archived timeline",
}


class _Judge:
    """Classifies a file that no commit names, by the time in its name."""

    def __init__(self, exam: Examination) -> None:
        writes = (instant.requested_time for instant in exam.timeline if instant.action in WRITE_ACTIONS)
        self._exam = exam
        self._first = min(writes, default=None)
        self._newest = exam.timeline.high_water_mark
        self._completed = {instant.requested_time for instant in exam.timeline.commits}

    def kind(self, time: str) -> Kind | None:
        """Return the kind; None for the file of an archived commit, and if the kind cannot be known."""
        exam = self._exam
        if time in exam.dead:
            return Kind.FILE_OF_DEAD_WRITE
        if time in exam.living or (self._newest and time > self._newest):
            return Kind.FILE_OF_LIVING_WRITE
        if time in self._completed:
            return Kind.LEAKED_FILE if exam.all_commits_known else None
        if exam.archived is None or (self._first is not None and time >= self._first):
            return Kind.LEAKED_FILE
        return Kind.LEAKED_FILE_VISIBLE if exam.archived and time not in exam.archived else None

    def is_unknown(self, time: str) -> bool:
        """Whether nothing can be said about a file without a kind."""
        return time in self._completed or not self._exam.archived
