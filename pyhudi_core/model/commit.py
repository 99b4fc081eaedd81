"""The content of a completed commit: ``HoodieCommitMetadata`` and ``HoodieReplaceCommitMetadata`` as values.

Specification, section "Commits"; checked against files of Hudi 1.0.2. ``raw`` keeps unknown fields, so that nothing of a newer
release's commit is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import COMPACTING, SERVICE_OPERATIONS
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module

READ_AS = "HoodieReplaceCommitMetadata"
"""The Avro record for reading any commit. It has all fields of a ``HoodieCommitMetadata``, and the replaced file groups.

A damaged commit of any action may have some of these fields, of any type.
"""
SCHEMA_KEY = "schema"
ROWS_REPLACED_KEY = "pyhudi.rows_replaced"
"""The extra metadata key for the number of rows in the file groups that the commit replaced."""
BUCKETS_KEY = "pyhudi.buckets"
"""The extra metadata key for the buckets of the bucket index: the number of buckets and the hashed columns, as in ``4:id``."""
CONSISTENT = "consistent"
"""The text in place of the number, if buckets are ranges of hashes."""
MERGES_KEY = "pyhudi.non_blocking"
"""The extra metadata key that marks a commit with file groups to which a concurrent write also appended logs. Readers merge the rows."""
WRITER_KEY = "pyhudi.writer."
"""The beginning of extra metadata keys with facts about the writer: user, host, program, run."""
METADATA_FILES_KEY = "pyhudi.metadata_files"
"""The extra metadata key for the files that the commit added to the metadata table, with their sizes, and the number of file groups of each partition
there.

