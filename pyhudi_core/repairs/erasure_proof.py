"""Find the places of a table that still contain record keys. Every file is examined, even if no commit names it, and its digest is computed.

- Base files: the key column, and the key range in the footer. Log files: every entry, including deletes. Change logs are not read, and count as
  found.
- Indexes (the files of the metadata table, listed or not, including old slices): every entry, including deletes, whose name is a key, or ends with
  the escaped key, as in secondary indexes. Keys with at least `LONG` letters are searched anywhere in an entry; shorter keys would be found in other
  numbers. The same for backups: a restore or an upgrade by Hudi can rename a partition of the metadata table, or all of it, to
  ``.hoodie/.metadata_*``.
- History: the extra metadata of active and archived commits (without the entries of this package), and the comments of savepoints and holds. Their
  other parts name files, and contain no values of rows. A short key counts only as a complete text.

A file that cannot be read is reported; in this case there is no proof. Bloom filters contain no bytes of a key, and are not examined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import HudiError, UnsupportedTableError
from pyhudi_core.file_groups.slice import LogFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.log.blocks import BlockType
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.metadata_table import names
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.savepoints.hold_files import read_holds
from pyhudi_core.savepoints.savepoint_files import read_savepoints
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.storage.own_part import objects_of_table
from pyhudi_core.transaction.layout import ROWS
from pyhudi_core.transaction.waiting_rows import folders_of

LONG = 8
_CHUNK = 1 << 20
_OWN_FOLDER = ".hoodie"
_BACKUPS = f"{_OWN_FOLDER}/.metadata_"
_HFILE = ".hfile"


@dataclass(frozen=True, slots=True)
@printable
class ExaminedFile:
    """One file. ``sha256`` is the digest of its bytes, as hexadecimal digits; ``path`` is relative to the table."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
@printable
class ErasureProof:
    """The result of an examination; true if no key is left and every file could be read.

    Attributes:
        files: every examined file, with its digest.
        found: the files, and the instants of the history, that contain a key.
        unread: files that could not be examined, with the reason.
        instants: number of examined commits of the history.
        advice: advice about places that another erasure would not clean.
    """

    files: tuple[ExaminedFile, ...] = ()
    found: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    instants: int = 0
    advice: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.found and not self.unread

    def __str__(self) -> str:
        if self:
            return f"No key is left in {len(self.files):,} files and {self.instants:,} commits"
        left = f"{len(self.found):,} places still hold keys, such as {self.found[0]!r}" if self.found else ""
        unread = f"{len(self.unread):,} files could not be examined, such as {self.unread[0]!r}" if self.unread else ""
        return "; ".join(filter(None, [left, unread, *self.advice]))


def examine(context: TableContext, keys: pa.Array) -> ErasureProof:
    """Search the complete table for record keys (texts). Changes nothing. Raises `StorageError` if the table cannot be listed."""
    wanted = pc.unique(keys)
    looks = [_Look(context.storage, wanted, _in_data)]
    looks += [_Look(context.root, wanted, _in_index, folder) for folder in _index_folders(context.root)]
    for look in looks:
        look.run()
    files = tuple(file for look in looks for file in look.files)
    found = [path for look in looks for path in look.found]
    unread = [text for look in looks for text in look.unread]
    waiting = folders_of(context.root.list(f"{ROWS}/"))
    unread.extend(f"{rows.folder}: rows of a write that runs or was killed" for rows in waiting)
    instants, named = _history(context, wanted)
    advice = _advice(context, [look.folder for look in looks[1:] if look.found or look.unread], looks[0])
    return ErasureProof(files, (*found, *named), tuple(unread), instants, advice)


@dataclass(slots=True)
class _Look:
    """The examination of the data files of a table (without ``folder``), or of all indexes below a folder."""

    storage: Storage
    keys: pa.Array
    holds: Callable[[Storage, ObjectInfo, pa.Array], bool]
    folder: str = ""
    files: list[ExaminedFile] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Examine each file."""
        for info in _index_files(self.storage, self.folder) if self.folder else _data_files(self.storage):
            try:
                self.files.append(ExaminedFile(info.path, info.size, _digest(self.storage, info.path)))
                if self.holds(self.storage, info, self.keys):
                    self.found.append(info.path)
            except HudiError as error:
                self.unread.append(f"{info.path}: {error.message}")


def _data_files(storage: Storage) -> Iterator[ObjectInfo]:
    """Return all base files and logs below a table's folder, except the files of its metadata table."""
    return (
        info for info in objects_of_table(storage, SerialExecutor()) if parse_data_file(split(info.path)[1]) is not None
    )


def _index_folders(storage: Storage) -> list[str]:
    """Return the folder of the metadata table, listed or not, and the folders of its backups."""
    backups = (path for path in storage.list_folder(_OWN_FOLDER).folders if path.startswith(_BACKUPS))
    return [names.FOLDER, *sorted(backups)]


def _index_files(storage: Storage, folder: str) -> Iterator[ObjectInfo]:
    """Yield all HFiles and logs of such a folder. Its own timeline has files whose names look like names of base files."""
    for info in storage.list(f"{folder}/"):
        path, name = split(info.path)
        own = _OWN_FOLDER in path.removeprefix(folder).split("/")
        if not own and (name.endswith(_HFILE) or isinstance(parse_data_file(name), LogFileName)):
            yield info


