"""Conditions on older states give the rows that a model has for them, whatever the indexes say of the newest state."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from support.tables import create_plain, in_memory, rows

import pyhudi_core as hudi

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
Row = tuple[str, str, str | None, int]

BUILDS: dict[str, Callable[[hudi.HudiTable], object]] = {
    "record_index": lambda table: table.indexing.run(partitions=("record_index",)),
    "bloom_filters": lambda table: table.indexing.run(partitions=("bloom_filters",)),
    "column_stats": lambda table: table.indexing.run(partitions=("column_stats",)),
    "partition_stats": lambda table: table.indexing.run(partitions=("column_stats", "partition_stats")),
    "secondary": lambda table: table.indexes.create("by_city", ["city"]),
    "expression": lambda table: table.indexes.create("by_lower", ["city"], "column_stats", {"expr": "lower"}),
}
LATE = ("column_stats", "partition_stats")
"""They are built after the last commit, so they describe the files of the newest state alone."""
ALL = "all indexes"
QUICK = [(ALL, "mor"), ("record_index", "cow"), ("partition_stats", "cow")]
"""Logs with deletes have no bounds, so partitions of merge-on-read tables are hardly ever skipped."""
CASES = [
    pytest.param(index, kind, marks=() if (index, kind) in QUICK else pytest.mark.slow)
    for index in (ALL, *BUILDS)
    for kind in ("cow", "mor")
]

CONDITIONS: dict[str, tuple[dict[str, Any], Callable[[Row], bool]]] = {
    "a key": ({"where": "id = 'a'"}, lambda row: row[0] == "a"),
    "keys": ({"where": "id IN ('a', 'b', 'nowhere')"}, lambda row: row[0] in "ab"),
    "join keys": ({"semi_join": (["a", "c"], "id")}, lambda row: row[0] in "ac"),
    "record keys": ({"semi_join": (["a", "c"], "_hoodie_record_key")}, lambda row: row[0] in "ac"),
    "an indexed value": ({"where": "city = 'Rome'"}, lambda row: row[2] == "Rome"),
    "indexed values": ({"semi_join": (["Rome", "Oslo"], "city")}, lambda row: row[2] in ("Rome", "Oslo")),
    "a call": ({"where": "lower(city) = 'rome'"}, lambda row: row[2] == "Rome"),
    "a prefix": ({"where": "city LIKE 'R%'"}, lambda row: str(row[2]).startswith("R")),
    "a range": ({"where": "ts >= 2 AND ts < 4"}, lambda row: 2 <= row[3] < 4),
    "no null": ({"where": "city IS NOT NULL"}, lambda row: row[2] is not None),
    "a null": ({"where": "city IS NULL"}, lambda row: row[2] is None),
    "a partition": ({"where": "day = 'y'"}, lambda row: row[1] == "y"),
    "a key or more": ({"where": "id = 'a' OR ts = 1"}, lambda row: row[0] == "a" or row[3] == 1),
}


@cache
def history(index: str, kind: str) -> tuple[hudi.HudiTable, list[tuple[hudi.Commit, set[Row]]]]:
    """A table with the index, and its states: rows change, go, come back in another partition; partitions are overwritten and dropped."""
    table = create_plain(in_memory(), SCHEMA, "id", "day", ordering="ts", table_type=kind)
    states: list[tuple[hudi.Commit, set[Row]]] = []

    def after(commit: hudi.Commit, *state: Row) -> None:
        states.append((commit, set(state)))

    def given(*found: Row) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], SCHEMA)

    a, b, c, d = ("a", "x", "Rome", 1), ("b", "x", None, 1), ("c", "y", "Oslo", 1), ("d", "z", "Rome", 1)
    after(table.insert(given(a, b, c, d)), a, b, c, d)
    wanted = list(BUILDS) if index == ALL else [index]
    for name in wanted:
        if name not in LATE:
            BUILDS[name](table)
    a2, c2 = ("a", "x", "Bern", 2), ("c", "y", None, 2)
    after(table.upsert(given(a2, c2)), a2, b, c2, d)
    after(table.delete(given(a2)), b, c2, d)
    moved = ("a", "y", "Rome", 3)
    after(table.upsert(given(moved)), moved, b, c2, d)
    e = ("e", "x", "Oslo", 4)
    after(table.insert_overwrite(given(e)), moved, e, c2, d)
    after(table.delete_partitions(["day=z"]), moved, e, c2)
    last = ("d", "x", "Riga", 9)
    after(table.upsert(given(last, ("a", "y", "Riga", 9), ("c", "y", "Riga", 9), ("e", "x", "Riga", 9))))
    for name in wanted:
        if name in LATE:
            BUILDS[name](table)
    return table, states[:-1]


@pytest.mark.row("D4", "I2", "I3")
@pytest.mark.parametrize(("index", "kind"), CASES)
def test_a_condition_on_an_older_state_gives_the_rows_of_that_state(index: str, kind: str) -> None:
    table, states = history(index, kind)
    metadata = table.snapshot().metadata
    assert metadata is not None and len(metadata.partitions) > 1, "an index is there beside the list of files"
    for commit, state in states:
        for name, (limits, keeps) in CONDITIONS.items():
            found = {tuple(row) for row in rows(table.scan(as_of=commit.completion_time, **limits), *SCHEMA.names)}
            assert found == {row for row in state if keeps(row)}, (name, states.index((commit, state)))
