"""The record index's part of a commit: its log files, written by tasks (specification, "Metadata Table").

Keys that were added to file groups or removed from them are never collected: the tasks of a dataset sort them into the file groups of the record
index, and write its log files. Only keys of replaced file groups are read here; earlier log files remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TASK, Engine, TaskInfo, runs, slotted
from pyhudi_core.errors import CommitAbortedError, DuplicateKeyError
from pyhudi_core.file_groups.slice import FileSlice, SlicePiece
from pyhudi_core.formats.byte_columns import order_of_texts
from pyhudi_core.formats.key_hash import repetitions
from pyhudi_core.index.base import Group
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.metadata_table import file_groups, names
from pyhudi_core.metadata_table.changes import CommitChanges, KeyPlaces, records_of
from pyhudi_core.metadata_table.file_groups import LogWriting, file_stat
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.handles.base import OpenRuntime, runtime_opener
from pyhudi_core.write.handles.new_file import new_token
from pyhudi_core.write.tasks import Written

_STAT = pa.schema([("path", pa.string()), ("size", pa.int64()), ("writes", pa.int64()), ("deletes", pa.int64())])
_SHOWN = 3
_OF_REPLACED, _OF_WRITTEN = 1, 2
"""Versions of log files, which are merged in this order."""


@dataclass(frozen=True, slots=True)
class RecordIndexUpdate:
    """The changes of the record index by a commit.

    Attributes:
        transaction: the transaction of the write.
        place: the metadata table.
        slices: its file groups at the start of the write.
        snapshot: the state from which the write started.
        written: its files, and the dataset of changed keys.
        replaced: file ids of replaced file groups by partition path.
        instant_ms: its requested time, in milliseconds since 1970 in the time zone of the timeline.
    """

    transaction: Transaction
    place: TableContext
    slices: MetadataSlices
    snapshot: Snapshot
    written: Written
    replaced: Mapping[str, Sequence[str]]
    instant_ms: int

    def write(self, engine: Engine | None) -> list[WriteStat]:
        """Write the log files: here for keys in replaced file groups, in tasks of ``engine`` for all others (None: no file was written)."""
        groups = len(self.slices.pieces(names.RECORD_INDEX))
        stats: list[WriteStat] = []
        gone = pa.array([], pa.string()) if self.written.moves_all else self._replaced_keys()
        if len(gone):
            stats += self._removals(gone, groups)
        changed = self.written.key_changes
        if changed is None or engine is None:
            return stats
        context, tasks = self.transaction.context, min(groups, engine.cores)
        open_runtime = runtime_opener(engine, context.storage, context.runtime)
        by_group = file_groups.ByFileGroup("key", groups, tasks)
        routed = changed.map(by_group, slotted(changed.schema)).shuffle(TASK, tasks, SORT)
        replaced = frozenset((partition, file_id) for partition, ids in self.replaced.items() for file_id in ids)
        written = frozenset((stat.partition, stat.file_id) for stat in self.written.stats) | self.written.holders
        time, slices = self.transaction.requested_time, self.slices
        task = _IndexTask(
            open_runtime, self.place.prefix, time, self.instant_ms, slices.own, slices.data, replaced, written
        )
        found = routed.map(task, _STAT).collect()
        return stats + [file_stat(**row) for row in found.to_pylist()]

    def _removals(self, gone: pa.Array, groups: int) -> Iterator[WriteStat]:
        token = new_token(0, self.transaction.context.runtime.ids)
        writing = LogWriting(self.place.storage, self.transaction.requested_time, token)
        removed = Records(pa.array([], pa.string()), {}, gone)
        for number, inside in file_groups.split(removed, groups):
            yield writing.write(names.RECORD_INDEX, number, _OF_REPLACED, inside)

    def _replaced_keys(self) -> pa.Array:
        """Return the record keys of the rows in file groups that the write replaces. Keys that logs have deleted may be elsewhere now."""
        context = self.transaction.context
        wanted = {(partition, file_id) for partition, ids in self.replaced.items() for file_id in ids}
        slices = [
            piece
            for partition in self.replaced
            for piece in self.snapshot.view.slices(partition)
            if (partition, piece.file_id) in wanted
        ]
        merging = Merging(self.snapshot.config, self.snapshot.evolution)
        schema = with_meta_fields(self.snapshot.schema)
        keys_alone = pa.schema([schema.field(RECORD_KEY)])

        def keys(piece: FileSlice) -> pa.Array:
            batches = merged_batches(context.storage, piece, merging, keys_alone, schema)
            found = [batch.column(RECORD_KEY) for batch in batches]
            return pa.concat_arrays(found or [pa.array([], pa.string())])

        found = context.runtime.executor.map(keys, slices)
        return pa.concat_arrays(found) if found else pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class _IndexTask:
    """Writes the log files of some file groups of the record index.

    A record index has one location for each key of the complete table. So a key that comes into a partition while it is in another partition is
    refused: readers would find only one of its rows.

    Attributes:
        prefix: the folder of the metadata table.
        own, data: the timelines of the metadata table and the data table at the start of the write.
        replaced: file groups whose keys the write removes.
        written: file groups that the commit names.
    """

    open_runtime: OpenRuntime
    prefix: str
    requested_time: str
    instant_ms: int
    own: Timeline
    data: Timeline
    replaced: frozenset[Group]
    written: frozenset[Group]

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runtime = self.open_runtime()
        # The index is listed again: if another process has rebuilt the index, the files from the start of the write no longer exist.
        index = MetadataTable(MetadataSlices(runtime.storage, self.own, self.data), (names.RECORD_INDEX,))
        storage = StorageBelow(runtime.storage, self.prefix)
        writing = LogWriting(storage, self.requested_time, new_token(task.number, runtime.ids))
        index_groups = cache(index.record_groups)
        for group, routed in runs(batches, SORT):
            changes = routed.take(order_of_texts(routed.column("key").combine_chunks()))
            self._refuse_elsewhere(index, index_groups, group, changes)
            stat = writing.write(names.RECORD_INDEX, group, _OF_WRITTEN, self._records(changes))
            row = {"path": stat.path, "size": stat.size, "writes": stat.rows, "deletes": stat.deletes}
            yield pa.RecordBatch.from_pylist([row], _STAT)

    def _refuse_elsewhere(
        self, index: MetadataTable, index_groups: Callable[[], list[SlicePiece]], number: int, changes: pa.Table
    ) -> None:
        """Raise `DuplicateKeyError` if a new key is in a file group from which the write does not remove it. ``number``: the number of the index's
        file group.
        """
        came = _came(changes)
        if not came.num_rows:
            return
        groups = came.group_by(["partition", "file_id"]).aggregate([])
        if not pc.all(pc.is_in(_group_of(groups), _groups(self.written))).as_py():
            raise CommitAbortedError(
                "Spark lost what the tasks of this write returned, and ran them again with other results",
                instant=self.requested_time,
                hint="Nothing was published; write again.",
            )
        refuse_repeated(came.column("key"))
        if number >= len(index_groups()):  # another process drops the index at this moment
            raise names.damage(names.RECORD_INDEX, f"has no file group {number}")
        known = index.record_locations_in(index_groups()[number], came.column("key").combine_chunks())
        if not known.num_rows:
            return
        left = changes.filter(changes.column("deleted")).column("key")
        # The key was deleted in the logs of this file group, and is inserted again.
        own = _group_of(came).take(pc.index_in(known.column("key"), value_set=came.column("key").combine_chunks()))
        stays = pc.not_equal(_group_of(known), own)
        stays = pc.and_(stays, pc.invert(pc.is_in(_group_of(known), _groups(self.replaced))))
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
        """Return the records of one file group, for changes sorted by key. A key that left one file group and came into another one has moved."""
        came = _came(changes).combine_chunks()
        left = changes.column("key").filter(changes.column("deleted")).combine_chunks()
        gone = left.filter(pc.invert(pc.is_in(left, came.column("key")))) if len(left) else left
        keys, partitions, file_ids = (came.column(name).combine_chunks() for name in ("key", "partition", "file_id"))
        places = KeyPlaces(keys, partitions, file_ids, gone.unique())
        return records_of(CommitChanges((), pa.table({}), self.instant_ms, (), places), names.RECORD_INDEX)


def _came(changes: pa.Table) -> pa.Table:
    """Return the changes of keys that were added to file groups."""
    deleted = changes.column("deleted")
    return changes.filter(pc.invert(deleted)) if pc.any(deleted).as_py() else changes


def _group_of(rows: pa.Table) -> pa.ChunkedArray:
    """Return the file group of each row, as one text. A file id is not unique: buckets have the same file ids in each partition."""
    return pc.binary_join_element_wise(rows.column("partition"), rows.column("file_id"), "/")


def _groups(groups: frozenset[Group]) -> pa.Array:
    return pa.array(sorted("/".join(group) for group in groups), pa.string())


def refuse_repeated(keys: pa.ChunkedArray) -> None:
    """Raise `DuplicateKeyError` if a write adds a key to two file groups: two rows of the batch, or rows of the table that it writes again."""
    if not repetitions(keys):
        return
    counts = pc.value_counts(keys)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    raise DuplicateKeyError(
        f"After this write {len(twice)} keys would be in several places: {', '.join(map(repr, twice.slice(0, _SHOWN).to_pylist()))}",
        hint="Nothing was published. The table has a record index, so a key is in one place only: leave one row of each key"
        " in the batch. If it has one only, the table has rows of the key in several file groups: delete those that are not wanted first.",
    )
