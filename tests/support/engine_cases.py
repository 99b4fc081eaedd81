"""The behaviour of every engine, as cases that run on each (`tests/unit/engine/test_engine_cases.py`, `tests/spark/test_engine_conformance.py`).

A case gets an engine and a function that makes one of its datasets of an Arrow table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.engine.base import Dataset, Engine, TaskInfo
from pyhudi_core.errors import DuplicateKeyError

Make = Callable[[pa.Table], Dataset]
RAN_IN = pa.schema(
    [("task", pa.int32()), ("a", pa.float64()), ("b", pa.string()), ("n", pa.int64()), ("ran", pa.int32())]
)


def numbered(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, with the number of their task."""
    for batch in batches:
        yield batch.append_column("ran", pa.array([task.number] * len(batch), pa.int32()))


def _rows(count: int = 400) -> pa.Table:
    """Rows with nulls, NaN, both zeros and many equal values."""
    random = np.random.default_rng(5)
    floats = [None, math.nan, -0.0, 0.0, -1.5, 2.0, math.inf, -math.inf, 3.25]
    texts = [None, "", "a", "b", "B", "\u00e9", "\U0001f600", "\uffff"]
    return pa.table(
        [
            pa.array(random.integers(0, 3, count), pa.int32()),
            pa.array([floats[place] for place in random.integers(0, len(floats), count)], pa.float64()),
            pa.array([texts[place] for place in random.integers(0, len(texts), count)], pa.string()),
            pa.array(np.arange(count), pa.int64()),
        ],
        schema=pa.schema(list(RAN_IN)[:4]),
    )


def _rank(value: Any) -> tuple[int, Any]:
    """The sort order: nulls first, NaN last, strings by their UTF-8 bytes."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value.encode() if isinstance(value, str) else value)


def _ranks(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(_rank(row[name]) for name in names) for row in rows]


def a_shuffle_sorts_by_several_columns(engine: Engine, make: Make) -> None:
    """Each row is in its task, and each task is sorted."""
    given = _rows()
    found = make(given).shuffle("task", 4, "a", "b", "n").map(numbered, RAN_IN).collect().to_pylist()
    assert sorted(row["n"] for row in found) == list(range(len(given)))
    assert all(row["ran"] == row["task"] for row in found)
    for task in range(3):
        ranks = _ranks([row for row in found if row["ran"] == task], "a", "b", "n")
        assert ranks == sorted(ranks)
    unsorted = make(given).shuffle("task", 3).map(numbered, RAN_IN).collect().to_pylist()
    assert all(row["ran"] == row["task"] for row in unsorted)


def ranges_hold_all_rows_in_order(engine: Engine, make: Make) -> None:
    """The tasks together are sorted, no value is in two tasks, and no task is much larger than the others."""
    given = _rows()
    for names in (("b", "a"), ("n",)):
        found = make(given).shuffle_by_range(4, *names).map(numbered, RAN_IN).collect().to_pylist()
        assert sorted(row["n"] for row in found) == list(range(len(given)))
        ranks = _ranks(found, *names)
        assert ranks == sorted(ranks)
        numbers = [row["ran"] for row in found]
        assert numbers == sorted(numbers)
        assert all(one == two or low != high for (one, low), (two, high) in pairwise(zip(numbers, ranks, strict=True)))
        sizes = [numbers.count(number) for number in set(numbers)]
        assert len(sizes) in {3, 4}
        assert max(sizes) <= 200


def ranges_of_few_values_are_few_tasks(engine: Engine, make: Make) -> None:
    """Equal rows stay together, whatever the number of requested tasks; an input without rows is no error."""
    same = pa.table([[1] * 50, [None] * 50, ["x"] * 50, range(50)], schema=pa.schema(list(RAN_IN)[:4]))
    found = make(same).shuffle_by_range(8, "a", "b").map(numbered, RAN_IN).collect()
    assert (len(found), len(set(found.column("ran").to_pylist()))) == (50, 1)
    assert len(make(same.slice(0, 0)).shuffle_by_range(3, "n").collect()) == 0
    assert len(make(same.slice(0, 0)).shuffle("task", 3, "n").collect()) == 0


def tasks_run_without_rows(engine: Engine, make: Make) -> None:
    """One task runs for each payload, and its rows are a normal dataset."""
    schema = pa.schema([("task", pa.int32()), ("text", pa.string())])

    def work(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert list(batches) == []
        for text in task.payload["texts"]:
            yield pa.RecordBatch.from_arrays([pa.array([task.number], pa.int32()), pa.array([text])], schema=schema)

    made = engine.run(work, schema, [{"texts": ["a", "b"]}, {"texts": []}, {"texts": ["c"]}])
    found = made.collect().to_pylist()
    assert sorted((row["task"], row["text"]) for row in found) == [(0, "a"), (0, "b"), (2, "c")]
    made.release()
    again = engine.run(work, schema, [{"texts": ["a", "b", "a"]}])
    assert again.count_by("text") == {("a",): 2, ("b",): 1}
    again.release()
    assert engine.run(work, schema, []).collect().to_pylist() == []


def an_error_of_a_task_is_raised_as_it_was(engine: Engine, make: Make) -> None:
    """The error keeps its class, message and hint."""
    schema = pa.schema([("n", pa.int64())])

    def fail(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise DuplicateKeyError(f"in task {task.payload}", hint="do this")
        yield

    with pytest.raises(DuplicateKeyError, match="in task seven") as caught:
        engine.run(fail, schema, ["seven"]).collect()
    assert caught.value.hint == "do this"


def what_is_kept_is_computed_once(engine: Engine, make: Make) -> None:
    """The random numbers of a kept dataset stay the same."""
    schema = pa.schema([("n", pa.float64())])

    def random(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array(np.random.default_rng().random(3))], schema=schema)

    kept = engine.run(random, schema, [None, None]).persist()
    try:
        assert sorted(kept.collect().column("n").to_pylist()) == sorted(kept.collect().column("n").to_pylist())
        ranges = kept.shuffle_by_range(2, "n").collect().column("n").to_pylist()
        assert ranges == sorted(kept.collect().column("n").to_pylist())
    finally:
        kept.release()


CASES = [
    a_shuffle_sorts_by_several_columns, ranges_hold_all_rows_in_order, ranges_of_few_values_are_few_tasks, tasks_run_without_rows,
    an_error_of_a_task_is_raised_as_it_was, what_is_kept_is_computed_once,
]  # fmt: skip
