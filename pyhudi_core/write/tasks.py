"""The task that writes files: buckets one after the other, each a file group to rewrite or to make.

Memory is bounded by the new rows of one bucket (of one part of it, for new groups), a row group of the base file and the file being written;
not by the size of the file group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.base import TaskInfo
from pyhudi_core.engine.grouping import runs
from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.merge.deleted_rows import says_deleted
from pyhudi_core.merge.ordering import deduplicate
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.schema import conform
from pyhudi_core.write.assignment import Bucket
from pyhudi_core.write.file_output import FileSettings, NewFile, Sequence, announce_partition
from pyhudi_core.write.merging import Incoming, Mask, Match, replace_rows
from pyhudi_core.write.routing import bucket_of
from pyhudi_core.write.rows import POSITION, SORT, TASK
from pyhudi_core.write.task_world import TaskWorld, WorldOpener

STATS = pa.schema([("stat", pa.string())])


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Task function: routed rows in, one row for each written file out (`STATS`, JSON of a `WriteStat`).

    Args:
        ordering: columns of event-time ordering, empty for commit time.
        deletes: the rows are keys to remove.
        unique: two rows with one key are an error instead of being reduced to one.
    """

    open_world: WorldOpener
    settings: FileSettings
    buckets: tuple[Bucket, ...]
    ordering: tuple[str, ...]
    deletes: bool
    unique: bool
    target: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _Run(self, self.open_world(), task.number)
        try:
            for sort, rows in runs(batches, SORT):
                yield from _encode(run.take(self.buckets[bucket_of(sort)], rows.drop_columns([SORT, TASK])))
            yield from _encode(run.finish())
        except BaseException:
            run.abandon()
            raise


