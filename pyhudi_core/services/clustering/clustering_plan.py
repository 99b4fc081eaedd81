"""The plan of a clustering, as a value and as Hudi's Avro record: which file slices are rewritten together, and the order of the rows.

Specification, "Re-writing"; the record is ``HoodieRequestedReplaceMetadata`` with a ``HoodieClusteringPlan``, as releases 1.0 to 1.2 write it. File
paths in the record are absolute, as Hudi's executor needs them. This package uses only the file names, so a table may be moved between plan and
execution. Hudi's plan names only the sort columns. This package's plan also names the kind of order; an executor that does not know this key ignores
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import CorruptTimelineError, ObjectNotFoundError, UnsafePathError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.index.hashing_metadata import ChildNode, decode_children, encode_children
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.options.clustering import EXECUTIONS, EXECUTIONS_PACKAGE, SIZE_BASED
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures, Refused
from pyhudi_core.storage.base import Storage

RECORD = "HoodieRequestedReplaceMetadata"
EXECUTION_CLASS = f"{EXECUTIONS_PACKAGE}{EXECUTIONS[SIZE_BASED]}"
SORT_KEY = "hoodie.clustering.plan.strategy.sort.columns"
LAYOUT_KEY = "hoodie.layout.optimize.strategy"
MEBIBYTE = 1 << 20
LINEAR = "LINEAR"
_LAYOUTS = (LINEAR, "ZORDER", "HILBERT")
CHECKPOINT_KEY = "clustering.commit.checkpoint"
"""The key, in the extra metadata of a commit-based plan, of the last commit that the plan has considered."""
_PARTITION_KEY, _CHILDREN_KEY, _SEQUENCE_KEY = (
    "clustering.group.partition",
    "clustering.group.child.node",
    "clustering.group.sequence.no",
)
_OF_BUCKETS = ("ConsistentBucketClusteringExecutionStrategy", "ConsistentHashingExecutionStrategy")
_EXECUTED = (
    "SortAndSizeExecutionStrategy",
    "SingleFileSortExecutionStrategy",
    "StreamCopyClusteringExecutionStrategy",
    "BinaryCopyClusteringExecutionStrategy",
    *_OF_BUCKETS,
)
"""The last words in the class names of Hudi's strategies whose plans this package executes."""


@dataclass(frozen=True, slots=True)
@printable
class RowOrder:
    """The order of rows: by columns one after the other (LINEAR), or along a curve through them. No columns: rows keep their order."""

    columns: tuple[str, ...] = ()
    layout: str = LINEAR

    def __str__(self) -> str:
        if not self.columns:
            return "unsorted"
        columns = ", ".join(self.columns)
        return f"sorted by {columns}" if self.layout == LINEAR else f"in {self.layout} order of {columns}"


