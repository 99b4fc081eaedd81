"""Change data capture: the change of every row by every commit, with the row before and after.

Specification, "CDC Query". A change is the difference between two states of a file group: before a commit became visible, and with the commit. So
changes are correct in each of the three supplemental logging modes, in copy-on-write and merge-on-read tables. They never contain a value that lost
the merge. If a commit has change logs with both images (``DATA_BEFORE_AFTER``), these are read instead of the two states.

Changes are returned in the order of the completion of their commits. An overwrite first has the deletes of replaced rows, and then an insert for
every written row, even an unchanged one. Otherwise there is no order within a commit. A key that moved to another partition has an insert and a
delete, so apply the deletes of a commit first. Table services change no rows, so they have no changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.choice import frame_of
from pyhudi_core.engine.reading import Reading, TaskGroup
from pyhudi_core.errors import ObjectNotFoundError, SnapshotExpiredError, at_table
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.log.blocks import BlockType, Header
from pyhudi_core.formats.log.contents import read_records
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY, with_meta_fields
from pyhudi_core.model.printing import printable
from pyhudi_core.model.schema import conform
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.conversions import Conversions
from pyhudi_core.read.differences import differing
from pyhudi_core.read.expired import to_keep_changes
from pyhudi_core.read.pairing import GroupState, Pairs, paired
from pyhudi_core.read.row_filter import RowFilter
from pyhudi_core.read.session_zones import refuse_other_zone
from pyhudi_core.read.tasks import Task, first_rows, tasks_for
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Storage

INSERT, UPDATE, DELETE = "i", "u", "d"
_PLACE = "_hoodie_place"
"""A column name that no table has: Hudi reserves the prefix."""


@dataclass(frozen=True, slots=True)
@printable
class GroupChange:
    """The change of one file group by one commit: its slice before and after, or the change logs.

    ``is_whole``: whether the files of both slices exist.
    """

    instant: str
    before: FileSlice | None
    after: FileSlice | None
    logs: tuple[str, ...] = ()
    is_whole: bool = True

    @property
    def size(self) -> int:
        """The size of the files of both slices in bytes."""
        return sum(piece.size for piece in (self.before, self.after) if piece is not None)


class _OneImageError(Exception):
    """A change log was written in a mode that does not store both images."""


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads changes of file groups; a value that can be sent to tasks.

    Attributes:
        columns: columns of ``before`` and ``after``.
        schema: the table's columns.
        predicate: selects changes whose row before or after matches; None for all.
        merging: how slices with logs are merged.
        keys: only changes of rows with these record keys; change logs are not used. None for all changes.
    """

    columns: tuple[str, ...]
    schema: pa.Schema
    predicate: Predicate | None
    merging: Merging
    keys: pa.Array | None = None

    @property
    def result_schema(self) -> pa.Schema:
        """The columns op, ts_ms, before and after."""
        row = pa.struct([self.schema.field(name).with_nullable(True) for name in self.columns])
        return pa.schema([("op", pa.string()), ("ts_ms", pa.string()), ("before", row), ("after", row)])

    def read(self, storage: Storage, change: GroupChange) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one group, as unordered batches of the result's columns."""
        with at_table(storage.location):
            yield from (batch for batch in self._changes_of(storage, change) if batch is not None and batch.num_rows)

    def _changes_of(self, storage: Storage, change: GroupChange) -> Iterator[pa.RecordBatch | None]:
        """Return the changes from the change logs, or, without usable change logs, from the two slices."""
        if change.logs:
            try:
                return iter([self._logged(storage, path, change.instant) for path in change.logs])
            except (_OneImageError, ObjectNotFoundError) as error:
                if not change.is_whole:
                    raise SnapshotExpiredError(
                        "A change log was cleaned or does not hold the rows before and after, and the files of these rows were cleaned",
                        path=change.logs[0],
                        hint=f"Read the changes sooner. {to_keep_changes()}",
                    ) from error
        states = (self._state(storage, piece) for piece in (change.before, change.after))
        return (self._compared(change, pairs) for pairs in paired(*states))

    def _compared(self, change: GroupChange, pairs: Pairs) -> pa.RecordBatch:
        """Return the changes among these pairs. A row without a partner is a change. A pair is a change if the commit wrote the new row, or if the
        values differ.
        """
        at_old, at_new = pairs.at_old, pairs.at_new
        changed = (at_old < 0) | (at_new < 0)
        if not changed.all():
            written = np.asarray(pc.equal(pairs.new.column(COMMIT_TIME), change.instant).to_numpy(), bool)
            changed |= written[at_new]
            if change.after is not None and change.after.logs:
                changed[~changed] = self._otherwise(pairs, ~changed)
        at_old, at_new = at_old[changed], at_new[changed]
        ops = np.where(at_old < 0, INSERT, np.where(at_new < 0, DELETE, UPDATE))
        old, new = _take(pairs.old, at_old), _take(pairs.new, at_new)
        return self._batch(pa.array(ops, pa.string()), change.instant, old, new, at_new, at_old)

    def _otherwise(self, pairs: Pairs, which: np.ndarray) -> np.ndarray:
        """Say which of these pairs differ although this commit did not write the current row.

        A late partial update can provide a column that a newer one omits. If a late delete replaces a log entry, the base row can become visible
        again.
        """
        columns = self.schema.names
        before, after = pairs.old.select(columns), pairs.new.select(columns)
        return differing(before.take(pa.array(pairs.at_old[which])), after.take(pa.array(pairs.at_new[which])))

    def _state(self, storage: Storage, piece: FileSlice | None) -> GroupState:
        """Return the rows of a slice, with the table's columns and the meta columns."""
        keys = pa.schema([with_meta_fields(self.schema).field(RECORD_KEY)])

        def only_keys() -> Iterator[pa.Array]:
            return (batch.column(RECORD_KEY) for batch in self._rows(storage, piece, keys))

        return GroupState(self._rows(storage, piece, with_meta_fields(self.schema)), only_keys)

    def _rows(self, storage: Storage, piece: FileSlice | None, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        if piece is None:
            return
        wanted = RowFilter(tuple(columns.names), with_meta_fields(self.schema), None, keys=self.keys)
        try:
            yield from wanted.read_slice(storage, piece, self.merging)
        except SnapshotExpiredError as error:
            raise SnapshotExpiredError(
                "A file that held the rows before a change has been cleaned",
                path=error.path,
                hint="Read the changes sooner, or log both images (hoodie.table.cdc.supplemental.logging.mode=DATA_BEFORE_AFTER)."
                f" {to_keep_changes()}",
            ) from error

    def _logged(self, storage: Storage, path: str, instant: str) -> pa.RecordBatch | None:
        parts: list[pa.RecordBatch] = []
        with storage.open_input(path) as source:
            reader = LogReader(source, path)
            for block in reader.blocks():
                if block.type is BlockType.CDC_DATA and block.instant_time == instant:
                    records = read_records(reader.content(block), block.headers.get(Header.SCHEMA, ""), path)
                    if not {"before", "after"} <= set(records.schema.names):
                        raise _OneImageError
                    parts.append(self._of_log(records, instant))
            reader.warn_of_damage(storage.location)
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0] if any(p.num_rows for p in parts) else None

    def _of_log(self, records: pa.RecordBatch, instant: str) -> pa.RecordBatch:
        images = []
        for name in ("before", "after"):
            image = records.column(name)
            image_rows = pa.RecordBatch.from_struct_array(image.fill_null({}) if image.null_count else image)
            rows = conform(image_rows, self.schema, self.merging.names_at(instant))
            images.append(
                (pa.Table.from_batches([rows]), np.where(image.is_valid().to_numpy(zero_copy_only=False), 0, -1))
            )
        (old, had), (new, has) = images
        return self._batch(records.column("op"), instant, old, new, has, had)

    def _batch(
        self, ops: pa.Array, instant: str, old: pa.Table, new: pa.Table, has: np.ndarray, had: np.ndarray
    ) -> pa.RecordBatch:
        """Return a batch of changes. ``had`` and ``has``: the positions of the rows before and after; negative if there is no such row."""
        keep = self._matching(old, had) | self._matching(new, has)
        columns = [
            ops.cast(pa.string()), pa.repeat(pa.scalar(instant), len(ops)),
            self._image(old, had), self._image(new, has),
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=self.result_schema).filter(pa.array(keep))

    def _matching(self, rows: pa.Table, present: np.ndarray) -> np.ndarray:
        if self.predicate is None:
            return np.ones(rows.num_rows, bool)
        numbered = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
        kept = matching(numbered, self.predicate.expression).column(_PLACE).to_numpy()
        found = np.zeros(rows.num_rows, bool)
        found[kept] = True
        return found & (present >= 0)

    def _image(self, rows: pa.Table, present: np.ndarray) -> pa.Array:
        kind = self.result_schema.field("before").type
        arrays = [rows.column(name).combine_chunks() for name in self.columns]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(present < 0))


