"""The objects below one folder of a storage keep the promises of every storage, and nothing beside the folder is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyhudi_core.errors import DeletesFailedError
from pyhudi_core.storage import Storage, open_storage
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import forget_memory_bucket
from pyhudi_core.testing.storage_kit import StorageKit

FOLDER = ".hoodie/metadata"


@pytest.fixture
def storage() -> Iterator[Storage]:
    whole = open_storage("memory://below/orders")
    whole.put("a", b"beside")
    whole.put(".hoodie/metadata2/a", b"beside")
    yield StorageBelow(whole, FOLDER)
    assert whole.get("a") == whole.get(".hoodie/metadata2/a") == b"beside"
    forget_memory_bucket("below")


class TestStorageBelow(StorageKit):
    pass


def test_its_objects_are_those_of_the_folder(storage: Storage) -> None:
    storage.put("x/a", b"a")
    whole = open_storage("memory://below/orders")
    assert whole.get(f"{FOLDER}/x/a") == b"a"
    assert storage.location == f"{whole.location}/{FOLDER}"


def test_another_process_opens_the_same_folder(tmp_path: Path) -> None:
    below = StorageBelow(LocalStorage(str(tmp_path), fsync=False), FOLDER)
    below.put("a", b"a")
    spec = below.spec()
    assert open_storage(spec.location, spec.options).get("a") == b"a"


def test_objects_that_could_not_be_deleted_are_named_by_their_own_paths(tmp_path: Path) -> None:
    below = StorageBelow(LocalStorage(str(tmp_path), fsync=False), FOLDER)
    (tmp_path / FOLDER / "kept" / "inside").mkdir(parents=True)
    with pytest.raises(DeletesFailedError) as caught:
        below.delete_many(["kept"])
    assert list(caught.value.failed) == ["kept"]