Readers, who read the commit anyway, notice a lost file.
"""
UNSHOWN_KEYS = frozenset({SCHEMA_KEY, METADATA_FILES_KEY})
"""Extra metadata keys that are not shown: their values are long, and for programs."""
REPAIR_KEY = "pyhudi.repair"
DUPLICATES_REPAIR = "duplicates"
"""The value of `REPAIR_KEY` for a repair of duplicates: of rows with the same key, the commit removed all but one."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class WriteStat:
    """One file that a commit wrote. ``path`` and ``change_logs`` are relative to the table; sizes are in bytes, counts in rows.

    Attributes:
        change_logs: the change logs of a base file, and ``change_log_sizes`` the size of each.
        base_file: for a log in a table with change data capture, the name of its base file; not read from commits.
        log_files: for such a log, the names of all logs of its slice, itself included; not read from commits.
        combined: rows of the batch that were combined with another row of their key before the write; not read from commits.
        slice_logs: for a log, the number of logs in its slice, itself included; not read from commits.
        merged_logs, merged_bytes, merged_entries: the input of a compaction: log files, their bytes, and their entries.
    """

    file_id: str
    path: str
    partition: str
    prev_commit: str = "null"
    prev_base_file: str | None = None
    rows: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    size: int = 0
    change_logs: tuple[str, ...] = ()
    change_log_sizes: tuple[int, ...] = ()
    base_file: str = ""
    log_files: tuple[str, ...] = ()
    slice_logs: int = 0
    merged_logs: int = 0
    merged_bytes: int = 0
    merged_entries: int = 0
    combined: int = 0

    def to_avro(self) -> dict[str, Any]:
        """Return the fields of ``HoodieWriteStat``, filled as Hudi's handles fill them."""
        name = split(self.path)[1]
        log = isinstance(parse_data_file(name), LogFileName)
        logs = list(self.log_files) or [name]
        changes = dict(zip(self.change_logs, self.change_log_sizes, strict=True))
        return {
            **({"logVersion": 1, "logOffset": 0, "baseFile": self.base_file, "logFiles": logs} if log else {}),
            **({"cdcStats": changes} if changes else {}),
            "fileId": self.file_id,
            "path": self.path,
            "prevCommit": self.prev_commit,
            "prevBaseFile": self.prev_base_file,
            "partitionPath": self.partition,
            "numWrites": self.rows,
            "numInserts": self.inserts,
            "numUpdateWrites": self.updates,
            "numDeletes": self.deletes,
            "totalWriteBytes": self.size,
            "fileSizeInBytes": self.size,
            "totalWriteErrors": 0,
            "totalLogRecords": self.merged_entries,
            "totalUpdatedRecordsCompacted": self.updates if self.merged_logs else 0,
            **({"totalLogFilesCompacted": self.merged_logs} if self.merged_logs else {}),
            **({"totalLogSizeCompacted": self.merged_bytes} if self.merged_logs else {}),
            "totalLogBlocks": 0,
            "totalCorruptLogBlock": 0,
            "totalRollbackBlocks": 0,
            "numUpdates": 0,
        }

    @classmethod
    def from_avro(cls, record: Mapping[str, Any], partition: str) -> WriteStat:
        """Read the fields of ``HoodieWriteStat``; every field may be missing."""
        changes = sorted((record.get("cdcStats") or {}).items())
        return cls(
            file_id=record.get("fileId") or "",
            path=record.get("path") or "",
            partition=partition,
            prev_commit=record.get("prevCommit") or "null",
            prev_base_file=record.get("prevBaseFile"),
            rows=record.get("numWrites") or 0,
            inserts=record.get("numInserts") or 0,
            updates=record.get("numUpdateWrites") or 0,
            deletes=record.get("numDeletes") or 0,
            size=record.get("fileSizeInBytes") or 0,
            change_logs=tuple(path for path, _ in changes),
            change_log_sizes=tuple(size for _, size in changes),
            merged_logs=record.get("totalLogFilesCompacted") or 0,
            merged_bytes=record.get("totalLogSizeCompacted") or 0,
            merged_entries=record.get("totalLogRecords") or 0,
        )


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class CommitMetadata:
    """The content of a completed commit, deltacommit or replacecommit."""

    operation: str | None
    stats: tuple[WriteStat, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _by_folder: dict[str, list[WriteStat]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        rows = sum(stat.rows for stat in self.stats)
        return f"CommitMetadata: {self.operation or 'no operation'}, {len(self.stats):,} files, {rows:,} rows"

    def _shown(self) -> dict[str, object]:
        files = [{"path": one.path, "rows": one.rows, "bytes": one.size} for one in self.stats]
        kept = {key: value for key, value in self.extra.items() if key not in UNSHOWN_KEYS}
        return {"operation": self.operation, **kept, "replaced": self.replaced, "files": files}

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata, under the name of the argument of every write. `extra` returns the same mapping."""
        return self.extra

    @property
    def schema(self) -> str | None:
        """Avro JSON of the table's schema without meta columns; None if the commit has none."""
        return self.extra.get(SCHEMA_KEY) or None

    @property
    def is_empty(self) -> bool:
        """Whether the commit wrote and replaced no file, and only stores extra metadata."""
        return not self.stats and not any(self.replaced.values())

    @property
    def changes_rows(self) -> bool:
        """Whether the commit can change the result of a query. False for table services, which keep the rows, and for empty commits."""
        return not self.is_empty and self.operation not in SERVICE_OPERATIONS

    @property
    def paths(self) -> frozenset[str]:
        """The files that the commit names: base files, logs and change logs."""
        return frozenset(path for stat in self.stats for path in (stat.path, *stat.change_logs))

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions in which the commit wrote files or replaced file groups."""
        return frozenset(stat.partition for stat in self.stats) | frozenset(self.replaced)

    @property
    def by_folder(self) -> Mapping[str, Sequence[WriteStat]]:
        """The files by the partition in their paths; cached, because commits may have very many files."""
        if not self._by_folder:
            for stat in self.stats:
                self._by_folder.setdefault(stat.path.rpartition("/")[0], []).append(stat)
        return self._by_folder

    @property
    def rows_replaced(self) -> int | None:
        """The number of rows in the file groups that the commit replaced; None if the commit does not record it (other writers)."""
        if not self.replaced:
            return 0
        text = self.extra.get(ROWS_REPLACED_KEY, "")
        return int(text) if text.isascii() and text.isdigit() else None

    def file_groups(self) -> Iterator[tuple[str, str]]:
        """Yield the (partition, file id) of every written or replaced group."""
        for stat in self.stats:
            yield (stat.partition, stat.file_id)
        for partition, file_ids in self.replaced.items():
            for file_id in file_ids:
                yield (partition, file_id)

    def record_name(self, action: Action) -> str:
        """Return the name of the Avro record that stores a commit of this action."""
        replaces = action.completes_as is Action.REPLACECOMMIT
        return READ_AS if replaces else "HoodieCommitMetadata"

    def to_avro(self, action: Action) -> dict[str, Any]:
        """Return the Avro record of this commit, for an instant of this action."""
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for stat in self.stats:
            by_partition.setdefault(stat.partition, []).append(stat.to_avro())
        record: dict[str, Any] = {
            "partitionToWriteStats": by_partition,
            "compacted": self.operation in COMPACTING,
            "extraMetadata": dict(self.extra),
            "version": None,
            "operationType": self.operation,
        }
        if action.completes_as is Action.REPLACECOMMIT:
            record["partitionToReplaceFileIds"] = {key: list(ids) for key, ids in self.replaced.items()}
        return record

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> CommitMetadata:
        """Read a decoded Avro record; fields may be missing."""
        stats = [
            WriteStat.from_avro(stat, partition)
            for partition, entries in (record.get("partitionToWriteStats") or {}).items()
            for stat in entries or ()
        ]
        replaced = {key: tuple(ids or ()) for key, ids in (record.get("partitionToReplaceFileIds") or {}).items()}
        extra = {key: value for key, value in (record.get("extraMetadata") or {}).items() if value is not None}
        return cls(record.get("operationType"), tuple(stats), extra, replaced, record)
