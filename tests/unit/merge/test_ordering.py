"""Which version of a row wins: by hand, through a table, and against a plain reference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples
from support.tables import make, orders, rows

from pyhudi_core.merge.law import MergeLaw


@pytest.mark.row("J1", "P12")
def test_with_commit_time_ordering_what_is_written_later_wins(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0, 100)))
    table.upsert(orders((1, "a", 2.0, 5)))
    assert rows(table, "price", "ts") == [(2.0, 5)]


@pytest.mark.row("J1", "P12")
def test_ordering_columns_do_not_decide_when_the_mode_is_commit_time(location: str) -> None:
    table = make(location, ordering="ts", options={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    table.upsert(orders((1, "a", 1.0, 100)))
    table.upsert(orders((1, "a", 2.0, 5), (2, "a", 9.0, 9), (2, "a", 8.0, 1)))
    assert rows(table, "id", "price") == [(1, 2.0), (2, 8.0)]


@pytest.mark.row("J2", "P7", "P12", "P14", "M1")
def test_with_event_time_ordering_the_greater_value_wins(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 100), (2, "a", 1.0, 100), (3, "a", 1.0, 100)))
    commit = table.upsert(orders((1, "a", 2.0, 99), (2, "a", 2.0, 100), (3, "a", 2.0, 101)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 2.0)], "of equal values the later written wins"
    assert commit.stats.rows_updated == 2


@pytest.mark.row("J2")
def test_null_is_the_lowest_ordering_value(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 0), (2, "a", 1.0, None), (3, "a", 1.0, None)))
    table.upsert(orders((1, "a", 2.0, None), (2, "a", 2.0, None), (3, "a", 2.0, -5)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 2.0)]


@pytest.mark.row("J2")
def test_within_a_batch_the_greatest_ordering_value_wins_and_of_equal_ones_the_last(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 5), (1, "a", 2.0, 7), (1, "a", 3.0, 7), (1, "a", 4.0, None), (1, "a", 5.0, 6)))
    assert rows(table, "price", "ts") == [(3.0, 7)]


@pytest.mark.row("J2", "P7")
def test_several_ordering_columns_are_compared_one_after_the_other(location: str) -> None:
    table = make(location, ordering=["ts", "price"])
    table.upsert(orders((1, "a", 5.0, 10), (2, "a", 5.0, 10), (3, "a", 5.0, 10), (4, "a", 5.0, None)))
    table.upsert(orders((1, "a", 4.0, 10), (2, "a", 6.0, 10), (3, "a", 0.0, 11), (4, "a", 4.0, None)))
    assert rows(table, "id", "price") == [(1, 5.0), (2, 6.0), (3, 0.0), (4, 5.0)]


@pytest.mark.row("J2")
def test_a_batch_of_older_versions_only_writes_no_file(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 100)))
    commit = table.upsert(orders((1, "a", 2.0, 1)))
    assert (commit.stats.files_written, commit.stats.rows_updated) == (0, 0)
    assert not commit.changed
    assert rows(table, "price") == [(1.0,)]
    assert len(table.timeline) == 1, "nothing changed, so there is no commit"


@pytest.mark.row("J2")
def test_a_delete_takes_the_row_whatever_its_ordering_value(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 10**15)))
    table.delete(pa.table({"id": [1], "day": ["a"]}))
    assert rows(table) == []


def _reference(batch: list[tuple[str, Any, Any]]) -> list[int]:
    """The place of the winner of each key, by brute force."""
    best: dict[str, tuple[tuple[Any, ...], int]] = {}
    for place, (key, *ordering) in enumerate(batch):
        rank = tuple((value is not None, value if value is not None else 0) for value in ordering)
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, place)
    return sorted(place for _, place in best.values())


_ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 2), st.none() | st.integers(0, 2)), max_size=12
)


@settings(max_examples=examples(200), deadline=None)
@given(_ROWS)
def test_deduplication_agrees_with_a_plain_reference(batch: list[tuple[str, Any, Any]]) -> None:
    table = pa.table({
        "k": pa.array([row[0] for row in batch], pa.string()), "p": pa.array(range(len(batch)), pa.int64()),
        "x": pa.array([row[1] for row in batch], pa.int64()), "y": pa.array([row[2] for row in batch], pa.int64()),
    })  # fmt: skip
    assert MergeLaw(("x", "y")).reduce(table, "k", "p").column("p").to_pylist() == _reference(batch)
    last = {key: place for place, (key, _, _) in enumerate(batch)}
    assert MergeLaw().reduce(table, "k", "p").column("p").to_pylist() == sorted(last.values())


def test_rows_keep_their_order_and_columns() -> None:
    table = pa.table({"k": ["b", "a", "b"], "p": [0, 1, 2], "v": ["x", "y", "z"]})
    assert MergeLaw().reduce(table, "k", "p").to_pylist() == [
        {"k": "a", "p": 1, "v": "y"},
        {"k": "b", "p": 2, "v": "z"},
    ]
