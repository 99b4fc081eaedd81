"""What the driver does for a large job: a write of many tasks and files, and a plan of many slices, with tasks that do nothing.

The product's own code runs, apart from two things. The rows are counts, of 18 rows for each file: there are no rows in memory. A task writes no
file, and reports one for each of its buckets; its time is not the driver's, and is shown beside it. So what remains is the driver's work: the plan,
the payloads, the results, the commit with its part of the metadata table, and the plan of a scan.

    python -m benchmarks.large_jobs write 20000 100000  # tasks, files
    python -m benchmarks.large_jobs plan 1000000        # slices

Each prints one JSON object: processor time in seconds, the peak of memory, and the bytes of the largest payload of a task.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi_core as hudi
from benchmarks.planning import made
from benchmarks.workload import HOME
from pyhudi_core.engine import choice
from pyhudi_core.engine.base import SourceCounts, TaskInfo
from pyhudi_core.engine.local import LocalDataset, LocalEngine
from pyhudi_core.engine.spark_reading import _packed
from pyhudi_core.engine.spark_rows import pickled
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import BaseFileName, join, write_token
from pyhudi_core.runtime.base import Executor
from pyhudi_core.write.handles.base import WrittenFile
from pyhudi_core.write.tasks import WriteTask, files_batch

FILES_OF_A_PARTITION, ROWS_OF_A_PARTITION = 100, 1818
SPARK_TASKS = 32
_RANGES = {"id": ColumnRange("0", "9", 0), "day": ColumnRange("0", "9", 0), "ts": ColumnRange(0, 9, 0)}


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows of which only the counts exist: as a dataset, as a source, and as an engine with one core for each task."""

    executor: Executor
    schema: pa.Schema
    partitions: int
    cores: int
    in_process: bool = True
    row_bytes: int = 0
    keyless: bool = True

    def dataset(self, data: object) -> Any:
        """The rows; ``data`` has only their columns."""
        return self

    def run(self, fn: Any, schema: pa.Schema, payloads: Any) -> Any:
        """Tasks without rows, such as those that make records of an index."""
        return LocalEngine(self.executor, self.cores).run(fn, schema, payloads)

    def map(self, fn: Any, schema: pa.Schema, payloads: Any = ()) -> Any:
        """Rows that are not needed, because their source is."""
        return LocalDataset(self.executor, schema, list)

    def source(self) -> Any:
        """The rows."""
        return self

    def counts(self, by: Any, key: Any) -> SourceCounts:
        """The same number of rows in each partition."""
        days = pc.utf8_lpad(pa.array(np.arange(self.partitions)).cast(pa.string()), 4, "0")
        return SourceCounts(pa.record_batch({"day": days}), (ROWS_OF_A_PARTITION,) * self.partitions, 0)

    def scattered(self, values: Any, slots: Any, key: Any, tasks: int) -> Any:
        """Tasks without rows."""
        return LocalDataset(self.executor, self.schema, lambda: [[] for _ in range(tasks)])


def write(tasks: int, files: int) -> dict[str, Any]:
    """Write so many files in so many tasks."""
    payloads, own = [0], [0.0]

    def report(self: WriteTask, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.thread_time()
        if task.number % 100 == 0:
            payloads.append(len(pickled([task.payload])[0]))
        found = []
        for bucket in task.payload.values():
            name = BaseFileName(bucket.file_id, write_token(task.number, 0, 0), self.settings.requested_time)
            path = join(bucket.partition, str(name))
            stat = WriteStat(bucket.file_id, path, bucket.partition, rows=10, inserts=10, size=120_000_000)
            found.append(WrittenFile(stat, _RANGES))
        made = list(files_batch(found, self.settings.schema))
        own.append(time.thread_time() - began)
        yield from made

    WriteTask.__call__ = report  # type: ignore[method-assign]
    schema = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64())])
    partitions = max(1, files // FILES_OF_A_PARTITION)
    vars(choice)["LocalEngine"] = lambda executor, _: CountedRows(executor, schema, partitions, tasks)
    location = HOME / "tables" / f"large_job_{files}"
    shutil.rmtree(location, ignore_errors=True)
    options = {"hoodie.parquet.max.file.size": 1024}  # about 18 rows
    table = hudi.create_table(str(location), schema, "id", "day", "ts", options=options)
    began, wall = time.process_time(), time.perf_counter()
    table.bulk_insert(schema.empty_table())
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    found = len(table.commit_metadata(table.timeline.commits[-1]).stats)
    of_tasks = {"tasks": len(own) - 1, "seconds of tasks": sum(own), "payload": max(payloads)}
    return {"files": found, "seconds": seconds - sum(own), "wall": wall, "MB of the write": most} | of_tasks


def plan(slices: int) -> dict[str, Any]:
    """Plan a scan of so many slices, whose files do not exist, and its Spark tasks."""
    location = HOME / "tables" / f"planning_{slices}"
    if not location.exists():
        if os.fork() == 0:  # what makes the table takes memory, which is not the scan's
            made(slices)
            os._exit(0)
        os.wait()
    began = time.process_time()
    scan = hudi.open_table(str(location)).scan()
    found = len(scan.slices())
    chosen = time.process_time() - began
    tasks = scan.tasks()
    packs = _packed(tasks, -(-len(tasks) // SPARK_TASKS))
    own = {"slices": found, "seconds of slices": chosen, "seconds of tasks": time.process_time() - began - chosen}
    return own | {"payload": max(map(len, packs)), "payloads": sum(map(len, packs))}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {"write": write, "plan": plan}

if __name__ == "__main__":
    measured = KINDS[sys.argv[1]](*map(int, sys.argv[2:]))
    print(json.dumps(measured | {"MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))
