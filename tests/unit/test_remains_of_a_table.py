"""A folder with the data files of a table that has lost its `.hoodie` is no place for a new table: nobody would see the old rows again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.disk import contents
from support.tables import create_plain, make, orders, rows

from pyhudi_core.errors import TableError, TableExistsError


@pytest.mark.parametrize("partition_by", ["day", ()])
def test_a_table_is_not_made_over_the_files_of_a_lost_one(location: str, partition_by: str | tuple[()]) -> None:
    rows_of_orders = orders((1, "a", 1.0), (2, "b", 2.0))
    table = create_plain(location, rows_of_orders.schema, "id", partition_by)
    table.insert(rows_of_orders)
    shutil.rmtree(Path(location, ".hoodie"))
    before = contents(location)
    with pytest.raises(TableError, match="data files of a Hudi table") as refused:
        create_plain(location, rows_of_orders.schema, "id", partition_by)
    assert not isinstance(refused.value, TableExistsError)
    assert "pyhudi recover" in str(refused.value)
    assert contents(location) == before


def test_other_files_in_the_folder_are_no_remains(location: str) -> None:
    Path(location).mkdir(parents=True)
    Path(location, "notes.txt").write_text("mine")
    table = make(location)
    table.insert(orders((2, "a", 2.0)))
    assert rows(table, "id") == [(2,)]


def test_a_table_that_exists_is_still_named_as_such(location: str) -> None:
    make(location).insert(orders((1, "a", 1.0)))
    with pytest.raises(TableExistsError):
        make(location)
