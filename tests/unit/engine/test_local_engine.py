"""The local engine: tasks, shuffles, what is computed once; runs of sorted rows; errors that cross processes as text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.engine import LocalEngine, TaskInfo, engine_for, local
from pyhudi_core.engine.base import runs
from pyhudi_core.engine.local import LocalDataset
from pyhudi_core.engine.task_errors import driver_errors, from_text, raised_in_task, to_text
from pyhudi_core.errors import ConfigError, DuplicateKeyError, HudiError, InvalidRecordKeyError, StorageError
from pyhudi_core.runtime.system import SerialExecutor

SCHEMA = pa.schema([("task", pa.int32()), ("sort", pa.int64()), ("v", pa.int64())])


def _table(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _tagged(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column("ran_in", pa.array([task.number] * len(batch), pa.int32()))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5), st.integers()), max_size=40).map(
        lambda rows: [(a, b, c % 1000) for a, b, c in rows]
    )
)
def test_a_shuffle_brings_each_row_to_its_task_sorted(rows: list[tuple[int, int, int]]) -> None:
    engine = LocalEngine(SerialExecutor(), 3)
    moved = (
        engine.dataset(_table(rows))
        .shuffle("task", 4, "sort")
        .map(_tagged, SCHEMA.append(pa.field("ran_in", pa.int32())))
    )
    found = moved.collect()
    assert sorted(found.drop_columns(["ran_in"]).to_pylist(), key=str) == sorted(_table(rows).to_pylist(), key=str)
    assert found.column("ran_in").to_pylist() == found.column("task").to_pylist()
    for task in range(4):
        sort = [row["sort"] for row in found.to_pylist() if row["task"] == task]
        assert sort == sorted(sort)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5), st.integers(0, 999)), max_size=60), st.integers(1, 20))
def test_rows_of_many_batches_come_to_their_tasks_as_those_of_one(rows: list[tuple[int, int, int]], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_LEAST_ROWS", 1)
        patch.setattr(local, "_PIECE", 0)
        found = local.task_rows(_table(rows).to_batches(max_chunksize=size), "task", 4, ["sort"])
    if found is None:
        assert not rows
        return
    for task, part in enumerate(found):
        moved = pa.Table.from_batches(part, SCHEMA).to_pylist()
        assert moved == sorted(
            (row for row in _table(rows).to_pylist() if row["task"] == task), key=lambda row: row["sort"]
        )
        assert pa.Table.from_batches(part, SCHEMA).to_pylist() == moved, "a second look sees the same"


def test_a_shuffle_of_many_rows_holds_no_second_copy_of_them() -> None:
    count = 400_000
    columns = [np.arange(count) % 2, np.arange(count) % 8, np.arange(count)]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    wide = table.append_column("text", pa.array(["x" * 100] * count))
    shuffled = LocalEngine(SerialExecutor(), 2).dataset(wide).shuffle("task", 2, "sort").persist()
    before = pa.total_allocated_bytes()
    assert isinstance(shuffled, LocalDataset)
    parts = shuffled.parts()
    assert pa.total_allocated_bytes() - before < wide.nbytes / 4
    first = next(iter(parts[1]))
    assert set(first.column("sort").to_pylist()) == {1}, "one sort value at a time"
    assert sum(len(batch) for part in parts for batch in part) == count


def test_data_is_spread_over_the_cores() -> None:
    big = pa.table({"v": np.arange(300_000)})
    schema = big.schema.append(pa.field("ran_in", pa.int32()))
    found = LocalEngine(SerialExecutor(), 3).dataset(big).map(_tagged, schema).collect()
    assert set(found.column("ran_in").to_pylist()) == {0, 1, 2}
    assert found.column("v").to_pylist() == list(range(300_000)), "the order of the input stays"


def test_nothing_runs_before_it_is_asked_for_and_what_is_kept_runs_once() -> None:
    ran: list[int] = []

    def watch(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ran.append(task.number)
        yield from batches

    data = LocalEngine(SerialExecutor(), 1).dataset(_table([(0, 0, 1)])).map(watch, SCHEMA)
    assert ran == []
    kept = data.persist()
    kept.collect()
    kept.map(_tagged, SCHEMA.append(pa.field("ran_in", pa.int32()))).collect()
    assert ran == [0]
    kept.release()
    kept.release()


def test_each_task_gets_its_own_payload() -> None:
    def with_payload(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column("payload", pa.array([task.payload] * len(batch), pa.string()))

    rows = LocalEngine(SerialExecutor(), 2).dataset(_table([(2, 0, 1), (0, 0, 1), (1, 0, 1), (2, 0, 1)]))
    shuffled = rows.shuffle("task", 3, "sort")
    found = shuffled.map(with_payload, SCHEMA.append(pa.field("payload", pa.string())), ["a", "b", "c"]).collect()
    assert [(row["task"], row["payload"]) for row in found.to_pylist()] == [(0, "a"), (1, "b"), (2, "c"), (2, "c")]


def test_rows_are_counted_by_the_values_of_columns() -> None:
    rows = pa.table({"a": ["x", None, "x", "y"], "b": ["1", "1", "1", None]})
    data = LocalEngine(SerialExecutor(), 2).dataset(rows)
    assert list(data.count_by("a", "b").items()) == [((None, "1"), 1), (("x", "1"), 2), (("y", None), 1)]
    assert data.count_by("b") == {(None,): 1, ("1",): 3}
    assert LocalEngine(SerialExecutor(), 1).dataset(rows.slice(0, 0)).count_by("a") == {}


def test_results_get_the_types_that_were_promised() -> None:
    def narrow(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([1], pa.int8())], ["v"])

    schema = pa.schema([("v", pa.int64())])
    found = LocalEngine(SerialExecutor(), 1).dataset(_table([(0, 0, 1)])).map(narrow, schema).collect()
    assert found.schema == schema


@pytest.mark.parametrize("data", [None, 3, "text", [1, 2], {"a": [1]}])
def test_data_of_another_kind_is_refused(data: object) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        LocalEngine(SerialExecutor(), 1).dataset(data)


def test_arrow_data_does_not_start_spark() -> None:
    assert engine_for(_table([]), SerialExecutor()).in_process


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 7))
def test_runs_are_maximal_and_in_order(values: list[int], size: int) -> None:
    ordered = sorted(values)
    table = pa.table({"s": pa.array(ordered, pa.int64()), "v": list(range(len(ordered)))})
    found = list(runs(iter(table.to_batches(max_chunksize=size)), "s"))
    assert [value for value, _ in found] == sorted(set(ordered))
    assert [row for _, rows in found for row in rows.column("v").to_pylist()] == list(range(len(ordered)))


@pytest.mark.parametrize(
    "message", ["plain", "with } and { in it", 'quotes "and" \\ slashes', "línea\nbreak", ":end pyhudi-error:{"]
)
def test_an_error_crosses_as_text_and_comes_back_whole(message: str) -> None:
    error = DuplicateKeyError(message, table="/t}", path=None, hint="do {this}")
    wrapped = f"org.apache.spark.SparkException: Job aborted\nTraceback ...\nRuntimeError: {to_text(error)}\n\tat org.apache..."
    again = from_text(wrapped)
    assert type(again) is DuplicateKeyError
    assert (again.message, again.table, again.path, again.hint) == (message, "/t}", None, "do {this}")


@pytest.mark.parametrize(
    "text", ["", "pyhudi-error:{}:end", "pyhudi-error:{oops}:end", 'pyhudi-error:{"kind":"os"}:end', "another failure"]
)
def test_other_text_is_no_error_of_ours(text: str) -> None:
    found = from_text(text)
    assert found is None or type(found) is HudiError


@pytest.mark.parametrize(
    ("reason", "advice"),
    [("No space left on device", "local.dir"), ("Disk quota exceeded", "quota"), ("Too many open files", "ulimit -n")],
)
def test_a_full_disk_of_sparks_own_is_a_storage_error_with_advice(reason: str, advice: str) -> None:
    text = f"Job aborted\nCaused by: java.io.IOException: {reason}\n\tat java.base/java.io.FileOutputStream.writeBytes"
    with pytest.raises(StorageError, match=f"IOException: {reason}") as caught, driver_errors():
        raise RuntimeError(text)
    assert advice in str(caught.value.hint)


def test_the_driver_raises_what_the_task_raised() -> None:
    with pytest.raises(InvalidRecordKeyError, match="a key is null"), driver_errors(), raised_in_task():
        raise InvalidRecordKeyError("a key is null")
    with pytest.raises(KeyError), driver_errors(), raised_in_task():
        raise KeyError("other errors pass")
