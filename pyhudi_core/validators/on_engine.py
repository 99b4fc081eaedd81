"""Make a scan a dataset of an engine: tasks of the engine read its slices. Only collected rows come to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi_core.engine.base import Dataset, Engine, TaskInfo
from pyhudi_core.read.row_filter import SliceReader
from pyhudi_core.read.scan import Scan
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import storage_from_spec

_TASKS_PER_CORE = 4


def dataset_of(found: Scan, engine: Engine) -> Dataset:
    """Return the rows of a scan. A task reads its slices one after the other; the largest slices are assigned first.

    Raises `ConfigError` on Spark for storage that lives in this process only.
    """
    slices = sorted(found.slices(), key=lambda piece: -piece.size)
    tasks = max(1, min(len(slices), engine.cores * _TASKS_PER_CORE))
    storage = found.storage
    opened: Callable[[], Storage] = (
        (lambda: storage) if engine.in_process else partial(storage_from_spec, storage.spec())
    )
    reading = _ReadSlices(opened, SliceReader(found.rows, found.merging))
    return engine.run(reading, found.schema, [tuple(slices[number::tasks]) for number in range(tasks)])


@dataclass(frozen=True, slots=True)
class _ReadSlices:
    """Task function: reads the rows of the slices in its payload."""

    open_storage: Callable[[], Storage]
    reader: SliceReader

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_storage()
        for piece in task.payload:
            yield from self.reader.read(storage, piece)
