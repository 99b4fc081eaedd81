"""Savepoints on a timeline, and the files that they keep (specification, "Timeline"; `HoodieSavepointMetadata`).

A savepoint is a file next to its commit: ``<requested time of the commit>_<completion time>.savepoint``, with an inflight file and without a
requested file. It names, by partition, the base files and log files of the table's state at its commit. Cleaning keeps these files, archival keeps
the commit, and Hudi's restore can always restore this state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.file_names import join
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.printing import escaped, printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.timeline.active import Timeline, TimelineFolder

RECORD = "HoodieSavepointMetadata"

TAGGED_BY = "pyhudi tags"
"""The maker of savepoints that are tags: a schedule makes and deletes them."""


@dataclass(frozen=True, slots=True)
@printable
class Savepoint:
    """A completed savepoint.

    Attributes:
        instant: the requested time of its commit, which identifies the savepoint.
        completion_time: when the savepoint (not its commit) was made.
        created_by, comment: texts of its maker.
        created_ms: milliseconds since 1970.
        files: names of the files that it keeps, by partition path.
    """

    instant: str
    completion_time: str
    created_by: str = ""
    comment: str = ""
    created_ms: int = 0
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the files, relative to the table."""
        return frozenset(join(partition, name) for partition, names in self.files.items() for name in names)

    def __str__(self) -> str:
        said = f", {self.comment!r}" if self.comment else ""
        count = sum(len(names) for names in self.files.values())
        return f"Savepoint of {self.instant}, {count} files, by {escaped(self.created_by) or 'unknown'}{said}"

    def to_avro(self) -> dict[str, object]:
        """Return Hudi's record."""
        return {
            "savepointedBy": self.created_by,
            "savepointedAt": self.created_ms,
            "comments": self.comment,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": list(names)}
                for partition, names in self.files.items()
            },
            "version": 1,
        }


def read_savepoints(folder: TimelineFolder, timeline: Timeline) -> tuple[Savepoint, ...]:
    """Return the completed savepoints of a timeline, the oldest commit first; without savepoints that were deleted meanwhile.

    Raises `CorruptionError` for an unreadable savepoint, and `UnsafePathError` for a savepoint with files outside the table.
    """
    saved = (i for i in timeline.completed if i.action is Action.SAVEPOINT)
    found = (_read(folder, instant) for instant in saved)
    return tuple(savepoint for savepoint in found if savepoint is not None)


def kept_files(folder: TimelineFolder, timeline: Timeline) -> frozenset[str]:
    """Return the paths of all files that the savepoints of a timeline keep. Nothing may delete them. Raises as `read_savepoints`."""
    return frozenset[str]().union(*(savepoint.paths for savepoint in read_savepoints(folder, timeline)))


def _read(folder: TimelineFolder, instant: Instant) -> Savepoint | None:
    path = folder.file(instant)
    try:
        record = decode_record(folder.storage.get(path), RECORD, path=path)
    except ObjectNotFoundError:
        return None
    files = {
        partition: tuple(entry["savepointDataFile"]) for partition, entry in sorted(record["partitionMetadata"].items())
    }
    found = Savepoint(
        instant.requested_time,
        instant.completion_time or "",
        record["savepointedBy"],
        record["comments"],
        record["savepointedAt"],
        files,
    )
    for kept in found.paths:
        safe_relative_path(kept)
    return found
