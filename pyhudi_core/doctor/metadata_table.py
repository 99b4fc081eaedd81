"""Examine the metadata table: whether it exists, contains every commit, and agrees with commits and listing (specification, "Metadata Table").

If sources disagree, commits are trusted first, then the metadata table, then the listing. The data table's timeline is read before and after the
metadata table; if it changed, everything is read again, so that running writers cause no false alarm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from pyhudi_core.doctor import metadata_files, metadata_statistics, record_index, secondary_index
from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.doctor.metadata_files import Comparison
from pyhudi_core.errors import CorruptionError, HudiError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.metadata_table.names import FILES, FOLDER, RECORD_INDEX, readable_partitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import build

_AREA = Area.METADATA_TABLE
_ATTEMPTS = 3


def examine(exam: Examination, listed: Listed, *, keys: bool = True) -> None:
    """Compare properties and folder, then examine the content. ``keys``: whether to look up record keys in the record index."""
    if exam.config is None or not _is_there(exam, exam.config):
        return
    context = exam.context
    if context is None or FILES not in exam.config.metadata_partitions:
        exam.not_examined(_AREA, "It was not compared with commits and listing", FOLDER)
        return
    try:
        with exam.recording_failures(_AREA, FOLDER):
            _examine_contents(exam, context, listed, keys)
    except HudiError as error:
        if isinstance(error, CorruptionError) and (error.path or FOLDER).startswith(FOLDER):
            exam.add(FindingKind.METADATA_TABLE_DAMAGED, describe(error), error.path or FOLDER)
            exam.incomplete.add(_AREA)
            return
        exam.not_examined(_AREA, f"It cannot be read: {describe(error)}", error.path or FOLDER)


def _is_there(exam: Examination, config: TableConfig) -> bool:
    """Say whether every partition in the properties has a folder."""
    listed = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    folder = exam.folder(_AREA, FOLDER)
    there = {path.rpartition("/")[2] for path in folder.folders}
    exam.add_summary(_AREA, f"{len(listed)} partitions listed, {len(there - {'.hoodie'})} found")
    if not listed:
        if there:
            exam.add(
                FindingKind.METADATA_TABLE_UNLISTED,
                "A metadata table exists, but the properties do not list it",
                FOLDER,
            )
        return False
    if ".hoodie" not in there:
        what = f"The properties list the metadata table ({', '.join(listed)}), but it does not exist"
        exam.add(FindingKind.METADATA_TABLE_MISSING, what, FOLDER)
        return False
    gone = [name for name in config.metadata_partitions if name not in there]
    for name in gone:
        what = f"The properties list the metadata table's partition {name!r}, but it does not exist"
        exam.add(FindingKind.METADATA_TABLE_MISSING, what, FOLDER)
    return FILES not in gone


def _examine_contents(exam: Examination, context: TableContext, listed: Listed, keys: bool) -> None:
    for _ in range(_ATTEMPTS):
        try:
            found = _compare(exam, context, listed)
        except ObjectNotFoundError:
            continue  # cleaning of the metadata table removed a file after the listing
        if found is None:
            return
        if found.agrees or _is_still(context, found):
            metadata_files.report(exam, found, listed)
            if _are_complete(exam, found.table):
                _examine_indexes(exam, context, found, keys)
            return
    exam.not_examined(
        _AREA, f"Writers were at work during each of {_ATTEMPTS} comparisons, so the doctor makes no claim", FOLDER
    )


def _compare(exam: Examination, context: TableContext, listed: Listed) -> Comparison | None:
    """Compare commits, metadata table and storage; None, with a finding, if the metadata table is too large to read."""
    data = context.folder.load()
    table = MetadataTable.open(data, context.folder, readable_partitions(context.config), whole=True)
    held = table.slices.pieces(FILES)
    size = sum((piece.base.size if piece.base else 0) + sum(log.size for log in piece.logs) for piece in held)
    if size > exam.limits.metadata_table_bytes:
        limit = exam.limits.metadata_table_bytes
        what = f"Its partition 'files' has {size:,} bytes, more than the limit of {limit:,}"
        exam.not_examined(_AREA, what, f"{FOLDER}/{FILES}")
        return None
    commits: dict[Instant, CommitMetadata] = dict(exam.commits)
    seen = set(exam.timeline.commits)
    for instant in data.commits:
        if instant not in seen:
            commits[instant] = context.folder.read_commit(instant)
    found = Comparison.of(table, data, commits, listed)
    return found if found.agrees else found.listed_again(exam)


def _is_still(context: TableContext, found: Comparison) -> bool:
    """Say whether neither timeline changed."""
    if context.folder.load() != found.data:
        return False
    return MetadataTable.open(found.data, context.folder, found.table.partitions).slices.own == found.table.slices.own


def _examine_indexes(exam: Examination, context: TableContext, found: Comparison, keys: bool) -> None:
    """Compare the metadata table's statistics and keys with the data files, which are found without the metadata table."""
    try:
        listed = replace(context.config, metadata_partitions=())
        snapshot = build(context.storage, context.folder, listed, found.data, executor=context.runtime.executor)
    except HudiError as error:
        exam.not_examined(
            _AREA,
            f"Its indexes were not examined, because the state of the table cannot be read: {describe(error)}",
            FOLDER,
        )
        return
    metadata_statistics.examine(exam, found.table, snapshot)
    if not found.table.has(RECORD_INDEX):
        return
    where = f"{FOLDER}/{RECORD_INDEX}"
    if not keys:
        exam.not_examined(_AREA, "Keys were not looked up in the record index, as requested", where)
    elif found.unknown:
        exam.not_examined(_AREA, "Keys were not looked up in the record index, because it is behind", where)
    else:
        record_index.examine(exam, found.table, snapshot)
        secondary_index.examine(exam, found.table, snapshot)


