"""Count the rows of files and file groups, without reading rows.

The number is in the commit that wrote the file, active or archived. If neither commit has the number, footers are read, at most `FOOTERS` of them.
Otherwise, and for slices with logs, the number is unknown: then `rows_of_slices` returns None, never a guess. `most_rows_of_slices` estimates, for
callers that must reserve memory for the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.model.commit import READ_AS, CommitMetadata
from pyhudi_core.opened_table.table_context import TableContext

FOOTERS = 200
"""The maximum number of footers that are read for one answer."""


def rows_of_slices(context: TableContext, slices: Iterable[FileSlice]) -> int | None:
    """Return the number of rows of all the slices together; None if it is unknown."""
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


def most_rows_of_slices(context: TableContext, visibility: Visibility, slices: Iterable[FileSlice]) -> int:
    """Return an estimate of the maximum number of rows of the slices: a row in a base file and in a log counts twice.

    For other files (no commit names them, and their footers are not read), the size gives the estimate: as many rows per byte as in the known base
    files, because logs have fewer. Without known files, the option hoodie.copyonwrite.record.size.estimate gives the size of a row.
    """
    files = [file for piece in slices for file in piece.files]
    stats = ((file.path, visibility.stat(file.name.requested_time, file.path)) for file in files)
    counted = {path: stat.rows for path, stat in stats if stat is not None}
    counted |= _in_history(context, [file for file in files if file.path not in counted])
    bases = [file for file in files if isinstance(file, BaseFile)]
    counted |= _in_footers(context, [file.path for file in bases if file.path not in counted][:FOOTERS])
    total = sum(counted.values())
    unknown = sum(file.size for file in files if file.path not in counted)
    if not unknown:
        return total
    known = [file for file in bases or files if file.path in counted]
    rows, size = sum(counted[file.path] for file in known), sum(file.size for file in known)
    if not rows or not size:
        rows, size = 1, context.options.files.record_size_estimate
    return total - (-unknown * rows // size)


def rows_of_files(context: TableContext, files: Sequence[BaseFile]) -> dict[str, int]:
    """Return the numbers of rows of files by path: from archived commits, or, for files that no commit names, from their footers if there are few."""
    found = _in_history(context, files)
    missing = [file.path for file in files if file.path not in found]
    return found | _in_footers(context, missing) if len(missing) <= FOOTERS else found


def archived_commits(context: TableContext, requested_times: set[str]) -> dict[str, CommitMetadata]:
    """Return archived commits by their requested times; commits that are not in the history are omitted."""
    if not requested_times:
        return {}
    found = {}
    for time, row in context.folder.history.contents(requested_times).items():
        found[time] = (
            CommitMetadata.from_avro(decode_record(row.metadata, READ_AS)) if row.metadata else CommitMetadata(None)
        )
    return found


def _in_history(context: TableContext, files: Sequence[BaseFile | LogFile]) -> dict[str, int]:
    """Return the rows of files that archived commits wrote, by their paths."""
    commits = archived_commits(context, {file.name.requested_time for file in files})
    counted = {stat.path: stat.rows for commit in commits.values() for stat in commit.stats}
    return {file.path: counted[file.path] for file in files if file.path in counted}


def _in_footers(context: TableContext, paths: Sequence[str]) -> dict[str, int]:
    return dict(zip(paths, context.runtime.executor.map(lambda path: _rows_in(context, path), paths), strict=True))


def _rows_in(context: TableContext, path: str) -> int:
    with context.storage.open_input(path) as source:
        return read_footer(source, path).rows
