"""Conditional writes whose outcome is always known: create once, and replace once.

An answer that is lost after the storage did the work must not look like a loss. Every body therefore carries a nonce, and an unclear answer
is settled by reading back: our own bytes there means that we won.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from pyhudi_core.errors import ObjectNotFoundError, PreconditionFailedError, StorageStateUnknownError
from pyhudi_core.storage.base import Storage

_READ_BACKS = 3

Create = Callable[[Storage, str, bytes], bool]
"""Makes an object; False if somebody else's bytes are there and stay there."""


def create_once(storage: Storage, path: str, body: bytes) -> bool:
    """Create the object; True if it holds exactly our bytes now, False if somebody else's are there.

    Raises `StorageStateUnknownError` if the storage answers neither the write nor the reads that should settle it.
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
    """By what a replacement knows the content that it replaces; empty for a file that does not exist."""
    return "" if content is None else sha256(content).hexdigest()


def replace_once(storage: Storage, path: str, body: bytes, expected: str, wanted: Callable[[], bool]) -> None:
    """Replace the object if its content still has the expected `digest`, or is the beginning of the body; a later change stays as it is.

    ``wanted`` is asked between the look and the write, and says whether the replacement is still to be made. On a storage without If-Match
    the caller holds the table's lock, and the write has no condition.

    Raises `StorageStateUnknownError` if the storage does not say what happened.
    """
    for _ in range(_READ_BACKS):
        seen = storage.head(path)  # before the content, so that what is replaced is not younger than what was read
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
            continue  # the next look shows whose content is there
        return
    raise StorageStateUnknownError(
        "The storage does not say whether the object was replaced",
        path=path,
        hint="Try again when the storage answers; nothing else was changed.",
    )


def _is_torn(found: bytes | None, body: bytes) -> bool:
    """Say whether a process died while it wrote the body: on a disk, the file may then have its beginning."""
    return found is not None and body.startswith(found)


def overwrite(storage: Storage, path: str, body: bytes) -> bool:
    """Create without a condition: the last writer wins, and no error is raised. For tests that show why `create_once` is needed."""
    storage.put(path, body)
    return True


def creating(once: bool) -> Create:
    """Return the function that creates objects which must not be overwritten, with or without this protection."""
    return create_once if once else overwrite


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.get(path)
    except ObjectNotFoundError:
        return None
