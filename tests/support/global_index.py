"""A global index for tests, which finds keys in a dictionary, and write jobs that tests run directly."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.engine import Dataset, TaskInfo, engine_for
from pyhudi_core.index.base import TAGS, Group, Tagged
from pyhudi_core.model.meta_fields import FILE_NAME, IS_DELETED, PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.operation import OperationType
from pyhudi_core.snapshot.snapshot import build
from pyhudi_core.transaction.begin import begin_write
from pyhudi_core.transaction.rollback import roll_back
from pyhudi_core.write import pipeline
from pyhudi_core.write.pipeline import WriteJob
from pyhudi_core.write.prepare import prepare_keys, prepare_rows
from pyhudi_core.write.tasks import Written


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """Tags a row with the file group of its key, in any partition.

    ``moves``: a row of another partition than the stored one is given twice, as a delete there and as a new row in its own partition. The table has
    to have the column ``_hoodie_is_deleted``.
    """

    known: Mapping[str, Group]
    moves: bool = False

    @classmethod
    def of(cls, table: hudi.HudiTable, *, moves: bool = False) -> GlobalIndex:
        """Of the rows that the table has now."""
        found = table.scan(columns=[RECORD_KEY, PARTITION_PATH, FILE_NAME]).to_arrow().to_pylist()
        return cls({r[RECORD_KEY]: (r[PARTITION_PATH], r[FILE_NAME].partition("_")[0]) for r in found}, moves)

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """As `Index.tag`."""
        return Tagged(rows.map(_Tag(self.known, self.moves), pa.schema([*rows.schema, *TAGS])))

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let all writes use this index."""
        monkeypatch.setattr(pipeline, "index_of", lambda *arguments: self)


@dataclass(frozen=True)  # without slots: the pickles of PySpark 3.5 lose their values in classes that are sent by value
class _Tag:
    known: Mapping[str, Group]
    moves: bool

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [self.known.get(key) for key in batch.column(RECORD_KEY).to_pylist()]
            own = batch.column(PARTITION_PATH).to_pylist()
            moved = [place is not None and place[0] != path for place, path in zip(found, own, strict=True)]
            yield _with_tags(self._deleted(batch, moved), found)
            if self.moves and any(moved):
                yield _with_tags(batch.filter(pa.array(moved)), [None] * sum(moved))

    def _deleted(self, batch: pa.RecordBatch, moved: list[bool]) -> pa.RecordBatch:
        if not self.moves:
            return batch
        place = batch.schema.get_field_index(IS_DELETED)
        return batch.set_column(place, IS_DELETED, pa.array(np.array(moved)))


def _with_tags(batch: pa.RecordBatch, found: list[Group | None]) -> pa.RecordBatch:
    tags = [
        pa.array([place and place[0] for place in found], pa.string()),
        pa.array([place and place[1] for place in found], pa.string()),
        pa.nulls(len(found), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *tags], schema=pa.schema([*batch.schema, *TAGS]))


def written_by(job: WriteJob) -> Written:
    """Write the batch of a job."""
    tagged = job.tag()
    return job.write(tagged, job.plan(tagged))


@contextmanager
def job(
    table: hudi.HudiTable, operation: OperationType, data: object, spark: Any = None, *, key_changes: bool = False
) -> Iterator[WriteJob]:
    """The write job of one batch; its files are rolled back at the end."""
    context = table._opened.context()
    engine = engine_for(data, context.runtime.executor, spark)
    transaction = begin_write(context, operation.action_on(context.config.table_type), str(operation))
    snapshot = build(context.storage, context.folder, context.config, transaction.start)
    how = prepare_keys if operation is OperationType.DELETE else prepare_rows
    prepared = how(engine.dataset(data), context.config, snapshot.schema, context.table)
    try:
        with WriteJob(operation, engine, prepared, snapshot, transaction, key_changes) as made:
            yield made
    finally:
        prepared.rows.release()
        transaction.heartbeat.handle.cancel()
        roll_back(context, transaction.requested_time)
        transaction.heartbeat.stop(context)
