"""New rows that are older than the delete of their key in the logs of a slice: by ordering values alone, in one part or in many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.homes import context_of
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.merge.late_rows import older_than_deletes
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields

pytestmark = pytest.mark.row("C5", "K6")


def late(table: hudi.HudiTable, new: pa.Table, **limit: Any) -> list[bool]:
    """Which of the rows are late for the only slice of the table."""
    snapshot = table.snapshot()
    [piece] = snapshot.view.all_slices()
    schema, merging = with_meta_fields(snapshot.schema), replace(Merging(snapshot.config, snapshot.evolution), **limit)
    keyed = new.append_column(RECORD_KEY, new.column("id").cast(pa.string()))
    return older_than_deletes(context_of(table).storage, piece, merging, keyed, schema).tolist()


def with_deletes(location: str, ordering: str | list[str] = "ts") -> hudi.HudiTable:
    """Rows 1 to 3 of the time 5, of which 1 and 2 are deleted; then 2 is there again, with the time 6."""
    table = make(location, table_type="mor", ordering=ordering)
    table.upsert(orders(*((key, "a", 1.0, 5) for key in (1, 2, 3))))
    table.delete(orders((1, "a"), (2, "a")).select(["id", "day"]))
    table.upsert(orders((2, "a", 2.0, 6), (3, "a", 2.0, 7)))
    return table


def test_a_row_is_late_if_the_last_version_of_its_key_is_a_delete_with_a_higher_time(location: str) -> None:
    table = with_deletes(location)
    new = orders((1, "a", 0.0, 4), (2, "a", 0.0, 4), (3, "a", 0.0, 4), (4, "a", 0.0, 4))
    assert late(table, new) == [True, False, False, False], "an older row is late only where a delete is what counts"
    assert late(table, orders((1, "a", 0.0, 5))) == [False], "with equal times the later one counts"
    assert late(table, orders((1, "a", 0.0, None))) == [True], "no time is the lowest"
    assert late(table, orders()) == []


def test_several_ordering_columns_are_compared_one_after_the_other(location: str) -> None:
    table = with_deletes(location, ["ts", "price"])
    assert late(table, orders((1, "a", 0.5, 5))) == [True]
    assert late(table, orders((1, "a", 1.0, 5))) == [False]


def test_logs_that_are_larger_than_the_memory_for_them_give_the_same_answer(location: str) -> None:
    table = with_deletes(location)
    new = orders((1, "a", 0.0, 4), (2, "a", 0.0, 4))
    assert late(table, new, most_log_bytes=40) == late(table, new) == [True, False]


def test_a_partial_update_of_another_key_lets_no_late_row_pass(location: str) -> None:
    table = with_deletes(location)
    table.upsert(orders((3, "a", 3.0, 8)).drop(["price"]), partial=True)
    assert late(table, orders((1, "a", 0.0, 4), (3, "a", 0.0, 4))) == [True, False]
