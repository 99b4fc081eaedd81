"""Examine columns, row counts and logs: whether each file can be read with the schema of the commits, whether the footers have the row counts of the
commits, and whether log files are undamaged.

Only footers and the headers of log blocks are read, no rows. If there are too many files, the newest are examined. This examination finds the files
by the commits and the listing, not by the metadata table. So a damaged metadata table hides nothing here.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import CorruptionError, HudiError, UnsupportedTableError
from pyhudi_core.file_groups.skeletons import may_be_skeleton, open_base, rows_of_skeleton
from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.log.blocks import DATA_BLOCKS, Header
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.internal_schema import names_at
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION, with_meta_fields
from pyhudi_core.model.schema import conform, from_avro
from pyhudi_core.snapshot.snapshot import Snapshot, build

_AREA = Area.SCHEMA


def load(exam: Examination) -> Snapshot | None:
    """Return the table's current state, for this examination and the examination of keys; None if it cannot be read."""
    context = exam.context
    if context is None:
        return None
    try:
        listed = replace(context.config, metadata_partitions=())
        return build(context.storage, context.folder, listed, exam.timeline, executor=context.runtime.executor)
    except CorruptionError as error:
        exam.not_examined(
            _AREA,
            f"The state of the table cannot be examined, because its commits cannot be read: {describe(error)}",
            error.path,
        )
    except HudiError as error:
        kind = FindingKind.SCHEMA_MISSING if "schema" in error.message else FindingKind.SCHEMA_UNREADABLE
        exam.add(kind, describe(error), error.path)
    exam.not_examined(Area.KEYS, "Keys were not examined, because the state of the table cannot be read")
    return None


def partitions(exam: Examination, snapshot: Snapshot, area: Area) -> tuple[str, ...]:
    """Return the table's partitions; none, with a finding, if they cannot be listed."""
    try:
        with exam.recording_failures(area):
            return snapshot.view.partitions()
    except HudiError as error:
        exam.not_examined(area, f"The partitions cannot be listed: {describe(error)}", error.path)
    return ()


def slices(exam: Examination, snapshot: Snapshot, partition: str, area: Area) -> tuple[FileSlice, ...]:
    """Return the latest visible slices of a partition; none, with a finding, if they cannot be listed."""
    try:
        with exam.recording_failures(area, partition):
            return snapshot.view.slices(partition)
    except HudiError as error:
        what = f"The file groups of {partition!r} cannot be listed: {describe(error)}"
        exam.not_examined(area, what, error.path, "Repair what the other findings report, and check again.")
    return ()


def examine(exam: Examination, snapshot: Snapshot) -> None:
    """Compare the footers of the newest base files with the schema, and read the blocks of their log files."""
    known = partitions(exam, snapshot, _AREA)
    found = [piece for partition in known for piece in slices(exam, snapshot, partition, _AREA)]
    found.sort(key=lambda piece: piece.requested_time, reverse=True)
    chosen = found[: exam.limits.footers]
    if len(chosen) < len(found):
        exam.not_examined(_AREA, f"The files of {len(found) - len(chosen):,} older file slices were not read")
    based = [piece for piece in chosen if piece.base is not None]
    rows = exam.runtime.executor.map(lambda piece: _look(exam, piece, snapshot), based)
    logs = [log for piece in chosen for log in piece.logs]
    exam.runtime.executor.map(lambda log: _walk(exam, log, snapshot), logs)
    exam.counts.update(
        {
            "columns": len(snapshot.schema),
            "base files in use": sum(piece.base is not None for piece in found),
            "log files in use": sum(len(piece.logs) for piece in found),
            "rows": sum(rows),
        }
    )
    exam.add_summary(_AREA, _summary(exam, len(based), len(logs)))


def _summary(exam: Examination, bases: int, logs: int) -> str:
    counts = exam.counts
    text = (
        f"{counts['columns']} columns, {bases:,} of {counts['base files in use']:,} base files, {counts['rows']:,} rows"
    )
    return (
        f"{text} in them, {logs:,} of {counts['log files in use']:,} log files" if counts["log files in use"] else text
    )


def _walk(exam: Examination, log: LogFile, snapshot: Snapshot) -> None:
    """Compare the schemas in the block headers of a log file with the table's schema. Report bytes outside blocks, because they may hide rows."""
    compared: set[str] = set()
    try:
        with exam.recording_failures(_AREA, log.path), exam.storage.open_input(log.path) as source:
            reader = LogReader(source, log.path)
            for block in reader.blocks():
                text = block.headers.get(Header.SCHEMA) if block.type in DATA_BLOCKS else None
                if text and text not in compared:
                    compared.add(text)
                    _readable(exam, snapshot, from_avro(text, path=log.path), log.path, block.instant_time)
            for piece in reader.damaged:
                exam.add(FindingKind.LOG_DAMAGED, f"{piece}; readers skip them", log.path, log.name.requested_time)
    except (CorruptionError, UnsupportedTableError) as error:
        exam.add(FindingKind.LOG_DAMAGED, describe(error), log.path, log.name.requested_time)


def _look(exam: Examination, piece: FileSlice, snapshot: Snapshot) -> int:
    """Examine the footer of a base file; returns its number of rows."""
    path = piece.path
    try:
        with exam.recording_failures(_AREA, path):
            rows = rows_of_skeleton(exam.storage, path) if may_be_skeleton(path) else None
            damage = None if rows is None else rows.damage(path)
            if damage is not None:
                exam.add(FindingKind.BOOTSTRAP_SOURCE_DIFFERS, describe(damage), damage.path, what_to_do=damage.hint)
                exam.incomplete.add(_AREA)
                return 0
            with open_base(exam.storage, path) as reader:
                _compare(exam, piece, reader, snapshot)
                return reader.rows
    except CorruptionError as error:
        exam.add(FindingKind.FILE_DAMAGED, describe(error), path, piece.requested_time)
    return 0


def _compare(exam: Examination, piece: FileSlice, reader: BaseFileReader, snapshot: Snapshot) -> None:
    if piece.stat is not None and piece.stat.rows != reader.rows:
        what = f"The commit counts {piece.stat.rows:,} rows, but the file has {reader.rows:,}"
        exam.add(FindingKind.ROWS_DIFFER, what, piece.path, piece.requested_time)
    unknown = [
        name
        for name in reader.schema.names
        if name not in snapshot.schema.names and name not in (*META_FIELDS, OPERATION)
    ]
    if unknown:
        exam.counts["files with columns that the table does not have"] += 1
    _readable(exam, snapshot, reader.schema, piece.path, piece.requested_time)


def _readable(exam: Examination, snapshot: Snapshot, schema: pa.Schema, path: str, requested_time: str) -> None:
    """Check that a file with this schema can be read with the table's columns, which may have had other names at the time of the file."""
    names = names_at(snapshot.evolution, requested_time)
    try:
        conform(pa.RecordBatch.from_pylist([], schema=schema), with_meta_fields(snapshot.schema), names)
    except HudiError as error:
        exam.add(FindingKind.SCHEMA_DIFFERS, describe(error), path, requested_time)
