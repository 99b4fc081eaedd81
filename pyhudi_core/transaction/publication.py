"""Create-once writes whose outcome is always known.

An answer that is lost after the storage did the work must not look like a loss. Every body therefore carries a nonce, and an unclear answer
is settled by reading back: our own bytes there means that we won.
"""

from __future__ import annotations

from collections.abc import Callable

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


def overwrite(storage: Storage, path: str, body: bytes) -> bool:
    """What a storage without conditional writes does: the last one wins, and nobody hears of it. For tests of what `create_once` is for."""
    storage.put(path, body)
    return True


def creating(once: bool) -> Create:
    """How objects that nobody may overwrite are made, with that protection or without."""
    return create_once if once else overwrite


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.get(path)
    except ObjectNotFoundError:
        return None
