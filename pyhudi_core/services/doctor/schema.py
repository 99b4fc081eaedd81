"""Examine columns: the schema that the commits define, and whether each base file can be read as it; and the rows that footers count.

Footers are read, not rows. Of many files the newest are taken. Files are those of commits and listing; whether the metadata table says the
same is examined apart, so a damaged one hides nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.errors import CorruptionError, HudiError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.meta_fields import META_FIELDS, with_meta_fields
from pyhudi_core.model.properties import TableType
from pyhudi_core.model.schema import conform
from pyhudi_core.services.doctor.examination import Examination, describe
from pyhudi_core.services.doctor.kinds import Area, Kind
from pyhudi_core.snapshot.snapshot import Snapshot, build

_AREA = Area.SCHEMA


def load(exam: Examination) -> Snapshot | None:
    """The table's present state, for this examination and that of the keys; None where it cannot be made."""
    context = exam.context
    if context is None:
        return None
    if context.config.table_type is not TableType.COPY_ON_WRITE:
        exam.not_examined(_AREA, "The table is merge-on-read; columns of its files were not examined")
        exam.not_examined(Area.KEYS, "The table is merge-on-read; its keys were not examined")
        return None
    try:
        return build(context.storage, context.folder, replace(context.config, metadata_partitions=()), exam.timeline)
    except CorruptionError as error:
        exam.not_examined(
            _AREA, f"Without readable commits there is no state to examine: {describe(error)}", error.path
        )
    except HudiError as error:
        kind = Kind.SCHEMA_MISSING if "schema" in error.message else Kind.SCHEMA_UNREADABLE
        exam.add(kind, describe(error), error.path)
    exam.not_examined(Area.KEYS, "Without a readable state of the table keys were not examined")
    return None


def partitions(exam: Examination, snapshot: Snapshot, area: Area) -> tuple[str, ...]:
    """The table's partitions; none, with a finding, where they cannot be told."""
    try:
        with exam.looking(area):
            return snapshot.view.partitions()
    except HudiError as error:
        exam.not_examined(area, f"The partitions cannot be told: {describe(error)}", error.path)
    return ()


def slices(exam: Examination, snapshot: Snapshot, partition: str, area: Area) -> tuple[FileSlice, ...]:
    """The newest visible slices of a partition; none, with a finding, where they cannot be told."""
    try:
        with exam.looking(area, partition):
            return snapshot.view.slices(partition)
    except HudiError as error:
        exam.not_examined(area, f"The file groups of {partition!r} cannot be told: {describe(error)}", error.path)
    return ()


def examine(exam: Examination, snapshot: Snapshot) -> None:
    """Compare the footers of the newest files with the schema."""
    known = partitions(exam, snapshot, _AREA)
    found = [piece for partition in known for piece in slices(exam, snapshot, partition, _AREA)]
    found.sort(key=lambda piece: piece.requested_time, reverse=True)
    chosen = found[: exam.limits.footers]
    if len(chosen) < len(found):
        exam.not_examined(_AREA, f"The footers of {len(found) - len(chosen):,} older base files were not read")
    wanted = with_meta_fields(snapshot.schema)
    seen = exam.runtime.executor.map(lambda piece: _look(exam, piece, wanted), chosen)
    exam.counts.update(
        {"columns": len(snapshot.schema), "base files in use": len(found), "rows": sum(look.rows for look in seen)}
    )
    exam.saw(
        _AREA,
        f"{len(snapshot.schema)} columns, {len(chosen):,} of {len(found):,} base files, {exam.counts['rows']:,} rows",
    )


@dataclass(frozen=True, slots=True)
class _Look:
    rows: int = 0


def _look(exam: Examination, piece: FileSlice, wanted: pa.Schema) -> _Look:
    path = piece.base.path
    try:
        with exam.looking(_AREA, path), exam.storage.open_input(path) as source:
            reader = BaseFileReader(source, path)
            _compare(exam, piece, reader, wanted)
            return _Look(reader.rows)
    except CorruptionError as error:
        exam.add(Kind.FILE_DAMAGED, describe(error), path, piece.requested_time)
    return _Look()


def _compare(exam: Examination, piece: FileSlice, reader: BaseFileReader, wanted: pa.Schema) -> None:
    if piece.stat is not None and piece.stat.rows != reader.rows:
        what = f"The commit says {piece.stat.rows:,} rows, and the file has {reader.rows:,}"
        exam.add(Kind.ROWS_DIFFER, what, piece.base.path, piece.requested_time)
    unknown = [name for name in reader.schema.names if name not in wanted.names and name not in META_FIELDS]
    if unknown:
        exam.counts["files with columns that the table has not"] += 1
    try:
        conform(pa.RecordBatch.from_pylist([], schema=reader.schema), wanted)
    except HudiError as error:
        exam.add(Kind.SCHEMA_DIFFERS, describe(error), piece.base.path, piece.requested_time)
