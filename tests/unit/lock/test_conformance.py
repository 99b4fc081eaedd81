"""Every lock provider passes the conformance suites, on every kind of storage that it is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from support.emulated_s3 import one_request_at_a_time

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.in_process import InProcessLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.runtime import RandomIds, SystemClock
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import LocalStorage, MemoryStorage
from pyhudi_core.storage.memory import MemoryBucket
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.testing import Profile, SimWorld
from pyhudi_core.testing.lock_kit import LockKit, SharedLockKit

CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
EFFORT = int(os.environ.get("PYHUDI_EXPLORE", "1"))
_names = count()


@pytest.mark.row("O1")
class TestInProcessLock(LockKit):
    @pytest.fixture
    def providers(self, tmp_path: Path) -> Callable[[], LockProvider]:
        return lambda: InProcessLockProvider(str(tmp_path), RandomIds(), "this process")


@pytest.mark.row("O5")
class TestFileSystemLock(LockKit):
    @pytest.fixture
    def providers(self, tmp_path: Path) -> Callable[[], LockProvider]:
        runtime = system_runtime()
        return lambda: FileSystemLockProvider(LocalStorage(str(tmp_path)), runtime.clock, runtime.ids)


@pytest.mark.row("O6")
class TestStorageBasedLockInMemory(LockKit):
    @pytest.fixture
    def providers(self) -> Callable[[], LockProvider]:
        storage = MemoryStorage(f"memory://locks/{next(_names)}", MemoryBucket(), SystemClock())
        return lambda: StorageBasedLockProvider(storage, system_runtime(), retry_wait_ms=(2, 50))


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    """A store in this process."""
    with mock_aws(), one_request_at_a_time():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="locks")
        yield


@pytest.mark.row("O6")
class TestStorageBasedLockOnS3(LockKit):
    @pytest.fixture
    def providers(self, bucket: None) -> Callable[[], LockProvider]:
        place = f"s3://locks/{next(_names)}/table"
        return lambda: StorageBasedLockProvider(S3Storage(place, CREDENTIALS), system_runtime(), retry_wait_ms=(5, 100))


@pytest.mark.row("O5")
class TestFileSystemLockUnderEveryOrder(SharedLockKit):
    profile = Profile.LOCAL_POSIX
    lease_s = 61.0
    effort = EFFORT

    def provider(self, world: SimWorld) -> LockProvider:
        return FileSystemLockProvider(
            world.storage, world.clock, world.ids, expire_minutes=1, retry_wait_ms=(1_000, 10_000)
        )


class _StorageBasedUnderEveryOrder(SharedLockKit):
    lease_s = 301.0
    effort = EFFORT

    def provider(self, world: SimWorld) -> LockProvider:
        return StorageBasedLockProvider(world.storage, world.runtime, retry_wait_ms=(5_000, 50_000))


@pytest.mark.row("O6", "O10")
class TestStorageBasedLockUnderEveryOrderOnS3(_StorageBasedUnderEveryOrder):
    profile = Profile.S3


@pytest.mark.row("O6", "O10")
class TestStorageBasedLockUnderEveryOrderOnGcs(_StorageBasedUnderEveryOrder):
    profile = Profile.GCS


@pytest.mark.row("O6", "O10")
class TestStorageBasedLockUnderEveryOrderOnAzure(_StorageBasedUnderEveryOrder):
    profile = Profile.AZURE


def test_the_storage_based_lock_is_refused_by_name_where_nothing_can_be_replaced_on_condition(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="storage_based") as refused:
        StorageBasedLockProvider(LocalStorage(str(tmp_path)), system_runtime())
    assert "file_system" in str(refused.value.hint)
