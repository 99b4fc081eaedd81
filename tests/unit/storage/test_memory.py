"""Storage in memory keeps the promises of every storage, and names buckets of the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyhudi_core.errors import ConfigError, ObjectNotFoundError
from pyhudi_core.storage import Storage, open_storage
from pyhudi_core.storage.memory import forget_memory_bucket
from pyhudi_core.testing.storage_kit import StorageKit


@pytest.fixture
def storage() -> Iterator[Storage]:
    yield open_storage("memory://kit/orders")
    forget_memory_bucket("kit")


class TestMemoryStorage(StorageKit):
    pass


def test_the_same_name_gives_the_same_objects(storage: Storage) -> None:
    storage.put("a", b"x")
    assert open_storage("memory://kit/orders").get("a") == b"x"
    assert open_storage("memory://kit").get("orders/a") == b"x"
    assert open_storage("memory:kit/orders/").get("a") == b"x"
    with pytest.raises(ObjectNotFoundError):
        open_storage("memory://kit/order").get("a")


def test_a_forgotten_bucket_is_empty_when_it_is_opened_again(storage: Storage) -> None:
    storage.put("a", b"x")
    forget_memory_bucket("kit")
    assert open_storage("memory://kit/orders").list("") == []


def test_memory_has_no_spec_for_other_processes(storage: Storage) -> None:
    with pytest.raises(ConfigError, match="another process"):
        storage.spec()
