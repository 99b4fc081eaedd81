"""File slices: what one file group holds at one time (specification, sections "File Groups" and "File Slices")."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, join


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file in a partition; ``size`` in bytes."""

    partition: str
    name: BaseFileName
    size: int

    @property
    def path(self) -> str:
        """Relative to the table."""
        return join(self.partition, str(self.name))


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file in a partition; ``size`` in bytes."""

    partition: str
    name: LogFileName
    size: int

    @property
    def path(self) -> str:
        """Relative to the table."""
        return join(self.partition, str(self.name))

    @property
    def order(self) -> tuple[str, int, str]:
        """The place among the logs of a slice."""
        return (self.name.requested_time, self.name.version, self.name.write_token)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One slice of a file group: its base file if it has one, and the logs that lie on it, in their order.

    ``stat`` is what the commit that wrote the base file says about it; None when that commit has been archived. A slice has a base file
    or a log.
    """

    base_file: BaseFile | None
    stat: WriteStat | None = None
    logs: tuple[LogFile, ...] = ()

    @property
    def base(self) -> BaseFile:
        """The base file. Raises `UnsupportedTableError` if there are only logs, which copy-on-write tables never have."""
        if self.base_file is None:
            raise UnsupportedTableError(
                "A file group has logs and no base file", path=self._any.path, hint="Compact the table with Hudi first."
            )
        return self.base_file

    @property
    def partition(self) -> str:
        return self._any.partition

    @property
    def file_id(self) -> str:
        return self._any.name.file_id

    @property
    def requested_time(self) -> str:
        """The requested time of the instant that wrote the base file, or the first log where there is none."""
        return self._any.name.requested_time

    @property
    def requested_times(self) -> frozenset[str]:
        """The requested times of all instants that wrote something of it."""
        own = {self.base_file.name.requested_time} if self.base_file is not None else set()
        return frozenset(own | {log.name.requested_time for log in self.logs})

    @property
    def group(self) -> tuple[str, str]:
        """(partition, file id): a file group's identity."""
        return (self.partition, self.file_id)

    @property
    def _any(self) -> BaseFile | LogFile:
        return self.logs[0] if self.base_file is None else self.base_file
