"""Base files whose rows are in another folder: tables of a metadata-only bootstrap.

Such a table has the folder of its rows in ``hoodie.bootstrap.base.path``. The bootstrap, at the time `SKELETON_TIME`, wrote a skeleton for each file
of that folder: a base file with only the meta columns. Two HFiles, the bootstrap index, map skeletons to files, by file group and by partition. A
later slice of a file group is a complete base file, as in every other table. The facts were read from tables of Hudi 1.0.2.

Every reader of base files opens them with `open_base`, which looks up the file with the rows in the index. So a plan on the timeline needs to name
only base files.

Invariants
- a file of the other folder is found by its name in the index, below that folder: if the index names another folder than the properties, or a file
outside of it, `UnsafePathError` is raised, and nothing is opened;
- the folder is in the same kind of storage as the table, is below the table's parent or allowed by the caller (``storage/sources.py``), and is read
  with the table's storage options;
- a file that is missing, or of another size or modification time than in the index, or a skeleton without an entry, raises
  `CorruptBaseFileError`; rows without their values are never returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyhudi_core.errors import (
    ConfigError,
    CorruptBaseFileError,
    CorruptHFileError,
    ObjectNotFoundError,
    UnsafePathError,
)
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.model.file_names import BaseFileName, join, parse_data_file, split
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.paths import parse_location
from pyhudi_core.storage.sources import open_source
from pyhudi_core.timeline import properties_file

SKELETON_TIME = "00000000000001"
"""The requested time of every metadata-only bootstrap."""
_INDEX_FILE = f"00000000-0000-0000-0000-000000000000-0_1-0-1_{SKELETON_TIME}.hfile"
INDEX_BY_FILE = f".hoodie/.aux/.bootstrap/.fileids/{_INDEX_FILE}"
INDEX_BY_PARTITION = f".hoodie/.aux/.bootstrap/.partitions/{_INDEX_FILE}"
INDEX_INFO = b"INDEX_INFO"
BY_FILE = "HoodieBootstrapFilePartitionInfo"
BY_PARTITION = "HoodieBootstrapPartitionMetadata"
INFO = "HoodieBootstrapIndexInfo"
_HINT = "Restore the file from a copy, or bootstrap a new table."


@dataclass(frozen=True, slots=True)
class RowsFile:
    """The file with the rows of a skeleton: its storage and path, and its size and modification time at the bootstrap.

    ``modified_ms`` is in epoch milliseconds; 0 if the index does not have it.
    """

    storage: Storage
    path: str
    size: int
    modified_ms: int

    @property
    def location(self) -> str:
        """The full path."""
        return f"{self.storage.location}/{self.path}"

    def damage(self, skeleton: str) -> CorruptBaseFileError | None:
        """Return the error if the file is missing or was changed; None if no change is visible.

        Its bytes are not read, because no index has their digest.
        """
        now = self.storage.head(self.path)
        made = f"{_time(self.modified_ms)} UTC" if self.modified_ms else ""
        if now is None:
            what = "A bootstrapped file does not exist, and the table has no copy of its rows"
        elif now.size != self.size:
            what = f"A bootstrapped file has {now.size:,} bytes; it had {self.size:,} when the table was made"
        elif self.modified_ms and not _same_time(now.modified_ms, self.modified_ms):
            what = f"A bootstrapped file was written again at {_time(now.modified_ms)} UTC; it was of {made} when the table was made"
        else:
            return None
        as_it_was = f", as it was, with its modification time ({made})" if made else ", as it was"
        return CorruptBaseFileError(
            what, path=self.location, detail=skeleton, hint=f"Put the file back{as_it_was}, or bootstrap a new table."
        )


def may_be_skeleton(path: str) -> bool:
    """Say whether the name of a data file shows that a metadata-only bootstrap wrote it."""
    return SKELETON_TIME in path and _name(path) is not None


def skeleton_key(partition: str, file_id: str) -> bytes:
    """Return the key of a file group in the bootstrap index."""
    return f"part={partition};fileid={file_id}".encode()


def rows_of_skeleton(storage: Storage, path: str) -> RowsFile | None:
    """Return the file with the rows of a base file; None if the base file has its rows. Raises `CorruptionError` and its subclasses."""
    name = _name(path)
    if name is None:
        return None
    try:
        with storage.open_input(INDEX_BY_FILE) as source:
            index = HFileReader(source, INDEX_BY_FILE)
            found = [
                entries.data[start:end]
                for entries in index.lookup([skeleton_key(split(path)[0], name.file_id)])
                for start, end in zip(entries.value_starts.tolist(), entries.value_ends.tolist(), strict=True)
            ]
            info = decode_record(index.info.get(INDEX_INFO, b""), INFO, path=INDEX_BY_FILE) if found else {}
    except ObjectNotFoundError:
        return None
    except CorruptHFileError as error:
        error.hint = _HINT
        raise
    return _rows_file(storage, decode_record(found[0], BY_FILE, path=INDEX_BY_FILE), info) if found else None


@contextmanager
def open_base(storage: Storage, path: str, columns: Sequence[str] | None = None) -> Iterator[BaseFileReader]:
    """Open a base file of a table, with its rows from the other folder if it is a skeleton. ``columns`` as for `BaseFileReader`.

    Raises `CorruptBaseFileError` (also for a missing or changed file of the other folder), `ObjectNotFoundError`, `UnsafePathError` for a folder
    that the caller does not allow, and `UnsupportedTableError` for a folder in another kind of storage.
    """
    with storage.open_input(path) as source:
        rows = rows_of_skeleton(storage, path) if may_be_skeleton(path) else None
        if rows is None:
            reader = BaseFileReader(source, path, columns)
            if may_be_skeleton(path) and set(reader.schema.names) <= set(META_FIELDS):
                raise CorruptBaseFileError(
                    "A base file has meta columns alone, and the bootstrap index does not say where its rows are",
                    path=path,
                    detail=INDEX_BY_FILE,
                    hint="Restore .hoodie/.aux/.bootstrap from a copy, or bootstrap a new table.",
                )
            yield reader
            return
        damage = rows.damage(path)
        if damage is not None:
            raise damage
        with rows.storage.open_input(rows.path) as other:
            yield BaseFileReader.joined(source, path, other, rows.location, columns)


def bootstrap_path(storage: Storage, path: str) -> str | None:
    """Return the full path of the file with the rows of a base file, for plans on the timeline; None if it is not a skeleton."""
    rows = rows_of_skeleton(storage, path) if may_be_skeleton(path) else None
    return None if rows is None else rows.location


def _same_time(first_ms: int, second_ms: int) -> bool:
    """Say whether two modification times are equal; some storages and releases of Java have only whole seconds."""
    if 0 in (first_ms % 1000, second_ms % 1000):
        return first_ms // 1000 == second_ms // 1000
    return first_ms == second_ms


def _time(epoch_ms: int) -> str:
    """Return a time as text, in UTC."""
    return (datetime(1970, 1, 1) + timedelta(milliseconds=epoch_ms)).isoformat(" ", "milliseconds")  # noqa: DTZ001  (the text says UTC)


def _name(path: str) -> BaseFileName | None:
    name = parse_data_file(split(path)[1])
    return name if isinstance(name, BaseFileName) and name.requested_time == SKELETON_TIME else None


def _rows_file(storage: Storage, entry: dict[str, Any], info: dict[str, Any]) -> RowsFile:
    status = entry.get("bootstrapFileStatus") or {}
    uri, folder = (status.get("path") or {}).get("uri") or "", info.get("bootstrapBasePath") or ""
    try:
        path = safe_relative_path(join(entry.get("bootstrapPartitionPath") or "", uri.rpartition("/")[2]))
        length, modified_ms = (int(status.get(name) or 0) for name in ("length", "modificationTime"))
        said = properties_file.read(storage).get("hoodie.bootstrap.base.path")
        if not said or _place(said) != _place(folder):
            raise _other_place(storage, folder, f"hoodie.bootstrap.base.path says {said or 'nothing'}")
        if _place(uri) != _place(f"{folder.rstrip('/')}/{path}"):
            raise _other_place(storage, uri, f"its partition is in {folder}")
    except (ConfigError, ValueError) as error:
        raise CorruptBaseFileError(
            f"The bootstrap index has an impossible entry: {error}",
            path=INDEX_BY_FILE,
            detail=str(error),
            hint=_HINT,
        ) from error
    return RowsFile(open_source(storage, folder), path, length, modified_ms)


def _place(location: str) -> tuple[str, str, str]:
    """Return the parts of a full location, in any spelling. Raises `ConfigError`."""
    if not (location.startswith("/") or ":" in location):
        raise ConfigError(f"'{location}' is not a full path", hint="Write file:/folder or s3://bucket/folder.")
    place = parse_location(location)
    return place.scheme, place.bucket, place.path


def _other_place(storage: Storage, named: str, but: str) -> UnsafePathError:
    return UnsafePathError(
        f"The bootstrap index says that rows are in {named}, but {but}",
        table=storage.location,
        path=INDEX_BY_FILE,
        hint="Nothing there was opened. The index or the properties were changed by somebody: restore them from a copy.",
    )
