"""Commits of the metadata table: their log files, and the bytes of a completed file (specification, "Metadata Table").

Each commit of the data table has a commit of the metadata table: a deltacommit with the same requested time. Its log files are written before the
commit is decided; readers do not read them before the data table's commit has completed (`slices`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table import file_groups
from pyhudi_core.metadata_table.record_schema import OF_COMMITS
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction import markers

OPERATION = "UPSERT_PREPPED"
"""Hudi's operation of every commit of the metadata table."""


def file_stat(path: str, size: int, writes: int, deletes: int) -> WriteStat:
    """Return the entry of a commit for a file of the metadata table; ``path`` is relative to the metadata table."""
    partition, name = split(path)
    parsed = parse_data_file(name)
    assert parsed is not None, path
    is_log = isinstance(parsed, LogFileName)
    updates, inserts = (writes, 0) if is_log else (0, writes)
    return WriteStat(
        parsed.file_id, path, partition, rows=writes, inserts=inserts, updates=updates, deletes=deletes, size=size
    )


def commit_of(stats: Sequence[WriteStat], index_version: str) -> CommitMetadata:
    """Return the commit that wrote these files. ``index_version``: `TableConfig.index_version` of the metadata table."""
    return CommitMetadata(OPERATION, tuple(stats), {SCHEMA_KEY: OF_COMMITS[index_version]})


@dataclass(frozen=True, slots=True)
class LogWriting:
    """Writes the log files of one deltacommit.

    Attributes:
        storage: the metadata table's storage.
        requested_time: the deltacommit's requested time.
        token: the write token of this task.
        announces: whether each file gets a marker. Markers lead to the files of an abandoned attempt. A process that writes a commit alone abandons
            no attempt: if it dies, its files are found by the requested time in their names.
    """

    storage: Storage
    requested_time: str
    token: str
    announces: bool = True

    def write(self, partition: str, number: int, version: int, records: Records) -> WriteStat:
        """Write one log file of a file group. The records of this file group, sorted by key."""
        log = self.made(partition, number, version, records)
        log.write()
        return log.stat

    def made(self, partition: str, number: int, version: int, records: Records) -> NewLog:
        """Return a log file that is not written yet."""
        name = LogFileName(file_groups.file_id(partition, number), self.requested_time, version, self.token)
        path = f"{partition}/{name}"
        data = file_groups.log_file(partition, self.requested_time, records)
        return NewLog(self, path, data, file_stat(path, len(data), len(records), len(records.gone)))


@dataclass(frozen=True, slots=True)
class NewLog:
    """A log file that is not written yet, and its entry for the commit."""

    writing: LogWriting
    path: str
    data: bytes
    stat: WriteStat

    def write(self) -> None:
        """Write the file, after its marker if it has one."""
        writing = self.writing
        if writing.announces:
            markers.create(writing.storage, writing.requested_time, self.path, "APPEND")
        writing.storage.put(self.path, self.data)


def commit_body(stats: Sequence[WriteStat], index_version: str) -> bytes:
    """Return the bytes of a completed deltacommit of a first build; the same for the same files."""
    body = commit_of(stats, index_version).to_avro(Action.DELTACOMMIT)
    marker = zlib.crc32(repr(sorted(stat.path for stat in stats)).encode()).to_bytes(4, "big") * 4
    return encode_record("HoodieCommitMetadata", body, sync_marker=marker)
