"""Read one file slice that has logs: merge the logs into its base rows.

Readers use this module, and writers that need the keys of a slice with logs. Statistics of the base file prune nothing here: a log may replace a base
row that does not match by a row that matches, or the reverse. Memory is bounded by a batch of base rows and the slice's logs in the wanted columns,
or a limit if the logs are larger. Above the limit the logs and the base file are read again for each part of the keys (``merge/key_parts.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import UnsupportedTableError, columns_named
from pyhudi_core.file_groups.partition_values import constants_of, with_constants
from pyhudi_core.file_groups.skeletons import may_be_skeleton, open_base
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.fold import SliceMerge, fold
from pyhudi_core.merge.key_parts import KeyPart, LogsTooLargeError
from pyhudi_core.merge.law import MergeLaw, TableMerger
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.merge.record_merger import find_merger, law_of, ordering_of
from pyhudi_core.model.internal_schema import Evolution, FileNames, in_file, names_at
from pyhudi_core.model.meta_fields import IS_DELETED, RECORD_KEY
from pyhudi_core.model.properties import MergeMode, TableConfig
from pyhudi_core.model.record_key import key_columns, stored_keys
from pyhudi_core.model.schema import conform
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.base import Storage

MOST_LOG_BYTES = 1 << 30
"""Hudi's default of ``hoodie.memory.merge.max.size``."""


@dataclass(frozen=True, slots=True)
class Merging:
    """How a table's rows are merged.

    The value can be sent to tasks; it contains the registered merger of the process that made it. ``evolution`` has the column names of older files.
    ``most_log_bytes`` is the maximum size of log entries in memory before the fold. ``executor`` as in `LogScan`.
    """

    config: TableConfig
    evolution: Evolution | None = None
    most_log_bytes: int = MOST_LOG_BYTES
    executor: Executor = field(default=SerialExecutor(), compare=False)
    merger: TableMerger | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merger", find_merger(self.config))

    def names_at(self, requested_time: str) -> FileNames | None:
        """Return the column names in the files of a commit; None if they are the current names."""
        return names_at(self.evolution, requested_time)

    @property
    def is_custom(self) -> bool:
        """Whether a merger makes the rows."""
        return self.config.merge_mode is MergeMode.CUSTOM or self.merger is not None

    def log_columns(self, columns: pa.Schema, base_time: str = "", wanted: Sequence[str] = ()) -> LogColumns:
        """Return the columns for reading logs; ``base_time`` as in `LogColumns`, for readers of these ``wanted`` columns."""
        mark = self.config.merge_rules.mark
        deciding = {*wanted, *self.ordering, IS_DELETED, mark[0]}
        for_keys = frozenset(key_columns(self.config)) - deciding
        return LogColumns(columns, self.ordering, self.keys_of, self.names_at, mark, base_time, for_keys)

    @property
    def ordering(self) -> tuple[str, ...]:
        """The columns that decide between versions; none if only the order of commits decides."""
        return ordering_of(self.config)

    def law(self) -> MergeLaw:
        """Return the law between two versions of a row. Raises `UnsupportedTableError` if the merger is unknown."""
        return law_of(self.config, self.merger)

    def of_slice(self, piece: FileSlice) -> Merging:
        """Return the merging of the logs of a slice. If the table was raised, and all logs are older than the upgrade, the logs merge as in version
        6.

        The newest slices have no such logs, because the upgrade wrote base files above them. So only older states are read by the old rules.
        """
        raised_at = self.config.raised_at
        if not raised_at or not piece.logs or any(log.name.requested_time >= raised_at for log in piece.logs):
            return self
        before = replace(self, config=self.config.before_raised)
        if before.merger is None and self.merger is not None:  # the user's merger, which other processes may not know
            object.__setattr__(before, "merger", self.merger)
        return before

    def keys_of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the record keys of a batch."""
        return stored_keys(batch, self.config)

    def columns(self, wanted: pa.Schema, schema: pa.Schema) -> pa.Schema:
        """Return the columns to read for the merge and for the wanted columns, in the order of the table's schema. A merger gets all columns."""
        absent = [name for name in self.ordering if name not in schema.names]
        if absent:
            raise UnsupportedTableError(
                f"The properties say that {columns_named(absent)} decides which version of a row wins, and the table has no such column",
                hint="Correct hoodie.table.ordering.fields (hoodie.table.precombine.field) in hoodie.properties.",
            )
        if self.is_custom:
            return schema
        names = {
            *wanted.names,
            *key_columns(self.config),
            *self.ordering,
            IS_DELETED,
            self.config.merge_rules.delete_column,
        }
        return pa.schema([item for item in schema if item.name in names])


