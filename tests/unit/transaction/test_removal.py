"""Data files are deleted by name, all or none; a path that names none is refused before anything is gone."""

from __future__ import annotations

import pytest

from pyhudi_core.errors import UnsafePathError
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.transaction.removal import delete_data_files

GOOD = ["p/f-0_0-0-0_20260101000000000.parquet", "f-0_0-0-0_20260101000000001.parquet"]


@pytest.mark.parametrize("wrong", [".hoodie/hoodie.properties", "p/notes.txt", f".hoodie/{GOOD[1]}"])
def test_a_path_that_names_no_data_file_is_refused_and_nothing_is_deleted(wrong: str) -> None:
    storage = MemoryStorage("memory://removal", MemoryBucket(), SystemClock())
    for path in [*GOOD, wrong]:
        storage.put(path, b"rows")
    with pytest.raises(UnsafePathError, match=r"^1 paths do not name data files") as raised:
        delete_data_files(storage, [*GOOD, wrong])
    assert repr(wrong) in str(raised.value)
    assert raised.value.path == wrong
    assert all(storage.head(path) is not None for path in [*GOOD, wrong])
    assert delete_data_files(storage, GOOD) == GOOD
    assert all(storage.head(path) is None for path in GOOD)


@pytest.mark.parametrize("wrong", ["../outside_0-0-0_20260101000000000.parquet", f"/{GOOD[1]}"])
def test_a_path_that_leaves_the_table_is_refused(wrong: str) -> None:
    storage = MemoryStorage("memory://removal", MemoryBucket(), SystemClock())
    storage.put(GOOD[0], b"rows")
    with pytest.raises(UnsafePathError):
        delete_data_files(storage, [GOOD[0], wrong])
    assert storage.head(GOOD[0]) is not None