@dataclass(frozen=True, slots=True)
@printable
class ClusteringGroup:
    """Slices of one partition that are rewritten together, and the number of new file groups.

    Attributes:
        children: with consistent hashing, the new ranges of hashes: the hash of a row's key determines its new file group.
        sequence: the sequence number of the consistent hashing metadata on which the plan is based.
    """

    slices: tuple[FileSlice, ...]
    outputs: int
    default_bytes: int = 0
    children: tuple[ChildNode, ...] = ()
    sequence: int = 0

    @property
    def partition(self) -> str:
        return self.slices[0].partition

    @property
    def size(self) -> int:
        """The size of base files and logs in bytes."""
        return sum(piece.size for piece in self.slices)

    def to_avro(self, location: str) -> dict[str, Any]:
        """Return a ``HoodieClusteringGroup``; ``location`` is the table's location."""
        logs = [log for piece in self.slices for log in piece.logs]
        log_bytes = sum(log.size for log in logs)
        bases = [0 if piece.base is None else piece.base.size for piece in self.slices]
        read = sum((base + sum(log.size for log in piece.logs)) // MEBIBYTE for base, piece in self._with(bases))
        write = sum(
            (base if piece.base is not None else self.default_bytes) // MEBIBYTE for base, piece in self._with(bases)
        )
        return {
            "slices": [_slice_record(piece, location) for piece in self.slices],
            "metrics": {
                "TOTAL_LOG_FILES": float(len(logs)),
                "TOTAL_LOG_FILES_SIZE": float(log_bytes),
                "TOTAL_IO_READ_MB": float(read),
                "TOTAL_IO_WRITE_MB": float(write),
                "TOTAL_IO_MB": float(read + write),
            },
            "numOutputFileGroups": self.outputs,
            "extraMetadata": self._extra(),
            "version": 1,
        }

    def _extra(self) -> dict[str, str] | None:
        if not self.children:
            return None
        children, sequence = encode_children(self.children), str(self.sequence)
        return {_PARTITION_KEY: self.partition, _CHILDREN_KEY: children, _SEQUENCE_KEY: sequence}

    def _with(self, bases: list[int]) -> zip[tuple[int, FileSlice]]:
        return zip(bases, self.slices, strict=True)


@dataclass(frozen=True, slots=True)
@printable
class ClusteringPlan:
    """What a clustering would rewrite. If there is nothing to rewrite, the plan is false and has the reason.

    Attributes:
        groups: the slices that are rewritten together.
        order: the order of rows in the new files.
        why_not: why there is nothing to rewrite, or which slices were omitted.
        trigger: the state of the options' trigger, such as ``3 of 4 commits``.
        due: whether that trigger is reached.
        location: the table's location, for the absolute paths of the record.
        kind: the plan strategy, as `ClusteringOptions.plan_strategy`.
        checkpoint: for a commit-based plan, the requested time of the last commit that the plan has considered.
        refused: whether the plan is empty because the service would be refused.
    """

    groups: tuple[ClusteringGroup, ...] = ()
    order: RowOrder = RowOrder()
    why_not: str = ""
    trigger: str = ""
    due: bool = False
    location: str = ""
    kind: str = SIZE_BASED
    checkpoint: str = ""
    refused: Refused | None = field(default=None, compare=False)

    @property
    def file_groups(self) -> frozenset[tuple[str, str]]:
        """The (partition, file id) of each slice."""
        return frozenset(piece.group for group in self.groups for piece in group.slices)

    @property
    def figures(self) -> Figures:
        """Numbers of groups, of file groups before and after, and of files and bytes to rewrite; and seconds."""
        files = sum(len(piece.files) for group in self.groups for piece in group.slices)
        size, outputs = sum(group.size for group in self.groups), sum(group.outputs for group in self.groups)
        figures = {
            "groups": len(self.groups),
            "file_groups": sum(len(group.slices) for group in self.groups),
            "new_file_groups": outputs,
            "files": files,
            "bytes": size,
        }
        return with_seconds(figures, rewritten=size, files=files + outputs)

    def __bool__(self) -> bool:
        return bool(self.groups)

    def __str__(self) -> str:
        trigger = f" ({self.trigger})" if self.trigger else ""
        if self.refused is not None:
            return f"It would be refused: {self.why_not}{trigger}"
        if not self:
            return f"Nothing to cluster: {self.why_not}{trigger}"
        figures = self.figures
        left = f"; {self.why_not}" if self.why_not else ""
        what = "buckets" if any(group.children for group in self.groups) else "file groups"
        counts = f"{figures['file_groups']:,} {what} into {figures['new_file_groups']:,}, {figures['bytes']:,} bytes"
        return f"Cluster {counts}, {self.order}{left}{trigger}"

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file."""
        params = {SORT_KEY: ",".join(self.order.columns)} if self.order.columns else {}
        if self.order.layout != LINEAR:
            params[LAYOUT_KEY] = self.order.layout
        executed_by = f"{EXECUTIONS_PACKAGE}{EXECUTIONS[self.kind]}"
        plan = {
            "inputGroups": [group.to_avro(self.location) for group in self.groups],
            "strategy": {"strategyClassName": executed_by, "strategyParams": params, "version": 1},
            "extraMetadata": {CHECKPOINT_KEY: self.checkpoint} if self.checkpoint else {},
            "version": 1,
            "preserveHoodieMetadata": True,
            "missingSchedulePartitions": [],
        }
        record = {
            "operationType": str(OperationType.CLUSTER),
            "clusteringPlan": plan,
            "extraMetadata": {},
            "version": 1,
        }
        return encode_record(RECORD, record, sync_marker=sync_marker)


@dataclass(frozen=True, slots=True)
@printable
class ClusteringWork:
    """The work that a requested file describes. Its slices have no sizes.

    ``checkpoint`` is the plan's checkpoint.
    """

    groups: tuple[ClusteringGroup, ...]
    order: RowOrder
    checkpoint: str = ""

    @property
    def is_of_buckets(self) -> bool:
        """Whether the plan splits, merges or moves buckets of consistent hashing."""
        return bool(self.groups) and bool(self.groups[0].children)

    @property
    def file_groups(self) -> frozenset[tuple[str, str]]:
        """The (partition, file id) of each slice."""
        return frozenset(piece.group for group in self.groups for piece in group.slices)


def decode(data: bytes, path: str) -> ClusteringWork:
    """Return the work of a plan by this package or by Hudi. Raises `CorruptTimelineError`."""
    record = decode_record(data, RECORD, path=path) if data else {}
    try:
        plan = record.get("clusteringPlan") or {}
        strategy = plan.get("strategy") or {}
        params, kind = strategy.get("strategyParams") or {}, strategy.get("strategyClassName") or EXECUTION_CLASS
        if not kind.endswith(_EXECUTED):
            raise ValueError(f"it was made for {kind.rpartition('.')[2]}, which this release does not have")
        of_buckets = kind.endswith(_OF_BUCKETS)
        groups = tuple(_group(group, of_buckets=of_buckets) for group in plan.get("inputGroups") or ())
        checkpoint = str((plan.get("extraMetadata") or {}).get(CHECKPOINT_KEY) or "")
        columns = tuple(name for name in map(str.strip, (params.get(SORT_KEY) or "").split(",")) if name)
        layout = params.get(LAYOUT_KEY) or LINEAR
        if layout not in _LAYOUTS:
            raise ValueError(f"{layout!r} is no order of rows that this release knows")
        if not plan.get("preserveHoodieMetadata", True):
            raise ValueError("it asks for new commit times of all rows")
    except (ValueError, TypeError, AttributeError, UnsafePathError) as error:
        raise CorruptTimelineError(
            f"A clustering plan cannot be executed: {error}",
            path=path,
            hint="Look at what wrote it; nothing was changed. table.clustering.cancel(instant) removes the plan.",
        ) from error
    return ClusteringWork(groups, RowOrder(columns, layout), checkpoint)


def bucket_partitions(storage: Storage, path: str) -> frozenset[str]:
    """Return the partitions whose buckets a requested file changes; none if it cannot be read, or if it is not about buckets."""
    try:
        work = decode(storage.get(path), path)
    except (ObjectNotFoundError, CorruptTimelineError):
        return frozenset()
    return frozenset(group.partition for group in work.groups if group.children)


def _group(record: Mapping[str, Any], *, of_buckets: bool) -> ClusteringGroup:
    slices = tuple(_slice(piece) for piece in record.get("slices") or ())
    if not slices or len({piece.partition for piece in slices}) > 1:
        raise ValueError("a group has no slices, or slices of several partitions")
    outputs = max(1, int(record.get("numOutputFileGroups") or 1))
    if not of_buckets:
        return ClusteringGroup(slices, outputs)
    extra = record.get("extraMetadata") or {}
    children = decode_children(extra.get(_CHILDREN_KEY) or "[]")
    if all(child.prefix is None for child in children):
        raise ValueError("a group of buckets has no new bucket")
    if extra.get(_PARTITION_KEY) != slices[0].partition:
        raise ValueError("a group of buckets names another partition than its slices")
    return ClusteringGroup(slices, outputs, 0, children, int(extra.get(_SEQUENCE_KEY) or 0))


def _slice(record: Mapping[str, Any]) -> FileSlice:
    partition = safe_relative_path(record["partitionPath"]) if record.get("partitionPath") else ""
    base = _name(record["dataFilePath"], record) if record.get("dataFilePath") else None
    logs = [_name(path, record) for path in record.get("deltaFilePaths") or ()]
    found = tuple(LogFile(partition, log, 0) for log in logs if isinstance(log, LogFileName))
    if len(found) != len(logs) or not (base is None or isinstance(base, BaseFileName)) or not (found or base):
        raise ValueError(f"it names other files of {record.get('fileId')!r} than a base file and logs")
    ordered = tuple(sorted(found, key=lambda log: log.order))
    return FileSlice(None if base is None else BaseFile(partition, base, 0), None, ordered)


def _name(path: str, record: Mapping[str, Any]) -> BaseFileName | LogFileName:
    name = parse_data_file(path.rpartition("/")[2])
    if name is None or name.file_id != record.get("fileId"):
        raise ValueError(f"{path!r} is no file of the file group {record.get('fileId')!r}")
    return name


def _slice_record(piece: FileSlice, location: str) -> dict[str, Any]:
    return {
        "dataFilePath": "" if piece.base is None else f"{location}/{piece.base.path}",
        "deltaFilePaths": [f"{location}/{log.path}" for log in piece.logs],
        "fileId": piece.file_id,
        "partitionPath": piece.partition,
        "bootstrapFilePath": "",
        "version": 1,
    }
