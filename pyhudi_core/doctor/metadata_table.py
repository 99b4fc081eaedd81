"""Examine the metadata table: whether it exists, knows every commit, and agrees with commits and listing (specification, "Metadata Table").

The sources have an order: what commits name, then the metadata table, then the listing. The data table's timeline is read before and after the
metadata table; if it changed, everything is read once more, so that running writers cause no false alarm.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi_core.doctor import metadata_files, metadata_statistics, metadata_whole, record_index
from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, Kind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.doctor.metadata_files import Look
from pyhudi_core.errors import CorruptionError, HudiError, ObjectNotFoundError
from pyhudi_core.metadata_table.names import FILES, FOLDER, RECORD_INDEX
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.snapshot.snapshot import build
from pyhudi_core.transaction.context import TableContext

_AREA = Area.METADATA_TABLE
_LOOKS = 3


def examine(exam: Examination, listed: Listed, *, keys: bool = True) -> None:
    """Compare properties and folder, then examine the content. ``keys``: whether record keys are looked up in it."""
    if exam.config is None or not _is_there(exam, exam.config):
        return
    context = exam.context
    if context is None or FILES not in exam.config.metadata_partitions:
        exam.not_examined(_AREA, "Whether it says the same as commits and listing was not examined", FOLDER)
        return
    try:
        with exam.looking(_AREA, FOLDER):
            _examine_contents(exam, context, listed, keys)
    except HudiError as error:
        if isinstance(error, CorruptionError) and (error.path or FOLDER).startswith(FOLDER):
            exam.add(Kind.METADATA_TABLE_DAMAGED, describe(error), error.path or FOLDER)
            exam.incomplete.add(_AREA)
            return
        exam.not_examined(_AREA, f"What it says cannot be told: {describe(error)}", error.path or FOLDER)


def _is_there(exam: Examination, config: TableConfig) -> bool:
    """Whether every partition in the properties has a folder."""
    listed = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    folder = exam.folder(_AREA, FOLDER)
    there = {path.rpartition("/")[2] for path in folder.folders}
    exam.saw(_AREA, f"{len(listed)} partitions listed, {len(there - {'.hoodie'})} there")
    if not listed:
        if there:
            exam.add(Kind.METADATA_TABLE_UNLISTED, "There is a metadata table that the properties do not list", FOLDER)
        return False
    if ".hoodie" not in there:
        what = f"The properties list the metadata table ({', '.join(listed)}), and it is not there"
        exam.add(Kind.METADATA_TABLE_MISSING, what, FOLDER)
        return False
    gone = [name for name in config.metadata_partitions if name not in there]
    for name in gone:
        what = f"The properties list the metadata table's partition {name!r}, and it is not there"
        exam.add(Kind.METADATA_TABLE_MISSING, what, FOLDER)
    return FILES not in gone


def _examine_contents(exam: Examination, context: TableContext, listed: Listed, keys: bool) -> None:
    for _ in range(_LOOKS):
        try:
            look = _look(exam, context, listed)
        except ObjectNotFoundError:
            continue  # its own cleaning removed a file that had just been listed
        if look is None:
            return
        if look.agrees or _is_still(context, look):
            metadata_files.report(exam, look, listed)
            if metadata_whole.examine(exam, look.table):
                _examine_indexes(exam, context, look, keys)
            return
    exam.not_examined(
        _AREA, f"Writers were at work at each of {_LOOKS} looks; whether it agrees was not decided", FOLDER
    )


def _look(exam: Examination, context: TableContext, listed: Listed) -> Look | None:
    """Return what commits, metadata table and storage say about files at one moment; None, with a finding, if it is too much to read."""
    data = context.folder.load()
    table = MetadataTable.open(exam.storage, data, context.config.metadata_partitions)
    held = table.slices.pieces(FILES)
    size = sum((piece.base.size if piece.base else 0) + sum(log.size for log in piece.logs) for piece in held)
    if size > exam.limits.metadata_table_bytes:
        limit = exam.limits.metadata_table_bytes
        what = f"Its list of files has {size:,} bytes, more than the limit of {limit:,}"
        exam.not_examined(_AREA, what, f"{FOLDER}/{FILES}")
        return None
    commits: dict[Instant, CommitMetadata] = dict(exam.commits)
    seen = set(exam.timeline.commits)
    for instant in data.commits:
        if instant not in seen:
            commits[instant] = context.folder.read_commit(instant)
    look = Look.of(table, data, commits, listed)
    return look if look.agrees else look.listed_again(exam)


def _is_still(context: TableContext, look: Look) -> bool:
    """Whether neither timeline changed."""
    if context.folder.load() != look.data:
        return False
    return MetadataTable.open(context.storage, look.data, look.table.partitions).slices.own == look.table.slices.own


def _examine_indexes(exam: Examination, context: TableContext, look: Look, keys: bool) -> None:
    """Compare its statistics and keys with the files, in the data table's state by commits and listing alone."""
    try:
        listed = replace(context.config, metadata_partitions=())
        snapshot = build(context.storage, context.folder, listed, look.data, executor=context.runtime.executor)
    except HudiError as error:
        exam.not_examined(
            _AREA, f"Without a state of the table its indexes were not examined: {describe(error)}", FOLDER
        )
        return
    metadata_statistics.examine(exam, look.table, snapshot)
    if not look.table.has(RECORD_INDEX):
        return
    where = f"{FOLDER}/{RECORD_INDEX}"
    if not keys:
        exam.not_examined(_AREA, "Keys were not looked up in the record index, as asked", where)
    elif look.unknown:
        exam.not_examined(_AREA, "Keys were not looked up in the record index, because it is behind", where)
    else:
        record_index.examine(exam, look.table, snapshot)
