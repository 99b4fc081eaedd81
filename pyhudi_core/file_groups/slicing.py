"""Put the files of one file group together to slices. Pure.

Specification, "File Slices", and RFC-66 (non-blocking concurrency control), corrected by what releases 1.0 to 1.2 do:
- every base file opens a slice, named by its requested time;
- a log file belongs to the newest slice whose name is not later than the time at which the log's commit completed. So a log that was begun
  before a compaction and completed after it lies on top of the compaction's base file;
- a log that no slice is old enough for opens one, named by its own requested time;
- inside of a slice logs are in the order of requested time, version and write token.

A pending compaction opens a slice of its own for writers, but a reader reads it together with the one before it, all logs in their order; so
readers need not know of it. Files must be visible ones: filtering them is ``visibility``'s work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.file_groups.slice import BaseFile, LogFile


@dataclass(slots=True)
class Piece:
    """A slice in the making: its name, its base file if it has one, and its logs in their order."""

    time: str
    base: BaseFile | None
    logs: list[LogFile] = field(default_factory=list)

    @property
    def file_id(self) -> str:
        """The file group that it belongs to."""
        return self.logs[0].name.file_id if self.base is None else self.base.name.file_id


def slices_of(bases: Iterable[BaseFile], logs: Iterable[LogFile], completed: Callable[[str], str]) -> list[Piece]:
    """The slices of one file group, oldest first.

    Args:
        bases: visible base files.
        logs: visible log files, change logs left out.
        completed: the completion time of an instant by its requested time.
    """
    found = [Piece(base.name.requested_time, base) for base in sorted(bases, key=lambda b: b.name.requested_time)]
    for log in sorted(logs, key=lambda log: log.order):
        place = bisect_right([piece.time for piece in found], completed(log.name.requested_time)) - 1
        if place >= 0:
            found[place].logs.append(log)
        else:
            found.insert(0, Piece(log.name.requested_time, None, [log]))
    return found


def newest_base(pieces: list[Piece]) -> Piece | None:
    """What a read-optimized query reads: the newest base file; ``logs`` are those that it leaves out."""
    for number in range(len(pieces) - 1, -1, -1):
        if pieces[number].base is not None:
            left_out = [log for piece in pieces[number:] for log in piece.logs]
            return Piece(pieces[number].time, pieces[number].base, left_out)
    return None
