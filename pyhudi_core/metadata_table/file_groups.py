"""The file groups of the metadata table's partitions: the assignment of records to them, the bytes of their files, and the commits with these files.

Specification, "Metadata Table"; tried against releases 1.0 to 1.2. A key's text determines its file group, so the number of file groups of a
partition never changes. Each file group has a file from the beginning: without records, it is a log with an empty list of deletes.

A base file has no bloom filter: a look-up in one block of the file is as fast, and all releases read it.

Each commit of the data table has a commit of the metadata table: a deltacommit with the same requested time. Its log files are written before the
commit is decided. Readers do not read them before the data table's commit has completed (`slices`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import TaskInfo, with_slots
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.byte_columns import order_of_texts
from pyhudi_core.formats.hfile import HFileWriter
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.record_schema import OF_COMMITS
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.model import file_names
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import LogFileName, parse_data_file
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction import markers

_STATISTICS = "col-stats"


def family(partition: str) -> str:
    """Return the prefix of the file ids of a partition."""
    if partition == names.COLUMN_STATS:
        return _STATISTICS
    return partition.replace("_", "-")


def file_id(partition: str, number: int) -> str:
    """Return the file id of a file group: ``col-stats-0001-0``."""
    return f"{family(partition)}-{number:04d}-0"


@dataclass(frozen=True, slots=True)
class ByFileGroup:
    """Task function: adds the file group of a partition that each row's key belongs to (`SORT`), and the task of the file group (`TASK`).

    `dealt` assigns file groups to tasks.

    Attributes:
        key: the column of the key.
        groups: the number of file groups of the partition.
        tasks: the number of tasks.
        hashed: the part of a key that chooses its file group; None: the complete key.
    """

    key: str
    groups: int
    tasks: int
    hashed: Callable[[pa.Array], pa.Array] | None = None

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self.of(batch)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the two columns."""
        keys = batch.column(self.key)
        groups = names.file_groups_of_texts(keys if self.hashed is None else self.hashed(keys), self.groups)
        return with_slots(batch, groups % self.tasks, groups)


def split(records: Records, groups: int) -> Iterator[tuple[int, Records]]:
    """Assign records to this number of file groups. Yield each non-empty file group: its number, and its records sorted by key."""
    if groups == 1:
        if len(records) or len(records.gone):
            yield 0, replace(records.take(order_of_texts(records.keys)), gone=records.gone)
        return
    at = _numbers(records.keys, groups)
    gone_at = _numbers(records.gone, groups)
    # Sorted by file group and then by the bytes of the key, as an HFile needs it.
    order = pc.sort_indices(
        pa.table({"group": at, "key": records.keys}), [("group", "ascending"), ("key", "ascending")]
    )
    ordered = records.take(order)
    counts = {item["values"]: item["counts"] for item in pc.value_counts(at).to_pylist()}
    begin = 0
    for number in sorted({*counts, *gone_at.unique().to_pylist()}):
        size = counts.get(number, 0)
        inside = ordered.slice(begin, size)
        gone = records.gone.filter(pc.equal(gone_at, number))
        yield number, replace(inside, gone=gone)
        begin += size


def log_file(partition: str, requested_time: str, records: Records) -> bytes:
    """Return the bytes of a log file: a block of records, and a block of removals. The records are sorted by key."""
    parts: list[bytes] = []
    if len(records):
        headers = {Header.INSTANT_TIME: requested_time, Header.SCHEMA: records.schema}
        parts.append(encode_block(BlockType.HFILE_DATA, headers, _hfile(records, None)))
    if len(records.gone):
        parts.append(_delete_block(partition, requested_time, records.gone))
    return b"".join(parts)


def first_log_file(requested_time: str) -> bytes:
    """Return the bytes of the first log file of a file group."""
    return _delete_block("", requested_time, pa.array([], pa.string()))


def base_file(file_name: str, records: Records) -> bytes:
    """Return the bytes of a base file. The records are sorted by key."""
    return _hfile(records, file_name)


def _hfile(records: Records, file_name: str | None) -> bytes:
    writer = HFileWriter(records.schema)
    writer.add_batch(records.keys, records.encoded(file_name))
    return writer.finish()


def _delete_block(partition: str, requested_time: str, keys: pa.Array) -> bytes:
    content = Deletes(keys, partition, pa.table({})).encode()
    return encode_block(BlockType.DELETE, {Header.INSTANT_TIME: requested_time}, content)


def _numbers(keys: pa.StringArray, groups: int) -> pa.Array:
    return pa.array(names.file_groups_of_texts(keys, groups), pa.int64())


OPERATION = "UPSERT_PREPPED"
"""Hudi's operation of every commit of the metadata table."""


def file_stat(path: str, size: int, writes: int, deletes: int) -> WriteStat:
    """Return the entry of a commit for a file of the metadata table; ``path`` is relative to the metadata table."""
    partition, name = file_names.split(path)
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
        name = LogFileName(file_id(partition, number), self.requested_time, version, self.token)
        path = f"{partition}/{name}"
        data = log_file(partition, self.requested_time, records)
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
