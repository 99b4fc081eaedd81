"""Writes that change few row groups of a file copy the others: all reads see what a write that encodes all rows anew would show."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.formats.base_file import BaseFileReader, BaseFileWriter

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("price", pa.float64()), ("note", pa.string())]
)
SMALL_GROUPS = {"hoodie.parquet.block.size": 2_000}
Rows = dict[str, tuple[str, int, float | None, str]]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each copied row group."""
    found: list[int] = []
    real = BaseFileWriter.copy

    def counted(self, group, *rest):  # type: ignore[no-untyped-def]
        found.append(group.rows)
        real(self, group, *rest)

    monkeypatch.setattr(BaseFileWriter, "copy", counted)
    return found


def batch(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": key, "part": part, "value": value, "price": price, "note": note}
            for key, (part, value, price, note) in rows.items()
        ],
        schema=SCHEMA,
    )


def shown(table: hudi.HudiTable, where: str | None = None) -> dict[str, str]:
    found = table.scan(columns=SCHEMA.names, where=where).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key twice"
    return {row["id"]: repr((row["part"], row["value"], row["price"], row["note"])) for row in found}


def expected(model: Rows) -> dict[str, str]:
    return {key: repr(row) for key, row in model.items()}


def block(chosen: random.Random, count: int) -> range:
    """Keys beside each other, as the rows of a day are."""
    start = chosen.randrange(0, 3_000)
    return range(start, start + chosen.choice([1, 5, 60, count]))


def some_rows(chosen: random.Random, numbers: range) -> Rows:
    prices = [1.0, 2.5, None, math.nan]
    return {
        f"k{number:05}": ("ab"[number % 2], chosen.randrange(10**9), chosen.choice(prices), "x" * chosen.randrange(30))
        for number in numbers
    }


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("seed", range(2))
def test_a_random_walk_over_files_of_many_row_groups_shows_the_rows_of_a_model(
    tmp_path,
    copies: list[int],
    table_type: str,
    seed: int,  # type: ignore[no-untyped-def]
) -> None:
    chosen = random.Random(seed)
    table = hudi.create_table(
        f"{tmp_path}/t", SCHEMA, "id", partition_by="part", table_type=table_type, options=SMALL_GROUPS
    )
    model = some_rows(chosen, range(3_000))
    table.upsert(batch(model))
    for _ in range(6):
        what = chosen.choice(["upsert", "upsert", "delete", "update", "insert", "compact"])
        if what == "upsert":
            new = some_rows(chosen, block(chosen, 300))
            table.upsert(batch(new))
            model |= new
        elif what == "insert":
            new = some_rows(chosen, range(10_000 + len(model), 10_000 + len(model) + 40))
            table.upsert(batch(new))
            model |= new
        elif what == "delete":
            gone = [f"k{number:05}" for number in block(chosen, 300)]
            table.delete(where=f"id >= '{gone[0]}' and id <= '{gone[-1]}'")
            model = {key: row for key, row in model.items() if not gone[0] <= key <= gone[-1]}
        elif what == "update":
            low = f"k{chosen.randrange(3_000):05}"
            table.update(set={"value": "7"}, where=f"id >= '{low}' and id < '{low}z'")
            model = {key: (row[0], 7, *row[2:]) if low <= key < low + "z" else row for key, row in model.items()}
        elif table_type == "merge_on_read":
            table.services["compaction"].run()
        assert shown(table) == expected(model)
        large = {key: row for key, row in model.items() if row[2] is not None and (math.isnan(row[2]) or row[2] > 2)}
        assert shown(table, "price > 2") == expected(large), "statistics of copied row groups know NaN"
        key = chosen.choice(sorted(model))
        assert shown(table, f"id = '{key}'") == expected({key: model[key]})
    assert table.check().ok
    if table_type == "copy_on_write":
        assert copies, "no row group was copied"


def test_a_small_change_copies_all_row_groups_but_its_own(tmp_path, copies: list[int]) -> None:  # type: ignore[no-untyped-def]
    table = hudi.create_table(f"{tmp_path}/t", SCHEMA, "id", options=SMALL_GROUPS)
    rows = some_rows(random.Random(1), range(3_000))
    table.upsert(batch(rows))
    table.upsert(batch(some_rows(random.Random(2), range(100, 102))))
    assert len(copies) > 10
    assert 3_000 - 600 < sum(copies) < 3_000
    names = set(table.scan(meta=True).to_arrow()["_hoodie_file_name"].to_pylist())
    assert len(names) == 1, "each row has the name of the new file"