@dataclass(frozen=True, slots=True)
@printable
class ChangeFeed(Conversions):
    """The changes of some commits. Prints as a line; read it as Arrow, in batches, or on Spark."""

    storage: Storage
    executor: Executor
    reader: ChangeReader
    groups: tuple[GroupChange, ...]
    most: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns op (i, u or d), ts_ms (the commit's requested time), before and after (rows; null if there is no row)."""
        return self.reader.result_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes in the order of their commits. Memory is bounded by row groups of one file group and its logs (`pairing`)."""
        read = (batch for change in self.groups for batch in self.reader.read(self.storage, change))
        return first_rows(read, self.most)

    def to_arrow(self) -> pa.Table:
        """Return all changes as one table; file groups are read in parallel."""
        if self.most is not None:
            return pa.Table.from_batches(list(self.to_batches()), self.schema)
        read = self.executor.map(lambda change: list(self.reader.read(self.storage, change)), self.groups)
        return pa.Table.from_batches([batch for batches in read for batch in batches], self.schema)

    def to_spark(self, spark: Any) -> Any:
        """Return the changes as a DataFrame of this Spark session. The session's executors read them when the DataFrame is used."""
        with at_table(self.storage.location):
            frame = frame_of(Reading(self.schema, (TaskGroup(self.tasks()),)), spark, self.storage.location)
            refuse_other_zone(self.reader.predicate, self.reader.schema, spark)
            return frame if self.most is None else frame.limit(self.most)

    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> ChangeFeed:
        """Return this feed unchanged: only all columns together show which rows changed."""
        return self

    def _limited(self, most: int) -> ChangeFeed:
        return replace(self, most=most)

    def tasks(self, most_bytes: int = 0) -> list[Task]:
        """Return tasks in the order of the commits: one for each changed file group, or for consecutive groups of at most ``most_bytes`` bytes.

        A feed with a `limit` is one task.
        """
        if self.most is not None:
            return [Task(self.storage.spec(), self.reader, self.groups, self.most)]
        return tasks_for(self.storage, self.reader, self.groups, most_bytes)

    def __repr__(self) -> str:
        commits = len({change.instant for change in self.groups})
        most = "" if self.most is None else f", at most {self.most:,} changes"
        return f"ChangeFeed of {self.storage.location}: {commits} commits, {len(self.groups)} file groups{most}"


def _take(rows: pa.Table, places: np.ndarray) -> pa.Table:
    absent = places < 0
    if not rows.num_rows:
        return pa.table([pa.nulls(len(places), item.type) for item in rows.schema], schema=rows.schema)
    return rows.take(pa.array(np.where(absent, 0, places), mask=absent))
