"""What the rest of the package may ask of a disk or an object store.

Small and synchronous on purpose: every step that another process can see is one call of this protocol, so that the
explorer in ``pyhudi_core.testing`` can run the real code under every interleaving and crash of these calls.

Paths are relative to the storage's root (the table's location), use ``/``, never start with one and never contain
``..``; anything else raises `UnsafePathError` before the outside is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Protocol, runtime_checkable

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: path below the root, size in bytes, modification time in epoch milliseconds, entity tag."""

    path: str
    size: int
    modified_ms: int
    etag: str


@dataclass(frozen=True, slots=True)
class Folder:
    """The direct children of a folder: objects sorted by path, and the paths of sub-folders (no trailing slash),
    sorted.
    """

    objects: tuple[ObjectInfo, ...]
    folders: tuple[str, ...]


class Secret(str):
    """A string that does not show itself in logs or error messages."""

    def __repr__(self) -> str:
        return "Secret('***')"


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """All that a Spark task needs to open the same storage: the location and the storage options (secrets masked)."""

    location: str
    options: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Storage(Protocol):
    """A table's folder on a disk or in a bucket. Raises `StorageError` and its kinds only."""

    @property
    def location(self) -> str:
        """The root as the user may write it, such as ``/lake/orders`` or ``s3://lake/orders``."""
        ...

    @property
    def supports_put_if_match(self) -> bool:
        """Whether `put_if_match` and `delete_if_match` are atomic here (object stores: yes; POSIX disks: no)."""
        ...

    @property
    def supports_put_if_absent(self) -> bool:
        """Whether `put_if_absent` is atomic here. Where it is not, only a single writer may use a table."""
        ...

    def spec(self) -> StorageSpec:
        """What opens this storage in another process. Raises `ConfigError` for storage that lives in one process."""
        ...

    def get(self, path: str) -> bytes:
        """The object's bytes. Raises `ObjectNotFoundError`."""
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """The object's facts, or None where there is none."""
        ...

    def list(self, prefix: str, start_after: str = "") -> list[ObjectInfo]:
        """All objects, at any depth, whose path starts with ``prefix`` and sorts after ``start_after``; sorted by
        path.
        """
        ...

    def list_folder(self, folder: str) -> Folder:
        """The direct children of a folder (``""`` is the root); empty where there is none."""
        ...

    def put(self, path: str, data: bytes) -> ObjectInfo:
        """Write the object whole, replacing what is there; others see the old or the new bytes, never a part."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        """Write the object if none is there. Raises `PreconditionFailedError`, or `StorageStateUnknownError`."""
        ...

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        """Replace the object if its tag is ``etag``. Raises as `put_if_absent`; a missing object is a failed
        precondition.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove the object; nothing happens where there is none."""
        ...

    def delete_if_match(self, path: str, etag: str) -> None:
        """Remove the object if its tag is ``etag``. Raises `PreconditionFailedError`."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for reading at random positions. Raises `ObjectNotFoundError`."""
        ...

    def open_output(self, path: str) -> OutputFile:
        """Open a new object for writing. It appears under its path when it is closed, and not at all when it is
        aborted. Paths are to be chosen so that nobody else has them: S3 refuses to replace an object here
        (`PreconditionFailedError` at the close), a disk replaces it.
        """
        ...


class OutputFile(Protocol):
    """A data file in the making."""

    @property
    def stream(self) -> IO[bytes] | pa.NativeFile:
        """Where to write (what ``pyarrow.parquet.ParquetWriter`` takes); do not close it, close the file."""
        ...

    def close(self) -> ObjectInfo:
        """Publish the object."""
        ...

    def abort(self) -> None:
        """Forget what was written; safe after `close` (then it does nothing) and when called twice."""
        ...
