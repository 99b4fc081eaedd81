"""The plan of a clean, as a value and as Hudi's Avro record: the files to delete.

Specification, "Cleaning"; the record is ``HoodieCleanerPlan`` as releases 1.0 to 1.2 write it: version 2, paths with the table's location. An
execution uses only the names in these paths, because a table can be moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import CorruptTimelineError, UnsafePathError
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.file_names import join, parse_data_file
from pyhudi_core.model.instant import Instant, State, is_time
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures, Refused

PLAN = "HoodieCleanerPlan"
DONE = "HoodieCleanMetadata"
VERSION = 2
SAVEPOINTS_KEY = "savepointed_timestamps"
"""The key under which plans and completed cleans list the savepoints whose files they kept.

If one of these savepoints is deleted, the next plan reads all partitions.
"""


@dataclass(frozen=True, slots=True)
@printable
class CleaningPlan:
    """What a clean would delete. If there is nothing to delete and nothing to record, the plan is false and has the reason.

    Attributes:
        files: names of files by partition path.
        size: bytes of these files.
        file_groups: how many file groups lose files.
        earliest: the oldest commit whose files all stay; None if the policy has no such commit, or if the plan has only a part of the files.
        last_commit: requested time of the newest commit when the plan was made.
        policy: Hudi's name of the policy.
        savepoints: requested times of the savepoints whose files stay.
        why_not: why there is nothing to delete, or why other files stay.
        trigger: the state of the options' trigger, such as ``3 of 1 commits since the last clean``.
        due: whether that trigger is reached.
        incremental: whether the plan read only partitions that changed since the last clean.
        table: the table's location, with which every path in Hudi's plans begins.
        notes: why a clean without files is still completed: it records the commit from which later plans start.
        refused: whether the plan is empty because the service would be refused.
    """

    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    size: int = 0
    file_groups: int = 0
    earliest: Instant | None = None
    last_commit: str = ""
    policy: str = ""
    savepoints: tuple[str, ...] = ()
    why_not: str = ""
    trigger: str = ""
    due: bool = False
    incremental: bool = False
    table: str = ""
    notes: str = ""
    refused: Refused | None = field(default=None, compare=False)

    @property
    def figures(self) -> Figures:
        """Numbers of files, bytes, file groups and partitions, and seconds."""
        count = sum(len(names) for names in self.files.values())
        figures = {
            "files": count,
            "bytes": self.size,
            "file_groups": self.file_groups,
            "partitions": len(self.files),
        }
        return with_seconds(figures, files=count, instants=bool(self))

    def __bool__(self) -> bool:
        return bool(self.files or self.notes)

    def __str__(self) -> str:
        trigger = f" ({self.trigger})" if self.trigger else ""
        if self.refused is not None:
            return f"It would be refused: {self.why_not}{trigger}"
        if not self:
            return f"Nothing to clean: {self.why_not}{trigger}"
        if not self.files:
            return f"Delete nothing, and note that later plans need not look at older commits: {self.notes}{trigger}"
        figures = self.figures
        left = f"; {self.why_not}" if self.why_not else ""
        kept = f"; commits from {self.earliest.requested_time} on stay readable" if self.earliest else ""
        files = f"{figures['files']:,} files of {figures['file_groups']:,} file groups, {figures['bytes']:,} bytes"
        return f"Delete {files}{kept}{left}{trigger}"

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file, which is also Hudi's inflight file."""
        earliest = self.earliest
        record: dict[str, Any] = {
            "earliestInstantToRetain": None
            if earliest is None
            else {
                "timestamp": earliest.requested_time,
                "action": str(earliest.action),
                "state": State.COMPLETED.name,
            },
            "lastCompletedCommitTimestamp": self.last_commit,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": f"{self.table}/{join(partition, name)}", "isBootstrapBaseFile": False}
                    for name in names
                ]
                for partition, names in sorted(self.files.items())
            },
            "partitionsToBeDeleted": [],
            "extraMetadata": {SAVEPOINTS_KEY: ",".join(self.savepoints)} if self.savepoints else {},
        }
        return encode_record(PLAN, record, sync_marker=sync_marker)


@dataclass(frozen=True, slots=True)
@printable
class PlannedClean:
    """A plan of this package or of Hudi on the timeline.

    Attributes:
        files: names of files by partition path.
        earliest: requested time of the oldest commit whose files all stay; empty if the plan has none.
        last_commit, policy: as in `CleaningPlan`.
        extra: its extra metadata.
    """

    files: Mapping[str, tuple[str, ...]]
    earliest: str
    last_commit: str
    policy: str
    extra: Mapping[str, str]

    @property
    def paths(self) -> list[str]:
        """The files, relative to the table."""
        return [join(partition, name) for partition, names in self.files.items() for name in names]

    def without(self, kept: frozenset[str]) -> PlannedClean:
        """Return the plan without some files, given by path. The next plan must find these files again, so it reads all partitions."""
        if not kept:
            return self
        files = {
            partition: tuple(name for name in names if join(partition, name) not in kept)
            for partition, names in self.files.items()
        }
        return PlannedClean(files, "", self.last_commit, self.policy, self.extra)

    def metadata(self, requested_time: str, took_ms: int, extra: Mapping[str, str]) -> dict[str, Any]:
        """Return the content of the completed clean (``HoodieCleanMetadata``), which names the deleted files."""
        return {
            "startCleanTime": requested_time,
            "timeTakenInMillis": took_ms,
            "totalFilesDeleted": sum(len(names) for names in self.files.values()),
            "earliestCommitToRetain": self.earliest,
            "lastCompletedCommitTimestamp": self.last_commit,
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "policy": self.policy,
                    "deletePathPatterns": list(names),
                    "successDeleteFiles": list(names),
                    "failedDeleteFiles": [],
                    "isPartitionDeleted": False,
                }
                for partition, names in sorted(self.files.items())
            },
            "version": VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": {**self.extra, **extra},
        }


def decode(data: bytes, path: str) -> PlannedClean:
    """Read a plan. Raises `CorruptTimelineError` if it names files other than the table's data files."""
    record = decode_record(data, PLAN, path=path) if data else {}
    try:
        files = {partition: tuple(names) for partition, names in _files(record).items() if names}
    except (ValueError, TypeError, UnsafePathError) as error:
        raise CorruptTimelineError(
            f"A plan of a clean cannot be executed: {error}",
            path=path,
            hint="Nothing was deleted. Look at what wrote it; if it is damaged, remove its requested and inflight files.",
        ) from error
    earliest = (record.get("earliestInstantToRetain") or {}).get("timestamp") or ""
    last, policy = record.get("lastCompletedCommitTimestamp") or "", record.get("policy") or ""
    return PlannedClean(
        files, earliest if is_time(earliest) else "", last, policy, dict(record.get("extraMetadata") or {})
    )


def _files(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names in a plan, which has one of two forms."""
    found: dict[str, list[str]] = {}
    for partition, infos in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        if any(info.get("isBootstrapBaseFile") for info in infos):
            raise ValueError("it deletes files of a bootstrapped table, which are outside of this table")
        found.setdefault(safe_relative_path(partition), []).extend(_name(info.get("filePath") or "") for info in infos)
    for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items():
        found.setdefault(safe_relative_path(partition), []).extend(_name(name) for name in names)
    return found


def _name(path: str) -> str:
    name = path.rpartition("/")[2]
    if parse_data_file(name) is None:
        raise ValueError(f"{path[:200]!r} is no data file")
    return name
