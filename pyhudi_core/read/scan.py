"""Scans: read one snapshot of a table, whole, filtered, or only what changed. Arrow batches, an Arrow table, or a Spark DataFrame.

A scan is a plan until it is read, and reads the same rows every time: the snapshot is pinned when the scan is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import ObjectNotFoundError, SnapshotExpiredError, at_table
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.internal_schema import in_file
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.model.schema import conform
from pyhudi_core.predicates import Condition
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.merged import Merging, merged_batches
from pyhudi_core.read.partition_values import constants_of, with_constants
from pyhudi_core.read.plan import Explanation, Step, choose_row_groups, choose_slices, may_match
from pyhudi_core.read.read_optimized import Staleness, staleness
from pyhudi_core.runtime.base import Executor
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What a scan reads of each file.

    Attributes:
        columns: the result's columns, in order.
        schema: the snapshot's, with meta columns.
        predicate: the condition, or None.
        changed_by: requested times of the instants whose rows are wanted; None for all rows.
        keys: record keys that are wanted; None for all.
        keys_by_partition: those of them that are wanted of each partition, where that is known.
    """

    columns: tuple[str, ...]
    schema: pa.Schema
    predicate: Condition | None
    changed_by: frozenset[str] | None = None
    keys: pa.Array | None = None
    keys_by_partition: Mapping[str, pa.Array] | None = None

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def read_schema(self) -> pa.Schema:
        """The columns that must be read: the result's, and what the conditions look at."""
        if self.predicate is not None and self.predicate.columns is None:
            return self.schema
        wanted = set(self.columns)
        wanted.update(self.predicate.columns or () if self.predicate else ())
        wanted.update([COMMIT_TIME] if self.changed_by is not None else ())
        wanted.update([RECORD_KEY] if self.keys is not None else ())
        return pa.schema([item for item in self.schema if item.name in wanted])

    def _base_rows(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        schema, path, names = self.read_schema, piece.base.path, merging.names_at(piece.requested_time)
        with storage.open_input(path) as source:
            reader = BaseFileReader(source, path, in_file(names, schema.names))
            if self.may_hold_keys(reader):
                for batch in reader.iter_batches(self.row_groups(reader, merging, piece)):
                    yield conform(batch, schema, names)

    def read_slice(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        """The wanted rows of one slice, with its logs. Raises `SnapshotExpiredError` if a file of it is gone."""
        if self.keys_by_partition is not None:
            own = replace(self, keys=self.keys_by_partition[piece.partition], keys_by_partition=None)
            yield from own.read_slice(storage, piece, merging)
            return
        try:
            with at_table(storage.location):
                constants = constants_of(piece.partition, merging.config, self.schema)
                for batch in self._rows(storage, piece, merging):
                    kept = self._keep(with_constants(batch, constants))
                    if kept.num_rows:
                        yield kept.select(list(self.columns))
        except ObjectNotFoundError as error:
            raise SnapshotExpiredError(
                "A file of the state that is read is gone: it was cleaned after the read began",
                table=storage.location,
                path=error.path,
                hint="Read the newest state, and let cleans keep more commits (hoodie.clean.commits.retained).",
            ) from error

    def _rows(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        """In the columns to read, at least the rows that may be wanted."""
        if piece.logs:
            return merged_batches(storage, piece, merging, self.read_schema, self.schema)
        return self._base_rows(storage, piece, merging)

    def row_groups(self, reader: BaseFileReader, merging: Merging, piece: FileSlice) -> list[int]:
        """The row groups of a base file that can hold a matching row; all of one whose columns have other names."""
        renamed = merging.names_at(piece.requested_time) is not None
        told = constants_of(piece.partition, merging.config, self.schema)
        return choose_row_groups(reader, None if renamed else self.predicate, self.schema, told)

    def may_hold_keys(self, reader: BaseFileReader) -> bool:
        """Whether a file can hold any wanted key, by its key range and its bloom filter."""
        if self.keys is None:
            return True
        footer = reader.footer()
        keys = self.keys
        if footer.sure_min_key is not None:
            keys = keys.filter(pc.greater_equal(keys, footer.sure_min_key))
        if footer.sure_max_key is not None:
            keys = keys.filter(pc.less_equal(keys, footer.sure_max_key))
        bloom = footer.bloom() if len(keys) else None
        return bool(len(keys)) and (bloom is None or bool(bloom.might_contain(keys).any()))

    def _keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.keys is not None:
            batch = batch.filter(pc.is_in(batch.column(RECORD_KEY), value_set=self.keys))
        if self.changed_by is not None:
            times = pa.array(sorted(self.changed_by), pa.string())
            batch = batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=times))
        return batch if self.predicate is None else matching(batch, self.predicate.expression)


@dataclass(frozen=True, slots=True)
class Scan:
    """A read of one pinned snapshot.

    ``written_by`` limits it to files that these instants wrote, ``partitions`` to these partitions, ``groups`` to these file groups.
    ``indexes_in_utc``: the expression indexes of the metadata table were written by sessions in UTC.
    """

    snapshot: Snapshot
    storage: Storage
    executor: Executor
    rows: RowFilter
    written_by: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    groups: frozenset[tuple[str, str]] | None = None
    indexes_in_utc: bool = False
    _chosen: list[list[FileSlice]] = field(default_factory=list, repr=False)

    @property
    def merging(self) -> Merging:
        """How rows of slices with logs are merged."""
        return Merging(self.snapshot.config, self.snapshot.evolution)

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.rows.result_schema

    @property
    def completion_time(self) -> str:
        """The completion time of the newest commit that the scan sees; the cursor to pass as ``after`` next time."""
        return self.snapshot.completion_time

    def may_read(self, partition: str) -> bool:
        """Whether rows of a partition, there or not, could be part of the result."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        return may_match(self.snapshot, self.rows.predicate, partition)

    def with_keys_of(self, keys: Mapping[str, pa.Array]) -> Scan:
        """The same scan, limited to some partitions and to record keys of each."""
        rows = replace(self.rows, keys_by_partition=keys)
        return replace(self, rows=rows, partitions=frozenset(keys), _chosen=[])

    def in_groups(self, groups: frozenset[tuple[str, str]]) -> Scan:
        """The same scan, limited to file groups, (partition, file id) each."""
        return replace(self, groups=groups, _chosen=[])

    def slices(self) -> list[FileSlice]:
        """The file slices to read, after pruning by partition."""
        if not self._chosen:
            chosen, _ = self._choose()
            self._chosen.append([piece for piece in chosen if self._is_wanted(piece)])
        return self._chosen[0]

    def pinned(self) -> Scan:
        """The same scan, with its files chosen now: what is written or cleaned afterwards does not change what it reads."""
        self.slices()
        return self

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a batch at a time; memory is bounded by one row group of one file, and by the logs of one slice."""
        for piece in self.slices():
            yield from self.rows.read_slice(self.storage, piece, self.merging)

    def to_arrow(self) -> pa.Table:
        """All rows as one table; files are read in parallel."""
        read = self.executor.map(
            lambda piece: list(self.rows.read_slice(self.storage, piece, self.merging)), self.slices()
        )
        return pa.Table.from_batches([batch for batches in read for batch in batches], self.schema)

    def to_spark(self, spark: Any) -> Any:
        """The rows as a DataFrame of this Spark session, read by its executors when it is used."""
        from pyhudi_core.read.spark_scan import to_spark  # noqa: PLC0415  (Spark is imported only where it is used)

        with at_table(self.storage.location):
            return to_spark(self, spark)

    def staleness(self) -> Staleness:
        """What a read-optimized scan of this state leaves out; reads the delete blocks of its logs."""
        return staleness(self.snapshot, self.storage)

    def explain(self) -> Explanation:
        """What each step of planning keeps; reads the footers of the files that are left."""
        chosen, steps = self._choose()
        wanted = [piece for piece in chosen if self._is_wanted(piece)]
        groups = self.executor.map(self._row_groups, wanted)
        all_slices = self.snapshot.view.all_slices()
        return Explanation(
            (
                *steps,
                Step("files", len(wanted), len(all_slices)),
                Step("files after statistics", sum(1 for kept, _ in groups if kept), len(wanted)),
                Step("row groups", sum(kept for kept, _ in groups), sum(total for _, total in groups)),
                Step("columns", len(self.rows.read_schema.names), len(self.rows.schema.names)),
            )
        )

    def _choose(self) -> tuple[list[FileSlice], list[Step]]:
        # Where the record index has named the groups already, bloom filters would add nothing.
        keys = self.rows.keys if self.groups is None else None
        return choose_slices(self.snapshot, self.rows.predicate, keys, utc=self.indexes_in_utc)

    def _is_wanted(self, piece: FileSlice) -> bool:
        if self.partitions is not None and piece.partition not in self.partitions:
            return False
        if self.groups is not None and piece.group not in self.groups:
            return False
        return self.written_by is None or not self.written_by.isdisjoint(piece.requested_times)

    def _row_groups(self, piece: FileSlice) -> tuple[int, int]:
        if piece.base_file is None:
            return (1, 1)
        with self.storage.open_input(piece.base.path) as source:
            reader = BaseFileReader(source, piece.base.path)
            total = len(reader.row_group_rows)
            if piece.logs:
                return (total, total)
            if not self.rows.may_hold_keys(reader):
                return (0, total)
            return (len(self.rows.row_groups(reader, self.merging, piece)), total)

    def __str__(self) -> str:
        return f"Scan of {self.storage.location} as of {self.completion_time or 'its creation'}: {', '.join(self.rows.columns)}"
