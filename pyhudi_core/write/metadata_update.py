"""The metadata table's part of a write: its log files are written and its commit is staged, before the lock (specification, "Metadata Table").

Every partition that the table lists learns of the commit, or the metadata table is taken off the list (`transaction.metadata_removal`). One
decision publishes both commits (`transaction.companion`).

Keys that came into file groups or left them are never collected: the tasks of a dataset sort them into the file groups of the record index, and
write its log files. Only keys of file groups that the commit replaces are read here; log files that come before those remove them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, Engine, TaskInfo
from pyhudi_core.engine.grouping import runs
from pyhudi_core.errors import CommitAbortedError, DuplicateKeyError, at_table
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.metadata_table import column_statistics, file_groups, names
from pyhudi_core.metadata_table.changes import KEPT, CommitChanges, KeyPlaces, records_of
from pyhudi_core.metadata_table.commits import OPERATION, LogWriting, commit_of, file_stat
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.instant import epoch_ms
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.companion import CompanionCommit, begin_companion
from pyhudi_core.transaction.place import TablePlace
from pyhudi_core.write.handles.base import OpenRuntime, runtime_opener
from pyhudi_core.write.handles.new_file import new_token
from pyhudi_core.write.tasks import Written

_GROUP, _TASK = "_pyhudi_group", "_pyhudi_index_task"
_STAT = pa.schema([("path", pa.string()), ("size", pa.int64()), ("writes", pa.int64()), ("deletes", pa.int64())])
_SHOWN = 3
_OF_REPLACED, _OF_WRITTEN = 1, 2
"""Versions of log files, which are merged in this order."""


def keeps(config: TableConfig) -> bool:
    """Whether this release keeps every partition of the metadata table that the table lists.

    Not while one is being built, and no record index of a merge-on-read table: there the keys of a base file are not those of its file group.
    """
    listed = {*config.metadata_partitions}
    if config.table_type is TableType.MERGE_ON_READ and names.RECORD_INDEX in listed:
        return False
    return names.FILES in listed and listed <= KEPT and not config.metadata_partitions_inflight


def needs_keys(config: TableConfig) -> bool:
    """Whether a write has to say which keys came and went."""
    return keeps(config) and names.RECORD_INDEX in config.metadata_partitions


def stage(
    transaction: Transaction,
    snapshot: Snapshot,
    written: Written | None,
    replaced: Mapping[str, Sequence[str]],
    schema: pa.Schema,
    engine: Engine | None,
) -> tuple[CompanionCommit, ...]:
    """Write and stage the metadata table's part of a write, if the table has one. Arguments as in `_MetadataUpdate`; ``written`` is released."""
    written = written or Written.nothing(schema)
    try:
        with at_table(transaction.context.table):
            companion = _MetadataUpdate(transaction, snapshot, written, replaced, schema, engine).stage()
    finally:
        written.release()
    return () if companion is None else (companion,)


