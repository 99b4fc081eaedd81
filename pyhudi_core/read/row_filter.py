"""Select the rows of a read in each file slice, and read them: base file and logs, filters, partition columns.

A `RowFilter` is a value that tasks carry to other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import ObjectNotFoundError, SnapshotExpiredError, at_table
from pyhudi_core.file_groups.partition_values import constants_of, with_constants
from pyhudi_core.file_groups.skeletons import open_base
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.model.internal_schema import in_file
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.model.schema import conform
from pyhudi_core.predicates import Condition
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.expired import to_keep_files
from pyhudi_core.read.files_to_read import choose_row_groups
from pyhudi_core.read.late_columns import two_parts
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.timeline.lost_files import lost_file, newest_policy


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows and columns that a scan reads of each file.

    Attributes:
        columns: the result's columns, in order.
        schema: the snapshot's schema, with meta columns.
        predicate: the condition, or None.
        changed_by: requested times of the instants whose rows are requested; None for all rows.
        keys: requested record keys; None for all.
        threads: decode the columns of a file in parallel.
        probe: a set of record keys, one of which every matching row has; files without any of these keys are skipped. None if unknown.
        keys_by_partition: the requested keys of each partition, if known.
    """

    columns: tuple[str, ...]
    schema: pa.Schema
    predicate: Condition | None
    changed_by: frozenset[str] | None = None
    keys: pa.Array | None = None
    keys_by_partition: Mapping[str, pa.Array] | None = None
    probe: pa.Array | None = None
    threads: bool = False

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def read_schema(self) -> pa.Schema:
        """The columns to read: the result's columns, and the columns of the conditions."""
        if self.predicate is not None and self.predicate.columns is None:
            return self.schema
        wanted = set(self.columns)
        wanted.update(self.predicate.columns or () if self.predicate else ())
        wanted.update([COMMIT_TIME] if self.changed_by is not None else ())
        wanted.update([RECORD_KEY] if self.keys is not None else ())
        return pa.schema([item for item in self.schema if item.name in wanted])

    def _base_rows(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        """Read the requested rows of a base file, with the columns to read."""
        schema, path, names = self.read_schema, piece.path, merging.names_at(piece.requested_time)
        given = constants_of(piece.partition, merging.config, schema)
        with open_base(storage, path, in_file(names, [name for name in schema.names if name not in given])) as reader:
            if not self.may_hold_keys(reader):
                return
            groups = self.row_groups(reader, merging, piece)
            parts = two_parts(reader, path, schema, self._deciding, given, names)
            if parts is None:
                for batch in reader.iter_batches(groups, use_threads=self.threads):
                    yield self._keep(with_constants(conform(batch, schema, names), given))
                return
            for number in groups:
                for batch in parts.rows_of(
                    number, lambda part: self._keep(with_constants(part, given)), use_threads=self.threads
                ):
                    yield with_constants(conform(batch, schema), given)

    @property
    def _deciding(self) -> frozenset[str]:
        """The columns that select the rows; none if all rows are selected, or if the columns of the condition are unknown."""
        if self.predicate is not None and self.predicate.columns is None:
            return frozenset()
        found = set(self.predicate.columns or ()) if self.predicate is not None else set()
        found.update([COMMIT_TIME] if self.changed_by is not None else ())
        found.update([RECORD_KEY] if self.keys is not None else ())
        return frozenset(found)

    def read_slice(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        """Read the requested rows of one slice, logs included.

        Raises `SnapshotExpiredError` if one of its files was cleaned, and `CorruptionError` if one is damaged, or is missing in the newest state.
        """
        if self.keys_by_partition is not None:
            own = replace(self, keys=self.keys_by_partition[piece.partition], keys_by_partition=None)
            yield from own.read_slice(storage, piece, merging)
            return
        with _reading(storage, merging):
            for kept in self._rows(storage, piece, merging):
                if kept.num_rows:
                    yield kept.select(list(self.columns))

    def count_slice(self, storage: Storage, piece: FileSlice, merging: Merging) -> int:
        """Return the number of requested rows of one slice.

        If all rows of its base file are requested, the number comes from the commit that wrote it, or from the footer. Raises as `read_slice`.
        """
        limits = (self.predicate, self.changed_by, self.keys, self.keys_by_partition)
        if piece.base is None or piece.logs or any(limit is not None for limit in limits):
            narrow = replace(self, columns=self.columns[:1])
            return sum(batch.num_rows for batch in narrow.read_slice(storage, piece, merging))
        if piece.stat is not None:
            return piece.stat.rows
        with _reading(storage, merging), storage.open_input(piece.base.path) as source:
            return sum(BaseFileReader(source, piece.base.path).row_group_rows)

    def _rows(self, storage: Storage, piece: FileSlice, merging: Merging) -> Iterator[pa.RecordBatch]:
        """Read the requested rows, with at least the columns to read."""
        if not piece.logs:
            return self._base_rows(storage, piece, merging)
        constants = constants_of(piece.partition, merging.config, self.schema)
        merged = merged_batches(storage, piece, merging, self.read_schema, self.schema)
        return (self._keep(with_constants(batch, constants)) for batch in merged)

    def row_groups(self, reader: BaseFileReader, merging: Merging, piece: FileSlice) -> list[int]:
        """Return the row groups of a base file that can hold a matching row; all row groups if the file has other names for columns."""
        renamed = merging.names_at(piece.requested_time) is not None
        constants = constants_of(piece.partition, merging.config, self.schema)
        return choose_row_groups(reader, None if renamed else self.predicate, self.schema, constants)

    def may_hold_keys(self, reader: BaseFileReader) -> bool:
        """Say whether a file can hold a requested key, by its key range and its bloom filter."""
        keys = self.probe if self.keys is None else self.keys
        if keys is None:
            return True
        footer = reader.footer()
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


@contextmanager
def _reading(storage: Storage, merging: Merging) -> Iterator[None]:
    """Add the table to errors of a read. For a missing file the error says that the state has expired, or that the table is damaged."""
    try:
        with at_table(storage.location):
            yield
    except ObjectNotFoundError as error:
        folder = TimelineFolder.of(storage, merging.config)
        lost = lost_file(folder, error.path)
        if lost is not None:
            raise lost from error
        policy = newest_policy(folder) or ""
        raise SnapshotExpiredError(
            "A file of this read is missing: it was cleaned after the read began, or deleted by other means",
            table=storage.location,
            path=error.path,
            hint="Read the newest state; if that fails too, run `pyhudi check`. For reads that take long, set pyhudi.clean.keep.seconds."
            f" {to_keep_files(policy)}",
        ) from error


@dataclass(frozen=True, slots=True)
class SliceReader:
    """Reads the requested rows of file slices in a `Task`."""

    rows: RowFilter
    merging: Merging

    def read(self, storage: Storage, part: FileSlice) -> Iterator[pa.RecordBatch]:
        """Read one slice. Raises `SnapshotExpiredError` if one of its files was cleaned."""
        return self.rows.read_slice(storage, part, self.merging)
