"""The protocol between the package and a disk or an object store.

The protocol is small and synchronous: every step that another process can see is one call. So the explorer in ``pyhudi.testing`` can run the
real code in every interleaving, with a crash at every call.

Paths are relative to the root of the storage (the table's location). They use ``/``, do not begin with ``/`` and do not contain ``..``; any other
path raises `UnsafePathError` before the disk or network is used.

Callers read the abilities of a storage from `Capabilities`, and never check its class. Your own storage inherits from `Storage`: it implements the
methods without a body and declares its capabilities. The other methods have defaults that are safe for every storage.
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
    """The direct children of a folder: objects, and paths of sub-folders (without trailing slash). Both are sorted by path."""

    objects: tuple[ObjectInfo, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """The input with which a Spark task opens the same storage: the location and the storage options. The options are not printed."""

    location: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The abilities of a kind of storage. The defaults are safe for every storage, including an unknown one.

    Attributes:
        put_if_absent: `Storage.put_if_absent` is one atomic step (S3: If-None-Match; a disk: link(2)). Without it, a table can have only one writer.
        put_if_match: `put_if_match` and `delete_if_match` are one atomic step each (S3: If-Match; disks do not have it). With it, the commit record
            and the lock are one object each; without it, they are numbered files and a lock file.
        one_clock: all writers, and the times of objects, use the same clock (a disk of one machine). Then a writer waits 1 ms after its reservation,
            otherwise ``hoodie.time.generator.max_expected_clock_skew_ms``.
        one_process: only one process can see the objects, so a lock in memory excludes every writer.
        temporaries: a killed process can leave hidden files behind, which `Storage.sweep_temporaries` and `Storage.discard_unfinished` remove.
        parallel_calls: the number of concurrent calls that is faster than sequential calls, because each call waits for the network; it limits the
            threads of listings and deletions. 1: threads do not help.
        cheap_names: `Storage.list_names` does much less than `Storage.list_folder`, which asks for the facts of each object.
        renames_folders: `Storage.rename_folder` is one atomic step.
    """

    put_if_absent: bool = False
    put_if_match: bool = False
    one_clock: bool = False
    one_process: bool = False
    temporaries: bool = False
    parallel_calls: int = 1
    cheap_names: bool = False
    renames_folders: bool = False


@dataclass(frozen=True, slots=True)
class Waited:
    """The number of waits for a busy store (429, 503), and their milliseconds in total. Waits of several threads may overlap."""

    times: int = 0
    ms: int = 0

    def since(self, before: Waited) -> Waited:
        """Return the waits since an earlier look."""
        return Waited(self.times - before.times, self.ms - before.ms)


NOT_WAITED = Waited()