@dataclass(frozen=True, slots=True)
class _MetadataUpdate:
    """What a write changed, for the metadata table.

    Attributes:
        transaction: the write's own.
        snapshot: the state that it started from.
        written: its files, and the dataset of changed keys if `needs_keys`.
        replaced: file ids of replaced file groups by partition path.
        schema: of the table after the write, without meta columns.
        engine: the one that wrote; None if no file was written.
    """

    transaction: Transaction
    snapshot: Snapshot
    written: Written
    replaced: Mapping[str, Sequence[str]]
    schema: pa.Schema
    engine: Engine | None

    def stage(self) -> CompanionCommit | None:
        """Write and stage the metadata table's commit; None if the table has none that could be kept true."""
        context, start = self.transaction.context, self.transaction.start
        place = next((place for place in context.companions if place.prefix == names.FOLDER), None)
        if place is None or not keeps(context.config):
            return None
        # Its timeline is read after the data table's, so it has every commit that is known here, unless a writer ignored it.
        slices = MetadataSlices.load(context.root, start)
        partitions = context.config.metadata_partitions
        if not slices.knows(start.commits) or not all(_has_known_groups(slices, partition) for partition in partitions):
            return None
        if self._has_widened() and {names.COLUMN_STATS, names.PARTITION_STATS} & {*partitions}:
            return None
        companion = begin_companion(self.transaction, place, OPERATION)
        changes = self._changes()
        stats: list[WriteStat] = []
        for partition in partitions:
            groups = len(slices.pieces(partition))
            if partition == names.RECORD_INDEX:
                stats += self._index_keys(place, slices, groups)
            else:
                stats += self._log(place, partition, records_of(changes, partition), groups, _OF_WRITTEN)
        companion.stage(commit_of(stats), keeps=frozenset(partitions))
        return companion

    def _has_widened(self) -> bool:
        """Whether the write changes the type of a column. Hudi cannot compare bounds of two types, and fails on statistics that have both."""
        before = self.snapshot.schema
        return any(
            field.name in before.names and before.field(field.name).type != field.type
            for field in self.schema
            if column_statistics.kind_of(field.type) is not None
        )

    def _changes(self) -> CommitChanges:
        ranges = column_statistics.with_unknown(self.written.ranges, [stat.path for stat in self.written.stats])
        columns = column_statistics.indexed_columns(self.schema)
        return CommitChanges(self.written.stats, ranges, self._instant_ms, columns)

    @property
    def _instant_ms(self) -> int:
        context = self.transaction.context
        return epoch_ms(self.transaction.requested_time, utc=context.utc) or context.runtime.clock.now_ms()

    def _log(
        self, place: TablePlace, partition: str, records: Records, groups: int, version: int
    ) -> Iterator[WriteStat]:
        """Write the log files of one partition from here."""
        token = new_token(0, self.transaction.context.runtime.ids)
        writing = LogWriting(place.storage, self.transaction.requested_time, token)
        for number, inside in file_groups.split(records, groups):
            yield writing.write(partition, number, version, inside)

    def _index_keys(self, place: TablePlace, slices: MetadataSlices, groups: int) -> list[WriteStat]:
        """Write the log files of the record index: of keys in replaced file groups here, of all others in tasks."""
        stats: list[WriteStat] = []
        gone = self._replaced_keys()
        if len(gone):
            empty = pa.array([], pa.string())
            removed = Records(empty, {}, gone)
            stats += self._log(place, names.RECORD_INDEX, removed, groups, _OF_REPLACED)
        changed = self.written.key_changes
        if changed is None or self.engine is None:
            return stats
        context, tasks = self.transaction.context, min(groups, self.engine.cores)
        open_runtime = runtime_opener(self.engine, context.storage, context.runtime)
        time = self.transaction.requested_time
        routed = changed.map(_ToGroups(groups, tasks), _routed(changed))
        replaced = frozenset(file_id for file_ids in self.replaced.values() for file_id in file_ids)
        written = frozenset(stat.file_id for stat in self.written.stats)
        task = _IndexTask(
            open_runtime, place.prefix, time, self._instant_ms, slices.own, slices.data, replaced, written
        )
        found = routed.shuffle(_TASK, tasks, _GROUP).map(task, _STAT).collect()
        return stats + [file_stat(**row) for row in found.to_pylist()]

    def _replaced_keys(self) -> pa.Array:
        """The record keys in file groups that the write replaces."""
        context = self.transaction.context
        wanted = {(partition, file_id) for partition, ids in self.replaced.items() for file_id in ids}
        slices = [
            piece
            for partition in self.replaced
            for piece in self.snapshot.view.slices(partition)
            if (partition, piece.file_id) in wanted and piece.base is not None
        ]

        def keys(path: str) -> pa.Array:
            with context.storage.open_input(path) as source:
                batches = list(BaseFileReader(source, path, [RECORD_KEY]).iter_batches())
            return pa.concat_arrays([batch.column(RECORD_KEY) for batch in batches] or [pa.array([], pa.string())])

        found = context.runtime.executor.map(keys, [piece.base.path for piece in slices if piece.base is not None])
        return pa.concat_arrays(found) if found else pa.array([], pa.string())


def _routed(changes: Dataset) -> pa.Schema:
    return changes.schema.append(pa.field(_GROUP, pa.int64())).append(pa.field(_TASK, pa.int32()))


@dataclass(frozen=True, slots=True)
class _ToGroups:
    """Says to which file group of the record index a changed key goes, and to which task."""

    groups: int
    tasks: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            group = names.file_groups_of_texts(batch.column("key"), self.groups)
            columns = [*batch.columns, pa.array(group), pa.array((group % self.tasks).astype(np.int32))]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, _GROUP, _TASK])


