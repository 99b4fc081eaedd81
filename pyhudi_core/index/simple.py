"""The simple index: find the file group of a key by reading the key columns of a partition's base files (specification, "Indexes", SIMPLE).

In merge-on-read tables a key is in the base file of its file group, because inserts go to base files. Other writers (Flink) may insert into logs;
logs whose commits say so are read too. A key that logs deleted is still found, so that it comes back into the same file group.

Rows are brought together by partition (and by a hash of the key, for parallelism), so that each file's keys are read once a slot; files whose key
range cannot hold any of a slot's keys are passed over by their footers. A task knows the files of its own slots only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo
from pyhudi_core.engine.grouping import runs
from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.index.base import TAGS, Tagged
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.storage.base import Storage

NOT_FOUND = -1


def no_logs(_piece: FileSlice) -> tuple[LogFile, ...]:
    """No log of a slice holds new keys."""
    return ()


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """The files of one file group that hold its keys: the base file, and the logs that may hold new keys."""

    base: str | None
    logs: tuple[LogFile, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """A partition to look into: file ids, and the files of each."""

    path: str
    file_ids: tuple[str, ...]
    files: tuple[IndexedFiles, ...]

    @classmethod
    def of(
        cls, partition: str, slices: tuple[FileSlice, ...], logs: Callable[[FileSlice], tuple[LogFile, ...]] = no_logs
    ) -> IndexedPartition:
        """From the newest slices of the partition."""
        files = (IndexedFiles(None if piece.base is None else piece.base.path, logs(piece)) for piece in slices)
        return cls(partition, tuple(piece.file_id for piece in slices), tuple(files))


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """Finds keys in the row's own partition.

    Args:
        slices: the newest slices of a partition; asked for the partitions of the batch only.
        open_storage: opens the table's storage inside a task.
        tasks: how many tasks to use.
        logs: the logs of a slice that may hold keys which its base file does not hold.
    """

    slices: Callable[[str], tuple[FileSlice, ...]]
    open_storage: Callable[[], Storage]
    tasks: int
    logs: Callable[[FileSlice], tuple[LogFile, ...]] = no_logs

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """As `Index.tag`. A partition with one file group needs no look-up, unless the answer has to be exact."""
        whole: dict[str, str] = {}
        searched: list[IndexedPartition] = []
        for partition in sorted(partitions):
            found = self.slices(partition)
            if len(found) == 1 and partition not in exact:
                whole[partition] = found[0].file_id
            elif found:
                searched.append(IndexedPartition.of(partition, found, self.logs))
        return Tagged(self._search(rows, searched) if searched else rows, whole)

    def _search(self, rows: Dataset, searched: list[IndexedPartition]) -> Dataset:
        spread = max(1, -(-self.tasks // len(searched)))
        numbers = {partition.path: number for number, partition in enumerate(searched)}
        slotted = pa.schema([*rows.schema, (TASK, pa.int32()), (SORT, pa.int64())])
        tagged = pa.schema([*rows.schema, *TAGS])
        payloads: list[dict[int, IndexedPartition]] = [{} for _ in range(self.tasks)]
        for number, partition in enumerate(searched):
            for share in range(spread):
                payloads[(number * spread + share) % self.tasks][number] = partition
        shuffled = rows.map(_Slot(numbers, self.tasks, spread), slotted).shuffle(TASK, self.tasks, SORT)
        return shuffled.map(_Find(self.open_storage, tagged), tagged, payloads)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Task function: chooses the task of each row. Rows of partitions without files are spread evenly, with the sort value -1."""

    numbers: Mapping[str, int]
    tasks: int
    spread: int

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column(PARTITION_PATH).dictionary_encode()
            known = [self.numbers.get(value, NOT_FOUND) for value in codes.dictionary.to_pylist()]
            sort = np.array(known, np.int64)[codes.indices.to_numpy()]
            hashes = hash_keys(batch.column(RECORD_KEY)).astype(np.int64)
            slots = np.where(sort < 0, hashes, sort * self.spread + hashes % self.spread) % self.tasks
            columns = [*batch.columns, pa.array(slots.astype(np.int32)), pa.array(sort)]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, TASK, SORT])


@dataclass(frozen=True, slots=True)
class _Find:
    """Task function: adds `TAGS`. The payload has the task's partitions by their numbers."""

    open_storage: Callable[[], Storage]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = self.open_storage()
        for number, run in runs(batches, SORT):
            rows = run.drop_columns([TASK, SORT])
            if number == NOT_FOUND:
                tags = [pa.nulls(len(rows), field.type) for field in TAGS]
            else:
                tags = _tags(storage, task.payload[number], rows.column(RECORD_KEY))
            yield from pa.Table.from_arrays([*rows.columns, *tags], schema=self.schema).combine_chunks().to_batches()


def _tags(storage: Storage, partition: IndexedPartition, keys: pa.ChunkedArray) -> list[pa.Array]:
    found, positions = look_up(storage, partition.files, keys)
    places = pa.array(found, mask=found == NOT_FOUND)
    own = pa.array([partition.path]).take(pa.array(np.zeros(len(found), np.int32), mask=found == NOT_FOUND))
    file_ids = pa.array(partition.file_ids, pa.string()).take(places)
    return [own, file_ids, pa.array(positions, pa.int64(), mask=positions == NOT_FOUND)]


def look_up(
    storage: Storage, files: tuple[IndexedFiles, ...], keys: pa.ChunkedArray
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """For each key the number of the files that hold it and its position in the base file; `NOT_FOUND` for what is not there."""
    encoded = keys.combine_chunks().dictionary_encode()
    unique = encoded.dictionary
    found = np.full(len(unique), NOT_FOUND, np.int32)
    positions = np.full(len(unique), NOT_FOUND, np.int64)
    for number, files_of_group in enumerate(files):
        if files_of_group.base is not None:
            _look_into_base(storage, files_of_group.base, unique, number, found, positions)
        if files_of_group.logs:
            known = pc.is_in(unique, value_set=_keys_in_logs(storage, files_of_group.logs))
            found[known.to_numpy(zero_copy_only=False) & (found == NOT_FOUND)] = number
    places = encoded.indices.to_numpy()
    return found[places], positions[places]


def _look_into_base(
    storage: Storage,
    path: str,
    unique: pa.Array,
    number: int,
    found: npt.NDArray[np.int32],
    positions: npt.NDArray[np.int64],
) -> None:
    low, high = pc.min_max(unique).as_py().values()
    with storage.open_input(path) as source:
        reader = BaseFileReader(source, path, columns=[RECORD_KEY])
        footer = reader.footer()
        lowest, highest = footer.sure_min_key, footer.sure_max_key
        if (highest is not None and highest < low) or (lowest is not None and lowest > high):
            return
        first = 0
        for batch in reader.iter_batches():
            here = pc.index_in(batch.column(0), value_set=unique)
            places = here.drop_null().to_numpy()
            found[places] = number
            positions[places] = first + np.flatnonzero(here.is_valid().to_numpy(zero_copy_only=False))
            first += len(batch)


def _keys_in_logs(storage: Storage, logs: tuple[LogFile, ...]) -> pa.Array:
    """The keys of all rows in the logs, also of those that are deleted there."""
    times = frozenset(log.name.requested_time for log in logs)
    columns = LogColumns(pa.schema([(RECORD_KEY, pa.string())]), (), lambda batch: batch.column(RECORD_KEY))
    entries = LogScan(storage, logs, times.__contains__).entries(columns)
    return (
        pa.array([], pa.string())
        if entries is None
        else entries.keys.filter(pa.array(~entries.listed)).combine_chunks()
    )
