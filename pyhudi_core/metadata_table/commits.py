"""Commits of the metadata table: the log files of one, and the bytes of its completed file (specification, "Metadata Table").

A commit of the data table has one of the metadata table beside it, a deltacommit with the same requested time. Its log files are written before
the commit is decided; readers do not read them before the data table's commit has completed (`slices`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table import file_groups, names
from pyhudi_core.metadata_table.record_schema import PLAIN_SCHEMA
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model.file_names import TOKEN_BOUND, LogFileName, parse_data_file, split, write_token
from pyhudi_core.runtime.base import Ids
from pyhudi_core.storage.base import Storage

TIMELINE = f"{names.FOLDER}/.hoodie/timeline"


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file of the metadata table, as its commit names it: the path relative to the data table, bytes, records, and removals."""

    path: str
    size: int
    writes: int = 0
    deletes: int = 0

    @property
    def partition(self) -> str:
        """The partition of the metadata table."""
        return split(self.path)[0].rpartition("/")[2]

    def to_avro(self) -> dict[str, object]:
        """The fields of ``HoodieWriteStat``."""
        name = split(self.path)[1]
        parsed = parse_data_file(name)
        assert parsed is not None
        is_log = isinstance(parsed, LogFileName)
        return {
            "fileId": parsed.file_id,
            "path": f"{self.partition}/{name}",
            "prevCommit": "null",
            "partitionPath": self.partition,
            "numWrites": self.writes,
            "numUpdateWrites": self.writes if is_log else 0,
            "numInserts": 0 if is_log else self.writes,
            "numDeletes": self.deletes,
            "totalWriteBytes": self.size,
            "fileSizeInBytes": self.size,
            **({"logVersion": 1, "logOffset": 0, "baseFile": "", "logFiles": [name]} if is_log else {}),
        }


def write_logs(
    storage: Storage, ids: Ids, requested_time: str, records: Mapping[str, Records], groups: Mapping[str, int]
) -> list[FileStat]:
    """Write the log files of one deltacommit.

    Args:
        storage: of the data table.
        records: what changes, by partition of the metadata table.
        groups: how many file groups each of these partitions has.
    """
    stats: list[FileStat] = []
    token = write_token(0, ids.below(TOKEN_BOUND), ids.below(TOKEN_BOUND))
    for partition, changes in records.items():
        for number, inside in file_groups.split(changes, groups[partition]):
            name = LogFileName(file_groups.file_id(partition, number), requested_time, 1, token)
            data = file_groups.log_file(partition, requested_time, inside)
            info = storage.put(f"{names.FOLDER}/{partition}/{name}", data)
            stats.append(FileStat(info.path, info.size, len(inside), len(inside.gone)))
    return stats


def commit_body(stats: Iterable[FileStat], sync_marker: bytes = b"") -> bytes:
    """The bytes of a completed deltacommit; the same for the same files if no sync marker is given."""
    by_partition: dict[str, list[dict[str, object]]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition, []).append(stat.to_avro())
    body = {
        "partitionToWriteStats": by_partition,
        "extraMetadata": {"schema": PLAIN_SCHEMA},
        "operationType": "UPSERT_PREPPED",
        "compacted": False,
    }
    return encode_record("HoodieCommitMetadata", body, sync_marker=sync_marker or _marker_of(by_partition))


def _marker_of(content: object) -> bytes:
    return zlib.crc32(repr(content).encode()).to_bytes(4, "big") * 4
