"""The merge handle: rewrite a base file with new versions of its rows (Hudi's ``HoodieMergeHandle``). Input and output are Arrow data.

Rows keep their order: an updated row takes the position of the old row. Rows without a match in the file are inserted at its end. Memory is bounded
by the new rows of the file group, a row group of the base file and the file being written; not by the size of the file group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.partition_values import with_constants
from pyhudi_core.file_groups.skeletons import may_be_skeleton, open_base
from pyhudi_core.file_groups.slice import BaseFile
from pyhudi_core.formats.base_file import BaseFileReader, ColumnRange
from pyhudi_core.formats.base_file.footer import reading
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup
from pyhudi_core.index.base import leaving
from pyhudi_core.merge.law import Mask, MergeLaw, TableMerger, Versions, mask
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.model.internal_schema import in_file, names_at
from pyhudi_core.model.meta_fields import COMMIT_TIME, FILE_NAME, RECORD_KEY
from pyhudi_core.model.schema import conform
from pyhudi_core.storage.at_once import both
from pyhudi_core.write.handles.base import (
    HandleContext,
    KnownKeys,
    WrittenFile,
    filled,
    known_keys,
    refuse_unknown_rows,
)
from pyhudi_core.write.handles.change_log import ChangeLog
from pyhudi_core.write.handles.create import RollingFiles
from pyhudi_core.write.handles.new_file import NewFile
from pyhudi_core.write.plan import Bucket


class MergeHandle:
    """Rewrites the base file ``base`` of a bucket. New rows for which the file has no room go to new file groups of its partition."""

    def __init__(self, context: HandleContext, bucket: Bucket, base: BaseFile) -> None:
        self._context = context
        self._bucket = bucket
        self._base = base
        self._open: NewFile | None = None
        self._changes: ChangeLog | None = None
        self._overflow: RollingFiles | None = None
        self._written: list[WrittenFile] = []

    def write(self, rows: pa.Table) -> None:
        """Write all rows of the bucket, in one call, as `WriteHandle.write`."""
        incoming = Incoming(rows, MergeLaw(self._context.settings.ordering))
        settings, base, bucket = self._context.settings, self._base, self._bucket
        called = names_at(settings.evolution, base.name.requested_time)
        # The rows get the name of the new file, so the old one is not read.
        columns = [name for name in settings.schema.names if name != FILE_NAME]
        constants = settings.constants_of(bucket.partition) if may_be_skeleton(base.path) else {}
        with ExitStack() as opened:
            reader, name = self._opened(opened, in_file(called, columns))
            self._open = NewFile.open(
                self._context, bucket.partition, bucket.file_id, reader.footer(), len(rows), announced=name
            )
            if settings.changes is not None:
                self._changes = ChangeLog(self._context, self._open, settings.changes)
            for batch in self._stored(self._open, reader, incoming, whole=called is not None):
                stored = conform(batch, settings.schema, called)
                self._merge(self._open, incoming, with_constants(stored, constants) if constants else stored)
            left = incoming.rows.slice(0, 0) if settings.deletes else incoming.unmatched(settings.merger)
            refuse_unknown_rows(self._context, len(left), base.path)
            fitting = self._fitting(self._open, left)
            if fitting:
                self._open.insert(left.slice(0, fitting))
                if self._changes is not None:
                    self._changes.inserted(left.slice(0, fitting))
            self._finish(self._open)
        if fitting < len(left):
            self._overflow = RollingFiles(self._context, bucket.partition, self._context.new_file_id())
            self._overflow.insert(left.slice(fitting))

    def _opened(self, opened: ExitStack, columns: list[str] | None) -> tuple[BaseFileReader, BaseFileName | None]:
        """Open the base file. On a network storage the new file is announced at the same time: return its name, too."""
        context, bucket, runtime = self._context, self._bucket, self._context.runtime
        base = open_base(runtime.storage, self._base.path, columns)
        if runtime.storage.capabilities.parallel_calls <= 1:
            return opened.enter_context(base), None
        return both(
            runtime.storage,
            runtime.executor,
            lambda: opened.enter_context(base),
            lambda: NewFile.announce(context, {bucket.file_id: bucket.partition}, "MERGE")[bucket.file_id],
        )

    def _stored(
        self, file: NewFile, reader: BaseFileReader, incoming: Incoming, *, whole: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the base file; copy the row groups in which no row has a new version, unless all rows must be read (``whole``)."""
        may_copy = not whole and self._context.settings.populate and file.writer.may_copy(reader.row_group_rows)
        stored = reader.stored_row_groups() if may_copy else []
        groups = [group if file.writer.copies(group) else None for group in stored]
        if not any(groups):
            yield from reader.iter_batches()
            return
        ranges = reader.row_group_statistics([RECORD_KEY])
        for number, group in enumerate(groups):
            if (
                group is None
                or incoming.may_meet(ranges[number])
                or not self._copied(file, reader, incoming, number, group)
            ):
                yield from reader.iter_batches([number])

    def _copied(
        self, file: NewFile, reader: BaseFileReader, incoming: Incoming, number: int, group: StoredRowGroup
    ) -> bool:
        """Copy a row group if none of its keys has a new version, whatever its statistics say; return whether it was copied."""
        floating = [item.name for item in reader.schema if pa.types.is_floating(item.type)]
        few = reader.select([RECORD_KEY, *floating])
        if few is None:
            return False
        rows = pa.Table.from_batches(few.iter_batches([number]))
        # A damaged footer may name a wrong number of rows: make no list of so many file names.
        if len(rows) != group.rows or incoming.meets(rows.column(RECORD_KEY)):
            return False
        # The statistics of a file ignore NaN, so only the values show it.
        with_nan = [name for name in floating if pc.any(pc.is_nan(rows.column(name))).as_py()]
        with reading(self._base.path):
            file.copy(group, rows.column(RECORD_KEY), with_nan)
        return True

    def close(self) -> list[WrittenFile]:
        """Close as `WriteHandle.close`."""
        return self._written + (self._overflow.close() if self._overflow is not None else [])

    def abandon(self) -> None:
        """Give up as `WriteHandle.abandon`."""
        if self._open is not None:
            self._open.abandon()
        if self._changes is not None:
            self._changes.abandon()
        if self._overflow is not None:
            self._overflow.abandon()

    def _merge(self, file: NewFile, incoming: Incoming, batch: pa.RecordBatch) -> None:
        match = incoming.match(batch)
        known, merger = self._context.settings.known, self._context.settings.merger
        if match is not None and known is KnownKeys.REFUSE:
            raise known_keys(len(match.places), path=self._base.path)
        if match is None or known is not KnownKeys.UPDATE:
            file.keep(batch)
        elif merger is None:
            self._replace(file, batch, self._chosen(incoming, batch, match))
        else:
            self._replace(file, batch, self._made(file, incoming, batch, match, merger))

    def _chosen(self, incoming: Incoming, batch: pa.RecordBatch, match: Match) -> BatchOutcome:
        """Return the choice of the merge law: one of two versions for each row."""
        winners = incoming.winners(batch, match)
        gone = incoming.deleted[winners.places] | self._context.settings.deletes
        updated = winners.only(~gone)
        new = incoming.rows.take(pa.array(winners.places[~gone]))
        if self._context.settings.partial is not None:
            new = filled(new, batch.filter(pa.array(updated)))
        return BatchOutcome(updated, new, winners.only(gone))

    def _made(
        self, file: NewFile, incoming: Incoming, batch: pa.RecordBatch, match: Match, merger: TableMerger
    ) -> BatchOutcome:
        """Return the rows of the merger: one row made from two. The merge law decides about deletes."""
        are_rows = ~incoming.deleted[match.places]
        hits, requested_time = match.only(are_rows), self._context.settings.requested_time
        leaving = incoming.winners(batch, Match(match.only(~are_rows), match.places[~are_rows])).hits.copy()
        newer = file.stamp(incoming.rows.take(pa.array(match.places[are_rows])))
        older = pa.Table.from_batches([batch.filter(pa.array(hits))]).cast(newer.schema)
        made = merger.merge(older, newer)
        # A row whose commit time is not ours is the stored row. It stays unchanged, unless the merge gave it values of the late row.
        is_new = mask(pc.equal(made.rows.column(COMMIT_TIME), requested_time))
        is_new = (is_new if made.completed is None else is_new | made.completed) & ~made.gone
        leaving[np.flatnonzero(hits)[made.gone]] = True
        return BatchOutcome(
            Match(hits, match.places[are_rows]).only(is_new), made.rows.filter(pa.array(is_new)), leaving
        )

    def _replace(self, file: NewFile, batch: pa.RecordBatch, outcome: BatchOutcome) -> None:
        """Write a batch of the file in its state after the write."""
        updated, leaving = outcome.updated, outcome.leaving
        if updated.any():
            if self._changes is not None:
                self._changes.updated(batch.filter(pa.array(updated)), outcome.rows)
            batch = _replace_rows(batch, updated, file.stamp(outcome.rows))
        if leaving.any():
            gone = batch.filter(pa.array(leaving))
            if self._changes is not None:
                self._changes.deleted(gone)
            batch = batch.filter(pa.array(~leaving))
            self._context.note_deleted(self._bucket.partition, self._bucket.file_id, gone.column(RECORD_KEY))
        file.keep(batch)
        file.counts["updates"] += int(updated.sum())
        file.counts["deletes"] += int(leaving.sum())

    def _fitting(self, file: NewFile, left: pa.Table) -> int:
        """Return how many new rows the rewritten file takes: all up to the target size, none if the file was not small."""
        if self._bucket.room <= 0 or len(left) == 0:
            return 0
        per_row = max(1.0, file.writer.bytes_written / max(1, file.writer.rows))
        return min(len(left), max(1, int(self._bucket.room / per_row)))

    def _finish(self, file: NewFile) -> None:
        """Publish the rewritten file; give up a rewrite that changed nothing."""
        if any(file.counts.values()):
            written = file.close((self._base.name.requested_time, str(self._base.name)))
            self._open = None
            self._written.append(written if self._changes is None else self._changes.close(written))
        else:
            file.abandon()
            self._open = None


