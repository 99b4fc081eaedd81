"""A small commit does not get dearer with history: counted, not timed. With table services, which work every few commits, so equal spans are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.storage.memory import MemoryStorage

VERBS = (
    "get",
    "head",
    "list",
    "list_folder",
    "list_names",
    "open_input",
    "put",
    "put_if_absent",
    "put_if_match",
    "delete",
)
SHORT = {
    "hoodie.keep.min.commits": 4,
    "hoodie.keep.max.commits": 6,
    "hoodie.clean.commits.retained": 2,
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": 3,
}
"""Archival, cleaning and compaction of the metadata table are due often, so few commits show them. Cleans of the table come in the longer case."""

OFF = {
    "hoodie.archive.automatic": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": 1000,
}


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Calls of the storage, and bytes of the files that they read or open."""
    found = {"calls": 0, "bytes": 0}

    def counted(verb: str, real: Any) -> Any:
        def call(self: MemoryStorage, *arguments: Any, **named: Any) -> Any:
            found["calls"] += 1
            answer = real(self, *arguments, **named)
            found["bytes"] += len(answer) if verb == "get" else answer.size() if verb == "open_input" else 0
            return answer

        return call

    for verb in VERBS:
        monkeypatch.setattr(MemoryStorage, verb, counted(verb, getattr(MemoryStorage, verb)))
    return found


CASES = [
    pytest.param(SHORT, 9, 15, 24, id="short"),
    pytest.param({}, 40, 60, 200, id="defaults", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("options", "start", "end", "last"), CASES)
def test_commits_cost_the_same_calls_and_bytes_however_many_came_before(
    spent: dict[str, int], options: Mapping[str, object], start: int, end: int, last: int
) -> None:
    table = hudi.create_table(
        f"memory://flat-{last}",
        pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())]),
        "id",
        "part",
        options=options,
    )

    def cost_of(table: hudi.HudiTable, number: int) -> dict[str, int]:
        before = dict(spent)
        table.upsert(pa.table({"id": ["a"], "part": ["p"], "v": [number]}))
        return {name: spent[name] - before[name] for name in spent}

    each = [cost_of(table, number) for number in range(last)]
    early, late = each[start:end], each[last - (end - start) :]
    for name, bound in {"calls": 1.05, "bytes": 1.1}.items():
        assert sum(one[name] for one in late) <= bound * sum(one[name] for one in early), name
    alone = hudi.open_table(table.location, options=OFF)
    last_ones = [cost_of(alone, last + number)["calls"] for number in range(2)]
    assert min(last_ones) <= min(one["calls"] for one in each[:10]) + 10, "a commit without services, and a first one"


def test_a_write_to_some_partitions_looks_up_the_files_of_these_partitions_alone(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    real = MetadataTable.files

    def files(self: MetadataTable, partitions: Sequence[str]) -> dict[str, dict[str, int]]:
        asked.append(tuple(partitions))
        return real(self, partitions)

    table = hudi.create_table(location, pa.schema([("id", pa.string()), ("part", pa.string())]), "id", "part")
    table.upsert(pa.table({"id": ["k"] * 9, "part": list("abcdefghi")}))
    monkeypatch.setattr(MetadataTable, "files", files)
    hudi.open_table(location).upsert(pa.table({"id": ["k", "k", "k"], "part": ["b", "c", "d"]}))
    assert {path for paths in asked for path in paths} <= {"part=b", "part=c", "part=d"}
    asked.clear()
    assert hudi.open_table(location).scan(where="part IN ('b', 'e')").to_arrow().num_rows == 2
    assert {path for paths in asked for path in paths} == {"part=b", "part=e"}