@runtime_checkable
class Storage(Protocol):
    """A table's folder on a disk or in a bucket. Raises only `StorageError` and its subclasses."""

    @property
    def location(self) -> str:
        """The root in the user's spelling, such as ``/lake/orders`` or ``s3://lake/orders``."""
        ...

    @property
    def real_location(self) -> str:
        """The location without symbolic links, and with one spelling of the scheme: two storages of one folder have the same real location.

        It does not contain the endpoint and the account: several stores may have such a folder, see ``store``.
        """
        return self.location

    @property
    def store(self) -> str:
        """Return the endpoint of the folder, in the user's spelling; for Azure the endpoint of the account. Empty if the location alone identifies
        the folder.

        One endpoint has several spellings, so two texts may mean one store (`same_place.same_folder`).
        """
        return ""

    def is_at(self, location: str) -> bool:
        """Return whether a location, in any spelling, is the location of this storage. The location must be in the same store."""
        return location == self.location

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this kind of storage; by default none."""
        return Capabilities()

    @property
    def waited(self) -> Waited:
        """The waits for a busy store so far in this process; by default none."""
        return NOT_WAITED

    def busy_time(self, seconds: float) -> object:
        """Limit the total wait for a busy store, as long as the returned object exists.

        If several writes have such an object, the longest limit applies. A storage that is never busy returns an object without effect.
        """
        return None

    @property
    def unproved_server(self) -> str:
        """The server, for messages, if it is unknown whether it respects conditions of writes; by default empty."""
        return ""

    def spec(self) -> StorageSpec:
        """Return the specification from which another process opens this storage. Raises `ConfigError` if the storage exists only in this process."""
        ...

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        """Locations of other folders that the caller allows to read if the table's files name them; by default none."""
        return ()

    def get(self, path: str) -> bytes:
        """Return the object's bytes.

        Raises `ObjectNotFoundError`, and `LimitExceededError` for an object of more than 256 MiB on a disk or in a bucket.
        """
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """Size, time and tag of the object; None if it does not exist."""
        ...

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        """Return the object's bytes with their facts; None if its tag is ``unless``. Raises as `get`.

        An object store answers this with one request. The default looks before and after the bytes are read, until both looks agree.
        """
        while True:
            before = self.head(path)
            if before is not None and unless and before.etag == unless:
                return None
            data = self.get(path)
            after = self.head(path)
            if before is not None and after is not None and after.etag == before.etag:
                return after, data

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        """Return all objects, at any depth, whose path starts with ``prefix`` and is greater than ``start_after``; sorted by path."""
        ...

    def list_folder(self, folder: str) -> Folder:
        """Return the direct children of a folder (``""`` is the root); empty if it does not exist."""
        ...

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        """Return objects of a folder, sorted by path, at a cost that has a bound: if the folder has more than ``most`` children, some are missing.

        An object store returns the first objects, and at least ``most`` children; a disk returns any of them. For a folder that anybody may fill. The
        default lists the folder completely.
        """
        return list(self.list_folder(folder).objects)

    def put(self, path: str, data: bytes) -> ObjectInfo:
        """Write or replace the object. Readers see the old or the new bytes completely, never a part."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        """Write the object if it does not exist. Raises `PreconditionFailedError` if it exists, `StorageStateUnknownError` if that is not known."""
        ...

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        """Replace the object if its tag is ``etag``. Raises as `put_if_absent`; a missing object is a failed precondition."""
        ...

    def delete(self, path: str) -> None:
        """Remove the object; no effect if it does not exist."""
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove the objects, in any order; no effect on objects that do not exist. If the process dies here, any of them may remain.

        After a failed deletion the remaining deletions continue. Raises `DeletesFailedError`, which names the remaining objects and the reasons. The
        default makes one call for each object; S3 deletes up to 1,000 objects in one request.
        """
        delete_each(self.delete, paths, self.location)

    def delete_if_match(self, path: str, etag: str) -> None:
        """Remove the object if its tag is ``etag``. Raises `PreconditionFailedError`."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open the object for random reads. Raises `ObjectNotFoundError`."""
        ...

    def opening_once(self) -> Storage:
        """Return the same storage for one operation on unchanging files. On a network storage, it reads each small file once.

        The default is the storage itself.
        """
        return self

    def open_output(self, path: str) -> OutputFile:
        """Open a new object for writing. The object becomes visible when it is closed; an aborted object never becomes visible.

        The path must be unique: S3 refuses to replace an object here (`PreconditionFailedError` when it is closed), a disk replaces it.
        """
        ...

    # --- for disks; the defaults are correct for storages without a file system

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the objects and of the sub-folders in a folder, sorted. On a disk this does not read the size and time of each file."""
        found = self.list_folder(folder)
        return tuple(_name(info.path) for info in found.objects), tuple(_name(path) for path in found.folders)

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        """Return the files of a folder that listings omit: unfinished files and Hadoop's checksum files."""
        return ()

    def without_fsync(self) -> Storage:
        """Return the same storage without fsync, for objects that may be lost in a power failure, such as locks."""
        return self

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        """Remove the unfinished files in a folder (``deep``: and below it) that are older than this, and not open in a running process.

        Returns their paths.
        """
        return []

    def discard_unfinished(self, paths: Iterable[str]) -> None:
        """Remove the unfinished files of these objects, also if a running process writes them: the process then fails to publish its file.

        A folder with such objects is listed. A bucket has no unfinished files.
        """
        return

    def remove_empty_folders(self, folder: str) -> None:
        """Remove the empty folders at and below a folder. A bucket has no empty folders."""
        return

    def rename_folder(self, folder: str, new: str) -> None:
        """Move a folder with all its contents to another path in one step. Raises `PreconditionFailedError` if the new path exists."""
        raise StorageError(
            "This storage does not rename a folder in one step",
            table=self.location,
            path=folder,
            hint="Ask capabilities.renames_folders first.",
        )


class OutputFile(Protocol):
    """A data file that is being written."""

    @property
    def stream(self) -> IO[bytes] | pa.NativeFile:
        """The stream to write to, for example with ``pyarrow.parquet.ParquetWriter``; do not close the stream, close the file."""
        ...

    def close(self) -> ObjectInfo:
        """Publish the object."""
        ...

    def abort(self) -> None:
        """Discard the file. No effect after `close`; safe to call twice."""
        ...


def delete_each(delete: Callable[[str], None], paths: Iterable[str], table: str) -> None:
    """Call ``delete`` for each path, also after a failure. Raises `DeletesFailedError` at the end, and `UnsafePathError` before the first call."""
    wanted = [check_path(path, table) for path in paths]
    failed: dict[str, str] = {}
    for path in wanted:
        try:
            delete(path)
        except StorageError as error:
            failed[path] = error.message
    report_failed(failed, len(wanted), table)


def report_failed(failed: Mapping[str, str], wanted: int, table: str) -> None:
    """Raise `DeletesFailedError` if a deletion failed; ``failed`` has the reasons by path."""
    if not failed:
        return
    first, why = next(iter(failed.items()))
    raise DeletesFailedError(
        f"{len(failed):,} of {wanted:,} objects could not be deleted: {why}",
        failed=failed,
        table=table,
        path=first,
        hint="The others were deleted. Correct the cause and delete again; it is safe to delete an object twice.",
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
