"""A table that a step creates for rows that are then refused is dropped, unless somebody else uses it."""

from __future__ import annotations

import pytest
from support.tables import ORDERS, orders

import pyhudi as hudi
from pyhudi.errors import DataError
from pyhudi_core.orchestration import TableMismatchError, TableSettings, new_tables, refuse_mismatch


def refused(table: hudi.HudiTable) -> None:
    """A first write into a table that it has made fails."""

    def write() -> None:
        with new_tables() as new:
            new.append(table)
            raise DataError("bad rows")

    with pytest.raises(DataError, match="bad rows"):
        write()


def test_a_refused_first_write_leaves_no_table_and_other_settings_may_follow(location: str) -> None:
    refused(hudi.create_table(location, ORDERS, "id"))
    assert not hudi.table_exists(location)
    with new_tables() as new:
        new.append(hudi.create_table(location, ORDERS, "day"))
    assert hudi.open_table(location).config.record_key_fields == ("day",)


def test_a_table_with_a_commit_or_a_writer_stays(location: str) -> None:
    table = hudi.create_table(location, ORDERS, "id")
    with hudi.open_table(location).begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        refused(table)
        assert write.commit()
    refused(table)
    assert hudi.open_table(location).count() == 1


@pytest.mark.parametrize(("filled", "hint"), [(False, "pyhudi drop"), (True, "write the rows to a new table")])
def test_the_error_for_other_settings_says_how_an_empty_table_goes(location: str, filled: bool, hint: str) -> None:
    table = hudi.create_table(location, ORDERS, "id")
    if filled:
        table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(TableMismatchError, match="record key: the task has day, the table has id") as refused:
        refuse_mismatch(table, TableSettings(("day",)), "task")
    assert hint in (refused.value.hint or "")
