"""Divide the files of a scan: an engine reads some by itself, and this package reads the others in the engine's tasks.

An engine's own Parquet scan reads files whose columns have the snapshot's names and types, if the engine opens the table's location. This package
reads all other files: slices with logs, files that are older than the widening of a column, files with rows of another partition, and files whose
names an engine would read as patterns.

An engine skips partitions by two facts that it knows before it reads: names of folders (``day=2026-01-01``), if it parses them as this package does;
and values that all rows of a group of tasks have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.engine.reading import EngineFiles, Reading, TaskGroup
from pyhudi_core.file_groups.partition_values import constants_of
from pyhudi_core.file_groups.skeletons import may_be_skeleton
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader, ColumnRange, is_parquet, read_footer
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_SCHEMA, OPERATION
from pyhudi_core.model.partition_path import partition_path, values_are_columns
from pyhudi_core.model.schema import conform, from_avro
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.row_filter import RowFilter, SliceReader
from pyhudi_core.read.tasks import tasks_for
from pyhudi_core.runtime.base import Executor
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage

_PATTERNS = frozenset("[]{}*?\\")
Opened = Callable[[str, str, int], str | None]
"""Returns the name of a table's folder for an engine, given the table's location, and the path and size of one of its files; None if the engine does
not open this file.
"""


@dataclass(frozen=True, slots=True)
class EngineScan:
    """The attributes of a scan that are needed to read it on an engine."""

    snapshot: Snapshot
    storage: Storage
    executor: Executor
    rows: RowFilter
    merging: Merging
    slices: Sequence[FileSlice]
    opened: Opened
    _known: dict[str, bool] = field(default_factory=dict, repr=False)

    def reading(self) -> Reading:
        """Return the two parts to read."""
        root, native = self._native()
        chosen = {piece.group for piece in native}
        others = [piece for piece in self.slices if piece.group not in chosen]
        return Reading(self.rows.result_schema, self._groups(others), self._files(root, native) if root else ())

    def _native(self) -> tuple[str | None, list[FileSlice]]:
        """Return the slices for the engine's own scan, and the engine's name of the table's folder; None if the engine reads no slice."""
        if _PATTERNS & set(self.storage.location) or self.rows.keys is not None:
            return None, []
        native = [piece for piece in self.slices if self._is_native(piece)]
        if self._may_hold_other_partitions():
            fits = self.executor.map(lambda piece: self._shows_folder(piece) or self._has_folder_values(piece), native)
            native = [piece for piece, fit in zip(native, fits, strict=True) if fit]
        some = native[0].base if native else None
        root = self.opened(self.storage.location, some.path, some.size) if some is not None else None
        return root, native if root else []

    def _groups(self, pieces: Sequence[FileSlice]) -> list[TaskGroup]:
        """Return the tasks, one group for each combination of partition values in folder names."""
        by_partition: dict[str, list[FileSlice]] = {}
        for piece in pieces:
            by_partition.setdefault(piece.partition, []).append(piece)
        reader, schema = SliceReader(self.rows, self.merging), self.rows.result_schema
        return [
            TaskGroup(
                tasks_for(self.storage, reader, by_partition[name]), constants_of(name, self.merging.config, schema)
            )
            for name in sorted(by_partition)
        ]

    def _shows_folder(self, piece: FileSlice) -> bool:
        """Say whether an engine that parses partition values from folder names gets the same values as this package."""
        config = self.merging.config
        fields = [name for name in config.partition_fields if name in self.rows.read_schema.names]
        if not fields or not config.hive_style_partitioning or config.prefix_width or not values_are_columns(config):
            return False
        values = constants_of(piece.partition, config, self.snapshot.schema)
        if not values.keys() >= set(config.partition_fields) or not all(
            _is_read_alike(self.snapshot.schema.field(name).type) for name in config.partition_fields
        ):
            return False
        texts = [None if values[name] is None else str(values[name]) for name in config.partition_fields]
        encoded = config.url_encode_partitioning
        made = partition_path(config.partition_fields, texts, hive_style=True, url_encode=encoded)
        # An engine decodes %XX, even if the table does not encode.
        return made == piece.partition and (encoded or "%" not in made)

    def _is_native(self, piece: FileSlice) -> bool:
        if piece.logs or not is_parquet(piece.path) or may_be_skeleton(piece.path) or _PATTERNS & set(piece.path):
            return False
        return self._has_current_types(piece)

    def _may_hold_other_partitions(self) -> bool:
        """Say whether the partition columns of a row may differ from its folder: by default a record index keeps a row in its folder."""
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
        """Say whether a file has the snapshot's column names and types, by the schema of its commit, or by its footer."""
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

    def _files(self, root: str, pieces: Sequence[FileSlice]) -> list[EngineFiles]:
        rows = self.rows
        among = (COMMIT_TIME, sorted(rows.changed_by)) if rows.changed_by is not None else None
        text = rows.predicate.to_spark() if rows.predicate is not None else None
        keep = None
        if rows.predicate is not None and text is None:
            keep = partial(_matching, rows.predicate.expression, rows.read_schema)
        if self.storage.location.startswith("/"):
            for piece in pieces:  # the engine does not use this storage, which refuses links out of the table
                self.storage.head(piece.path)
        parts: dict[bool, list[str]] = {}
        for piece in pieces:
            parts.setdefault(self._shows_folder(piece), []).append(f"{root}/{piece.path}")
        folders = tuple(self.merging.config.partition_fields)
        return [
            EngineFiles(paths, rows.read_schema, root if shown else None, folders if shown else (), among, text, keep)
            for shown, paths in parts.items()
        ]


def _is_read_alike(kind: pa.DataType) -> bool:
    """Say whether engines parse the same value of this type from the text that this package writes."""
    return pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)


def _matching(expression: Any, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Filter a batch of the engine. Its timestamps may be in the session's zone, but conditions are in UTC."""
    return matching(conform(batch, schema), expression)
