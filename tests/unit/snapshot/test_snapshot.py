"""A snapshot is one state, and stays it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import ORDERS, archive_all_but_the_newest, create_plain, in_memory, make, orders, rows

from pyhudi_core.errors import UnsupportedTableError


@pytest.mark.row("B10", "D3")
def test_a_snapshot_does_not_change_when_the_table_does(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    pinned = table.snapshot()
    table.upsert(orders((1, "a", 2.0), (2, "b", 2.0)).append_column("more", pa.array([1, 2])))
    assert len(pinned.timeline) == 1
    assert pinned.schema.names == ["id", "day", "price", "ts"]
    assert pinned.view.partitions() == ("day=a", "day=b"), "folders are listed when they are first asked for"
    assert [piece.requested_time for piece in pinned.view.all_slices()] == [pinned.timeline[0].requested_time]
    assert pinned.completion_time == pinned.timeline[0].completion_time


def test_the_schema_of_the_past_is_read_as_it_was(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)).append_column("more", pa.array([1])))
    assert "more" not in table.snapshot(as_of=first.completion_time).schema.names
    assert "more" in table.snapshot().schema.names
    assert "price" in table.snapshot(as_of="20000101000000").schema.names


def test_a_table_whose_schema_nobody_says_is_refused(location: str) -> None:
    table = make(location)
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "create.schema" not in line))
    with pytest.raises(UnsupportedTableError, match="schema") as caught:
        table.scan()
    assert caught.value.hint


def test_many_commits_leave_one_slice_a_group(location: str) -> None:
    table = make(location)
    for number in range(8):
        table.upsert(orders((number, "a", float(number)), (0, "b", float(number))))
    slices = table.snapshot().view.all_slices()
    assert [piece.partition for piece in slices] == ["day=a", "day=b"]
    assert len(rows(table, "id")) == 9


def test_a_snapshot_prints_the_time_of_its_state() -> None:
    table = create_plain(in_memory(), ORDERS, "id", "day")
    assert repr(table.snapshot()).endswith("/t as of its creation")
    commit = table.upsert(orders((1, "a", 1.0)))
    assert repr(table.snapshot()).endswith(f"/t as of {commit.completion_time}")


def test_a_snapshot_has_the_columns_that_later_states_call_otherwise(location: str) -> None:
    """Also if the commits that said so are archived."""
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    table.alter(rename={"price": "cost"})
    assert table.snapshot(as_of=first.completion_time).schema.names == ["id", "day", "price", "ts"]
    archive_all_but_the_newest(table, orders((2, "b", 2.0)).rename_columns(["id", "day", "cost", "ts"]))
    assert table.snapshot().schema.names == ["id", "day", "cost", "ts"]
    assert table.scan(columns=["id", "cost"]).to_arrow().to_pylist() == [{"id": 1, "cost": 1.0}, {"id": 2, "cost": 2.0}]
