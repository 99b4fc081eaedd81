"""Which files of a scan an engine may read by itself, and which this package reads in the engine's tasks.

An engine's own Parquet scan reads files on a local disk whose columns have the snapshot's names and types. This package reads
all other files: slices with logs, files from before a column was widened, files with rows of another partition, files in other
storages, and files whose names an engine would take for patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.engine.reading import EngineFiles, Reading
from pyhudi_core.file_groups.partition_values import constants_of
from pyhudi_core.file_groups.skeletons import may_be_skeleton
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader, ColumnRange, is_parquet, read_footer
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_SCHEMA, OPERATION
from pyhudi_core.model.schema import conform, from_avro
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.row_filter import RowFilter, SliceReader
from pyhudi_core.read.tasks import tasks_for
from pyhudi_core.runtime.base import Executor
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage

_PATTERNS = frozenset("[]{}*?\\")


@dataclass(frozen=True, slots=True)
class EngineScan:
    """The parts of a scan that reading on an engine needs."""

    snapshot: Snapshot
    storage: Storage
    executor: Executor
    rows: RowFilter
    merging: Merging
    slices: Sequence[FileSlice]
    _known: dict[str, bool] = field(default_factory=dict, repr=False)

    def reading(self) -> Reading:
        """Return what the engine has to read."""
        native, others = self._split()
        tasks = tasks_for(self.storage, SliceReader(self.rows, self.merging), others)
        return Reading(self.rows.result_schema, tasks, self._files(native) if native else None)

    def _split(self) -> tuple[list[FileSlice], list[FileSlice]]:
        """Return the slices for the engine's own scan, and the others."""
        local = self.storage.location
        if not local.startswith("/") or _PATTERNS & set(local) or self.rows.keys is not None:
            return [], list(self.slices)
        native = [piece for piece in self.slices if self._is_native(piece)]
        if self._may_hold_other_partitions():
            fits = self.executor.map(self._has_folder_values, native)
            native = [piece for piece, fit in zip(native, fits, strict=True) if fit]
        chosen = {piece.group for piece in native}
        return native, [piece for piece in self.slices if piece.group not in chosen]

    def _is_native(self, piece: FileSlice) -> bool:
        if piece.logs or not is_parquet(piece.path) or may_be_skeleton(piece.path) or _PATTERNS & set(piece.path):
            return False
        return self._has_current_types(piece)

    def _may_hold_other_partitions(self) -> bool:
        """Say whether partition columns that are read may differ from the folder: a record index keeps a row in its folder by default."""
        config = self.snapshot.config
        return RECORD_INDEX in config.metadata_partitions and not set(config.partition_fields).isdisjoint(
            self.rows.read_schema.names
        )

    def _has_folder_values(self, piece: FileSlice) -> bool:
        """Say whether the footer's statistics prove that every row has the partition values of its folder."""
        values = constants_of(piece.partition, self.merging.config, self.rows.read_schema)
        with self.storage.open_input(piece.path) as source:
            known = BaseFileReader(source, piece.path).row_group_statistics(sorted(values)) if values else []
        return all(group.get(name) == ColumnRange(value, value, 0) for group in known for name, value in values.items())

    def _has_current_types(self, piece: FileSlice) -> bool:
        """Say whether a file has the snapshot's column names and types, by the schema of its commit, else by its footer."""
        time = piece.requested_time
        if self.merging.names_at(time) is not None:
            return False
        if piece.stat is None:
            return self._fits(self._footer_schema(piece))
        if time not in self._known:
            text = self.snapshot.visibility.schema_of(time)
            self._known[time] = self._fits(from_avro(text) if text else self._footer_schema(piece))
        return self._known[time]

    def _fits(self, written: pa.Schema) -> bool:
        current = self.snapshot.schema
        return all(
            f.name not in current.names or current.field(f.name).type == f.type
            for f in written
            if f.name not in (*META_SCHEMA.names, OPERATION)
        )

    def _footer_schema(self, piece: FileSlice) -> pa.Schema:
        with self.storage.open_input(piece.path) as source:
            return read_footer(source, piece.path).schema

    def _files(self, pieces: list[FileSlice]) -> EngineFiles:
        rows = self.rows
        among = (COMMIT_TIME, sorted(rows.changed_by)) if rows.changed_by is not None else None
        text = rows.predicate.to_spark() if rows.predicate is not None else None
        keep = None
        if rows.predicate is not None and text is None:
            keep = partial(_matching, rows.predicate.expression, rows.read_schema)
        for piece in pieces:  # the engine does not ask the storage, which refuses links that lead out of the table
            self.storage.head(piece.path)
        paths = [f"{self.storage.location}/{piece.path}" for piece in pieces]
        return EngineFiles(paths, rows.read_schema, among, text, keep)


def _matching(expression: Any, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Filter a batch that the engine gave. It may give timestamps in its session's zone, and conditions are made for UTC."""
    return matching(conform(batch, schema), expression)
