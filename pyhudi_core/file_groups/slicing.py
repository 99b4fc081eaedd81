"""Order the files of one file group into slices. Pure.

Specification, "File Slices", and RFC-66 (non-blocking concurrency control), corrected by the behaviour of releases 1.0 to 1.2:
- every base file opens a slice, named by its requested time;
- a log file belongs to the newest slice whose name is not later than the completion time of the log's commit. So a log that began before
  a compaction and completed after it is on top of the compaction's base file;
- a log whose name has the time of a base file belongs to the slice of this base file, as in version 6; a table that was raised keeps such logs;
- a log that is older than every slice opens one, named by its own requested time;
- within a slice, logs are ordered by requested time, version and write token.

A pending compaction opens a slice of its own for writers. A reader reads that slice together with the one before it, all logs in order, so
readers need no special rule. The files must be visible; ``visibility`` filters them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.file_groups.slice import BaseFile, LogFile


@dataclass(slots=True)
class SlicePiece:
    """A slice under construction: its name, its base file if it has one, and its logs in order."""

    time: str
    base: BaseFile | None
    logs: list[LogFile] = field(default_factory=list)

    @property
    def file_id(self) -> str:
        """The file group of the slice."""
        return self.logs[0].name.file_id if self.base is None else self.base.name.file_id


def slices_of(bases: Iterable[BaseFile], logs: Iterable[LogFile], completed: Callable[[str], str]) -> list[SlicePiece]:
    """Return the slices of one file group, oldest first.

    Args:
        bases: visible base files.
        logs: visible log files, without change logs.
        completed: returns the completion time of an instant, given its requested time.
    """
    found = [SlicePiece(base.name.requested_time, base) for base in sorted(bases, key=lambda b: b.name.requested_time)]
    with_base = {piece.time for piece in found}
    for log in sorted(logs, key=lambda log: log.order):
        time = log.name.requested_time
        place = bisect_right([piece.time for piece in found], time if time in with_base else completed(time)) - 1
        if place >= 0:
            found[place].logs.append(log)
        else:
            found.insert(0, SlicePiece(log.name.requested_time, None, [log]))
    return found


def newest_base(pieces: list[SlicePiece]) -> SlicePiece | None:
    """Return the slice of a read-optimized query: the newest base file; ``logs`` are the logs that the query omits."""
    for number in range(len(pieces) - 1, -1, -1):
        if pieces[number].base is not None:
            left_out = [log for piece in pieces[number:] for log in piece.logs]
            return SlicePiece(pieces[number].time, pieces[number].base, left_out)
    return None
