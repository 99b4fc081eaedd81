"""A row that says it is deleted (``_hoodie_is_deleted``) is no row afterwards, whatever operation wrote it. Hudi 1.0.2 is asked in tests/interop."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.disk import data_files, files
from support.tables import make

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.table import HudiTable

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def batch(*rows: tuple[str, int | None, bool | None], v: str = "new", day: str = "a") -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist(
        [dict(zip(names, (key, day, ts, v, gone), strict=True)) for key, ts, gone in rows], SCHEMA
    )


def made(location: str, ordering: str | None = None) -> HudiTable:
    table = make(location, SCHEMA, record_key="id", partition_by="day", ordering=ordering)
    table.upsert(batch(*((f"k{n}", 10, [False, None][n % 2]) for n in range(6)), v="old"))
    return table


def found(table: HudiTable) -> dict[str, str]:
    rows = table.scan(columns=["id", "v"]).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.row("J6")
def test_an_upsert_deletes_the_rows_that_say_so(location: str) -> None:
    table = made(location)
    commit = table.upsert(
        batch(("k0", 1, True), ("k1", 11, False), ("k2", 11, None), ("absent", 1, True), ("new", 1, False))
    )
    assert found(table) == {"k1": "new", "k2": "new", "k3": "old", "k4": "old", "k5": "old", "new": "new"}
    stats = commit.stats
    assert (stats.rows_inserted, stats.rows_updated, stats.rows_deleted, stats.rows_written) == (1, 2, 1, 6)
    assert {
        (change["op"], change["before"] and change["before"]["id"])
        for change in table.changes(after=table.timeline[0]).to_arrow().to_pylist()
    } >= {("d", "k0")}


@pytest.mark.row("J6")
def test_by_event_time_a_delete_has_its_ordering_value(location: str) -> None:
    table = made(location, "ts")
    commit = table.upsert(
        batch(("k0", 11, True), ("k1", 10, True), ("k2", 9, True), ("k3", None, True), ("k4", 0, True))
    )
    assert found(table) == {"k2": "old", "k4": "old", "k5": "old"}, (
        "newer, equal and no value delete; older ones do not"
    )
    assert commit.stats.rows_deleted == 3


@pytest.mark.row("J6")
@pytest.mark.parametrize(
    ("ordering", "rows", "left"),
    [
        (None, [("k0", 5, False), ("k0", 4, True)], None),
        (None, [("k0", 5, True), ("k0", 4, False)], "new"),
        ("ts", [("k0", 12, False), ("k0", 11, True)], "new"),
        ("ts", [("k0", 11, False), ("k0", 12, True)], None),
        ("ts", [("k0", 11, False), ("k0", 11, True)], None),
    ],
)  # fmt: skip
def test_within_a_batch_the_winner_decides(
    location: str, ordering: str | None, rows: list[Any], left: str | None
) -> None:
    table = made(location, ordering)
    table.upsert(batch(*rows))
    assert found(table).get("k0") == left


@pytest.mark.row("J6")
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_no_operation_adds_a_row_that_says_it_is_deleted(location: str, operation: str) -> None:
    table = made(location)
    commit = getattr(table, operation)(batch(("n1", 1, False), ("n2", 1, True), day="b"))
    assert {"n1", "n2"} & found(table).keys() == {"n1"}
    assert commit.stats.rows_inserted == 1


@pytest.mark.row("J6")
def test_no_file_and_no_partition_is_made_for_deletes_alone(location: str) -> None:
    table = made(location)
    table.upsert(pa.concat_tables([batch(("k0", 1, False)), batch(("n1", 1, True), day="z")]))
    assert [name for name in data_files(location) if "day=z" in name] == []
    assert [name for name in files(location) if "day=z" in name] == []


@pytest.mark.row("J6")
def test_an_insert_of_a_known_key_is_an_error_all_the_same(location: str) -> None:
    table = made(location)
    with pytest.raises(DuplicateKeyError):
        table.insert(batch(("k0", 99, True)))
    assert len(found(table)) == 6


def test_a_column_of_that_name_with_other_values_is_a_column(location: str) -> None:
    schema = SCHEMA.set(4, pa.field("_hoodie_is_deleted", pa.string()))
    table = make(location, schema, record_key="id", partition_by="day")
    rows = batch(("k0", 1, True)).set_column(4, "_hoodie_is_deleted", pa.array(["true"]))
    table.upsert(rows)
    table.upsert(rows)
    assert found(table) == {"k0": "new"}
