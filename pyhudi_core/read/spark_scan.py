"""Scans as Spark DataFrames.

Files whose columns have the snapshot's types, on a local disk, are read by Spark's own Parquet scan, which is as fast as Spark reads. All
others (slices with logs, files from before a column was widened, other storage, names that Spark takes for patterns) are read by this package in
the executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.engine import spark as engine
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_SCHEMA
from pyhudi_core.model.schema import from_avro
from pyhudi_core.read.changes import ChangeReader, Changes, GroupChange
from pyhudi_core.read.merged import Merging
from pyhudi_core.read.scan import RowFilter, Scan
from pyhudi_core.storage.base import StorageSpec
from pyhudi_core.storage.opening import storage_from_spec

_PATTERNS = frozenset("[]{}*?\\")


def to_spark(scan: Scan, spark: Any) -> Any:
    """The scan's rows as a DataFrame of the session."""
    engine.use_own_python(spark)
    native, others = _split(scan)
    frames = []
    if native:
        frames.append(_native(scan, spark, native))
    if others:
        pieces = {str(number): piece for number, piece in enumerate(others)}
        read = _SliceReader(scan.storage.spec(), scan.rows, scan.merging, pieces)
        frames.append(engine.scan_in_tasks(spark, list(pieces), read, scan.schema))
    if not frames:
        return engine.empty_frame(spark, scan.schema)
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _split(scan: Scan) -> tuple[list[FileSlice], list[FileSlice]]:
    pieces = scan.slices()
    local = scan.storage.location
    if not local.startswith("/") or _PATTERNS & set(local) or scan.rows.keys is not None:
        return [], pieces
    types = _FileTypes(scan)
    native = [p for p in pieces if not p.logs and not _PATTERNS & set(p.base.path) and types.are_current(p)]
    chosen = {piece.group for piece in native}
    return native, [piece for piece in pieces if piece.group not in chosen]


@dataclass(slots=True)
class _FileTypes:
    """Whether files have the snapshot's column types: from the schema in the commit that wrote them, else from the footer."""

    scan: Scan
    _known: dict[str, bool] | None = None

    def are_current(self, piece: FileSlice) -> bool:
        if self._known is None:
            self._known = {}
        time = piece.requested_time
        if piece.stat is None:
            return self._fits(self._footer_schema(piece))
        if time not in self._known:
            text = self.scan.snapshot.visibility.schema_of(time)
            self._known[time] = self._fits(from_avro(text) if text else self._footer_schema(piece))
        return self._known[time]

    def _fits(self, written: pa.Schema) -> bool:
        current = self.scan.snapshot.schema
        return all(
            f.name not in current.names or current.field(f.name).type == f.type
            for f in written
            if f.name not in META_SCHEMA.names
        )

    def _footer_schema(self, piece: FileSlice) -> pa.Schema:
        with self.scan.storage.open_input(piece.base.path) as source:
            return read_footer(source, piece.base.path).schema


def _native(scan: Scan, spark: Any, pieces: list[FileSlice]) -> Any:
    rows = scan.rows
    paths = [f"{scan.storage.location}/{piece.base.path}" for piece in pieces]
    frame = engine.native_scan(spark, rows.read_schema, paths)
    if rows.changed_by is not None:
        frame = frame.where(frame[COMMIT_TIME].isin(sorted(rows.changed_by)))
    if rows.predicate is None:
        return frame.select(*[_quoted(name) for name in rows.columns])
    text = rows.predicate.to_spark()
    if text is not None:
        return frame.where(text).select(*[_quoted(name) for name in rows.columns])
    return engine.filter_in_tasks(
        frame, partial(_matching, rows.predicate.expression), rows.columns, rows.result_schema
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _matching(expression: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(expression)


@dataclass(frozen=True, slots=True)
class _SliceReader:
    """Reads one slice, named by its number, inside a task."""

    spec: StorageSpec
    rows: RowFilter
    merging: Merging
    pieces: dict[str, FileSlice]

    def __call__(self, number: str) -> list[pa.RecordBatch]:
        return list(self.rows.read_slice(storage_from_spec(self.spec), self.pieces[number], self.merging))


def changes_to_spark(changes: Changes, spark: Any) -> Any:
    """The changes as a DataFrame of the session; a few file groups a task."""
    engine.use_own_python(spark)
    if not changes.groups:
        return engine.empty_frame(spark, changes.schema)
    groups = {str(number): group for number, group in enumerate(changes.groups)}
    read = _ChangeTask(changes.storage.spec(), changes.reader, groups)
    return engine.scan_in_tasks(spark, list(groups), read, changes.schema)


@dataclass(frozen=True, slots=True)
class _ChangeTask:
    """Reads the changes of one file group, named by its number, inside a task."""

    spec: StorageSpec
    reader: ChangeReader
    groups: dict[str, GroupChange]

    def __call__(self, number: str) -> list[pa.RecordBatch]:
        return list(self.reader.read(storage_from_spec(self.spec), self.groups[number]))