@dataclass(frozen=True, slots=True)
class _IndexTask:
    """Writes the log files of some file groups of the record index.

    A record index has one place for each key of the whole table. So a key that comes into a partition while it is in another one is refused:
    readers would find one of its rows only.

    Attributes:
        prefix: the folder of the metadata table.
        own, data: the timelines of the metadata table and the data table, as the write found them.
        replaced: file groups whose keys the write removes.
        written: file groups that the commit names.
    """

    open_runtime: OpenRuntime
    prefix: str
    requested_time: str
    instant_ms: int
    own: Timeline
    data: Timeline
    replaced: frozenset[str]
    written: frozenset[str]

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runtime = self.open_runtime()
        index = MetadataTable(MetadataSlices(runtime.storage, self.own, self.data), (names.RECORD_INDEX,))
        storage = StorageBelow(runtime.storage, self.prefix)
        writing = LogWriting(storage, self.requested_time, new_token(task.number, runtime.ids))
        for group, changes in runs(batches, _GROUP):
            self._refuse_elsewhere(index, changes)
            stat = writing.write(names.RECORD_INDEX, group, _OF_WRITTEN, self._records(changes))
            row = {"path": stat.path, "size": stat.size, "writes": stat.rows, "deletes": stat.deletes}
            yield pa.RecordBatch.from_pylist([row], _STAT)

    def _refuse_elsewhere(self, index: MetadataTable, changes: pa.Table) -> None:
        """Raise `DuplicateKeyError` if a new key is in a file group that the write does not take it from."""
        came = changes.filter(pc.invert(changes.column("deleted")))
        if not came.num_rows:
            return
        known_groups = pc.is_in(came.column("file_id"), pa.array(sorted(self.written), pa.string()))
        if not pc.all(known_groups).as_py():
            raise CommitAbortedError(
                "Spark lost what the tasks of this write returned, and ran them again with other results",
                instant=self.requested_time,
                hint="Nothing was published; write again.",
            )
        left = changes.filter(changes.column("deleted")).column("key")
        known = index.record_locations(came.column("key").to_pylist())
        # A key that was deleted in the logs of its file group comes back to it.
        own = came.column("file_id").take(
            pc.index_in(known.column("key"), value_set=came.column("key").combine_chunks())
        )
        stays = pc.not_equal(known.column("file_id"), own)
        stays = pc.and_(
            stays, pc.invert(pc.is_in(known.column("file_id"), pa.array(sorted(self.replaced), pa.string())))
        )
        stays = pc.and_(stays, pc.invert(pc.is_in(known.column("key"), left.combine_chunks())))
        found = known.filter(stays)
        if found.num_rows:
            shown = ", ".join(
                f"{row['key']!r} in {row['partition'] or 'the table'}" for row in found.slice(0, _SHOWN).to_pylist()
            )
            raise DuplicateKeyError(
                f"{found.num_rows} new keys are in another partition already: {shown}",
                hint="Nothing was published. The table has a record index, so a key is in one partition only: delete the rows there first, or give"
                " the rows that partition.",
            )

    def _records(self, changes: pa.Table) -> Records:
        """The records of one file group, sorted by key. A key that left one file group and came into another has moved."""
        deleted = changes.column("deleted")
        came = changes.filter(pc.invert(deleted)).sort_by("key").combine_chunks()
        left = changes.filter(deleted).column("key").combine_chunks()
        gone = left.filter(pc.invert(pc.is_in(left, came.column("key")))) if len(left) else left
        keys, partitions, file_ids = (came.column(name).combine_chunks() for name in ("key", "partition", "file_id"))
        places = KeyPlaces(keys, partitions, file_ids, gone.unique())
        return records_of(CommitChanges((), pa.table({}), self.instant_ms, (), places), names.RECORD_INDEX)


def _has_known_groups(slices: MetadataSlices, partition: str) -> bool:
    """Whether the file groups of a partition have the names that we write to. Those of a record index kept by partition have others."""
    found = [piece.file_id for piece in slices.pieces(partition)]
    return bool(found) and found == [file_groups.file_id(partition, number) for number in range(len(found))]
