"""Examine whether the files of every metadata table partition are complete: trailers of HFiles, and all blocks of logs.

The entries are examined for the list of files and for the record index. For the other partitions, only completeness is checked, because an
older entry in place of a lost one prunes files with matching rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, Kind
from pyhudi_core.errors import CorruptionError, UnsupportedTableError
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.metadata_table.names import FILES, FOLDER
from pyhudi_core.metadata_table.reader import MetadataTable

_AREA = Area.METADATA_TABLE


def examine(exam: Examination, table: MetadataTable) -> bool:
    """Examine all partitions except ``files``, which is read completely anyway. Returns whether all were examined and are complete."""
    bases, logs = _files(table, (name for name in table.partitions if name != FILES))
    if len(bases) + len(logs) > exam.limits.footers:
        what = f"Its indexes have {len(bases) + len(logs):,} files, more than the limit of {exam.limits.footers:,}; they were not examined"
        exam.not_examined(_AREA, what, FOLDER)
        return False
    damaged = [
        *(found for found in exam.runtime.executor.map(lambda path: _open(exam, path), bases) if found),
        *(found for found in exam.runtime.executor.map(lambda path: _walk(exam, path), logs) if found),
    ]
    for path, why in damaged:
        exam.add(Kind.METADATA_TABLE_DAMAGED, why, path)
    if damaged:
        exam.not_examined(_AREA, "Its indexes are damaged, so their entries were not compared", FOLDER)
    exam.counts["files of metadata indexes"] = len(bases) + len(logs)
    exam.add_summary(_AREA, f"{exam.examined[_AREA]}, {len(bases) + len(logs):,} files of its indexes")
    return not damaged


def _files(table: MetadataTable, partitions: Iterable[str]) -> tuple[list[str], list[str]]:
    pieces = [piece for name in partitions for piece in table.slices.pieces(name)]
    return [p.base.path for p in pieces if p.base is not None], [log.path for p in pieces for log in p.logs]


def _open(exam: Examination, path: str) -> tuple[str, str] | None:
    try:
        with exam.recording_failures(_AREA, path), exam.storage.open_input(path) as source:
            HFileReader(source, path)
    except (CorruptionError, UnsupportedTableError) as error:
        return path, describe(error)
    return None


def _walk(exam: Examination, path: str) -> tuple[str, str] | None:
    try:
        with exam.recording_failures(_AREA, path), exam.storage.open_input(path) as source:
            reader = LogReader(source, path)
            deque(reader.blocks(), maxlen=0)
            return next(((path, str(piece)) for piece in reader.damaged), None)
    except (CorruptionError, UnsupportedTableError) as error:
        return path, describe(error)
    return None
