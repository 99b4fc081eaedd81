"""In which order an upsert writes its files: what readers go by comes before what they would find by it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.tables import make, orders, reopen

from pyhudi_core.storage import LocalStorage

WRITES = ("put", "put_if_absent", "put_if_match", "open_output")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths below the table in the order in which they were written."""
    found: list[str] = []

    def watched(real: Any) -> Any:
        def call(self: LocalStorage, path: str, *arguments: Any, **named: Any) -> Any:
            found.append(path)
            return real(self, path, *arguments, **named)

        return call

    for verb in WRITES:
        monkeypatch.setattr(LocalStorage, verb, watched(getattr(LocalStorage, verb)))
    return found


def _place(written: list[str], pattern: str) -> int:
    places = [number for number, path in enumerate(written) if re.fullmatch(pattern, path)]
    assert len(places) == 1, f"{pattern}: {[written[n] for n in places]} of {written}"
    return places[0]


@pytest.mark.row("A6")
def test_a_partition_has_its_metafile_before_its_first_data_file(location: str, written: list[str]) -> None:
    table = make(location)
    written.clear()
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    for partition in ("day=a", "day=b"):
        metafile = _place(written, rf"{partition}/\.hoodie_partition_metadata")
        data = _place(written, rf"{partition}/[^.]+\.parquet")
        assert metafile < data < _place(written, r"\.hoodie/timeline/\d+_\d+\.commit")
    written.clear()
    reopen(table).upsert(orders((1, "a", 3.0)))
    assert not [path for path in written if "partition_metadata" in path], "it is written once"


@pytest.mark.row("K8")
def test_data_and_staged_bytes_come_before_the_decision_and_the_completed_file_after_it(
    location: str, written: list[str]
) -> None:
    table = make(location)
    written.clear()
    table.upsert(orders((1, "a", 1.0)))
    order = [
        _place(written, r"\.hoodie/timeline/\d+\.commit\.requested"),
        _place(written, r"\.hoodie/timeline/\d+\.inflight"),
        _place(written, r"day=a/[^.]+\.parquet"),
        _place(written, r"\.hoodie/\.aux/\.pyhudi/staged/.*"),
        _place(written, r"\.hoodie/\.aux/\.pyhudi/commit.*\.json"),
        _place(written, r"\.hoodie/timeline/\d+_\d+\.commit"),
    ]
    assert order == sorted(order), written
