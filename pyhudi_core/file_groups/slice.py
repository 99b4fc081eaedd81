"""File slices: the files of one file group at one time, and the rules that assign files to slices. Pure.

Specification, "File Groups" and "File Slices", and RFC-66 (non-blocking concurrency control), corrected by the behaviour of releases 1.0 to 1.2:
- every base file opens a slice, named by its requested time;
- a log file belongs to the newest slice whose name is not later than the completion time of the log's commit. So a log that began before a compaction
  and completed after it belongs to the compaction's base file;
- a log whose name has the time of a base file belongs to the slice of this base file, as in version 6; a table that was raised keeps such logs;
- a log that is older than every slice opens one, named by its own requested time;
- within a slice, logs are ordered by requested time, version and write token.

A pending compaction opens its own slice for writers. A reader reads that slice together with the previous one, all logs in order, so readers need no
special rule. The files must be visible; ``visibility`` filters them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, join
from pyhudi_core.model.printing import printable


@dataclass(frozen=True, slots=True)
@printable
class BaseFile:
    """A base file in a partition; ``size`` in bytes."""

    partition: str
    name: BaseFileName
    size: int

    @property
    def path(self) -> str:
        """Return the path, relative to the table."""
        return join(self.partition, str(self.name))


@dataclass(frozen=True, slots=True)
@printable
class LogFile:
    """A log file in a partition; ``size`` in bytes.

    ``older_writers``: the requested times of the instants that wrote it, if its name is of version 6; such a name has the time of a base file.
    """

    partition: str
    name: LogFileName
    size: int
    older_writers: frozenset[str] = frozenset()

    @property
    def writers(self) -> frozenset[str]:
        """Return the requested times of the instants whose blocks count."""
        return self.older_writers or frozenset([self.name.requested_time])

    @property
    def path(self) -> str:
        """Return the path, relative to the table."""
        return join(self.partition, str(self.name))

    @property
    def order(self) -> tuple[str, int, str]:
        """Return the sort key among the logs of a slice."""
        return (self.name.requested_time, self.name.version, self.name.write_token)


@dataclass(frozen=True, slots=True)
@printable
class FileSlice:
    """One slice of a file group: its base file, if it has one, and its logs, in order.

    It has at least one file. The exception is the slice of a new file group that will begin with a log; it has no name and no path.

    ``stat`` is the base file's entry in the commit that wrote it; None if that commit is archived.
    """

    base: BaseFile | None
    stat: WriteStat | None = None
    logs: tuple[LogFile, ...] = ()

    def __repr__(self) -> str:
        files = f"{'no ' if self.base is None else ''}base file, {len(self.logs):,} logs"
        return f"FileSlice {self.path}: {files}, {self.size:,} bytes" if self.files else "FileSlice without files"

    def _shown(self) -> list[dict[str, object]]:
        return [{"file": file.path, "bytes": file.size} for file in self.files]

    @property
    def path(self) -> str:
        """Return the path of the base file, or of the first log if there is no base file; relative to the table."""
        return self._any.path

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        """Return the base file, if there is one, and the logs."""
        return self.logs if self.base is None else (self.base, *self.logs)

    @property
    def size(self) -> int:
        """The size of the base file and the logs in bytes."""
        return sum(file.size for file in self.files)

    @property
    def partition(self) -> str:
        return self._any.partition

    @property
    def file_id(self) -> str:
        return self._any.name.file_id

    @property
    def requested_time(self) -> str:
        """The requested time of the instant that wrote the base file, or the first log if it has no base file."""
        return self._any.name.requested_time

    @property
    def requested_times(self) -> frozenset[str]:
        """The requested times of all instants that wrote a file of the slice."""
        own = frozenset() if self.base is None else frozenset([self.base.name.requested_time])
        return own.union(*(log.writers for log in self.logs))

    @property
    def group(self) -> tuple[str, str]:
        """The (partition, file id) that identifies the file group."""
        return (self.partition, self.file_id)

    @property
    def _any(self) -> BaseFile | LogFile:
        return self.logs[0] if self.base is None else self.base


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
