"""What the rest of the package may ask of a disk or an object store.

Small and synchronous on purpose: every step that another process can see is one call of this protocol, so that the
explorer in ``pyhudi_core.testing`` can run the real code under every interleaving and crash of these calls.

Paths are relative to the storage's root (the table's location), use ``/``, never start with one and never contain
``..``; anything else raises `UnsafePathError` before the outside is touched.

What a storage can do is a value, `Capabilities`; nobody asks for its class. A storage of your own inherits from `Storage`: it writes the calls that
have no body here, and says what it is capable of. What it leaves out has a default that is safe everywhere.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Protocol, runtime_checkable

import pyarrow as pa

from pyhudi_core.errors import DeletesFailedError, StorageError
from pyhudi_core.storage.paths import check_path


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


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a kind of storage can do. The defaults are right for every storage, also for one about which nothing is known.

    Attributes:
        put_if_absent: `Storage.put_if_absent` is one atomic step (S3: If-None-Match; a disk: link(2)). Without it, a table takes a single writer.
        put_if_match: `put_if_match` and `delete_if_match` are one atomic step (S3: If-Match; a disk has none). With it, the commit record and the
            lock are one object each; without it, they are numbered files and a lock file.
        one_clock: all writers, and the times of objects, go by one clock (a disk of one machine). A writer that begins then waits 1 ms for others
            to show, else ``hoodie.time.generator.max_expected_clock_skew_ms``.
        one_process: no other process sees the objects, so a lock in memory excludes every writer.
        temporaries: a killed process can leave hidden files behind, which `Storage.sweep_temporaries` removes.
        parallel_calls: so many calls at once are faster than one after the other, because each waits for a network; it bounds the threads of
            listings and deletions. 1: threads do not help.
    """

    put_if_absent: bool = False
    put_if_match: bool = False
    one_clock: bool = False
    one_process: bool = False
    temporaries: bool = False
    parallel_calls: int = 1


@runtime_checkable
class Storage(Protocol):
    """A table's folder on a disk or in a bucket. Raises `StorageError` and its kinds only."""

    @property
    def location(self) -> str:
        """The root as the user may write it, such as ``/lake/orders`` or ``s3://lake/orders``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this kind of storage can do. By default, nothing that a protocol could rest on."""
        return Capabilities()

    def spec(self) -> StorageSpec:
        """What opens this storage in another process. Raises `ConfigError` for storage that lives in one process."""
        ...

    def get(self, path: str) -> bytes:
        """The object's bytes. Raises `ObjectNotFoundError`."""
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """The object's facts, or None where there is none."""
        ...

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
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

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove the objects, in any order; nothing happens where there is none. A process that dies here leaves any part of them.

        One that fails does not keep the others from being deleted. Raises `DeletesFailedError`, which says which are left and why. By default
        each is deleted by a call of its own; S3 takes 1,000 with each request.
        """
        delete_each(self.delete, paths, self.location)

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

    # --- what only disks have; the defaults are those of a storage that is not one

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the objects and of the sub-folders in a folder, sorted. A disk gives them without a look at each file."""
        found = self.list_folder(folder)
        return tuple(_name(info.path) for info in found.objects), tuple(_name(path) for path in found.folders)

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        """The files of a folder that listings leave out: files in the making and Hadoop's checksum files."""
        return ()

    def without_fsync(self) -> Storage:
        """The same storage for objects that mean nothing after a power failure, such as locks: a disk then waits for nothing."""
        return self

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        """Remove hidden files in a folder (``deep``: and below it) that nobody has written to for so long, and that no living process has
        open. Returns their paths.
        """
        return []

    def remove_empty_folders(self, folder: str) -> None:
        """Remove a folder and those below it, as far as they are empty. A bucket has no empty folders."""
        return


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


def delete_each(delete: Callable[[str], None], paths: Iterable[str], table: str) -> None:
    """Call ``delete`` for each path, and go on after a failure. Raises `DeletesFailedError` at the end, `UnsafePathError` before the first."""
    wanted = [check_path(path, table) for path in paths]
    failed: dict[str, str] = {}
    for path in wanted:
        try:
            delete(path)
        except StorageError as error:
            failed[path] = error.message
    report_failed(failed, len(wanted), table)


def report_failed(failed: Mapping[str, str], wanted: int, table: str) -> None:
    """Raise `DeletesFailedError` if a deletion failed; ``failed`` says why, by path."""
    if not failed:
        return
    first, why = next(iter(failed.items()))
    raise DeletesFailedError(
        f"{len(failed):,} of {wanted:,} objects could not be deleted: {why}",
        failed=failed,
        table=table,
        path=first,
        hint="The others are gone. Remove the reason, and delete again; deleting twice does no harm.",
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