def test_small_row_groups_of_many_inserts_join_and_are_not_copied_for_ever(tmp_path, copies: list[int]) -> None:  # type: ignore[no-untyped-def]
    table = hudi.create_table(f"{tmp_path}/t", SCHEMA, "id", options={"pyhudi.commit.batch": "false"})
    for number in range(8):
        table.upsert(batch(some_rows(random.Random(number), range(number * 10, number * 10 + 10))))
    assert not copies
    assert len(shown(table)) == 80


def test_a_column_that_was_dropped_and_added_again_keeps_no_values_in_copied_row_groups(
    tmp_path, copies: list[int]
) -> None:  # type: ignore[no-untyped-def]
    table = hudi.create_table(f"{tmp_path}/t", SCHEMA, "id", options=SMALL_GROUPS)
    table.upsert(batch(some_rows(random.Random(1), range(2_000))))
    table.alter(drop=["note"])
    table.alter(add={"note": pa.string()})
    table.upsert(batch(some_rows(random.Random(2), range(1))))
    found = table.scan(columns=["id", "note"]).to_arrow().to_pylist()
    assert {row["note"] for row in found if row["id"] != "k00000"} == {None}
    assert not copies


def test_columns_that_changed_their_names_with_each_other_are_not_copied(tmp_path, copies: list[int]) -> None:  # type: ignore[no-untyped-def]
    schema = pa.schema([("id", pa.string()), ("first", pa.int64()), ("second", pa.int64())])
    table = hudi.create_table(f"{tmp_path}/t", schema, "id", options=SMALL_GROUPS)
    table.upsert(pa.table({"id": [f"k{n:05}" for n in range(2_000)], "first": [1] * 2_000, "second": [2] * 2_000}))
    table.alter(rename={"first": "other"})
    table.alter(rename={"second": "first"})
    table.alter(rename={"other": "second"})
    table.upsert(pa.table({"id": ["k00000"], "second": [10], "first": [20]}))
    found = table.scan().to_arrow().to_pylist()
    assert {(row["first"], row["second"]) for row in found} == {(2, 1), (20, 10)}
    assert not copies


@pytest.mark.parametrize("said", [0, 5, 10**7, 10**12])
def test_a_row_group_whose_footer_says_another_number_of_rows_is_not_copied(
    tmp_path, copies: list[int], monkeypatch: pytest.MonkeyPatch, said: int
) -> None:  # type: ignore[no-untyped-def]
    table = hudi.create_table(f"{tmp_path}/t", SCHEMA, "id", options=SMALL_GROUPS)
    rows = some_rows(random.Random(1), range(2_000))
    table.upsert(batch(rows))
    real = BaseFileReader.stored_row_groups

    def damaged(reader):  # type: ignore[no-untyped-def]
        return [group and replace(group, rows=said) for group in real(reader)]

    monkeypatch.setattr(BaseFileReader, "stored_row_groups", damaged)
    new = some_rows(random.Random(2), range(1))
    table.upsert(batch(new))
    assert not copies
    assert shown(table) == expected(rows | new)


def test_a_row_group_whose_pages_are_not_as_its_footer_says_is_an_error_that_names_the_file(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    table = hudi.create_table(f"{tmp_path}/t", SCHEMA, "id", options=SMALL_GROUPS)
    rows = some_rows(random.Random(1), range(2_000))
    table.upsert(batch(rows))
    real = BaseFileReader.stored_row_groups

    def damaged(reader):  # type: ignore[no-untyped-def]
        found = [group for group in real(reader) if group is not None]
        return [
            replace(group, columns=tuple(replace(one, chunk=replace(one.chunk, codec=1)) for one in group.columns))
            for group in found
        ]

    monkeypatch.setattr(BaseFileReader, "stored_row_groups", damaged)
    with pytest.raises(CorruptBaseFileError, match="not compressed as its footer says") as caught:
        table.upsert(batch(some_rows(random.Random(2), range(1))))
    assert str(caught.value.path).endswith(".parquet")
    assert caught.value.table == table.location
    assert shown(table) == expected(rows)