def _are_complete(exam: Examination, table: MetadataTable) -> bool:
    """Say whether all files of the indexes were examined and are complete: the trailers of HFiles, and all blocks of logs.

    The partition ``files`` is read completely elsewhere. Entries are compared only for the list of files and the record index. In the other
    partitions, an older entry in place of a lost one would prune files with matching rows.
    """
    bases, logs, damaged = _files(table, (name for name in table.partitions if name != FILES))
    if len(bases) + len(logs) > exam.limits.footers:
        what = f"Its indexes have {len(bases) + len(logs):,} files, more than the limit of {exam.limits.footers:,}; they were not examined"
        exam.not_examined(_AREA, what, FOLDER)
        return False
    damaged += [
        *(found for found in exam.runtime.executor.map(lambda path: _open(exam, path), bases) if found),
        *(found for found in exam.runtime.executor.map(lambda path: _walk(exam, path), logs) if found),
    ]
    for path, why in damaged:
        exam.add(FindingKind.METADATA_TABLE_DAMAGED, why, path)
    if damaged:
        exam.not_examined(_AREA, "Its indexes are damaged, so their entries were not compared", FOLDER)
    exam.counts["files of metadata indexes"] = len(bases) + len(logs)
    exam.add_summary(_AREA, f"{exam.examined[_AREA]}, {len(bases) + len(logs):,} files of its indexes")
    return not damaged


def _files(table: MetadataTable, partitions: Iterable[str]) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return the base files and the logs of partitions; and, for each partition that has lost a file, its path and why it cannot be used."""
    pieces: list[SlicePiece] = []
    lost: list[tuple[str, str]] = []
    for name in partitions:
        try:
            pieces += table.slices.pieces(name)
        except CorruptionError as error:
            lost.append((error.path or f"{FOLDER}/{name}", describe(error)))
    return [p.base.path for p in pieces if p.base is not None], [log.path for p in pieces for log in p.logs], lost


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
            if not source.size():
                return path, "The file is empty"
            reader = LogReader(source, path)
            deque(reader.blocks(), maxlen=0)
            return next(((path, str(piece)) for piece in reader.damaged), None)
    except (CorruptionError, UnsupportedTableError) as error:
        return path, describe(error)
    return None
