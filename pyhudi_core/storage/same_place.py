"""Find out whether two storages are the same folder, in any spelling."""

from __future__ import annotations

from pyhudi_core.storage.base import Storage


def same_folder(one: Storage, other: Storage, witness: str) -> bool:
    """Return whether two storages are the same folder. Raises as `Storage.head`.

    One location in two accounts or behind two endpoints means two folders. But an endpoint has several spellings. So if the texts differ, both
    storages look at ``witness``, an object that every such folder has.
    """
    if one.real_location != other.real_location:
        return False
    return one.store == other.store or see_same_object(one, other, witness)


def see_same_object(one: Storage, other: Storage, path: str) -> bool:
    """Return whether two storages see the same object under a path, or both see none. Raises as `Storage.head`."""
    seen = [storage.head(path) for storage in (one, other)]
    return len({info and (info.etag, info.modified_ms) for info in seen}) == 1
