"""The properties and the first files of a metadata table (specification, "Metadata Table").

A metadata table is a merge-on-read table of HFiles below ``.hoodie/metadata``. Each partition is built by its own deltacommit, whose requested time
marks a first build; ``files`` is always built first. The data table's properties list a partition when it is complete; this module does not decide
when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyhudi_core.metadata_table import file_groups, names
from pyhudi_core.metadata_table.file_groups import commit_body, file_stat
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import PARTITION_METAFILE, BaseFileName, LogFileName
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.properties import CHECKSUM, NAME, TableConfig, checksum, render

_PROPERTIES = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.populate.meta.fields": "false",
    "hoodie.table.recordkey.fields": "key",
    "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.datasource.write.drop.partition.columns": "false",
}
_FIRST_TOKEN = "0-0-0"  # noqa: S105  (of a file's name)


def properties(table: TableConfig) -> dict[str, str]:
    """Return the properties of the metadata table of a table. Both have the same version."""
    versions = dict.fromkeys(("hoodie.table.version", "hoodie.table.initial.version"), str(table.version))
    found = {NAME: f"{table.name}_metadata", **versions, **_PROPERTIES}
    found[CHECKSUM] = checksum(found)
    return found


def properties_file(table: TableConfig) -> tuple[str, bytes]:
    """Return the path below the metadata table and the bytes of its ``hoodie.properties``; the same for the same table."""
    return ".hoodie/hoodie.properties", render(properties(table), f"created by pyhudi for {table.name}")


@dataclass(frozen=True, slots=True)
class FirstFile:
    """A base file of a first build: path below the metadata table, number of records and bytes; or the staging path and size of its bytes."""

    path: str
    records: int
    data: bytes = b""
    staged: str = ""
    size: int = 0

    def at(self, staged: str) -> FirstFile:
        """Return the same file without its bytes, which are staged at this path."""
        return FirstFile(self.path, self.records, b"", staged, len(self.data))

    @property
    def stat(self) -> WriteStat:
        """The entry of the file in the commit."""
        return file_stat(self.path, self.size, self.records, 0)


@dataclass(frozen=True, slots=True)
class FirstBuild:
    """The first files of one partition.

    Attributes:
        partition: the partition of the metadata table.
        number: the number of this build of the metadata table, from 0.
        groups: the fixed number of file groups of the partition.
        index_version: `TableConfig.index_version` of the table.
    """

    partition: str
    number: int
    groups: int
    index_version: str

    @property
    def requested_time(self) -> str:
        """The requested time of the build's deltacommit."""
        return f"{names.INITIAL_INSTANTS}{self.number:03d}"

    def metafile(self) -> tuple[str, bytes]:
        """Return the path and the bytes of the partition's metafile."""
        text = f"#partition metadata\ncommitTime={self.requested_time}\npartitionDepth=1\n"
        return f"{self.partition}/{PARTITION_METAFILE}", text.encode()

    def first_log(self) -> bytes:
        """Return the bytes of the first log of each file group, which has no records."""
        return file_groups.first_log_file(self.requested_time)

    def log_paths(self) -> list[str]:
        """Return the paths of the first logs."""
        names = [LogFileName(file_id, self.requested_time, 1, _FIRST_TOKEN) for file_id in self._file_ids]
        return [f"{self.partition}/{name}" for name in names]

    def base_files(self, records: Records) -> Iterator[FirstFile]:
        """Yield the base files of the file groups that get records."""
        for number, inside in file_groups.split(records, self.groups):
            yield self.base_file(number, inside)

    def base_file(self, number: int, records: Records) -> FirstFile:
        """Return the base file of one file group; the records are all of this group, sorted by key."""
        name = BaseFileName(file_groups.file_id(self.partition, number), _FIRST_TOKEN, self.requested_time, "hfile")
        return FirstFile(f"{self.partition}/{name}", len(records), file_groups.base_file(str(name), records))

    def pending_paths(self) -> tuple[str, str]:
        """Return the paths of the requested and the inflight file of the deltacommit, which are empty."""
        requested = Instant(self.requested_time, Action.DELTACOMMIT, State.REQUESTED)
        return _timeline_path(requested), _timeline_path(replace(requested, state=State.INFLIGHT))

    def completed_instant(self, completion_time: str) -> Instant:
        """Return the completed deltacommit."""
        return Instant(self.requested_time, Action.DELTACOMMIT, State.COMPLETED, completion_time)

    def completed_path(self, completion_time: str) -> str:
        """Return the path of the completed file of the deltacommit."""
        return _timeline_path(self.completed_instant(completion_time))

    def completed_body(self, files: Sequence[FirstFile], *, logs: bool = True) -> bytes:
        """Return the bytes of the completed file, for these base files and, with ``logs``, the first logs."""
        size = len(self.first_log())
        first = self.log_paths() if logs else []
        stats = [*(file.stat for file in files), *(file_stat(path, size, 0, 0) for path in first)]
        return commit_body(stats, self.index_version)

    @property
    def _file_ids(self) -> list[str]:
        return [file_groups.file_id(self.partition, number) for number in range(self.groups)]


def _timeline_path(instant: Instant) -> str:
    return f".hoodie/{_PROPERTIES['hoodie.timeline.path']}/{instant.file_name()}"
