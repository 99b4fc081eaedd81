"""Create-once writes whose outcome is always known.

An answer that is lost after the storage did the work must not look like a loss. Every body therefore carries a nonce, and an unclear answer
is settled by reading back: our own bytes there means that we won.
"""

from __future__ import annotations

from pyhudi_core.errors import ObjectNotFoundError, PreconditionFailedError, StorageStateUnknownError
from pyhudi_core.storage.base import Storage

_READ_BACKS = 3


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


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.get(path)
    except ObjectNotFoundError:
        return None
