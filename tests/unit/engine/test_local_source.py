"""Many rows of one process as a source: counts by partition, and the rows of each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.engine import LocalEngine, TaskInfo, local, local_source
from pyhudi_core.engine.base import KeyColumns, Slot, Source
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.runtime.system import SerialExecutor, ThreadExecutor

KEY = KeyColumns(("k",), "null", "empty", lambda batch: hash_keys(batch.column("k")))
BOTH = KeyColumns(("k", "j"), "null", "empty", lambda batch: np.zeros(len(batch), np.uint32))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are many, and come in several batches."""
    monkeypatch.setattr(local, "_MANY_ROWS", 4)
    monkeypatch.setattr(local, "_SOURCE_ROWS", 7)
    monkeypatch.setattr(local_source, "_SORTED_ROWS", 3)


def source_of(table: pa.Table) -> Source:
    found = LocalEngine(ThreadExecutor(2), 2).dataset(table).source()
    assert found is not None
    return found


def counted(table: pa.Table, *by: str) -> dict[tuple[Any, ...], int]:
    counts = source_of(table).counts(by, KEY)
    values = zip(*(column.to_pylist() for column in counts.values.columns), strict=True)
    return dict(zip(values, counts.rows, strict=True))


def table_of(count: int) -> pa.Table:
    numbers = np.arange(count)
    return pa.table(
        {"k": [f"k{n}" for n in numbers], "p": [None if n % 4 == 3 else n % 4 for n in numbers], "v": numbers}
    )


def in_tasks(rows: Any) -> list[list[dict[str, Any]]]:
    """The rows of each task."""
    schema = pa.schema([*rows.schema, ("ran_in", pa.int64())])

    def numbered(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.repeat(task.number, len(batch))], schema=schema)

    found = rows.map(numbered, schema).collect().to_pylist()
    return [[row for row in found if row["ran_in"] == task] for task in range(4)]


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_rows_are_counted_by_the_values_of_several_columns(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(local_source, "_MOST_CODES", most)
    table = table_of(200).append_column("q", pa.array([n % 3 == 0 for n in range(200)]))
    expected: dict[tuple[Any, ...], int] = {}
    for row in table.to_pylist():
        expected[row["p"], row["q"]] = expected.get((row["p"], row["q"]), 0) + 1
    assert counted(table, "p", "q") == expected
    assert counted(table, "p") == {(0,): 50, (1,): 50, (2,): 50, (None,): 50}


def test_without_partition_columns_all_rows_are_counted_together() -> None:
    counts = source_of(table_of(30)).counts((), KEY)
    assert (counts.rows, counts.values.num_columns) == ((30,), 0)


def test_rows_without_a_key_are_counted() -> None:
    table = pa.table({"k": ["a", None, "", "b", None, ""], "j": [1, None, None, None, 2, 3]})
    assert source_of(table).counts((), KEY).without_key == 4
    assert source_of(table).counts((), BOTH).without_key == 2


def test_each_row_goes_to_one_of_its_tasks_in_the_order_of_the_input() -> None:
    source = source_of(table_of(200))
    values = source.counts(["p"], KEY).values
    places = {0: [0, 2], 1: [1], None: [3], 2: [1]}
    rows = source.placed(values, [places[value] for value in values.column(0).to_pylist()], KEY, 4)
    tasks = in_tasks(rows)
    assert [sorted({str(row["p"]) for row in task}) for task in tasks] == [["0"], ["1", "2"], ["0"], ["None"]]
    assert all([row["v"] for row in task] == sorted(row["v"] for row in task) for task in tasks)
    assert sorted(row["k"] for task in tasks for row in task) == sorted(f"k{n}" for n in range(200))


def test_rows_go_to_their_slots_sorted_and_those_without_one_are_left_out() -> None:
    source = source_of(table_of(200))
    values = source.counts(["p"], KEY).values
    slots: dict[Any, Sequence[Slot]] = {
        0: [Slot(0, 100, 3), Slot(1, 200)],
        1: [Slot(2, 300)],
        2: [],
        None: [Slot(2, 50)],
    }
    rows = source.scattered(values, [slots[value] for value in values.column(0).to_pylist()], KEY, 3)
    tasks = in_tasks(rows)
    assert [sorted({row["_pyhudi_sort"] for row in task}) for task in tasks[:3]] == [[100, 101, 102], [200], [50, 300]]
    assert all([row["_pyhudi_sort"] for row in task] == sorted(row["_pyhudi_sort"] for row in task) for task in tasks)
    found = sorted((row for task in tasks for row in task), key=lambda row: row["_pyhudi_order"])
    assert [row["v"] for row in found] == [n for n in range(200) if n % 4 != 2]


def test_two_rows_with_one_key_meet() -> None:
    twice = pa.concat_tables([table_of(100), table_of(100)])
    source = source_of(twice)
    values = source.counts(["p"], KEY).values
    tasks = in_tasks(source.placed(values, [[0, 1, 2, 3]] * 4, KEY, 4))
    assert all(tasks)
    assert all(sorted(row["k"] for row in task) == sorted([*{row["k"] for row in task}] * 2) for task in tasks)


def test_few_rows_and_computed_rows_are_no_source() -> None:
    engine = LocalEngine(SerialExecutor())
    assert engine.dataset(table_of(3)).source() is None
    table = table_of(50)
    assert engine.dataset(table).map(lambda _task, batches: batches, table.schema).source() is None
