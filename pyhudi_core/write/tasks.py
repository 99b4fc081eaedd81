"""The tasks of a write: each row goes to the task of its bucket, the task writes its buckets by handles, and returns `Written`.

1. `route`: one shuffle. A tagged row goes to the bucket of its file group, a new row to a bucket by a hash of its key. There are as many tasks as
   buckets, but at most one for each core. The function before the shuffle knows only the numbers of the buckets; the buckets themselves go to their
   own task, as its payload (`Routed.buckets`).
2. `WriteTask`: writes the buckets of its payload one after the other, each by the handle that suits it. Its memory is bounded by the new rows of
   one bucket (of one part of it, for new groups), a row group of the base file and the file being written; not by the size of the file group.
3. `Written`: a row of `WRITTEN` has the files that a task wrote, or, if ``key`` is not null, one key that was added to a file group or removed
   from it. Files are collected on the driver. Changes of keys never are: they stay a dataset, from which executors make entries of an index. They
   are noted only for a write that wants them. The ranges of columns come from the footer that the writer of a file makes, so no row is read for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo, runs, slotted, without_slots
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file.parquet_statistics import range_schema, range_table
from pyhudi_core.formats.key_hash import hash_keys, repetitions
from pyhudi_core.index.base import POSITION, TAG_FILE_ID, TAG_PARTITION, TAG_POSITION, TAGS, Group
from pyhudi_core.index.choice import IndexChoice
from pyhudi_core.index.elsewhere import repeated
from pyhudi_core.merge.fold import one_row_a_key
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.model.meta_fields import META_FIELDS, PARTITION_PATH, RECORD_KEY
from pyhudi_core.write.handles.append import AppendHandle
from pyhudi_core.write.handles.base import (
    HandleContext,
    HandleSettings,
    KeyChange,
    OpenRuntime,
    WriteHandle,
    WrittenFile,
)
from pyhudi_core.write.handles.create import CreateHandle
from pyhudi_core.write.handles.merge import MergeHandle
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.plan import Bucket, Plan, balance

PART_BITS = 20
"""The lowest bits of a sort value are the part of a bucket; the others are its number."""

_NOWHERE = -1


def _bucket_of(sort: int) -> int:
    """Return the bucket's number in a sort value."""
    return sort >> PART_BITS


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows in the tasks that write them, and the numbered buckets of each task."""

    rows: Dataset
    buckets: list[dict[int, Bucket]]


def route(rows: Dataset, plan: Plan, cores: int) -> Routed:
    """Shuffle rows to their buckets; each task gets its buckets one after the other."""
    tasks = max(1, min(len(plan.buckets), cores))
    placed = balance(plan.buckets, tasks)
    dropped = set(TAGS.names) - ({TAG_POSITION} if any(bucket.appends for bucket in plan.buckets) else set())
    schema = slotted(pa.schema([field for field in rows.schema if field.name not in dropped]))
    parts = np.array([bucket.parts for bucket in plan.buckets] or [1], np.int64)
    task_of = np.array([placed[number] for number in range(len(plan.buckets))] or [0], np.int32)
    own: list[dict[int, Bucket]] = [{} for _ in range(tasks)]
    for bucket in plan.buckets:
        own[placed[bucket.number]][bucket.number] = bucket
    routing = _Route(plan.groups, plan.inserts, parts, task_of, schema)
    return Routed(rows.map(routing, schema).shuffle(TASK, tasks, SORT), own)


@dataclass(frozen=True, slots=True)
class _Route:
    """Task function: takes rows with or without tags, and adds task and sort value; drops a row without a bucket."""

    groups: dict[Group, int]
    inserts: dict[str, tuple[tuple[int, float], ...]]
    parts: npt.NDArray[np.int64]
    task_of: npt.NDArray[np.int32]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashing = self.parts.max() > 1 or any(len(buckets) > 1 for buckets in self.inserts.values())
        for whole in batches:
            batch = whole
            if batch.num_rows == 0:
                continue
            hashes = hash_keys(batch.column(RECORD_KEY)) if hashing else np.zeros(len(batch), np.uint32)
            buckets = self._untagged(batch, hashes)
            if TAG_FILE_ID in batch.schema.names:
                buckets = self._tagged(batch, buckets)
            going = buckets != _NOWHERE
            if not going.all():
                batch, hashes, buckets = batch.filter(pa.array(going)), hashes[going], buckets[going]
            part = (hashes >> 12).astype(np.int64) % self.parts[buckets]
            sort = pa.array((buckets << PART_BITS) | part)
            kept = [batch.column(name) for name in self.schema.names[:-2]]
            yield pa.RecordBatch.from_arrays([*kept, pa.array(self.task_of[buckets]), sort], schema=self.schema)

    def _untagged(self, batch: pa.RecordBatch, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Return the bucket of each row, as if no file group had its key."""
        codes = batch.column(PARTITION_PATH).dictionary_encode()
        indices = codes.indices.to_numpy()
        chosen = np.full(len(batch), _NOWHERE, np.int64)
        for code, partition in enumerate(codes.dictionary.to_pylist()):
            inserts = self.inserts.get(partition, ())
            if not inserts:
                continue
            here = np.flatnonzero(indices == code)
            numbers = np.array([number for number, _ in inserts], np.int64)
            if len(inserts) == 1:
                chosen[here] = numbers[0]
                continue
            edges = np.cumsum([weight for _, weight in inserts])
            chosen[here] = numbers[np.searchsorted(edges[:-1] / edges[-1], hashes[here] / 2**32, side="right")]
        return chosen

    def _tagged(self, batch: pa.RecordBatch, untagged: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return for each tagged row the bucket of its file group."""
        partitions = batch.column(TAG_PARTITION).dictionary_encode()
        files = batch.column(TAG_FILE_ID).dictionary_encode()
        has_tag = files.is_valid().to_numpy(zero_copy_only=False)
        if not has_tag.any():
            return untagged
        width = len(files.dictionary)
        pairs = partitions.indices.to_numpy(zero_copy_only=False)[has_tag].astype(np.int64) * width
        pairs += files.indices.to_numpy(zero_copy_only=False)[has_tag].astype(np.int64)
        different, inverse = np.unique(pairs, return_inverse=True)
        paths, file_ids = partitions.dictionary.to_pylist(), files.dictionary.to_pylist()
        places = ((paths[pair // width], file_ids[pair % width]) for pair in different.tolist())
        numbers = [self.groups.get(place, _NOWHERE) for place in places]
        chosen = untagged.copy()
        chosen[has_tag] = np.array(numbers, np.int64)[inverse]
        return chosen


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Task function: takes routed rows, and returns `WRITTEN`.

    Args:
        unique: two rows with one key are an error instead of being reduced to one.
        key_changes: note the keys that were added to file groups or removed from them.
        distinct: it is known that no key occurs twice.
    """

    open_runtime: OpenRuntime
    settings: HandleSettings
    unique: bool
    key_changes: bool = False
    distinct: bool = False

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = HandleContext(self.settings, self.open_runtime(), task.number, [] if self.key_changes else None)
        files: list[WrittenFile] = []
        handle: WriteHandle | None = None
        number, combined = -1, 0
        named = self._announced(context, task.payload)
        try:
            for sort, rows in runs(batches, SORT):
                if _bucket_of(sort) != number:
                    if handle is not None:
                        files += _with_combined(handle.close(), combined)
                    number, combined = _bucket_of(sort), 0
                    handle = handle_for(context, task.payload[number], named)
                assert handle is not None
                single = self._single(without_slots(rows))
                combined += len(rows) - len(single)
                handle.write(single)
                yield from _noted(context)
            if handle is not None:
                files += _with_combined(handle.close(), combined)
        except BaseException:
            if handle is not None:
                handle.abandon()
            raise
        yield from _noted(context)
        yield from files_batch(files, self.settings.schema)

    def _announced(self, context: HandleContext, buckets: Mapping[int, Bucket]) -> Mapping[str, BaseFileName]:
        """Announce the first files of all buckets at once, by file id, if each bucket is a new group."""
        if not self.settings.marked_together:
            return {}
        return NewFile.announce(context, {bucket.file_id: bucket.partition for bucket in buckets.values()}, "CREATE")

    def in_pieces(self, task: TaskInfo, bucket: Bucket, pieces: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Write one new file group from pieces of its rows, in which no key occurs twice. Raises `DuplicateKeyError` at the end if a key does."""
        context = HandleContext(self.settings, self.open_runtime(), task.number, [] if self.key_changes else None)
        handle = handle_for(context, bucket, self._announced(context, {bucket.number: bucket}))
        keys: list[pa.Array] = []
        try:
            for rows in pieces:
                keys += [] if self.distinct else rows.column(RECORD_KEY).chunks
                handle.write(rows.drop_columns([POSITION]))
                yield from _noted(context)
            _refuse_repeated(keys)
            files = handle.close()
        except BaseException:
            handle.abandon()
            raise
        yield from _noted(context)
        yield from files_batch(files, self.settings.schema)

    def _single(self, rows: pa.Table) -> pa.Table:
        """Return one row for each key."""
        if self.distinct:
            return rows.drop_columns([POSITION])
        own = [name for name in self.settings.schema.names if name not in META_FIELDS]
        single = one_row_a_key(rows, RECORD_KEY, POSITION, self.settings.ordering, self.settings.merger, own)
        if self.unique and len(single) < len(rows):
            raise repeated(len(rows) - len(single))
        return single.drop_columns([POSITION])


def _with_combined(files: Sequence[WrittenFile], combined: int) -> list[WrittenFile]:
    """Return the files of a bucket; the first file has the number of rows that were combined with another row of their key."""
    if not combined:
        return list(files)
    first = [replace(file, stat=replace(file.stat, combined=combined)) for file in files[:1]]
    return [*first, *files[1:]]


def _refuse_repeated(keys: Sequence[pa.Array]) -> None:
    again = repetitions(pa.chunked_array(keys, pa.string()))
    if again:
        raise repeated(again)


def _noted(context: HandleContext) -> Iterator[pa.RecordBatch]:
    """Yield the changes of keys since the last call."""
    while context.changes:
        yield from _changes_batch(context.changes.pop())


_STAT = tuple(item.name for item in fields(WriteStat))
_RANGES_AT_ONCE = 256
"""The ranges of this many tasks are joined at once: separate ranges take many times the memory of their values."""

KEY_CHANGES = pa.schema(
    [("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string()), ("deleted", pa.bool_())]
)
"""A key that came into a file group, or left it (``deleted``)."""

WRITTEN = pa.schema([("files", pa.binary()), ("ranges", pa.binary()), *KEY_CHANGES])
"""What a task yields. A row of a key has only two columns more than the key, because there may be millions of them."""


@dataclass(slots=True)
class Written:
    """The files of a write.

    Attributes:
        stats: one for each file, sorted by path.
        ranges: one row for each file: its path, and for each column of a plain type a struct of ``min``, ``max`` and ``nulls``. Null where unknown.
        key_changes: rows of `KEY_CHANGES`, if the write wants them. Call `release` when they are no longer needed.
        kept: releases the rows from which `key_changes` is computed. Spark needs these rows until then, even if nothing is computed again.
        index: the index that found the keys; None if no index was used.
        holders: file groups that hold some of the changed keys, although none of their files was written.
        moves_all: every row of the replaced file groups is in the new files (clustering), so no key is removed.
    """

    stats: tuple[WriteStat, ...]
    ranges: pa.Table
    key_changes: Dataset | None = None
    kept: ExitStack = field(default_factory=ExitStack)
    index: IndexChoice | None = None
    holders: frozenset[Group] = frozenset()
    moves_all: bool = False

    @classmethod
    def collect(cls, output: Dataset, schema: pa.Schema, *, key_changes: bool) -> Written:
        """Run the tasks. ``schema``: the schema of the files."""
        with ExitStack() as kept:
            files = output
            if key_changes:
                output = output.persist()
                kept.callback(output.release)
                files = output.map(_only_files, WRITTEN)
            table = files.collect()
            stats = [_stat(values) for text in table.column("files").to_pylist() for values in json.loads(text)]
            ranges = _joined(table.column("ranges").to_pylist())
            del table
            return cls(
                tuple(sorted(stats, key=lambda stat: stat.path)),
                pa.concat_tables(ranges) if ranges else range_schema(schema).empty_table(),
                output.map(_only_changes, KEY_CHANGES) if key_changes else None,
                kept.pop_all(),
            )

    @classmethod
    def nothing(cls, schema: pa.Schema) -> Written:
        """Return a result without files. ``schema``: the schema of the files."""
        return cls((), range_schema(schema).empty_table())

    def release(self) -> None:
        """Release the rows of `key_changes`."""
        self.kept.close()


def _stat(values: Sequence[Any]) -> WriteStat:
    pairs = zip(_STAT, values, strict=True)
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in pairs}
    return WriteStat(**found)


def _joined(ranges: Sequence[bytes]) -> list[pa.Table]:
    """Return the ranges of all tasks, as few tables."""
    found: list[pa.Table] = []
    for first in range(0, len(ranges), _RANGES_AT_ONCE):
        pieces = [pa.ipc.open_stream(blob).read_all() for blob in ranges[first : first + _RANGES_AT_ONCE]]
        found.append(pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces).combine_chunks())
    return found


def files_batch(files: Sequence[WrittenFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the row of the files that one task wrote: their `WriteStat` as JSON, and their ranges as an Arrow stream."""
    if not files:
        return
    stats = json.dumps([[getattr(file.stat, name) for name in _STAT] for file in files], default=int)
    none = [pa.nulls(1, field.type) for field in KEY_CHANGES]
    found = [pa.array([value], pa.binary()) for value in (stats.encode(), _encoded(files, schema))]
    yield pa.RecordBatch.from_arrays([*found, *none], schema=WRITTEN)


def _changes_batch(change: KeyChange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of keys that were added to a file group or removed from it."""
    for keys in change.keys.chunks if isinstance(change.keys, pa.ChunkedArray) else [change.keys]:
        count = len(keys)
        none = [pa.nulls(count, WRITTEN.field(name).type) for name in ("files", "ranges")]
        known = [keys, *(pa.repeat(value, count) for value in (change.partition, change.file_id, change.deleted))]
        yield pa.RecordBatch.from_arrays([*none, *known], schema=WRITTEN)


def _only_files(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.column("key").null_count:
            yield batch.filter(batch.column("key").is_null())


def _only_changes(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        changes = batch.select(KEY_CHANGES.names)
        yield changes.filter(batch.column("key").is_valid()) if batch.column("key").null_count else changes


def _encoded(files: Sequence[WrittenFile], schema: pa.Schema) -> bytes:
    """Return the ranges of files as an Arrow stream."""
    batch = range_table([file.stat.path for file in files], [file.ranges for file in files], schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def handle_for(
    context: HandleContext, bucket: Bucket, named: Mapping[str, BaseFileName] = MappingProxyType({})
) -> WriteHandle:
    """Return the handle of a bucket. ``named``: files with markers, by file id.

    Raises `UnsupportedTableError` for a slice to which this release does not write.
    """
    if bucket.appends:
        return AppendHandle(context, bucket, bucket.base or FileSlice(None))
    if bucket.base is None:
        return CreateHandle(context, bucket, named.get(bucket.file_id))
    if bucket.base.base is None or bucket.base.logs:
        raise _unsupported("a file group with log files", bucket)
    return MergeHandle(context, bucket, bucket.base.base)


def _unsupported(feature: str, bucket: Bucket) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"The table has {feature}, which this release does not write",
        path=bucket.base.path if bucket.base is not None else bucket.partition or None,
        hint="It can be read here; write to it with Hudi. Nothing was changed.",
    )
