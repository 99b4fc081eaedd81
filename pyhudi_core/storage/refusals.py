"""Errors of the operating system as errors of this package, by one rule for every call of a storage on a disk."""

from __future__ import annotations

import errno
import os

from pyhudi_core.errors import LimitExceededError, StorageError, StorageStateUnknownError

MOST_BYTES = 256 << 20
"""The largest object that is read with one call, such as a timeline file, properties or a lock. Data files and logs are read in parts."""
_AGAIN = "Then write again: the next write removes what this one left."
_ROOM = (
    "`pyhudi sweep LOCATION` deletes files that nothing names, and needs no room. `pyhudi clean LOCATION --option hoodie.clean.commits.retained=1` "
    "deletes older file slices, and needs about 100 kB: if there is less, delete something else on the disk first. `pyhudi size LOCATION` shows what "
    f"takes the room. {_AGAIN}"
)
_RIGHTS = "Check which user owns the table's folder and may write in it (`ls -ld`), and run this process as that user."
_REASONS = {
    errno.ENOSPC: ("The disk is full", _ROOM),
    errno.EDQUOT: (
        "The quota of this user on the disk is used up",
        f"Delete files of this user on the disk, or ask for a larger quota. {_AGAIN}",
    ),
    errno.EIO: (
        "The disk failed to read or write",
        "Look into the system's log (`dmesg`) and mend or replace the disk; then `pyhudi check` tells whether the table is whole.",
    ),
    errno.EROFS: (
        "The file system is read-only",
        "Mount it for writing. If it was writable before, the system's log (`dmesg`) tells why it no longer is.",
    ),
    errno.EACCES: ("This user has no right to do that", _RIGHTS),
    errno.EPERM: ("This user has no right to do that", _RIGHTS),
    errno.EMFILE: (
        "This process has too many open files",
        f"Close files, or raise the limit of the process (`ulimit -n`; LimitNOFILE of a systemd service). {_AGAIN}",
    ),
    errno.ENFILE: (
        "This machine has too many open files",
        f"End other processes, or raise the limit of the machine (`sysctl fs.file-max`). {_AGAIN}",
    ),
    errno.EFBIG: (
        "The file is larger than the disk or the process allows",
        f"Raise the limit of the process (`ulimit -f`), or use a file system that takes larger files. {_AGAIN}",
    ),
    errno.ENAMETOOLONG: (
        "The disk takes no name as long as this one",
        "Partition values become the names of folders: use shorter ones, or a location with a shorter path.",
    ),
}
_OTHER = "Check who may read and write in the table's folder, and the state of its disk (`df`, `dmesg`)."


def refusal(error: OSError, table: str, path: str, *, done: bool = False) -> StorageError:
    """Return the error for a call that the operating system refused.

    Args:
        error: the operating system's error.
        table: the storage's location.
        path: the object, relative to the table.
        done: whether the object has its new content. Then a power failure may still undo the change.
    """
    number = error.errno or 0
    what, hint = _REASONS.get(number, ("The operating system refused the call", _OTHER))
    why = os.strerror(number) if number else str(error)
    kind = StorageStateUnknownError if done else StorageError
    return kind(f"{what}: {why}", table=table, path=path, hint=hint)


def refuse_large(size: int, table: str, path: str) -> None:
    """Raise `LimitExceededError` for an object that is too large to be read with one call. Call it before a byte is read."""
    if size > MOST_BYTES:
        raise LimitExceededError(
            f"The file has {size:,} bytes, and files of this kind have at most {MOST_BYTES:,}",
            limit=MOST_BYTES,
            seen=size,
            table=table,
            path=path,
            hint="Nobody writes such a file for this purpose: restore it from a copy.",
        )
