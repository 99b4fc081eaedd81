"""The record index: find the file group of a key in the metadata table (specification, "Indexes", RECORD_INDEX).

The text of a key decides which file group of the record index has its entry. Rows are shuffled by these file groups, and a task reads only the HFile
blocks that may contain one of its keys. So the cost of a look-up grows with the batch, not with the table.

The index is global: a key has one location in the table. `Elsewhere` says what happens to a row whose key is in another partition.
Invariant: the index is read as of the state that the write started from (`MetadataSlices.of_state`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import SORT, TASK, Dataset, TaskInfo, dealt, runs, slotted, without_slots
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.base import TAGS, Tagged
from pyhudi_core.index.elsewhere import Elsewhere, OneRowAKey
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.file_groups import ByFileGroup
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """Finds keys in the record index.

    Args:
        index: the metadata table, as of the state that the write started from.
        slices: returns the newest slices of a partition of the data table; called only for the partitions of the batch.
        open_storage: opens the table's storage inside a task.
        tasks: the number of tasks.
        elsewhere: the treatment of rows whose key is in another partition.
        one_row: reduces rows with one key to one row, if keys are unique in the table.
    """

    index: MetadataSlices
    slices: Callable[[str], tuple[FileSlice, ...]]
    open_storage: Callable[[], Storage]
    tasks: int
    elsewhere: Elsewhere
    one_row: OneRowAKey

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows, as `Index.tag`. If keys of other partitions do not matter, looks up keys as `FilesIndex`."""
        whole: dict[str, str] = {}
        if self.elsewhere is Elsewhere.IGNORED:
            found = {partition: self.slices(partition) for partition in partitions}
            whole = {p: own[0].file_id for p, own in found.items() if len(own) == 1 and p not in exact}
            if not any(found[partition] for partition in found.keys() - whole.keys()):
                return Tagged(rows, whole)
        pieces = self.index.pieces(names.RECORD_INDEX)
        tasks = max(1, min(len(pieces), self.tasks))
        tagged = pa.schema([*rows.schema, *TAGS])
        by_group = ByFileGroup(RECORD_KEY, len(pieces), tasks)
        shuffled = rows.map(by_group, slotted(rows.schema)).shuffle(TASK, tasks, SORT)
        find = _Find(self.open_storage, self.index.own, self.index.data, tagged, self.elsewhere, self.one_row)
        return Tagged(shuffled.map(find, tagged, dealt(pieces, tasks)), whole)


@dataclass(frozen=True, slots=True)
class _Find:
    """Task function: adds `TAGS`. The payload has the task's file groups of the record index by their numbers."""

    open_storage: Callable[[], Storage]
    own: Timeline
    data: Timeline
    schema: pa.Schema
    elsewhere: Elsewhere
    one_row: OneRowAKey

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = MetadataTable(MetadataSlices(self.open_storage(), self.own, self.data), (names.RECORD_INDEX,))
        for number, run in runs(batches, SORT):
            rows = without_slots(run)
            if self.elsewhere is not Elsewhere.IGNORED:
                rows = self.one_row.of(rows)
            keys = rows.column(RECORD_KEY).combine_chunks()
            tags = self._tags(index.record_locations_in(task.payload[number], pc.unique(keys)), keys, rows)
            yield from pa.Table.from_arrays([*rows.columns, *tags], schema=self.schema).combine_chunks().to_batches()

    def _tags(self, known: pa.Table, keys: pa.Array, rows: pa.Table) -> list[pa.Array]:
        places = pc.index_in(keys, value_set=known.column("key").combine_chunks())
        partitions = known.column("partition").combine_chunks().take(places)
        if self.elsewhere is Elsewhere.IGNORED:
            same = pc.equal(partitions, rows.column(PARTITION_PATH).combine_chunks())
            places = pc.if_else(pc.fill_null(same, False), places, pa.scalar(None, places.type))
            partitions = known.column("partition").combine_chunks().take(places)
        file_ids = known.column("file_id").combine_chunks().take(places)
        return [partitions, file_ids, pa.nulls(len(rows), pa.int64())]
