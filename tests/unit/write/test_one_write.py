"""What a reader of one upsert passes: the frames from the verb to the first file that a task makes, and the modules whose functions run."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalStorage

FRAMES, MODULES = 15, 145
PACKAGE = str(Path(hudi.__file__).parent)


def rows(count: int) -> pa.Table:
    return pa.table({"id": list(range(count)), "day": ["a"] * count, "ts": [1] * count})


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """A table as ``create_table`` makes it without options, with two commits."""
    made = hudi.create_table(location, rows(1).schema, "id", "day", "ts")
    made.upsert(rows(2))
    made.upsert(rows(3))
    return made


def _own_frames(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            found.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def test_a_task_of_an_upsert_is_at_most_fifteen_frames_below_the_verb(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, markers = LocalStorage.put, []

    def put(self: LocalStorage, path: str, data: bytes) -> ObjectInfo:
        if ".marker." in path:
            markers.append(_own_frames(sys._getframe()))
        return real(self, path, data)

    monkeypatch.setattr(LocalStorage, "put", put)
    table.upsert(rows(4))
    of_task = next(found for found in markers if any("WriteTask" in name for name in found))
    below = of_task[of_task.index("pyhudi_core.table.HudiTable.upsert") :]
    assert below[-1] == "pyhudi_core.transaction.markers.create"
    assert len(below) <= FRAMES, "\n".join(below)
    assert sum(name.endswith(".write.write.write") for name in below) == 1, "the nine steps are one frame"


def test_an_upsert_of_the_default_table_passes_few_modules(table: hudi.HudiTable) -> None:
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            file = frame.f_code.co_filename
            if file.startswith(PACKAGE):
                passed.add(file.removeprefix(PACKAGE))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        table.upsert(rows(4))
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert len(passed) <= MODULES, "\n".join(sorted(passed))
