"""The first files of a record index: the location of each key of an existing table, written by tasks (specification, "Metadata Table").

Keys are never collected: tasks read them from the table's file slices, sort them into the file groups of the index, and stage a base file for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TASK, Engine, TaskInfo, runs, slotted
from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.byte_columns import order_of_texts
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.metadata_table.file_groups import ByFileGroup
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild, FirstFile
from pyhudi_core.metadata_table.records import locations
from pyhudi_core.model.instant import epoch_ms
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY, with_meta_fields
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.handles.base import OpenRuntime, runtime_opener
from pyhudi_core.write.handles.new_file import new_token

_PLACES = pa.schema(
    [("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string()), ("instant_ms", pa.int64())]
)
_STAGED = pa.schema([("path", pa.string()), ("records", pa.int64()), ("staged", pa.string()), ("size", pa.int64())])
_SHOWN = 3


def built_index(
    transaction: Transaction, snapshot: Snapshot, build: FirstBuild, engine: Engine, prefix: str
) -> list[FirstFile]:
    """Stage the base files of a record index of this state of the table, below paths that begin with ``prefix``.

    Raises `DuplicateKeyError` if a key is in the table twice: the index has one location for each key.
    """
    context = transaction.context
    slices = snapshot.view.all_slices()
    if not slices:
        return []
    open_runtime = runtime_opener(engine, context.storage, context.runtime)
    tasks = max(1, min(len(slices), engine.cores))
    payloads = [tuple(slices[number::tasks]) for number in range(tasks)]
    merging = Merging(snapshot.config, snapshot.evolution)
    schema = with_meta_fields(snapshot.schema)
    writers = min(build.groups, engine.cores)
    reading = _Keys(open_runtime, merging, schema, ByFileGroup("key", build.groups, writers), context.utc)
    writing = _Files(open_runtime, build, prefix)
    places = engine.run(reading, slotted(_PLACES), payloads)
    found = places.shuffle(TASK, writers, SORT, "key").map(writing, _STAGED).collect()
    rows = sorted(found.to_pylist(), key=lambda row: str(row["path"]))
    return [FirstFile(row["path"], row["records"], b"", row["staged"], row["size"]) for row in rows]


@dataclass(frozen=True, slots=True)
class _Keys:
    """Task function: returns the keys of the slices of its payload, each with its location, and its file group of the index."""

    open_runtime: OpenRuntime
    merging: Merging
    schema: pa.Schema
    by_group: ByFileGroup
    utc: bool

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_runtime().storage
        wanted = pa.schema([self.schema.field(name) for name in (COMMIT_TIME, RECORD_KEY)])
        for piece in task.payload:
            for batch in merged_batches(storage, piece, self.merging, wanted, self.schema):
                yield self._placed(piece, batch)

    def _placed(self, piece: FileSlice, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.column(RECORD_KEY).cast(pa.string())
        count = len(keys)
        columns = [
            keys,
            pa.repeat(piece.partition, count),
            pa.repeat(piece.file_id, count),
            self._instants(batch.column(COMMIT_TIME)),
        ]
        return self.by_group.of(pa.RecordBatch.from_arrays(columns, schema=_PLACES))

    def _instants(self, times: pa.Array) -> pa.Array:
        """Return requested times as milliseconds; a file has few different times."""
        known = times.dictionary_encode()
        numbers = pa.array(
            [epoch_ms(str(time), utc=self.utc) or 0 for time in known.dictionary.to_pylist()], pa.int64()
        )
        return numbers.take(known.indices)


@dataclass(frozen=True, slots=True)
class _Files:
    """Task function: writes the sorted locations of some file groups of the index to their staged base files."""

    open_runtime: OpenRuntime
    build: FirstBuild
    prefix: str

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runtime = self.open_runtime()
        for group, places in runs(batches, SORT):
            self._refuse_twice(places)
            # Sorted by the bytes of the key, as an HFile needs it.
            whole = places.take(order_of_texts(places.column("key").combine_chunks()))
            columns = (whole.column(name).combine_chunks() for name in ("key", "partition", "file_id", "instant_ms"))
            file = self.build.base_file(group, locations(*columns))
            staged = f"{self.prefix}.{new_token(task.number, runtime.ids)}.{group}"
            runtime.storage.put(staged, file.data)
            row = {"path": file.path, "records": file.records, "staged": staged, "size": len(file.data)}
            yield pa.RecordBatch.from_pylist([row], _STAGED)

    def _refuse_twice(self, places: pa.Table) -> None:
        counts = pc.value_counts(places.column("key"))
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if len(twice):
            shown = ", ".join(repr(key) for key in twice.slice(0, _SHOWN).to_pylist())
            raise DuplicateKeyError(
                f"{len(twice)} record keys are in the table more than once, for example {shown}, and a record index has one place for each",
                hint="Nothing was changed. Remove the duplicates, or make the metadata table without a record index.",
            )
