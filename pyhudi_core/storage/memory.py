"""Storage in the memory of one process, with the conditional writes of an object store.

``memory://name/prefix`` names a bucket of this process; every handle with the same name sees the same objects. It is for tests, examples and small
tables of the local engine; Spark's workers cannot access it.
"""

from __future__ import annotations

import builtins
import threading
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import ConfigError, ObjectNotFoundError, PreconditionFailedError, StorageError
from pyhudi_core.runtime.base import Clock
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, Storage, StorageSpec
from pyhudi_core.storage.kind import StorageKind, allow_sources, refuse_unknown
from pyhudi_core.storage.paths import (
    ALLOW_SOURCES,
    Location,
    check_folder,
    check_path,
    check_prefix,
    parse_location,
    parse_sources,
    sources_text,
)

_CAPABILITIES = Capabilities(put_if_absent=True, put_if_match=True, one_clock=True, one_process=True)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's bytes, write time in epoch milliseconds and tag."""

    data: bytes
    modified_ms: int
    etag: str


class MemoryBucket:
    """Objects by key, kept sorted; every method is one atomic step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}
        self._keys: list[str] = []
        self._writes = 0

    def read(self, key: str) -> StoredObject | None:
        return self._objects.get(key)

    def write(
        self, key: str, data: bytes, now_ms: int, *, if_etag: str | None = None, absent: bool = False
    ) -> StoredObject:
        """Store the object, if the tag matches or the object is absent. Raises `PreconditionFailedError`."""
        with self._lock:
            old = self._objects.get(key)
            if (absent and old is not None) or (if_etag is not None and (old is None or old.etag != if_etag)):
                raise PreconditionFailedError("The object is not in the expected state", path=key)
            self._writes += 1
            stored = StoredObject(bytes(data), now_ms, f"{self._writes:x}")
            self._objects[key] = stored
            if old is None:
                insort(self._keys, key)
            return stored

    def remove(self, key: str, if_etag: str | None = None) -> None:
        """Remove the object, if the tag matches. Raises `PreconditionFailedError`."""
        with self._lock:
            old = self._objects.get(key)
            if if_etag is not None and (old is None or old.etag != if_etag):
                raise PreconditionFailedError("The object is not in the expected state", path=key)
            if old is not None:
                del self._objects[key]
                del self._keys[bisect_left(self._keys, key)]

    def scan(self, prefix: str, start_after: str = "") -> list[tuple[str, StoredObject]]:
        """Return the objects whose key starts with the prefix and is greater than ``start_after``, sorted by key."""
        found: list[tuple[str, StoredObject]] = []
        with self._lock:
            for index in range(bisect_left(self._keys, max(prefix, start_after)), len(self._keys)):
                key = self._keys[index]
                if not key.startswith(prefix):
                    break
                if key > start_after:
                    found.append((key, self._objects[key]))
        return found


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Storage options of memory."""

    allow_sources: str = allow_sources()

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> MemoryOptions:
        """Read storage options. Raises `UnknownOptionError`."""
        refuse_unknown(cls, given, location)
        return cls(sources_text(parse_sources(given.get(ALLOW_SOURCES, ""))))


class MemoryStorage(Storage):
    """A prefix of a bucket in memory.

    Args:
        location: ``memory://name`` or ``memory://name/prefix``.
        bucket: the bucket, for example from `memory_bucket`.
        clock: the source of modification times.
        allowed_sources: see `Storage.allowed_sources`.
    """

    def __init__(
        self, location: str, bucket: MemoryBucket, clock: Clock, allowed_sources: tuple[str, ...] = ()
    ) -> None:
        parsed = parse_location(location)
        self._location = parsed.text
        self._base = parsed.path + "/" if parsed.path else ""
        self._bucket = bucket
        self._clock = clock
        self._allowed_sources = allowed_sources

    @property
    def location(self) -> str:
        return self._location

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        return self._allowed_sources

    def __repr__(self) -> str:
        return f"MemoryStorage({self._location!r})"

    def spec(self) -> StorageSpec:
        raise ConfigError(
            "Storage in memory cannot be opened in another process",
            table=self._location,
            hint="Write Arrow data to this table, which needs no other process, or create the table on a disk or in a bucket.",
        )

    def get(self, path: str) -> bytes:
        found = self._bucket.read(self._key(path))
        if found is None:
            raise ObjectNotFoundError("The object does not exist", table=self._location, path=path)
        return found.data

    def head(self, path: str) -> ObjectInfo | None:
        found = self._bucket.read(self._key(path))
        return None if found is None else _info(path, found)

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        found = self._bucket.read(self._key(path))
        if found is None:
            raise ObjectNotFoundError("The object does not exist", table=self._location, path=path)
        return None if unless and found.etag == unless else (_info(path, found), found.data)

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self._location)
        bound = self._base + start_after if start_after else ""
        cut = len(self._base)
        return [_info(key[cut:], stored) for key, stored in self._bucket.scan(self._base + prefix, bound)]

    def list_folder(self, folder: str) -> Folder:
        prefix = check_folder(folder, self._location) + "/" if folder else ""
        return folder_of(prefix, self.list(prefix))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return _info(path, self._bucket.write(self._key(path), data, self._clock.now_ms()))

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        return _info(path, self._bucket.write(self._key(path), data, self._clock.now_ms(), absent=True))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        return _info(path, self._bucket.write(self._key(path), data, self._clock.now_ms(), if_etag=etag))

    def delete(self, path: str) -> None:
        self._bucket.remove(self._key(path))

    def delete_if_match(self, path: str, etag: str) -> None:
        self._bucket.remove(self._key(path), etag)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(pa.py_buffer(self.get(path)))

    def open_output(self, path: str) -> MemoryOutputFile:
        self._key(path)
        return MemoryOutputFile(self, path)

    def _key(self, path: str) -> str:
        return self._base + check_path(path, self._location)


class MemoryOutputFile:
    """A file that is being written, as a growing buffer."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._stream = pa.BufferOutputStream()
        self._open = True

    @property
    def stream(self) -> pa.NativeFile:
        return self._stream

    def close(self) -> ObjectInfo:
        if not self._open:
            raise StorageError("The file is already closed", table=self._storage.location, path=self._path)
        self._open = False
        return self._storage.put(self._path, self._stream.getvalue().to_pybytes())

    def abort(self) -> None:
        self._open = False


def folder_of(prefix: str, objects: list[ObjectInfo]) -> Folder:
    """Return the direct children of a folder, from the objects below it; the prefix ends with a slash, or is empty."""
    direct = tuple(info for info in objects if "/" not in info.path[len(prefix) :])
    deeper = {info.path[len(prefix) :].partition("/")[0] for info in objects if "/" in info.path[len(prefix) :]}
    return Folder(direct, tuple(sorted(prefix + name for name in deeper)))


_buckets: dict[str, MemoryBucket] = {}


def memory_bucket(name: str) -> MemoryBucket:
    """Return the bucket of this process with this name; created on first use."""
    return _buckets.setdefault(name, MemoryBucket())


def forget_memory_bucket(name: str) -> None:
    """Remove the bucket with this name, which frees its memory."""
    _buckets.pop(name, None)


def _info(path: str, stored: StoredObject) -> ObjectInfo:
    return ObjectInfo(path, len(stored.data), stored.modified_ms, stored.etag)


def _open(location: Location, given: Mapping[str, str]) -> Storage:
    options = MemoryOptions.parse(given, location.text)
    return MemoryStorage(
        location.text, memory_bucket(location.bucket), SystemClock(), parse_sources(options.allow_sources)
    )


STORAGE = StorageKind("memory", "memory", MemoryOptions, _open)
