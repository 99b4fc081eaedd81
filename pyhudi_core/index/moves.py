"""Rows that move. A row whose key is in another partition moves to its own partition, with a global index (specification, "Indexes", global indexes).
Rows within a partition move if ``pyhudi.update.moves.rows`` is set.

The index returns such a row twice. The first copy is tagged with the file group that contains the key, and deletes the stored row there
(`TAG_LEAVES`). The second copy has no tag, so it is inserted in its own partition, in a file group that no row leaves. One commit has both copies, so
every reader sees the key exactly once.

The merge law decides first: a row that is older than the stored row does not move, and loses against it. A row that is marked as deleted deletes the
stored row in its file group. A key whose stored row was deleted by logs is a new key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo, dealt, runs, slotted, with_slots, without_slots
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import NOT_FOUND, TAG_FILE_ID, TAG_LEAVES, TAG_PARTITION, TAGS, leaving
from pyhudi_core.merge.law import Mask, Versions, mask, says_deleted
from pyhudi_core.merge.merged_slice import LivingRows
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Moves:
    """Decides which rows move.

    Args:
        open_storage: opens the table's storage inside a task.
        living: reads stored rows.
        inserts: whether no stored row may be replaced. Then the only question is whether the stored row still exists.
        tasks: the number of tasks.
        elsewhere, inside: whether rows move if their key is in another partition, or in their own partition.
    """

    open_storage: Callable[[], Storage]
    living: LivingRows
    inserts: bool
    tasks: int
    elsewhere: bool = True
    inside: bool = False

    def of(self, tagged: Dataset, slices: Sequence[FileSlice]) -> Dataset:
        """Return the tagged rows with `TAG_LEAVES`. ``slices``: the slices that rows may leave."""
        places = tuple(f"{piece.partition}/{piece.file_id}" for piece in slices)
        given = [field for field in tagged.schema if field.name != TAG_LEAVES]
        decided = pa.schema([*given, (TAG_LEAVES, pa.bool_())])
        shuffled = tagged.map(_Slot(places, self.tasks, self.elsewhere, self.inside), slotted(tagged.schema)).shuffle(
            TASK, self.tasks, SORT
        )
        decide = _Decide(self.open_storage, self.living, self.inserts, decided)
        return shuffled.map(decide, decided, dealt(slices, self.tasks))


@dataclass(frozen=True, slots=True)
class _Slot:
    """Task function: sends rows that may move to the file group that contains their key. Other rows are spread evenly, with the sort value -1."""

    places: tuple[str, ...]
    tasks: int
    elsewhere: bool
    inside: bool

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        places = pa.array(self.places, pa.string())
        for batch in batches:
            place = pc.binary_join_element_wise(batch.column(TAG_PARTITION), batch.column(TAG_FILE_ID), "/")
            number = pc.fill_null(pc.index_in(place, value_set=places, skip_nulls=True), NOT_FOUND).to_numpy()
            known = mask(batch.column(TAG_PARTITION).is_valid())
            other = mask(pc.fill_null(pc.not_equal(batch.column(TAG_PARTITION), batch.column(PARTITION_PATH)), False))
            may_move = ((other & self.elsewhere) | (known & ~other & self.inside)) & ~leaving(batch)
            sort = np.where(may_move, number, NOT_FOUND).astype(np.int64)
            spread = hash_keys(batch.column(RECORD_KEY)).astype(np.int64)
            yield with_slots(batch, np.where(sort == NOT_FOUND, spread, sort) % self.tasks, sort)


@dataclass(frozen=True, slots=True)
class _Decide:
    """Task function: adds `TAG_LEAVES`. The payload has the task's slices by their numbers."""

    open_storage: Callable[[], Storage]
    living: LivingRows
    inserts: bool
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_storage()
        for number, run in runs(batches, SORT):
            rows = without_slots(run)
            if number == NOT_FOUND:
                yield from self._given(rows, leaving(rows))
                continue
            there, moves = self._fates(storage, task.payload[number], rows)
            tagged = rows.filter(pa.array(there))
            yield from self._given(tagged, moves[there])
            came = rows.filter(pa.array(moves | ~there))
            for name in TAGS.names:
                at = came.schema.get_field_index(name)
                came = came.set_column(at, TAGS.field(name), pa.nulls(len(came), TAGS.field(name).type))
            yield from self._given(came, np.zeros(len(came), bool))

    def _fates(self, storage: Storage, piece: FileSlice, rows: pa.Table) -> tuple[Mask, Mask]:
        """Return which rows' keys are stored in the slice, and which of these rows move."""
        ordering = self.living.merging.ordering
        stays = says_deleted(rows) if not self.inserts else np.ones(len(rows), bool)
        if not ordering and not piece.logs:
            return np.ones(len(rows), bool), ~stays
        stored = self.living.with_keys(storage, piece, rows.column(RECORD_KEY), ordering)
        places = pc.index_in(rows.column(RECORD_KEY), value_set=stored.column(RECORD_KEY).combine_chunks())
        there = mask(places.is_valid())
        wins = there.copy()
        if ordering:
            newer = Versions.of_rows(rows.filter(pa.array(there)), ordering)
            older = Versions.of_stored(stored.take(places.drop_null()), ordering)
            wins[there] = self.living.merging.law().newer_wins(newer, older)
        return there, wins & ~stays

    def _given(self, rows: pa.Table, leaves: Mask) -> Iterator[pa.RecordBatch]:
        own = [rows.column(name) for name in self.schema.names[:-1]]
        whole = pa.Table.from_arrays([*own, pa.array(leaves)], schema=self.schema)
        yield from whole.combine_chunks().to_batches()
