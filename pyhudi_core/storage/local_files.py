"""How bytes become a file of a POSIX disk: temporary name, fsync, and then one atomic step (rename or link).

Temporary files live in the folder of the file they become, because rename and link cannot cross file systems. They
start with ``.pyhudi-`` and end with ``.tmp``; listings hide them. A killed process leaves them behind, so they can be swept.
Hadoop keeps a checksum of ``name`` in ``.name.crc`` and refuses a file that does not match it, so a stale one is removed
before a file appears.
"""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import PurePosixPath

_TEMPORARY = (".pyhudi-", ".tmp")


def is_hidden(name: str) -> bool:
    """Whether listings leave the file out: our temporary files and Hadoop's checksum files."""
    if not name.startswith("."):
        return False
    return name.endswith(".crc") or (name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1]))


def is_temporary(name: str) -> bool:
    """Whether the name is one of `temporary_beside`."""
    return name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1])


def begin_temporary(path: str) -> tuple[str, int]:
    """Create an empty temporary file beside the path, and tell other processes that it is being written; until the descriptor that is returned
    with its name is closed, or this process ends. The folder must be there.
    """
    while True:
        temporary = temporary_beside(path)
        descriptor = os.open(temporary, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # where there are no such locks, nothing is swept either
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # this process stood still before it had marked the file, and somebody swept it


def remove_if_abandoned(path: str, before_ns: int) -> bool:
    """Remove a temporary file unless it was changed since, or a process has it marked as open."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # it has got its name by now, or is not ours to open
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
    """A name that nobody else uses in the folder of the path."""
    return os.path.join(os.path.dirname(path), f"{_TEMPORARY[0]}{uuid.uuid4().hex}{_TEMPORARY[1]}")


def remove_checksum(path: str) -> None:
    """Remove the file in which Hadoop keeps the checksum of this one."""
    folder, name = os.path.split(path)
    try:
        remove_quietly(os.path.join(folder, f".{name}.crc"))
    except OSError as error:
        # With a name too long for the disk, there can be no such file.
        if error.errno != errno.ENAMETOOLONG:
            raise


def write_temporary(path: str, data: bytes, fsync: bool) -> str:
    """Write the bytes to a temporary file beside the path and return its name. The folder must be there."""
    temporary = temporary_beside(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if fsync:
            os.fsync(descriptor)
    except BaseException:
        remove_quietly(temporary)
        raise
    finally:
        os.close(descriptor)
    return temporary


def publish_replacing(temporary: str, path: str, fsync: bool) -> None:
    """Give the temporary file its name, replacing what is there."""
    try:
        remove_checksum(path)
        os.replace(temporary, path)
    except BaseException:
        remove_quietly(temporary)
        raise
    if fsync:
        sync(os.path.dirname(path))


def publish_if_absent(temporary: str, path: str, fsync: bool) -> None:
    """Give the temporary file its name; raises FileExistsError when the name is taken."""
    try:
        # link(2) fails on an existing name, on every POSIX file system and across processes; rename(2) would replace
        # it.
        if not os.path.lexists(path):
            remove_checksum(path)
        os.link(temporary, path)
    finally:
        remove_quietly(temporary)
    if fsync:
        sync(os.path.dirname(path))


def sync(path: str) -> None:
    """Make the content of a file, or the names of a folder, survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: str, fsync: bool) -> None:
    """Create the folder and those above it, each made durable in the one above."""
    missing: list[str] = []
    current = PurePosixPath(folder)
    while not os.path.isdir(current):
        missing.append(str(current))
        current = current.parent
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        if fsync:
            sync(os.path.dirname(path))


def remove_quietly(path: str) -> None:
    """Remove a file if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
