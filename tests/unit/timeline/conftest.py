"""The storages that tests of the timeline run on."""

from __future__ import annotations

import pytest

from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage


@pytest.fixture(params=["memory", "disk"])
def storage(request: pytest.FixtureRequest, location: str) -> Storage:
    return (
        MemoryStorage("memory://test/table", MemoryBucket(), SystemClock())
        if request.param == "memory"
        else LocalStorage(location, fsync=False)
    )
