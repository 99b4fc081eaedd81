"""The list of files in the metadata table of version 6.

Format reference: versions 1.11. Its timeline has layout 1. Times of instants have 17 digits, as in the data table, or 20: services and builds
add three digits to the time of a deltacommit. The name of a log has the time of its base file, or of a pending compaction. So the name does not show
the writer of the blocks: each block counts by its own instant.

This package cannot build such a metadata table again, and a writer of an old release may delete a listed metadata table. A listing of the folders
gives the same files. So after any error the reader lists the folders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.file_groups.slice import BaseFile, LogFile, SlicePiece
from pyhudi_core.metadata_table.names import is_build
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.instant import Action, Instant

_OF_DATA = 17
"""The number of digits of an instant time of the data table."""


@dataclass(slots=True)
class OlderSlices(MetadataSlices):
    """The newest slices of a metadata table of layout 1."""

    refuses_lost: ClassVar[bool] = False

    @property
    def is_ahead(self) -> bool:
        newest = max((i.requested_time for i in self.data), default="")
        return any(
            i.requested_time > newest and len(i.requested_time) == _OF_DATA
            for i in self.own
            if i.action is Action.DELTACOMMIT
        )

    def builds(self) -> tuple[Instant, ...]:
        return tuple(i for i in self.own if is_build(i.requested_time))

    def _newest(self, bases: list[BaseFile], logs: list[LogFile]) -> Iterable[SlicePiece]:
        """Return the slice of a file group: its newest valid base file, and all logs of this time or later (of a pending compaction)."""
        found = sorted(
            (base for base in bases if self.counts(base.name.requested_time)), key=lambda b: b.name.requested_time
        )
        base = found[-1] if found else None
        time = "" if base is None else base.name.requested_time
        later = sorted((log for log in logs if log.name.requested_time >= time), key=lambda log: log.order)
        if base is not None or later:
            yield SlicePiece(time, base, later)