@dataclass(slots=True)
class PartRows:
    """The merged rows for a part of a slice's keys. Call `kept` first, then `added`.

    Attributes:
        base: the rows of the base file.
        merge: the merge with the logs; None if the logs have no entry.
        entries: the number of log entries.
    """

    base: Iterator[pa.RecordBatch]
    merge: SliceMerge | None
    entries: int

    def kept(self) -> Iterator[pa.RecordBatch]:
        """Return the rows whose keys are in the base file."""
        return self.base if self.merge is None else self.merge.over_base(self.base)

    def added(self) -> Iterator[pa.RecordBatch]:
        """Return the rows whose keys are only in the logs."""
        return iter(()) if self.merge is None else self.merge.inserts()


@dataclass(slots=True)
class SliceRows:
    """The merged rows of a slice: all keys at once, or one part of the keys after the other if the logs are too large.

    Attributes:
        parts: the parts; read each part completely before the next one.
        entries: the number of log entries; an estimate if there are several parts.
    """

    parts: Iterator[PartRows]
    entries: int


def slice_rows(storage: Storage, piece: FileSlice, merging: Merging, wanted: pa.Schema, schema: pa.Schema) -> SliceRows:
    """Return the rows of a slice in (at least) the wanted columns. Reads the logs now, and the base file during the iteration.

    Raises `CorruptionError` and its kinds, and `LimitExceededError`.
    """
    merging = merging.of_slice(piece)
    columns = merging.columns(wanted, schema)
    law = merging.law()
    scan = LogScan(storage, piece.logs, piece.requested_times.__contains__, merging.executor)
    # A merger gets all columns, and it merges key by key, also keys that a base file has twice.
    base_time = "" if piece.base is None or merging.is_custom else piece.base.name.requested_time
    found = merging.log_columns(columns, base_time, wanted.names)

    def read(part: KeyPart) -> Iterator[tuple[KeyPart, PartRows]]:
        parts, entries = 0, None
        try:
            entries = scan.entries(found, part, merging.most_log_bytes)
        except LogsTooLargeError as error:
            parts = error.parts
        if parts:  # not in the handler, because there the error still holds the entries
            for smaller in part.cut(parts):
                yield from read(smaller)
            return
        if merging.is_custom and entries is not None and entries.present is not None:
            raise UnsupportedTableError(
                "The logs hold partial updates of a table whose rows are merged by a merger, which no release of Hudi reads",
                path=piece.logs[-1].path,
                hint="Compact the table with the code that wrote them.",
            )
        of_base = found.without_keys().schema if entries is not None and entries.by_position else columns
        base = _of_part(_base_batches(storage, piece, of_base, merging), part, merging)
        rows = PartRows(base, None, 0)
        if entries is not None:
            rows = PartRows(base, SliceMerge(fold(entries, law), law, merging.keys_of, piece.path), len(entries))
            entries = None
        yield part, rows
        rows.merge = None  # the reader still has the part while the next one is read

    parts = read(KeyPart())
    part, first = next(parts)
    return SliceRows(chain((first,), (rows for _, rows in parts)), first.entries * part.of)


def merged_batches(
    storage: Storage, piece: FileSlice, merging: Merging, wanted: pa.Schema, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of a slice in (at least) the wanted columns. Raises as `slice_rows`."""
    for part in slice_rows(storage, piece, merging, wanted, schema).parts:
        yield from part.kept()
        yield from part.added()


def _of_part(batches: Iterator[pa.RecordBatch], part: KeyPart, merging: Merging) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose keys are in a part."""
    if part.of == 1:
        yield from batches
        return
    for batch in batches:
        yield batch.filter(pa.array(part.holds(merging.keys_of(batch))))


@dataclass(frozen=True, slots=True)
class LivingRows:
    """Reads rows of slices in their current state. ``schema`` is the schema of the table's files; meta columns come first."""

    merging: Merging
    schema: pa.Schema

    def with_keys(
        self, storage: Storage, piece: FileSlice, keys: pa.Array | pa.ChunkedArray, columns: Sequence[str]
    ) -> pa.Table:
        """Return the record key and the columns of the rows that have one of the keys."""
        asked = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        wanted = pa.schema([item for item in self.schema if item.name in {RECORD_KEY, *columns}])

        def found() -> Iterator[pa.RecordBatch]:
            for batch in merged_batches(storage, piece, self.merging, wanted, self.schema):
                known = pc.is_in(batch.column(RECORD_KEY), value_set=asked)
                yield batch.select(wanted.names).filter(known).cast(wanted)

        return pa.Table.from_batches(found(), wanted).combine_chunks()


def _base_batches(storage: Storage, piece: FileSlice, columns: pa.Schema, merging: Merging) -> Iterator[pa.RecordBatch]:
    if piece.base is None:
        return
    path, names = piece.base.path, merging.names_at(piece.base.name.requested_time)
    constants = constants_of(piece.partition, merging.config, columns) if may_be_skeleton(path) else {}
    with open_base(storage, path, in_file(names, columns.names)) as reader:
        for batch in reader.iter_batches():
            yield with_constants(conform(batch, columns, names), constants)
