"""A sort in bounded memory: sorted runs in a scratch folder are merged, in the order that one sort of all rows has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.engine.local import row_order
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.services.clustering.streamed import SpilledSort, merged
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("text", pa.string())])


def rows(count: int, seed: int = 1) -> pa.Table:
    """Many equal values, nulls and NaN."""
    rng = np.random.default_rng(seed)
    numbers = pa.array(rng.integers(0, 7, count), mask=rng.random(count) < 0.1)
    floats = np.where(rng.random(count) < 0.1, np.nan, rng.integers(0, 5, count).astype(float))
    texts = pa.array([f"text {number}" for number in range(count)])
    return pa.table([numbers, pa.array(floats, mask=rng.random(count) < 0.1), texts], schema=SCHEMA)


def sort_of(table: pa.Table, most_bytes: int, *by: str) -> tuple[SpilledSort, MemoryStorage]:
    storage = MemoryStorage("memory://sort", MemoryBucket(), SystemClock())
    made = SpilledSort(storage, "scratch", SCHEMA, by, most_bytes)
    for batch in table.to_batches(max_chunksize=97):
        made.add(batch)
    return made, storage


@pytest.mark.row("N5")
@pytest.mark.parametrize("count", [0, 1, 5_000])
@pytest.mark.parametrize("most_bytes", [1, 20_000, 1 << 30], ids=["a run for each batch", "some runs", "in memory"])
def test_the_order_is_that_of_one_sort(count: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.services.clustering.streamed._LEAST_BATCH", 900)
    table = rows(count)
    sort, storage = sort_of(table, most_bytes, "n", "x", "text")
    expected = table.take(row_order(table, ["n", "x", "text"]))
    found = pa.Table.from_batches(sort.rows(), SCHEMA)
    assert found.to_pylist().__repr__() == expected.to_pylist().__repr__()
    assert sort.count == count
    spilled = storage.list("scratch/")
    assert bool(spilled) == (table.nbytes >= most_bytes and count > 0)
    sort.remove()
    assert storage.list("scratch/") == []


def test_a_merge_takes_runs_of_any_length() -> None:
    runs = [rows(count, seed).sort_by("text") for seed, count in enumerate((0, 1, 400, 3))]
    parts = [iter(run.to_batches(max_chunksize=7)) for run in runs]
    found = pa.Table.from_batches(merged(parts, SCHEMA, ["text"]), SCHEMA)
    assert found["text"].to_pylist() == sorted(text for run in runs for text in run["text"].to_pylist())
