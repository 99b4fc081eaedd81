"""Commits of the metadata table: the names of its log files, and the bytes of a completed file (specification, "Metadata Table").

A commit of the data table has one of the metadata table beside it, a deltacommit with the same requested time. Its log files are written before
the commit is decided; readers do not read them before the data table's commit has completed (`slices`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table import file_groups
from pyhudi_core.metadata_table.record_schema import PLAIN_SCHEMA
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import TOKEN_BOUND, LogFileName, parse_data_file, split, write_token
from pyhudi_core.model.instant import Action
from pyhudi_core.runtime.base import Ids
from pyhudi_core.storage.base import Storage

OPERATION = "UPSERT_PREPPED"
"""What Hudi calls the operation of every commit of the metadata table."""


def log_name(partition: str, number: int, requested_time: str, version: int, token: str) -> str:
    """The name of a log file of a file group."""
    return str(LogFileName(file_groups.file_id(partition, number), requested_time, version, token))


def file_stat(path: str, size: int, writes: int, deletes: int) -> WriteStat:
    """What a commit says of a file of the metadata table; ``path`` is relative to the metadata table."""
    partition, name = split(path)
    parsed = parse_data_file(name)
    assert parsed is not None, path
    is_log = isinstance(parsed, LogFileName)
    updates, inserts = (writes, 0) if is_log else (0, writes)
    return WriteStat(
        parsed.file_id, path, partition, rows=writes, inserts=inserts, updates=updates, deletes=deletes, size=size
    )


def commit_of(stats: Sequence[WriteStat]) -> CommitMetadata:
    """The commit that wrote these files."""
    return CommitMetadata(OPERATION, tuple(stats), {SCHEMA_KEY: PLAIN_SCHEMA})


def write_logs(
    storage: Storage, ids: Ids, requested_time: str, records: Mapping[str, Records], groups: Mapping[str, int]
) -> list[WriteStat]:
    """Write the log files of one deltacommit.

    Args:
        storage: of the metadata table.
        records: what changes, by partition of the metadata table.
        groups: how many file groups each of these partitions has.
    """
    stats: list[WriteStat] = []
    token = write_token(0, ids.below(TOKEN_BOUND), ids.below(TOKEN_BOUND))
    for partition, changes in records.items():
        for number, inside in file_groups.split(changes, groups[partition]):
            path = f"{partition}/{log_name(partition, number, requested_time, 1, token)}"
            info = storage.put(path, file_groups.log_file(partition, requested_time, inside))
            stats.append(file_stat(path, info.size, len(inside), len(inside.gone)))
    return stats


def commit_body(stats: Sequence[WriteStat]) -> bytes:
    """The bytes of a completed deltacommit of a first build; the same for the same files."""
    body = commit_of(stats).to_avro(Action.DELTACOMMIT)
    marker = zlib.crc32(repr(sorted(stat.path for stat in stats)).encode()).to_bytes(4, "big") * 4
    return encode_record("HoodieCommitMetadata", body, sync_marker=marker)