@dataclass(frozen=True, slots=True)
class Match:
    """The rows of a batch that have a new version (``hits``), and the positions of the new versions among the incoming rows."""

    hits: Mask
    places: npt.NDArray[np.int64]

    def only(self, chosen: Mask) -> Mask:
        """Return the rows of the batch that match the chosen positions."""
        hits = np.zeros(len(self.hits), bool)
        hits[np.flatnonzero(self.hits)[chosen]] = True
        return hits


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result for the rows of a batch: ``rows`` replace the rows under ``updated``, in order; the rows under ``leaving`` are removed."""

    updated: Mask
    rows: pa.Table
    leaving: Mask


@dataclass(slots=True)
class Incoming:
    """New versions of rows of one file group, one for each key, with prepared columns; ``law`` decides between them and the rows of the file."""

    rows: pa.Table
    law: MergeLaw
    keys: pa.Array = field(init=False)
    matched: Mask = field(init=False)
    leaves: Mask = field(init=False)
    versions: Versions = field(init=False)

    def __post_init__(self) -> None:
        self.keys = self.rows.column(RECORD_KEY).combine_chunks()
        self.matched = np.zeros(len(self.rows), bool)
        self.leaves = leaving(self.rows)
        self.versions = Versions.of_rows(self.rows, self.law.ordering)

    @property
    def deleted(self) -> Mask:
        """Return which rows have a delete flag, or a key that moves to another partition."""
        return self.versions.deleted | self.leaves

    def may_meet(self, stored: Mapping[str, ColumnRange]) -> bool:
        """Return whether a key is between the least and the greatest of stored keys; true if these are unknown."""
        known = stored.get(RECORD_KEY)
        if known is None or known.min is None or known.max is None:
            return True
        inside = pc.and_(pc.greater_equal(self.keys, known.min), pc.less_equal(self.keys, known.max))
        return bool(pc.any(inside).as_py())

    def meets(self, keys: pa.ChunkedArray) -> bool:
        """Return whether one of these stored keys has a new version."""
        return bool(pc.any(pc.is_in(keys, value_set=self.keys)).as_py())

    def match(self, batch: pa.RecordBatch) -> Match | None:
        """Return the rows of a batch of the file that have a new version; None if no row has one."""
        found = pc.index_in(batch.column(RECORD_KEY), value_set=self.keys)
        if found.null_count == len(found):
            return None
        hits = found.is_valid().to_numpy(zero_copy_only=False)
        places = found.drop_null().to_numpy().astype(np.int64)
        self.matched[places] = True
        return Match(hits, places)

    def winners(self, batch: pa.RecordBatch, match: Match) -> Match:
        """Return the part of a match in which the new version wins."""
        if not self.law.ordering:
            return match
        stored = batch.select(list(self.law.ordering)).filter(pa.array(match.hits))
        wins = self.law.newer_wins(self.versions.take(match.places), Versions.of_stored(stored, self.law.ordering))
        return match if wins.all() else Match(match.only(wins), match.places[wins])

    def unmatched(self, merger: TableMerger | None) -> pa.Table:
        """Return the rows to insert: rows whose keys matched no batch so far, without deletes."""
        deleted = self.deleted if merger is None else self.deleted | merger.deletes(self.rows)
        return self.rows.filter(pa.array(~self.matched & ~deleted))


def _replace_rows(batch: pa.RecordBatch, hits: Mask, new: pa.Table) -> pa.RecordBatch:
    """Return the batch with the rows under the mask replaced by ``new``, in order, with the same columns."""
    new = new.combine_chunks()
    under = pa.array(hits)
    take = np.arange(len(batch))
    take[hits] = len(batch) + np.arange(len(new))
    indices = pa.array(take)
    columns = []
    for name, old in zip(batch.schema.names, batch.columns, strict=True):
        values = _whole(new.column(name))
        if pa.types.is_nested(old.type) or pa.types.is_decimal(old.type):
            columns.append(pa.concat_arrays([old, values]).take(indices))
        else:
            columns.append(pc.replace_with_mask(old, under, values))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
