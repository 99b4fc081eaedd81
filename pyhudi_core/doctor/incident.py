"""Record an incident: the files of the commit protocol as one JSON document, which ``pyhudi.testing.replay_incident`` replays.

It contains the bytes of the timeline's files, the commit record, staged commits, locks and their audit, heartbeats, markers, and the metadata table's
list of files. Of all other files it contains names, sizes, times and tags: no content of data files, and no keys or values from the metadata table.
Secrets are replaced by the same number of stars, so that formats stay readable. The size is bounded: ``left_out`` names the omitted files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import CorruptionError, HudiError, StorageError, UnsafePathError
from pyhudi_core.formats.avro.container import MAGIC, decode_record
from pyhudi_core.lock.file_system import describe_foreign, is_gone, parse_holder
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LOCK_FOLDER, LockFile, Owner
from pyhudi_core.metadata_table.names import FILES, FOLDER
from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.model.masking import is_secret, masked, masked_text
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Folder, ObjectInfo, Storage
from pyhudi_core.storage.own_part import is_other_table
from pyhudi_core.timeline.properties_file import BACKUP, PATH
from pyhudi_core.transaction import layout

FORMAT = "pyhudi-incident"
SCHEMA_VERSION = 1

_FILE_BYTES = 4 << 20
_TOTAL_BYTES = 64 << 20
_FILES = 200_000
_HINT = "Record it again with pyhudi check --record."


@dataclass(frozen=True, slots=True)
@printable
class RecordedFile:
    """One object; ``content`` is None if only its name, size, time and tag were recorded."""

    path: str
    size: int
    modified_ms: int
    etag: str
    content: bytes | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a mapping of JSON types; content in base 64."""
        text = None if self.content is None else base64.b64encode(self.content).decode("ascii")
        return {
            "path": self.path,
            "size": self.size,
            "modified_ms": self.modified_ms,
            "etag": self.etag,
            "content": text,
        }


