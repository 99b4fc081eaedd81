"""A commit says how many rows of its batch repeated the key of another row: on both table types, and in all ways in which rows come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import run
from support.tables import make, orders, reopen

import pyhudi as hudi

THRICE = orders(
    (1, "a", 1.0, 1), (1, "a", 2.0, 2), (1, "a", 3.0, 3), (2, "b", 1.0, 1), (3, "b", 1.0, 1), (3, "b", 2.0, 2)
)


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_rows_that_repeat_a_key_of_the_batch_are_counted(location: str, table_type: str) -> None:
    table = make(location, table_type=table_type, ordering="ts")
    for inserted, updated in ((3, 0), (0, 3)):
        stats = table.upsert(THRICE).stats
        assert (stats.rows_inserted, stats.rows_updated, stats.rows_combined) == (inserted, updated, 3)
    once = table.upsert(orders((7, "a", 1.0, 1), (8, "b", 1.0, 1)))
    assert once.stats.rows_combined == 0
    assert "combined" not in str(once)


def test_an_insert_that_combines_counts_too_and_the_result_says_it(location: str) -> None:
    table = reopen(make(location, ordering="ts"), hoodie__combine__before__insert="true")
    made = table.insert(THRICE)
    assert (made.stats.rows_inserted, made.stats.rows_combined) == (3, 3)
    assert "3 rows repeated the key of another row of the batch" in str(made)


def test_an_import_says_how_many_rows_repeated_a_key(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,v\n" + "".join(f"{number % 5},{number}\n" for number in range(12)))
    place = str(tmp_path / "table")
    words = [
        "import",
        place,
        str(tmp_path / "rows.csv"),
        "--record-key",
        "id",
        "--ordering",
        "v",
        "--storage-option",
        "fsync=false",
    ]
    assert json.loads(run([*words, "--json"]).stdout)["combined"] == 7
    assert "7 rows repeated the key" in run(words).output
    assert hudi.open_table(place).scan().count() == 5
