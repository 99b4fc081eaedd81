"""The plan of an indexing, as a value and as Hudi's Avro record: which partitions of the metadata table are built.

Specification, "Indexing"; the records are ``HoodieIndexPlan`` (requested) and ``HoodieIndexCommitMetadata`` (completed) as release 1.0 writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import is_safe
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures, Refused

RECORD = "HoodieIndexPlan"
DONE = "HoodieIndexCommitMetadata"
VERSION = 1


@dataclass(frozen=True, slots=True)
@printable
class IndexingPlan:
    """The partitions that would be built; true if there are any.

    Attributes:
        partitions: partitions of the metadata table, each with its minimum number of file groups.
        up_to: the requested time of the newest commit at planning. The execution builds from the state at its own beginning. Empty for an index that
            is built in one decision, up to the newest commit at that time.
        why_not: why nothing would be built.
        files: number of the table's files from which the partitions would be built.
        definitions: definitions of indexes on columns among the partitions; they are published with the plan.
        size: size of these files in bytes if rows are read; 0 for statistics and bloom filters, which are made from footers.
        refused: whether the plan is empty because the service would be refused.
    """

    partitions: Mapping[str, int] = field(default_factory=dict)
    up_to: str = ""
    why_not: str = ""
    files: int = 0
    size: int = 0
    definitions: tuple[IndexDefinition, ...] = ()
    refused: Refused | None = field(default=None, compare=False)

    @property
    def figures(self) -> Figures:
        """Numbers of partitions and of file groups (minimum), of the table's files and bytes to read, and of seconds (maximum)."""
        groups = sum(self.partitions.values())
        figures = {"partitions": len(self.partitions), "file_groups": groups, "files": self.files, "bytes": self.size}
        return with_seconds(figures, rewritten=self.size, files=self.files + groups, instants=len(self.partitions))

    def __bool__(self) -> bool:
        return bool(self.partitions)

    def __str__(self) -> str:
        if self.refused is not None:
            return f"It would be refused: {self.why_not}"
        if not self:
            return f"Nothing to index: {self.why_not}"
        up_to = f" up to {self.up_to}, and the commits that complete while it is built" if self.up_to else ""
        return f"Build {', '.join(self.partitions)}{up_to}"

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file."""
        record = {"version": VERSION, "indexPartitionInfos": _infos(tuple(self.partitions), self.up_to)}
        return encode_record(RECORD, record, sync_marker=sync_marker)


@dataclass(frozen=True, slots=True)
@printable
class IndexingWork:
    """The partitions that a plan on the timeline would build."""

    partitions: tuple[str, ...]


def decode(data: bytes, path: str) -> IndexingWork:
    """Return the partitions of a plan by this package or by Hudi. Raises `CorruptTimelineError`."""
    record = decode_record(data, RECORD, path=path) if data else {}
    named = [info.get("metadataPartitionPath") for info in record.get("indexPartitionInfos") or ()]
    if not named or not all(isinstance(name, str) and name and "/" not in name and is_safe(name) for name in named):
        raise CorruptTimelineError(
            "A plan of an indexing names no partitions of a metadata table",
            path=path,
            hint="Look at what wrote it; nothing was changed. `pyhudi index LOCATION cancel TIME` removes the plan.",
        )
    return IndexingWork(tuple(dict.fromkeys(named)))


def encode_done(partitions: Sequence[str], up_to: str, sync_marker: bytes) -> bytes:
    """Return the bytes of the completed file. ``up_to``: the newest commit that the base files of the partitions contain."""
    record = {"version": VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions, up_to)}
    return encode_record(DONE, record, sync_marker=sync_marker)


def _infos(partitions: Sequence[str], up_to: str) -> list[dict[str, object]]:
    return [
        {"version": VERSION, "metadataPartitionPath": name, "indexUptoInstant": up_to, "extraMetadata": {}}
        for name in partitions
    ]
