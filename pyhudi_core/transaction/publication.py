"""Conditional writes whose outcome is always known: create once, and replace once.

If the storage made the write and the answer was lost, the write must not look failed. So every body has a nonce. After an unclear answer, the process
reads the object. If the object has the bytes of this process, the write of this process succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from pyhudi_core.errors import ObjectNotFoundError, PreconditionFailedError, StorageStateUnknownError
from pyhudi_core.storage.base import Storage

_READ_BACKS = 3

Create = Callable[[Storage, str, bytes], bool]
"""Creates an object. Returns False if the object already has another process's bytes; those bytes stay."""


def create_once(storage: Storage, path: str, body: bytes) -> bool:
    """Create the object. Returns True if the object now has exactly our bytes, False if the object has another process's bytes.

    Raises `StorageStateUnknownError` if the storage answers neither the write nor the reads that follow the write.
    """
    for _ in range(_READ_BACKS):
        try:
            storage.put_if_absent(path, body)
        except (PreconditionFailedError, StorageStateUnknownError):
            found = _read(storage, path)
            if found is not None:
                return found == body
        else:
            return True
    raise StorageStateUnknownError(
        "The storage does not say whether the object was created",
        path=path,
        hint="Try again when the storage answers; nothing else was changed.",
    )


def digest(content: bytes | None) -> str:
    """Return the digest by which a replacement recognizes the old content. The digest is empty for a file that does not exist."""
    return "" if content is None else sha256(content).hexdigest()


def replace_once(storage: Storage, path: str, body: bytes, expected: str, wanted: Callable[[], bool]) -> None:
    """Replace the object if its content still has the expected `digest`, or is the beginning of the body.

    A later change by another process is not overwritten.

    ``wanted`` is called between the read and the write, and says whether the replacement is still needed. On a storage without If-Match the write is
    unconditional, so the caller must hold the table's lock.

    Raises `StorageStateUnknownError` if the storage does not say what happened.
    """
    for _ in range(_READ_BACKS):
        seen = storage.head(path)  # the tag is read before the content, so that the tag is never newer than the content
        found = _read(storage, path) if seen is not None else None
        if found == body or not (digest(found) == expected or _is_torn(found, body)) or not wanted():
            return
        try:
            if seen is None:
                storage.put_if_absent(path, body)
            elif storage.capabilities.put_if_match:
                storage.put_if_match(path, body, seen.etag)
            else:
                storage.put(path, body)
        except (PreconditionFailedError, StorageStateUnknownError):
            continue  # the next read shows whose content the object has
        return
    raise StorageStateUnknownError(
        "The storage does not say whether the object was replaced",
        path=path,
        hint="Try again when the storage answers; nothing else was changed.",
    )


def _is_torn(found: bytes | None, body: bytes) -> bool:
    """Say whether the file has only an initial part of the body: on a disk, a process may die during the write of a file."""
    return found is not None and body.startswith(found)


def overwrite(storage: Storage, path: str, body: bytes) -> bool:
    """Create the object unconditionally: the last writer wins, without an error. For tests that show why `create_once` is needed."""
    storage.put(path, body)
    return True


def creating(once: bool) -> Create:
    """Return the function that creates objects. With ``once``, the function does not overwrite existing objects."""
    return create_once if once else overwrite


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.get(path)
    except ObjectNotFoundError:
        return None
