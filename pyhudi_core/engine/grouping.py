"""Groups of rows that tasks share: the columns `TASK` and `SORT` for a shuffle, and the runs of rows with one sort value after it.

A sort value is the number of a group. A shuffle brings all rows of a group to one task, and the payload of the task has the data for its groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.engine.base import SORT, TASK

Ints = npt.NDArray[np.int64]
Item = TypeVar("Item")


def slotted(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows after `with_slots`."""
    return pa.schema([*schema, (TASK, pa.int32()), (SORT, pa.int64())])


def with_slots(batch: pa.RecordBatch, tasks: Ints, groups: Ints) -> pa.RecordBatch:
    """Add the task and the group of each row, as the columns `TASK` and `SORT`."""
    columns = [*batch.columns, pa.array(tasks.astype(np.int32)), pa.array(groups)]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, TASK, SORT])


def without_slots(rows: pa.Table) -> pa.Table:
    """Remove the columns that `with_slots` added."""
    return rows.drop_columns([TASK, SORT])


def dealt(items: Sequence[Item], tasks: int) -> list[dict[int, Item]]:
    """Give item ``n`` to task ``n % tasks``. Returns a dictionary for each task: its items by number."""
    payloads: list[dict[int, Item]] = [{} for _ in range(tasks)]
    for number, item in enumerate(items):
        payloads[number % tasks][number] = item
    return payloads


def runs(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield (value, rows) for each run of equal values of an int64 column; holds the rows of one run at a time."""
    held: list[pa.RecordBatch] = []
    current: int | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        values = batch.column(column).to_numpy()
        edges = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(values)]))
        for start, end in zip(edges[:-1], edges[1:], strict=True):
            value = int(values[start])
            if current is not None and value != current:
                yield current, pa.Table.from_batches(held)
                held = []
            current = value
            held.append(batch.slice(start, end - start))
    if current is not None:
        yield current, pa.Table.from_batches(held)
