"""Whether two storages are of one folder, however each was opened."""

from __future__ import annotations

from pyhudi_core.storage.base import Storage


def same_folder(one: Storage, other: Storage, witness: str) -> bool:
    """Say whether two storages are of one folder. Raises as `Storage.head`.

    A location in two accounts or behind two endpoints is two folders, but an endpoint may be written in several ways. So where their texts differ,
    both storages look at an object that every such folder has, ``witness``.
    """
    if one.real_location != other.real_location:
        return False
    return one.store == other.store or see_same_object(one, other, witness)


def see_same_object(one: Storage, other: Storage, path: str) -> bool:
    """Say whether two storages see one object under a path, or both see none. Raises as `Storage.head`."""
    seen = [storage.head(path) for storage in (one, other)]
    return len({info and (info.etag, info.modified_ms) for info in seen}) == 1
