"""Put the files of one file group together to slices. Pure.

Specification, "File Slices", and RFC-66 (non-blocking concurrency control), corrected by what releases 1.0 to 1.2 do:
- every base file opens a slice, named by its requested time; a pending compaction opens one too, which has no base file yet;
- a log file belongs to the newest slice whose name is not later than the time at which the log's commit completed. So a log that was begun
  before a compaction and completed after it lies on top of the compaction's base file;
- a log that no slice is old enough for opens one, named by its own requested time;
- inside of a slice logs are in the order of requested time, version and write token.

Files must be visible ones: filtering them is ``visibility``'s work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyhudi_core.file_groups.slice import BaseFile, LogFile


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice: its name, its base file if it has one, and its logs in their order."""

    time: str
    base: BaseFile | None
    logs: tuple[LogFile, ...]


def slices_of(
    bases: Iterable[BaseFile],
    logs: Iterable[LogFile],
    completed: Callable[[str], str],
    compacting: str | None = None,
) -> list[Piece]:
    """The slices of one file group, oldest first.

    Args:
        bases: visible base files.
        logs: visible log files, change logs left out.
        completed: the completion time of an instant by its requested time.
        compacting: the requested time of a pending compaction whose plan has the group.
    """
    by_time = {base.name.requested_time: base for base in bases}
    found: dict[str, list[LogFile]] = {time: [] for time in by_time}
    if compacting is not None:
        found.setdefault(compacting, [])
    times = sorted(found)
    for log in sorted(logs, key=lambda log: log.order):
        place = bisect_right(times, completed(log.name.requested_time)) - 1
        if place < 0:
            times = sorted({*times, log.name.requested_time})
            found.setdefault(log.name.requested_time, []).append(log)
        else:
            found[times[place]].append(log)
    return [Piece(time, by_time.get(time), tuple(found[time])) for time in times]


def newest(pieces: list[Piece], compacting: str | None = None) -> Piece | None:
    """What a snapshot reads: the newest slice, laid over the one before it while its compaction is pending; None for nothing."""
    if not pieces:
        return None
    last = pieces[-1]
    if last.time == compacting and last.base is None and len(pieces) > 1:
        before = pieces[-2]
        return Piece(before.time, before.base, (*before.logs, *last.logs))
    return last if last.base is not None or last.logs else newest(pieces[:-1], compacting)


def newest_base(pieces: list[Piece]) -> Piece | None:
    """What a read-optimized query reads: the newest base file; ``logs`` are those it leaves out."""
    for number in range(len(pieces) - 1, -1, -1):
        if pieces[number].base is not None:
            left_out = tuple(log for piece in pieces[number:] for log in piece.logs)
            return Piece(pieces[number].time, pieces[number].base, left_out)
    return None
