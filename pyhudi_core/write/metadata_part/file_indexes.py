"""Indexes of the metadata table that are made from written files (`metadata_table.file_entries`): their part of a commit, and their first files.

Tasks read the files, sort entries into the file groups of the index, and write its files. No entry comes to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK, Dataset, Engine, TaskInfo, runs, slotted, without_slots
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.index.base import Group
from pyhudi_core.metadata_table.file_entries import FileIndex, GroupEntries
from pyhudi_core.metadata_table.file_groups import ByFileGroup, LogWriting, file_stat
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild, FirstFile
from pyhudi_core.metadata_table.records import KEY
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.handles.base import OpenRuntime, runtime_opener
from pyhudi_core.write.handles.new_file import new_token

_STAT = pa.schema([("path", pa.string()), ("size", pa.int64()), ("writes", pa.int64()), ("deletes", pa.int64())])
_STAGED = pa.schema([("path", pa.string()), ("records", pa.int64()), ("staged", pa.string()), ("size", pa.int64())])
_VERSION = 2
"""The version in the names of the log files, as in all names of files that a commit writes once."""


@dataclass(frozen=True, slots=True)
class FileIndexUpdate:
    """The changes of one index by a commit.

    Attributes:
        transaction: the transaction of the write.
        prefix: the folder of the metadata table.
        index: the index.
        groups: the number of its file groups.
        salt: a number in the write tokens of its log files.
    """

    transaction: Transaction
    prefix: str
    index: FileIndex
    groups: int
    salt: int

    def write(self, engine: Engine, changes: Sequence[GroupEntries]) -> list[WriteStat]:
        """Write the log files in tasks."""
        context = self.transaction.context
        open_runtime = runtime_opener(engine, context.storage, context.runtime)
        task = _Logs(open_runtime, self.index, self.prefix, self.transaction.requested_time, self.salt)
        found = _routed(engine, open_runtime, self.index, changes, self.groups).map(task, _STAT).collect()
        return sorted((file_stat(**row) for row in found.to_pylist()), key=lambda stat: stat.path)


def built_files(
    transaction: Transaction,
    index: FileIndex,
    changes: Sequence[GroupEntries],
    build: FirstBuild,
    engine: Engine,
    prefix: str,
) -> list[FirstFile]:
    """Stage the base files of a new index, below paths that begin with ``prefix``. ``changes`` are all file groups of the table, as if new."""
    context = transaction.context
    open_runtime = runtime_opener(engine, context.storage, context.runtime)
    task = _BaseFiles(open_runtime, index, build, prefix)
    found = _routed(engine, open_runtime, index, changes, build.groups).map(task, _STAGED).collect()
    rows = sorted(found.to_pylist(), key=lambda row: str(row["path"]))
    return [FirstFile(row["path"], row["records"], b"", row["staged"], row["size"]) for row in rows]


def changes_of(
    snapshot: Snapshot,
    stats: Iterable[WriteStat],
    replaced: Mapping[str, Sequence[str]],
    holders: Collection[Group] = (),
) -> list[GroupEntries]:
    """Return the file groups that a commit changes, compared with the snapshot from which it started.

    Args:
        replaced: file ids by partition path.
        holders: file groups that keep a copy of rows that other groups lose (`Written.holders`). All their rows count as new, so that the index
            entries of the copy stay.
    """
    written: dict[tuple[str, str], list[WriteStat]] = {}
    for stat in stats:
        written.setdefault((stat.partition, stat.file_id), []).append(stat)
    gone = {(partition, file_id) for partition, ids in replaced.items() for file_id in ids}
    partitions = {partition for partition, _ in (*written, *gone, *holders)}
    snapshot.view.prepare(partitions)
    before = {piece.group: piece for partition in partitions for piece in snapshot.view.slices(partition)}
    changes = []
    for place in sorted({*written, *gone, *holders}):
        own, old = written.get(place, []), before.get(place)
        after = None if place in gone else _after(old, own)
        changes.append(GroupEntries(place[0], tuple(sorted(stat.path for stat in own)), old, after))
        if place in holders:
            changes.append(GroupEntries(place[0], (), None, after))
    return changes


def _after(before: FileSlice | None, stats: Sequence[WriteStat]) -> FileSlice | None:
    """Return the slice of a file group with the files of a commit."""
    base = None if before is None else before.base
    logs = () if before is None else before.logs
    for stat in stats:
        name = parse_data_file(split(stat.path)[1])
        if isinstance(name, BaseFileName):
            base, logs = BaseFile(stat.partition, name, stat.size), ()
    found = [
        LogFile(stat.partition, name, stat.size)
        for stat in stats
        if isinstance(name := parse_data_file(split(stat.path)[1]), LogFileName)
    ]
    together = (*logs, *sorted(found, key=lambda log: log.order))
    return None if base is None and not together else FileSlice(base, None, together)


def _routed(
    engine: Engine, open_runtime: OpenRuntime, index: FileIndex, changes: Sequence[GroupEntries], groups: int
) -> Dataset:
    """Return the entries of the changes, in the tasks that write the file groups of the index."""
    readers = max(1, min(len(changes), engine.cores))
    payloads = [tuple(changes[number::readers]) for number in range(readers)]
    writers = min(groups, engine.cores)
    reading = _Entries(open_runtime, index, ByFileGroup(KEY, groups, writers, index.hashed))
    return engine.run(reading, slotted(index.schema), payloads).shuffle(TASK, writers, SORT)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Task function: returns the entries of the changes of its payload, each with its file group of the index."""

    open_runtime: OpenRuntime
    index: FileIndex
    by_group: ByFileGroup

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_runtime().storage
        for change in task.payload:
            for batch in self.index.entries(storage, change):
                yield self.by_group.of(batch)


@dataclass(frozen=True, slots=True)
class _Logs:
    """Task function: writes the entries of some file groups of the index to their log files."""

    open_runtime: OpenRuntime
    index: FileIndex
    prefix: str
    requested_time: str
    salt: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runtime = self.open_runtime()
        storage = StorageBelow(runtime.storage, self.prefix)
        writing = LogWriting(storage, self.requested_time, new_token(task.number, runtime.ids, of=self.salt))
        for group, entries in runs(batches, SORT):
            records = self.index.records(without_slots(entries))
            stat = writing.write(self.index.partition, group, _VERSION, records)
            row = {"path": stat.path, "size": stat.size, "writes": stat.rows, "deletes": stat.deletes}
            yield pa.RecordBatch.from_pylist([row], _STAT)


@dataclass(frozen=True, slots=True)
class _BaseFiles:
    """Task function: writes the entries of some file groups of the index to their staged base files."""

    open_runtime: OpenRuntime
    index: FileIndex
    build: FirstBuild
    prefix: str

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runtime = self.open_runtime()
        for group, entries in runs(batches, SORT):
            file = self.build.base_file(group, self.index.records(without_slots(entries)))
            staged = f"{self.prefix}.{new_token(task.number, runtime.ids)}.{self.index.partition}.{group}"
            runtime.storage.put(staged, file.data)
            row = {"path": file.path, "records": file.records, "staged": staged, "size": len(file.data)}
            yield pa.RecordBatch.from_pylist([row], _STAGED)
