"""How many rows files and file groups have, without reading a row.

The commit that wrote a file says it, on the active timeline or the archived one. Only where neither says it, footers are read, `FOOTERS` of them at
most. Beyond that, and where a slice has logs, the number of rows is not known: None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyhudi_core.file_groups.slice import BaseFile, FileSlice
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action
from pyhudi_core.transaction.context import TableContext

FOOTERS = 200
"""How many footers are read at most for one answer."""


def rows_of_slices(context: TableContext, slices: Iterable[FileSlice]) -> int | None:
    """The rows of all the slices together; None if that is not known."""
    total = 0
    older: list[BaseFile] = []
    for piece in slices:
        if piece.base is None or piece.logs:
            return None
        if piece.stat is None:
            older.append(piece.base)
        else:
            total += piece.stat.rows
    counted = rows_of_files(context, older)
    return total + sum(counted.values()) if len(counted) == len(older) else None


def rows_of_files(context: TableContext, files: Sequence[BaseFile]) -> dict[str, int]:
    """The rows of files that archived commits wrote, by their paths; of files that no commit names, by their footers if there are few."""
    commits = archived_commits(context, {file.name.requested_time for file in files})
    counted = {stat.path: stat.rows for commit in commits.values() for stat in commit.stats}
    found = {file.path: counted[file.path] for file in files if file.path in counted}
    missing = [file.path for file in files if file.path not in counted]
    if missing and len(missing) <= FOOTERS:
        rows = context.runtime.executor.map(lambda path: _rows_in(context, path), missing)
        found.update(zip(missing, rows, strict=True))
    return found


def archived_commits(context: TableContext, requested_times: set[str]) -> dict[str, CommitMetadata]:
    """What archived commits say, by their requested times; those that are not in the history are left out."""
    if not requested_times:
        return {}
    found = {}
    for time, row in context.folder.history.contents(requested_times).items():
        record = CommitMetadata(None).record_name(Action(row.action))
        found[time] = (
            CommitMetadata.from_avro(decode_record(row.metadata, record)) if row.metadata else CommitMetadata(None)
        )
    return found


def _rows_in(context: TableContext, path: str) -> int:
    with context.storage.open_input(path) as source:
        return read_footer(source, path).rows
