"""The properties and the first files of a metadata table (specification, "Metadata Table").

A metadata table is a merge-on-read table of HFiles below ``.hoodie/metadata``. Each of its partitions is built by a deltacommit of its own, whose
requested time says that it is the first one; ``files`` is always built first. Nothing here decides when: the data table's properties list a partition
when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyhudi_core.metadata_table import file_groups, names
from pyhudi_core.metadata_table.commits import commit_body, file_stat
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model.file_names import PARTITION_METAFILE, BaseFileName, LogFileName
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.properties import CHECKSUM, NAME, checksum
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import TimelineFolder

_PROPERTIES = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "8",
    "hoodie.table.initial.version": "8",
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


def properties(table_name: str) -> dict[str, str]:
    """The properties of the metadata table of a table."""
    found = {NAME: f"{table_name}_metadata", **_PROPERTIES}
    found[CHECKSUM] = checksum(found)
    return found


@dataclass(frozen=True, slots=True)
class FirstBuild:
    """The first files of one partition.

    Attributes:
        partition: of the metadata table.
        number: which build of this metadata table it is, from 0.
        records: what is known; there need not be any.
        groups: how many file groups the partition has, for ever.
    """

    partition: str
    number: int
    records: Records
    groups: int

    @property
    def requested_time(self) -> str:
        """The requested time of its deltacommit."""
        return f"{names.INITIAL_INSTANTS}{self.number:03d}"

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files of the partition: paths relative to the metadata table, and their bytes."""
        folder = self.partition
        metafile = f"#partition metadata\ncommitTime={self.requested_time}\npartitionDepth=1\n"
        yield f"{folder}/{PARTITION_METAFILE}", metafile.encode()
        for number in range(self.groups):
            log = LogFileName(file_groups.file_id(self.partition, number), self.requested_time, 1, _FIRST_TOKEN)
            yield f"{folder}/{log}", file_groups.first_log_file(self.requested_time)
        for number, inside in file_groups.split(self.records, self.groups):
            base = BaseFileName(file_groups.file_id(self.partition, number), _FIRST_TOKEN, self.requested_time, "hfile")
            yield f"{folder}/{base}", file_groups.base_file(str(base), inside)

    def write(self, storage: Storage, folder: TimelineFolder, completion_time: str) -> None:
        """Write the files, and complete the deltacommit; ``storage`` and ``folder`` are the metadata table's. The caller sees to it that nobody else
        does.
        """
        pending = Instant(self.requested_time, Action.DELTACOMMIT, State.REQUESTED)
        storage.put(folder.file(pending), b"")
        storage.put(folder.file(replace(pending, state=State.INFLIGHT)), b"")
        written = [storage.put(path, data) for path, data in self.files()]
        stats = [file_stat(i.path, i.size, 0, 0) for i in written if not i.path.endswith(PARTITION_METAFILE)]
        done = replace(pending, state=State.COMPLETED, completion_time=completion_time)
        storage.put(folder.file(done), commit_body(stats))
