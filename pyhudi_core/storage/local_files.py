"""Create files on a POSIX disk: write under a temporary name, fsync, then publish in one atomic step (rename or link).

A temporary file is in the folder of the final file, because rename and link cannot cross file systems. Its name begins with ``.pyhudi-`` and ends
with ``.tmp``; listings omit it. Between them are a digest of the final name, by which the temporary files of a given file are found, and a random
number. A killed process leaves temporary files behind, so abandoned ones can be removed. Hadoop keeps a checksum of ``name`` in ``.name.crc`` and
refuses a file that does not match it, so an old checksum file is removed before the file is published.

Arrow reads and writes streams inside of its own code, so a Parquet writer or an Arrow reader raises errors of the operating system. These become
errors of the package, too: in `_Sink` for writes, and at the end of the ``with`` block of `LocalInputFile` for reads.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from pyhudi_core.errors import StorageError
from pyhudi_core.lazy import lazy
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.refusals import refusal

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = lazy("hashlib")

_TEMPORARY = (".pyhudi-", ".tmp")
_LONGEST_PATH, _LONGEST_NAME = 4095, 255
_PLAIN = {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
_SPECIAL = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class SpecialFileError(Exception):
    """A path is not a file, folder or link. Its bytes come from another process or a device, and may never come."""

    def __init__(self, mode: int) -> None:
        super().__init__(_SPECIAL.get(stat.S_IFMT(mode), "neither a file nor a folder"))


def refuse_special(mode: int) -> None:
    """Raise `SpecialFileError` for the mode of anything but a file, a folder or a link."""
    if stat.S_IFMT(mode) not in _PLAIN:
        raise SpecialFileError(mode)


def open_file(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reads, and never wait for a special file. Returns a descriptor and the facts.

    Raises `SpecialFileError`, and OSError, for example `IsADirectoryError`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            refuse_special(found.st_mode)
            raise IsADirectoryError(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found


def read_all(descriptor: int, size: int) -> bytes:
    """Read ``size`` bytes, or up to the end of the file if it became shorter."""
    data = os.read(descriptor, size)
    if len(data) == size:
        return data
    parts = [data]
    while data and size > (there := sum(map(len, parts))):
        data = os.read(descriptor, size - there)
        parts.append(data)
    return b"".join(parts)


def is_hidden(name: str) -> bool:
    """Say whether listings omit the file: temporary files of this package and Hadoop's checksum files."""
    if not name.startswith("."):
        return False
    return name.endswith(".crc") or (name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1]))


def is_temporary(name: str) -> bool:
    """Say whether `temporary_beside` made the name."""
    return name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1])