@dataclass(frozen=True, slots=True)
@printable
class Incident:
    """A recorded incident.

    Attributes:
        location: the table's location, without credentials.
        taken_ms: the time of the recording, in epoch milliseconds of the recording machine.
        conditional_replace: whether the storage has conditional replacement (object stores do, disks do not).
        gone: identities of writers that were known to have ended.
        lock_identity: kind and address of the lock that the recording handle uses; empty if unknown.
        lock_holder: the holder of the table's lock; empty if no running process held it.
        files: every recorded object, by path.
        left_out: the omitted files, in words.
    """

    location: str
    taken_ms: int
    conditional_replace: bool
    gone: tuple[str, ...]
    lock_identity: str
    lock_holder: str
    files: tuple[RecordedFile, ...]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Incident of {self.location}: {len(self.files):,} files"

    def _shown(self) -> list[dict[str, object]]:
        return [{"file": file.path, "bytes": file.size} for file in self.files]

    @property
    def lock_files(self) -> frozenset[str]:
        """The paths of lock files."""
        return frozenset(file.path for file in self.files if _is_lock(file.path))

    def to_bytes(self) -> bytes:
        """Return the document."""
        body = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "location": self.location,
            "taken_ms": self.taken_ms,
            "conditional_replace": self.conditional_replace,
            "gone": list(self.gone),
            "lock_identity": self.lock_identity,
            "lock_holder": self.lock_holder,
            "files": [file.to_dict() for file in self.files],
            "left_out": list(self.left_out),
        }
        return json.dumps(body, indent=1).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "") -> Incident:
        """Read the document. Raises `CorruptionError`."""
        try:
            body = json.loads(data)
            if body["format"] != FORMAT or body["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"format {body['format']!r}, version {body['schema_version']!r}")
            return cls(
                str(body["location"]),
                int(body["taken_ms"]),
                bool(body["conditional_replace"]),
                tuple(str(name) for name in body["gone"]),
                str(body["lock_identity"]),
                str(body["lock_holder"]),
                tuple(_file(entry) for entry in body["files"]),
                tuple(str(text) for text in body["left_out"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptionError(
                f"Not a recorded incident of version {SCHEMA_VERSION}: {error}"[:300], path=path or None, hint=_HINT
            ) from error


def _file(entry: dict[str, Any]) -> RecordedFile:
    content = entry["content"]
    data = None if content is None else base64.b64decode(content, validate=True)
    return RecordedFile(str(entry["path"]), int(entry["size"]), int(entry["modified_ms"]), str(entry["etag"]), data)


def record(opened: OpenedTable) -> Incident:
    """Record the table's incident. Changes nothing; unreadable files are omitted and listed in ``left_out``."""
    storage = opened.storage
    left_out: list[str] = []
    executor = opened.runtime.executor.at_least(storage.capabilities.parallel_calls)
    infos = list(_all(storage, executor, left_out))
    if len(infos) > _FILES:
        left_out.append(f"{len(infos) - _FILES:,} of {len(infos):,} objects")
        infos = sorted(infos, key=lambda info: (not info.path.startswith(".hoodie/"), info.path))[:_FILES]
    budget = _TOTAL_BYTES
    files: list[RecordedFile] = []
    # The newest timeline files come first, so that they fit before older ones.
    for info in sorted(infos, key=lambda info: (_rank(info.path), info.path), reverse=True):
        content = None
        if _rank(info.path) and info.size <= min(budget, _FILE_BYTES):
            content = _content(storage, info, left_out)
            budget -= len(content or b"")
        elif _rank(info.path):
            left_out.append(f"the content of {info.path} ({info.size:,} bytes)")
        files.append(RecordedFile(masked_text(info.path), info.size, info.modified_ms, info.etag, content))
    gone, holder = _processes(opened, files)
    ordered = tuple(sorted(files, key=lambda file: file.path))
    location = masked_text(storage.location)
    now_ms = opened.runtime.clock.now_ms()
    identity = _lock_identity(opened)
    conditional = storage.capabilities.put_if_match
    return Incident(location, now_ms, conditional, gone, identity, holder, ordered, tuple(left_out))


def _all(storage: Storage, executor: Executor, left_out: list[str]) -> Iterator[ObjectInfo]:
    """Return every object of the table. Each folder is listed by a separate call, so that an unreadable folder does not hide the rest."""

    def list_one(path: str) -> Folder | str:
        try:
            folder = storage.list_folder(path)
            return Folder((), ()) if is_other_table(path, folder.folders) else folder
        except (StorageError, UnsafePathError) as error:
            return f"the folder {path or '.'}: {masked_text(error.message)}"

    level = [""]
    while level:
        found = executor.map(list_one, level)
        left_out.extend(problem for problem in found if isinstance(problem, str))
        folders = [folder for folder in found if isinstance(folder, Folder)]
        for folder in folders:
            yield from folder.objects
        level = [path for folder in folders for path in folder.folders]


def _is_lock(path: str) -> bool:
    return path.startswith(".hoodie/") and path.rpartition("/")[2] in ("lock", LOCK_FILE.rpartition("/")[2])


def _rank(path: str) -> int:
    """Return the priority of a file's content; 0 for files whose content is not recorded."""
    name = path.rpartition("/")[2]
    if path in (PATH, BACKUP) or path.startswith((layout.COMMIT_RECORD, f"{layout.STAGED}/")):
        return 4
    if path.startswith((f"{layout.HEARTBEATS}/", f"{layout.MARKERS}/", f"{LOCK_FOLDER}/")) or path == ".hoodie/lock":
        return 3
    if path.startswith(f"{FOLDER}/{FILES}/"):
        return 1
    if path.startswith(f"{FOLDER}/.hoodie/timeline/"):
        return 1  # check compares the files that the metadata table's commits name
    if path.startswith(f"{FOLDER}/") or name.endswith(".parquet"):
        return 0
    if path.startswith(".hoodie/") and (name[:1].isdecimal() or name == "_version_" or name.startswith("manifest_")):
        return 2
    return 1 if name == PARTITION_METAFILE else 0


def _content(storage: Storage, info: ObjectInfo, left_out: list[str]) -> bytes | None:
    try:
        return masked_file(storage.get(info.path))
    except HudiError as error:
        left_out.append(f"the content of {info.path}: {masked_text(error.message)}")
        return None


def _processes(opened: OpenedTable, files: list[RecordedFile]) -> tuple[tuple[str, ...], str]:
    """Return the writers that are known to have ended, and the running holder of the lock."""
    gone: set[str] = set()
    holders: list[str] = []
    for file in files:
        if file.content is None:
            continue
        if file.path.startswith(f"{layout.HEARTBEATS}/"):
            identity = _identity(file.content)
            if identity and opened.runtime.process.is_gone(identity):
                gone.add(identity)
        elif file.path == LOCK_FILE:
            holders.append(_lease_holder(opened, file.content))
        elif _is_lock(file.path):
            found = parse_holder(file.content)
            if found is None or not is_gone(found):
                holders.append(found.describe() if found is not None else describe_foreign(file.content))
    return tuple(sorted(gone)), next(filter(None, holders), "")


def _lease_holder(opened: OpenedTable, content: bytes) -> str:
    """Return the holder of the lease; empty if it has expired."""
    lease = LockFile.parse(content)
    if lease is None or lease.expired or lease.valid_until_ms <= opened.runtime.clock.now_ms():
        return ""
    owner = Owner.parse(lease.owner)
    return "" if owner is not None and opened.runtime.process.is_gone(owner.process) else lease.describe()


def _lock_identity(opened: OpenedTable) -> str:
    try:
        return opened.context().lock.identity
    except HudiError:
        return ""  # the table is too damaged to be opened, and the report says so


def _identity(content: bytes) -> str:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("process", "")) if isinstance(found, dict) else ""


# --- mask secrets in the bytes of a table's files. Masking keeps the length, because Avro counts bytes

_SHORTEST = 4
"""Shorter values would be masked all over the file."""
_MOST = 100
"""Secrets of one file. The file is read once for each."""


def masked_file(data: bytes) -> bytes:
    """Return bytes of the same length with secrets masked; stars alone if there are too many secrets."""
    if not data.startswith(MAGIC):
        return masked(data)
    secrets = _avro_secrets(data)
    if len(secrets) > _MOST:
        return b"*" * len(data)
    for secret in secrets:
        data = data.replace(secret, b"*" * len(secret))
    # In Avro, names and values of options are not adjacent text; text that looks so is part of a schema.
    return masked(data, options=False)


def _avro_secrets(data: bytes) -> list[bytes]:
    """Return the values in an Avro file's maps whose keys are names of secrets."""
    try:
        waiting: list[object] = [decode_record(data)]
    except HudiError:
        return []
    found: set[bytes] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                if isinstance(value, str) and len(value) >= _SHORTEST and is_secret(str(key)):
                    found.add(value.encode())
                elif not isinstance(value, str):
                    waiting.append(value)
        elif isinstance(item, list):
            waiting.extend(item)
    return sorted(found, key=len, reverse=True)
