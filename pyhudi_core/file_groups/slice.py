"""File slices: what one file group holds at one time (specification, sections "File Groups" and "File Slices")."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, join


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
class FileSlice:
    """The newest base file of a file group, as seen by one snapshot.

    ``stat`` is what the commit that wrote it says about it; None when that commit has been archived.
    """

    base: BaseFile
    stat: WriteStat | None = None

    @property
    def partition(self) -> str:
        return self.base.partition

    @property
    def file_id(self) -> str:
        return self.base.name.file_id

    @property
    def requested_time(self) -> str:
        """The requested time of the instant that wrote the base file."""
        return self.base.name.requested_time

    @property
    def group(self) -> tuple[str, str]:
        """(partition, file id): a file group's identity."""
        return (self.partition, self.file_id)
