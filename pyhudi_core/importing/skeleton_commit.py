"""Make the skeletons of a metadata-only bootstrap: one base file with the meta columns for each file of another folder, in one commit.

The commit is the first of its table, at the requested time that Hudi gives to such commits; the bootstrap index is published with it, as an
attachment. Names, keys and records are those of Hudi 1.0.2 (``file_groups/skeletons.py``).

Keys are read file by file, and written at once. So memory holds only a batch of keys and the entries of the index. If the process dies, it leaves a
table without rows. Such a table cannot be continued: delete it and repeat the bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.file_groups.skeletons import (
    BY_FILE,
    BY_PARTITION,
    INDEX_BY_FILE,
    INDEX_BY_PARTITION,
    INDEX_INFO,
    INFO,
    SKELETON_TIME,
    skeleton_key,
)
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.hfile import HFileWriter
from pyhudi_core.formats.hfile.data_block import Codec
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.operation import BOOTSTRAP
from pyhudi_core.model.properties import TableType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import markers
from pyhudi_core.transaction.begin import Transaction, begin_write
from pyhudi_core.transaction.commit import Attachment
from pyhudi_core.write.attempt import Attempt, CommitCheck, extra_of, publish
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, TaskRuntime
from pyhudi_core.write.handles.new_file import NewFile, announce_partition
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import load

_Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RowsToKeep:
    """A file whose rows stay in their folder.

    Attributes:
        partition: its folder below the source, which is the partition of its rows.
        name: the name of the file in the folder.
        uri: its full path.
        size: its size in bytes.
        modified_ms: when it was written, in epoch milliseconds.
        rows: the number of its rows.
        keys: gives the record keys of its rows, in their order, batch by batch; it is called once.
    """

    partition: str
    name: str
    uri: str
    size: int
    modified_ms: int
    rows: int
    keys: Iterable[pa.Array]


def bootstrap_skeletons(
    context: TableContext, source: str, files: Iterable[RowsToKeep], extra: Mapping[str, str]
) -> CommitMetadata:
    """Make the skeletons of the files, and commit them. ``source``: the folder of the files; ``extra``: goes into the commit.

    Raises `CommitConflictError` and `CommitAbortedError` if another process has written to the table; then nothing is published.
    """
    action = Action.DELTACOMMIT if context.config.table_type is TableType.MERGE_ON_READ else Action.COMMIT
    transaction = begin_write(context, action, BOOTSTRAP, at=SKELETON_TIME)
    try:
        made = list(_written(transaction, files))
        snapshot = load(context)
        found = extra_of(transaction, extra, snapshot, {}, snapshot.schema)
        metadata = CommitMetadata(BOOTSTRAP, tuple(stat for stat, _ in made), found)
        attempt = Attempt(
            transaction,
            snapshot,
            metadata,
            Touched.by(metadata),
            snapshot.schema,
            attachments=_index(transaction, source, made, context.runtime.clock.now_ms()),
        )
        with Retries(context) as retries:
            publish(CommitCheck.of(attempt), retries)
    except BaseException:
        # Nothing is removed here: the commit may be decided. If it is not, it is rolled back as the write of a dead process.
        transaction.heartbeat.handle.cancel()
        raise
    markers.remove(context.storage, SKELETON_TIME)
    return metadata


def _written(transaction: Transaction, files: Iterable[RowsToKeep]) -> Iterator[tuple[WriteStat, RowsToKeep]]:
    context = transaction.context
    settings = HandleSettings.of(SKELETON_TIME, pa.schema([]), context.config, context.options.files)
    runtime = TaskRuntime(context.storage, context.runtime.ids, context.runtime.clock)
    for number, file in enumerate(files):
        handles = HandleContext(settings, runtime, number)
        announce_partition(runtime, SKELETON_TIME, file.partition)
        skeleton = NewFile.open(handles, file.partition, handles.new_file_id(), None)
        try:
            for keys in file.keys:
                skeleton.insert(pa.table({RECORD_KEY: keys}))
            stat = skeleton.close().stat
        except BaseException:
            skeleton.abandon()
            raise
        if stat.rows != file.rows:
            raise CorruptBaseFileError(
                f"The file has {stat.rows:,} rows, and its footer says {file.rows:,}",
                path=file.uri,
                detail=str(stat.rows),
                hint="Nothing writes to the source while it is bootstrapped; check it, delete the table and start again.",
            )
        yield stat, file


def _index(
    transaction: Transaction, source: str, made: list[tuple[WriteStat, RowsToKeep]], now_ms: int
) -> tuple[Attachment, ...]:
    """Return the two files of the bootstrap index."""
    by_partition: dict[str, dict[str, _Record]] = {}
    by_file: dict[bytes, _Record] = {}
    for stat, file in made:
        status = _status(file)
        by_partition.setdefault(file.partition, {})[stat.file_id] = status
        by_file[skeleton_key(file.partition, stat.file_id)] = {
            "bootstrapPartitionPath": file.partition,
            "bootstrapFileStatus": status,
            "partitionPath": file.partition,
        }
    partitions: dict[bytes, _Record] = {
        f"part={partition}".encode(): {
            "bootstrapPartitionPath": partition,
            "partitionPath": partition,
            "fileIdToBootstrapFile": found,
        }
        for partition, found in by_partition.items()
    }
    return tuple(
        Attachment(path, _hfile(transaction, source, record, entries, now_ms))
        for path, record, entries in ((INDEX_BY_PARTITION, BY_PARTITION, partitions), (INDEX_BY_FILE, BY_FILE, by_file))
    )


def _hfile(transaction: Transaction, source: str, record: str, entries: Mapping[bytes, _Record], now_ms: int) -> bytes:
    sync = transaction.sync_marker
    writer = HFileWriter("", Codec.NONE)
    for key in sorted(entries):
        writer.add(key, encode_record(record, entries[key], sync_marker=sync))
    info = {"bootstrapBasePath": source, "createdTimestamp": now_ms, "numKeys": len(entries)}
    return writer.finish(info={INDEX_INFO: encode_record(INFO, info, sync_marker=sync)})


def _status(file: RowsToKeep) -> _Record:
    return {
        "path": {"uri": file.uri},
        "length": file.size,
        "isDir": False,
        "blockReplication": 1,
        "blockSize": 32 << 20,
        "modificationTime": file.modified_ms,
        "accessTime": file.modified_ms,
    }