def begin_temporary(path: str) -> tuple[str, int]:
    """Create an empty temporary file in the folder of the path, and mark it as open. Returns its name and a descriptor.

    Other processes see the mark (a shared flock) until the descriptor is closed or this process ends. The folder must exist.
    """
    while True:
        temporary = temporary_beside(path)
        descriptor = os.open(temporary, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # a file system without flock: `remove_if_abandoned` removes no file there
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # this process paused before it marked the file, and another one removed it


def remove_if_abandoned(path: str, before_ns: int) -> bool:
    """Remove a temporary file unless it was changed after ``before_ns`` or a process has marked it as open. Returns whether it was removed."""
    try:
        descriptor, _ = open_file(path)
    except (OSError, SpecialFileError):
        return False  # the file was published, or this user may not open it, or it is not a regular file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_mtime_ns >= before_ns:
            return False
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def temporary_beside(path: str) -> str:
    """Return a unique temporary name in the folder of the path."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{_front(name)}{os.urandom(8).hex()}{_TEMPORARY[1]}"


def temporaries_of(folder: str, names: Iterable[str]) -> list[str]:
    """Return the temporary files in a folder whose final name is one of these names."""
    fronts = {_front(name) for name in names}
    length = len(_front(""))
    try:
        there = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{folder}/{name}" for name in sorted(there) if name[:length] in fronts and is_temporary(name)]


def _front(name: str) -> str:
    """Return the first letters that all temporary names of this file have."""
    return f"{_TEMPORARY[0]}{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}-"


def remove_checksum(path: str) -> None:
    """Remove Hadoop's checksum file of this file."""
    folder, slash, name = path.rpartition("/")
    try:
        remove_quietly(f"{folder}{slash}.{name}.crc")
    except OSError as error:
        # With a name too long for the disk, there can be no such file.
        if error.errno != errno.ENAMETOOLONG:
            raise


def write_temporary(path: str, data: bytes, fsync: bool) -> str:
    """Write the bytes to a temporary file in the folder of the path and return its name. The folder must exist."""
    temporary = temporary_beside(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        write_all(descriptor, memoryview(data))
        if fsync:
            os.fsync(descriptor)
    except BaseException:
        discard(temporary)
        raise
    finally:
        os.close(descriptor)
    return temporary


def write_all(descriptor: int, view: memoryview) -> None:
    """Write all bytes. The operating system may write fewer bytes in one call."""
    while view:
        view = view[os.write(descriptor, view) :]


def publish_replacing(temporary: str, path: str) -> None:
    """Rename the temporary file to its final name; an existing file is replaced. The name is durable when its folder is synced."""
    try:
        remove_checksum(path)
        os.replace(temporary, path)
    except BaseException:
        discard(temporary)
        raise


def publish_if_absent(temporary: str, path: str) -> None:
    """Rename the temporary file to its final name. Raises FileExistsError if a file with this name exists."""
    try:
        # link(2) fails on an existing name, on every POSIX file system and across processes; rename(2) would replace
        # it.
        if not os.path.lexists(path):
            remove_checksum(path)
        os.link(temporary, path)
    finally:
        discard(temporary)


def sync(path: str) -> None:
    """Store the content of a file, or the names in a folder, so that they survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_long(path: str) -> None:
    """Raise OSError for a path that is too long for Linux. Otherwise a call would first create its folders, or report them as missing."""
    if len(path) <= _LONGEST_NAME and path.isascii():
        return
    data = os.fsencode(path)
    if len(data) > _LONGEST_PATH or max(map(len, data.split(b"/"))) > _LONGEST_NAME:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)


def make_folders(folder: str, fsync: bool) -> None:
    """Create the folder and its parents; with ``fsync`` each is stored durably in its parent."""
    missing: list[str] = []
    current = folder
    while current and not os.path.isdir(current):
        missing.append(current)
        current = os.path.dirname(current)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        if fsync:
            sync(os.path.dirname(path))


def remove_quietly(path: str) -> None:
    """Remove a file if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def discard(temporary: str) -> None:
    """Remove a temporary file. If the disk refuses, the file stays hidden, and is swept later."""
    with suppress(OSError):
        os.unlink(temporary)


_WRITE_BUFFER = 1 << 20


class LocalInputFile(pa.OSFile):  # type: ignore[misc]  # pyarrow has no types
    """A file that is read. Use it in a ``with`` block, which converts errors of the operating system to `StorageError`."""

    _table: str
    _path: str

    @classmethod
    def of(cls, target: str, table: str, path: str) -> Self:
        """Open a file. Raises OSError."""
        opened = cls(target, "rb")
        opened._table, opened._path = table, path
        return opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        # Errors of the operating system have a number; pyarrow's errors about the bytes have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise refusal(error, self._table, self._path) from error


class LocalOutputFile:
    """An unfinished file with a temporary name in its folder. The folder must exist."""

    def __init__(self, table: str, path: str, target: str, fsync: bool) -> None:
        self._table = table
        self._path = path
        self._target = target
        self._fsync = fsync
        self._temporary, self._guard = begin_temporary(target)
        try:
            self._sink = _Sink(self._temporary, table, path)
        except BaseException:
            os.close(self._guard)
            discard(self._temporary)
            raise
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _WRITE_BUFFER)
        self._open = True

    @property
    def stream(self) -> pa.NativeFile:
        return self._stream

    def close(self) -> ObjectInfo:
        if not self._open:
            raise StorageError("The file is already closed", table=self._table, path=self._path)
        self._open = False
        try:
            self._stream.close()
            found = self._publish()
        except BaseException:
            self._sink.give_up()
            discard(self._temporary)
            raise
        finally:
            os.close(self._guard)
        return info_of(self._path, found)

    def _publish(self) -> os.stat_result:
        published = False
        try:
            if self._fsync:
                sync(self._temporary)
            found = os.stat(self._temporary)
            publish_replacing(self._temporary, self._target)
            published = True
            if self._fsync:
                sync(os.path.dirname(self._target))
        except OSError as error:
            raise refusal(error, self._table, self._path, done=published) from error
        return found

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._sink.give_up()
            try:
                self._stream.close()
            finally:
                os.close(self._guard)
                discard(self._temporary)


class _Sink:
    """The target of Arrow's writes: a Python file object, because Arrow raises the errors of such objects unchanged.

    After a failed write the length of the file is unknown, so every later write fails with the same error, and the file is never published.
    """

    def __init__(self, temporary: str, table: str, path: str) -> None:
        self._file = io.FileIO(os.open(temporary, os.O_WRONLY | os.O_CLOEXEC), "w")  # closes itself if it is forgotten
        self._where = (table, path)
        self._given_up = False
        self._error: OSError | None = None
        self._written = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def tell(self) -> int:
        return self._written

    def write(self, data: bytes | pa.Buffer) -> None:
        view = memoryview(data)
        if self._given_up:
            return
        if self._error is None:
            try:
                write_all(self._file.fileno(), view)
                self._written += len(view)
                return
            except OSError as error:
                self._error = error
        raise refusal(self._error, *self._where) from self._error

    def flush(self) -> None:
        """Do nothing, because nothing is buffered here."""

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._file.close()
        except OSError as error:  # a disk of the network may refuse the bytes only now
            self._error = self._error or error
        if self._error is not None and not self._given_up:
            raise refusal(self._error, *self._where) from self._error

    def give_up(self) -> None:
        """Stop writing, and raise no error."""
        self._given_up = True
        with suppress(OSError):
            self.close()


def info_of(path: str, found: os.stat_result) -> ObjectInfo:
    """Return the facts about a file."""
    etag = f"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"
    return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000_000, etag)
