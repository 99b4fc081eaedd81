"""Sort rows in bounded memory: sorted runs of rows are kept as Arrow IPC files in a scratch folder of the storage, and merged.

Rows that fit into the bound stay in memory. Otherwise memory holds one run while it is sorted, and later one batch of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pyhudi_core.engine.local import row_order
from pyhudi_core.storage.base import Storage

_BATCHES, _LEAST_BATCH = 64, 64 << 10
"""The number of batches in a full run, and the minimum bytes of a batch. A merge holds one batch of each run, and the merged batch."""


@dataclass(slots=True)
class SpilledSort:
    """One sort: `add` the rows, then read them by `rows`, once. `remove` deletes its files.

    Attributes:
        storage: has the scratch folder.
        folder: where the runs are written; the folder has no other files.
        schema: the schema of the rows.
        by: the sort columns; nulls come first and NaN last.
        most_bytes: the maximum size of the rows in one run, as Arrow counts it.
        count: the number of added rows.
    """

    storage: Storage
    folder: str
    schema: pa.Schema
    by: Sequence[str]
    most_bytes: int
    count: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _runs: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are written to the scratch folder when a run is full."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        self.count += len(batch)
        if self._bytes >= self.most_bytes:
            self._spill()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        if not self._runs:
            yield from self._sorted_run()
            return
        if self._held:
            self._spill()
        with ExitStack() as stack:
            sources = [stack.enter_context(self.storage.open_input(path)) for path in self._runs]
            yield from merged([iter(pa.ipc.open_stream(source)) for source in sources], self.schema, self.by)

    def remove(self) -> None:
        """Remove the runs."""
        self._held = []
        if self._runs:
            self.storage.delete_many(self._runs)

    def _sorted_run(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in memory, sorted, in small batches, and release them."""
        table = pa.Table.from_batches(self._held, self.schema).combine_chunks()
        width = max(1, self._bytes // max(1, len(table)))
        self._held, self._bytes = [], 0
        order = row_order(table, self.by)
        step = max(1, max(_LEAST_BATCH, self.most_bytes // _BATCHES) // width)
        for start in range(0, len(table), step):
            yield from table.take(order.slice(start, step)).combine_chunks().to_batches()

    def _spill(self) -> None:
        path = f"{self.folder}/{len(self._runs)}.arrow"
        self._runs.append(path)
        output = self.storage.open_output(path)
        try:
            with pa.ipc.new_stream(
                output.stream, self.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
            ) as writer:
                for batch in self._sorted_run():
                    writer.write_batch(batch)
        except BaseException:
            output.abort()
            raise
        output.close()


def merged(runs: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema, by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sorted runs in one order.

    Each step sorts one batch of every run together. Rows up to the first end of a batch are next, because no run has smaller ones left.
    """
    empty = schema.empty_table()
    heads = [empty] * len(runs)
    left = [True] * len(runs)
    while True:
        for number, run in enumerate(runs):
            while left[number] and not len(heads[number]):
                batch = next(run, None)
                left[number] = batch is not None
                heads[number] = empty if batch is None else pa.Table.from_batches([batch])
        filled = [number for number in range(len(runs)) if len(heads[number])]
        if not filled:
            return
        ends = np.cumsum([len(heads[number]) for number in filled])
        together = pa.concat_tables([heads[number] for number in filled]).combine_chunks()
        order = row_order(together, by)
        places = order.to_numpy()
        rank = np.empty(len(places), np.int64)
        rank[places] = np.arange(len(places))
        cut = int(rank[ends - 1].min()) + 1
        yield from together.take(order.slice(0, cut)).combine_chunks().to_batches()
        taken = np.bincount(np.searchsorted(ends, places[:cut], side="right"), minlength=len(filled))
        for number, count in zip(filled, taken.tolist(), strict=True):
            heads[number] = heads[number].slice(count)