def _advice(context: TableContext, folders: list[str], data: _Look) -> tuple[str, ...]:
    """Return advice about index folders that contain keys, or that could not be examined.

    An erasure itself builds the listed metadata table again.
    """
    found = [
        f"{folder} is a backup that Hudi left, and no program reads it: look at it, and remove the folder by hand"
        for folder in folders
        if folder != names.FOLDER
    ]
    if names.FOLDER in folders and not data.found:
        there = "makes the metadata table again, without them"
        if not context.config.metadata_partitions:
            there = f"replaces {names.FOLDER}, which the table does not list, and `drop` after it removes the new one"
        found.append(f"`pyhudi metadata LOCATION rebuild` {there}")
    return tuple(found)


def _digest(storage: Storage, path: str) -> str:
    digest = hashlib.sha256()
    with storage.open_input(path) as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _in_data(storage: Storage, info: ObjectInfo, keys: pa.Array) -> bool:
    """Say whether a file of the table has one of the keys."""
    partition, text = split(info.path)
    name = parse_data_file(text)
    if isinstance(name, LogFileName):
        if name.is_cdc:
            return True
        columns = LogColumns(pa.schema([(RECORD_KEY, pa.string())]), (), lambda batch: batch.column(RECORD_KEY))
        entries = LogScan(storage, (LogFile(partition, name, info.size),), lambda _time: True).entries(columns)
        return entries is not None and _any_in(entries.keys, keys)
    with storage.open_input(info.path) as source:
        reader = BaseFileReader(source, info.path, [RECORD_KEY])
        footer = reader.footer()
        ends = pa.array([key for key in (footer.min_key, footer.max_key) if key is not None], pa.string())
        return _any_in(ends, keys) or any(_any_in(batch.column(RECORD_KEY), keys) for batch in reader.iter_batches())


def _any_in(values: pa.Array | pa.ChunkedArray, keys: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(values.cast(pa.string()), value_set=keys)).as_py())


def _in_index(storage: Storage, info: ObjectInfo, keys: pa.Array) -> bool:
    """Say whether a file of the metadata table, or of a backup of it, has an entry of one of the keys."""
    texts = [key for key in keys.to_pylist() if len(key) >= LONG]
    is_secondary = names.SECONDARY_INDEX_PREFIX in split(info.path)[0]
    if is_secondary:
        texts += [text for key in texts for text in names.escaped_in_secondary_keys(key)]
    long = [text.encode() for text in dict.fromkeys(texts)]
    with storage.open_input(info.path) as source:
        for entries, data in _entries(source, info.path):
            if _any_in(entries, keys) or (is_secondary and _any_in(names.record_keys_of(entries), keys)):
                return True
            if any(text in data for text in long):
                return True
    return False


def _entries(source: pa.NativeFile, path: str) -> Iterator[tuple[pa.Array, bytes]]:
    """Yield the names of the entries of an HFile or of a log, including deletes, and the bytes of the entries. Raises as `HFileReader` and
    `LogReader`, and for content that no log of a metadata table has.
    """
    if path.endswith(_HFILE):
        yield from _of_hfile(HFileReader(source, path))
        return
    reader = LogReader(source, path)
    for block in reader.blocks():
        content = reader.content(block)
        if block.type is BlockType.HFILE_DATA:
            yield from _of_hfile(HFileReader(pa.BufferReader(content), path))
        elif block.type is BlockType.DELETE:
            yield from ((deletes.keys, b"") for deletes in read_delete_columns(content, path))
            yield pa.array([], pa.string()), content.to_pybytes()
        elif block.type is not BlockType.COMMAND:
            raise UnsupportedTableError(
                f"A log of a metadata table has a block of the kind {block.type.name}",
                path=path,
                hint="Nothing is known of what it holds.",
            )
    reader.refuse_damage("Nothing is known of what the damaged bytes held.")


def _of_hfile(reader: HFileReader) -> Iterator[tuple[pa.Array, bytes]]:
    for part in reader.scan():
        yield part.key_array().cast(pa.string()), bytes(part.data)


def _history(context: TableContext, keys: pa.Array) -> tuple[int, list[str]]:
    """Return the number of commits, and the places with a key: extra metadata of a commit, or the comment of a savepoint or of a hold."""
    mentions, timeline = _mentions(keys.to_pylist()), context.folder.load()
    found = [
        f"savepoint {saved.instant}"
        for saved in read_savepoints(context.folder, timeline)
        if mentions([saved.comment, saved.created_by])
    ]
    holds = read_holds(context)
    found.extend(f"hold {hold.name}" for hold in (*holds.lasting, *holds.ended) if mentions([hold.comment]))
    count = 0
    for instant in timeline.commits:
        count += 1
        if mentions(_said(context.folder.read_commit(instant))):
            found.append(f"{instant.action} {instant.requested_time}")
    for commit in context.folder.archived_commits("") if timeline.has_history else ():
        count += 1
        if mentions(_said(commit)):
            found.append(f"an archived {commit.operation}")
    return count, found


def _said(commit: CommitMetadata) -> list[str]:
    """Return the writer's texts in a commit, without the schema and the entries of this package."""
    return [text for name, text in commit.extra.items() if name != SCHEMA_KEY and not name.startswith("pyhudi.")]


def _mentions(keys: list[str]) -> Callable[[Iterable[str]], bool]:
    """Return a function that says whether texts contain a key: a long key anywhere, a short key as a complete text."""
    whole, long = frozenset(keys), [key for key in keys if len(key) >= LONG]
    return lambda texts: any(text in whole or any(key in text for key in long) for text in texts)
