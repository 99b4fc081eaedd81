"""The plan of a compaction, as a value and as Hudi's Avro record: which file slices become base files.

Specification, "Compaction"; the record is ``HoodieCompactionPlan`` as releases 1.0 to 1.2 write it: version 2, file names without folders, and the
five metrics that Hudi's strategies compare (whole mebibytes, as Hudi divides).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import CorruptTimelineError, UnsafePathError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures, Refused

RECORD = "HoodieCompactionPlan"
VERSION = 2
MEBIBYTE = 1 << 20
_LOG_STRATEGY = {
    "compactorClassName": "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper",
    "strategyParams": {},
    "version": 1,
}
"""The strategy in the plan of a log compaction, as Hudi writes it."""


@dataclass(frozen=True, slots=True)
@printable
class CompactionOperation:
    """One file slice to rewrite. It has the expected size of the base file if the slice has none, and for a skeleton the full path of the file with
    its rows.
    """

    piece: FileSlice
    default_bytes: int = 0
    bootstrap_path: str | None = None

    @property
    def group(self) -> tuple[str, str]:
        """The (partition, file id) of the slice."""
        return self.piece.group

    @property
    def base_bytes(self) -> int:
        """The size of the base file in bytes; 0 without one."""
        return 0 if self.piece.base is None else self.piece.base.size

    @property
    def log_bytes(self) -> int:
        """The size of the log files in bytes."""
        return sum(log.size for log in self.piece.logs)

    @property
    def read_mb(self) -> int:
        """Mebibytes that are read, rounded down."""
        return (self.base_bytes + self.log_bytes) // MEBIBYTE

    @property
    def write_mb(self) -> int:
        """Mebibytes that are written, as Hudi estimates them."""
        return (self.base_bytes if self.piece.base is not None else self.default_bytes) // MEBIBYTE

    def to_avro(self) -> dict[str, Any]:
        """Return a ``HoodieCompactionOperation``."""
        piece = self.piece
        return {
            "baseInstantTime": piece.requested_time,
            "deltaFilePaths": [str(log.name) for log in piece.logs],
            "dataFilePath": None if piece.base is None else str(piece.base.name),
            "fileId": piece.file_id,
            "partitionPath": piece.partition,
            "metrics": {
                "TOTAL_LOG_FILES": float(len(piece.logs)),
                "TOTAL_IO_READ_MB": float(self.read_mb),
                "TOTAL_LOG_FILES_SIZE": float(self.log_bytes),
                "TOTAL_IO_WRITE_MB": float(self.write_mb),
                "TOTAL_IO_MB": float(self.read_mb + self.write_mb),
            },
            "bootstrapFilePath": self.bootstrap_path,
        }


@dataclass(frozen=True, slots=True)
@printable
class CompactionPlan:
    """What a compaction would rewrite. If there is nothing to rewrite, the plan is false and has the reason.

    Attributes:
        operations: the slices, in the order of the strategy.
        why_not: why there is nothing to rewrite, or which slices were omitted.
        trigger: the state of the options' trigger, such as ``3 of 5 delta commits``.
        due: whether that trigger is reached.
        log_only: whether the logs become one log instead of a base file (log compaction).
        refused: whether the plan is empty because the service would be refused.
    """

    operations: tuple[CompactionOperation, ...] = ()
    why_not: str = ""
    trigger: str = ""
    due: bool = False
    log_only: bool = False
    refused: Refused | None = field(default=None, compare=False)

    @property
    def groups(self) -> frozenset[tuple[str, str]]:
        """The (partition, file id) of each slice."""
        return frozenset(operation.group for operation in self.operations)

    @property
    def figures(self) -> Figures:
        """Numbers of file groups, log files and all files; bytes of logs, base files and both; seconds.

        Base files do not count for a log compaction.
        """
        logs, bases = (sum(getattr(o, name) for o in self.operations) for name in ("log_bytes", "base_bytes"))
        files = sum(len(operation.piece.files) for operation in self.operations)
        if self.log_only:
            bases, files = 0, sum(len(operation.piece.logs) for operation in self.operations)
        figures = {
            "file_groups": len(self.operations),
            "log_files": sum(len(operation.piece.logs) for operation in self.operations),
            "log_bytes": logs,
            "base_bytes": bases,
            "files": files,
            "bytes": logs + bases,
        }
        return with_seconds(figures, rewritten=logs + bases, files=files + len(self.operations))

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __str__(self) -> str:
        trigger = f" ({self.trigger})" if self.trigger else ""
        if self.refused is not None:
            return f"It would be refused: {self.why_not}{trigger}"
        if not self:
            return f"Nothing to compact: {self.why_not}{trigger}"
        figures = self.figures
        left = f"; {self.why_not}" if self.why_not else ""
        logs, size = figures["log_files"], figures["log_bytes"] + figures["base_bytes"]
        if self.log_only:
            return f"Merge {logs:,} log files of {figures['file_groups']:,} file groups with each other, {size:,} bytes{left}{trigger}"
        return f"Compact {figures['file_groups']:,} file groups with {logs:,} log files, {size:,} bytes{left}{trigger}"

    def encode(self, sync_marker: bytes) -> bytes:
        """Return the bytes of the requested file."""
        record = {
            "operations": [operation.to_avro() for operation in self.operations],
            "extraMetadata": {},
            "version": VERSION,
            "strategy": _LOG_STRATEGY if self.log_only else None,
            "preserveHoodieMetadata": self.log_only,
            "missingSchedulePartitions": [],
        }
        return encode_record(RECORD, record, sync_marker=sync_marker)


def decode(data: bytes, path: str) -> tuple[FileSlice, ...]:
    """Return the slices of a plan of this package or of Hudi. A plan has only the total size of all logs. Raises `CorruptTimelineError`."""
    record = decode_record(data, RECORD, path=path) if data else {}
    try:
        return tuple(_slice(operation) for operation in record.get("operations") or ())
    except (ValueError, TypeError, UnsafePathError) as error:
        raise CorruptTimelineError(
            f"A compaction plan cannot be executed: {error}",
            path=path,
            hint="Look at what wrote it; nothing was changed. Hudi's unschedule of the compaction removes the plan.",
        ) from error


def _slice(operation: Mapping[str, Any]) -> FileSlice:
    partition = safe_relative_path(operation["partitionPath"]) if operation.get("partitionPath") else ""
    metrics = operation.get("metrics") or {}
    names = [_name(path, operation) for path in operation.get("deltaFilePaths") or ()]
    logs = [name for name in names if isinstance(name, LogFileName)]
    whole = int(metrics.get("TOTAL_LOG_FILES_SIZE") or 0)
    sizes = _shares(whole, len(logs))
    base = operation.get("dataFilePath")
    name = _name(base, operation) if base else None
    if len(logs) != len(names) or not (name is None or isinstance(name, BaseFileName)) or not (logs or name):
        raise ValueError(f"it names other files of {operation.get('fileId')!r} than a base file and logs")
    read = int(metrics.get("TOTAL_IO_READ_MB") or 0) * MEBIBYTE
    found = None if name is None else BaseFile(partition, name, max(0, read - whole))
    return FileSlice(found, None, tuple(LogFile(partition, log, size) for log, size in zip(logs, sizes, strict=True)))


def _name(path: str, operation: Mapping[str, Any]) -> BaseFileName | LogFileName:
    """Return a file of the operation's file group. Some releases write paths instead of names."""
    name = parse_data_file(path.rpartition("/")[2])
    if name is None or name.file_id != operation.get("fileId"):
        raise ValueError(f"{path!r} is no file of the file group {operation.get('fileId')!r}")
    return name


def _shares(whole: int, count: int) -> Sequence[int]:
    """Divide a whole number into this many whole numbers."""
    return [whole // count + (number < whole % count) for number in range(count)] if count else []