class _Run:
    """One run of the task: the bucket at hand, and the file that is open for it."""

    def __init__(self, spec: WriteTask, world: TaskWorld, task: int) -> None:
        self.spec = spec
        self.world = world
        self.task = task
        self.sequence = Sequence(f"{spec.settings.requested_time}_{task}")
        self.bucket: Bucket | None = None
        self.open: NewFile | None = None
        self.made = 0

    def take(self, bucket: Bucket, rows: pa.Table) -> list[WriteStat]:
        """Write one run of rows."""
        done = self.finish() if self.bucket is not None and bucket.number != self.bucket.number else []
        if self.bucket is None or bucket.number != self.bucket.number:
            self.bucket, self.made = bucket, 0
        rows = self._single(rows)
        if bucket.base is None:
            left = rows.filter(pa.array(~says_deleted(rows)))
            if bucket.new_partition and len(left):
                announce_partition(self.world, self.spec.settings.requested_time, bucket.partition)
            return done + self._insert(bucket, left, self.spec.target)
        return done + self._merge(bucket, rows)

    def finish(self) -> list[WriteStat]:
        """Close the open file."""
        if self.open is None:
            return []
        stat = self.open.close()
        self.open = None
        return [stat]

    def abandon(self) -> None:
        if self.open is not None:
            self.open.abandon()

    def _single(self, rows: pa.Table) -> pa.Table:
        """One row a key."""
        single = deduplicate(rows, RECORD_KEY, POSITION, self.spec.ordering)
        if self.spec.unique and len(single) < len(rows):
            raise DuplicateKeyError(
                f"{len(rows) - len(single)} rows of the batch repeat a record key",
                hint="Upsert them (the last row of a key wins), or set hoodie.combine.before.insert=true.",
            )
        return single.drop_columns([POSITION])

    def _insert(self, bucket: Bucket, rows: pa.Table, target: int) -> list[WriteStat]:
        """New rows to new files of the target size."""
        done: list[WriteStat] = []
        for batch in rows.to_batches(max_chunksize=max(1, self.spec.settings.row_group_rows // 4)):
            if self.open is not None and self.open.writer.bytes_written >= target:
                done += self.finish()
            if self.open is None:
                self.open = self._new_file(bucket)
            self.open.insert(pa.Table.from_batches([batch]), self.sequence)
        return done

    def _new_file(self, bucket: Bucket) -> NewFile:
        file_id = bucket.file_id if self.made == 0 and bucket.base is None else self.world.ids.uuid() + "-0"
        self.made += 1
        return NewFile.open(self.world, self.spec.settings, self.task, (bucket.partition, file_id), None)

    def _merge(self, bucket: Bucket, rows: pa.Table) -> list[WriteStat]:
        """Rewrite the bucket's base file with the rows, and put what does not fit into new files."""
        assert bucket.base is not None
        incoming = Incoming(rows)
        settings = self.spec.settings
        base = bucket.base.base
        with ExitStack() as stack:
            source = stack.enter_context(self.world.storage.open_input(base.path))
            reader = BaseFileReader(source, base.path)
            place = (bucket.partition, bucket.file_id)
            self.open = NewFile.open(self.world, settings, self.task, place, reader.footer())
            for batch in reader.iter_batches():
                self._merge_batch(incoming, conform(batch, settings.schema))
            left = incoming.unmatched() if not self.spec.deletes else incoming.rows.slice(0, 0)
            fitting = self._fitting(bucket, left)
            if fitting:
                self.open.insert(left.slice(0, fitting), self.sequence)
            done = self._close_merge(bucket)
        return done + self._insert(bucket, left.slice(fitting), self.spec.target) if fitting < len(left) else done

    def _merge_batch(self, incoming: Incoming, batch: pa.RecordBatch) -> None:
        assert self.open is not None
        match = incoming.match(batch)
        winners = incoming.winners(batch, match, self.spec.ordering) if match is not None else None
        if winners is None:
            self.open.keep(batch)
        else:
            gone = incoming.deleted[winners.places] | self.spec.deletes
            self._replace(incoming, batch, winners, gone)

    def _replace(self, incoming: Incoming, batch: pa.RecordBatch, winners: Match, gone: Mask) -> None:
        """Write a batch of the file with the winners in the place of their old versions; without those that are ``gone``."""
        assert self.open is not None
        places = winners.places[~gone]
        if len(places):
            new = self.open.stamp(incoming.rows.take(pa.array(places)), self.sequence)
            batch = replace_rows(batch, winners.only(~gone), new)
        if gone.any():
            batch = batch.filter(pa.array(~winners.only(gone)))
        self.open.keep(batch)
        self.open.counts["updates"] += len(places)
        self.open.counts["deletes"] += int(gone.sum())

    def _fitting(self, bucket: Bucket, left: pa.Table) -> int:
        """How many new rows the rewritten file takes: all while it stays below the target, none if it was not small."""
        assert self.open is not None
        if bucket.room <= 0 or len(left) == 0:
            return 0
        per_row = max(1.0, self.open.writer.bytes_written / max(1, self.open.writer.rows))
        return min(len(left), max(1, int(bucket.room / per_row)))

    def _close_merge(self, bucket: Bucket) -> list[WriteStat]:
        """Publish the rewritten file; a rewrite that changed nothing is given up."""
        assert self.open is not None
        assert bucket.base is not None
        file, self.open = self.open, None
        if not any(file.counts.values()):
            file.abandon()
            return []
        return [file.close((bucket.base.requested_time, str(bucket.base.base.name)))]


def _encode(stats: list[WriteStat]) -> Iterator[pa.RecordBatch]:
    if stats:
        texts = [json.dumps({name: getattr(stat, name) for name in stat.__dataclass_fields__}) for stat in stats]
        yield pa.RecordBatch.from_arrays([pa.array(texts)], schema=STATS)


def decode_stats(table: pa.Table) -> tuple[WriteStat, ...]:
    """The written files, sorted by path."""
    stats = (WriteStat(**json.loads(text)) for text in table.column("stat").to_pylist())
    return tuple(sorted(stats, key=lambda stat: stat.path))
