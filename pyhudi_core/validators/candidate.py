"""The input of a pre-commit validator: the staged commit, the table without it, and the table with it.

Rows are read only when a validator asks for them. Tasks of the engine that wrote the rows compute the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import TASK, Dataset, Engine, TaskInfo
from pyhudi_core.file_groups.row_counts import rows_of_slices
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.predicates import NotTrue, Predicate
from pyhudi_core.read import lookups, reads
from pyhudi_core.read.row_filter import SliceReader
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.snapshots import make_scan
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import storage_from_spec
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.attempt import Attempt
from pyhudi_core.write.result import CommitStats

SHOWN = 3
"""The number of rows that a finding shows."""

_FOUND = pa.schema([("rows", pa.int64()), ("shown", pa.string())])


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class FoundRows:
    """The rows that a validator found: their number, and the keys or values of the first ones."""

    rows: int = 0
    shown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.rows > 0

    def __str__(self) -> str:
        more = ", ..." if self.rows > len(self.shown) else ""
        return f"{self.rows:,} rows" + (f" ({', '.join(self.shown)}{more})" if self.shown else "")


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Candidate:
    """The staged commit that a validator examines.

    Attributes:
        attempt: the attempt, with all its files written.
        timeline: the table's timeline before the commit.
        engine: the engine that runs counts.
    """

    attempt: Attempt
    timeline: Timeline
    engine: Engine
    _before: list[Snapshot] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        return f"Candidate for {self.table}: {self.operation}, {self.stats.rows_said}"

    def _shown(self) -> dict[str, object]:
        return {"table": self.table, "operation": self.operation, "rows": self.stats.rows_said, **self.extra_metadata}

    @property
    def table(self) -> str:
        """The table's location."""
        return self.attempt.transaction.context.table

    @property
    def operation(self) -> str:
        """The operation, in Hudi's words: ``UPSERT``, ``COMPACT`` and others."""
        return self.attempt.metadata.operation or ""

    @property
    def is_service(self) -> bool:
        """Whether the commit is of a table service, which changes no rows."""
        return self.operation in SERVICE_OPERATIONS

    @property
    def stats(self) -> CommitStats:
        """Rows, files and bytes of the commit."""
        return CommitStats.of(self.attempt.metadata)

    @property
    def extra_metadata(self) -> dict[str, str]:
        """The extra metadata of the commit."""
        return dict(self.attempt.metadata.extra)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns after the commit, without the meta columns."""
        return self.attempt.schema

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that identify rows in findings: the record key. In tables without meta columns, these are the key columns or, without key
        columns, the first column.
        """
        config = self.attempt.transaction.context.config
        if config.populate_meta_fields:
            return (RECORD_KEY,)
        return config.record_key_fields or (self.schema.names[0],)

    @property
    def read_table(self) -> bool:
        """Whether a validator has also read the table, not only the written rows. If so, another commit can change the result."""
        return bool(self._before)

    def written(self, columns: Sequence[str] | None = None, where: object = None) -> Scan:
        """Return the rows that the commit changes or adds, in their new state; for a table service, the rows of its new files."""
        return reads.staged(self.attempt.transaction.context, self.attempt, columns, where)

    def before(self, columns: Sequence[str] | None = None, where: object = None) -> Scan:
        """Return the table without the commit."""
        return make_scan(self.attempt.transaction.context, self.snapshot, columns, where)

    def after(self, columns: Sequence[str] | None = None, where: object = None) -> Scan:
        """Return the table with the commit."""
        return reads.as_committed(self.attempt.transaction.context, self.attempt, self.snapshot, columns, where)

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table without the commit."""
        if not self._before:
            context = self.attempt.transaction.context
            executor = context.runtime.executor
            self._before.append(
                build(context.storage, context.folder, context.config, self.timeline, executor=executor)
            )
        return self._before[0]

    def among(self, found: Scan, column: str, values: Any) -> Scan:
        """Return the rows of a scan whose value in a column is one of the given values. Skips files that cannot contain such a value."""
        return lookups.joined(found, (values, column))

    def count(self, found: Scan) -> int:
        """Return the number of rows of a scan. Reads no rows if commits and footers have the number."""
        rows = found.rows
        if rows.predicate is None and rows.changed_by is None and rows.keys is None:
            known = rows_of_slices(self.attempt.transaction.context, found.slices())
            if known is not None:
                return known
        return self.find(found, shown=0).rows

    def find(self, found: Scan, shown: int = SHOWN) -> FoundRows:
        """Count the rows of a scan, and show the first ones with the columns of the scan."""
        return _summed(dataset_of(found, self.engine).map(partial(_counted, shown), _FOUND).collect(), shown)

    def violating(self, rule: str | Any, found: Scan) -> FoundRows:
        """Return the rows of a scan for which a condition (SQL text, or a ``pyarrow.compute.Expression``) is false or null."""
        predicate = Predicate.of(rule, found.rows.schema, self.attempt.transaction.context.options.condition_zone)
        limited = found if predicate is None else _limited(found, NotTrue(predicate))
        return self.find(limited)

    def repeated(self, found: Scan, shown: int = SHOWN) -> FoundRows:
        """Return the values that several rows of a scan have in its columns; ``rows`` counts these rows. Rows with a null are ignored.

        The rows are shuffled by their values, so each task holds only a part of the values.
        """
        rows = dataset_of(found, self.engine)
        tasks = max(1, min(len(found.slices()), self.engine.cores))
        slotted = pa.schema([*rows.schema, (TASK, pa.int32())])
        together = rows.map(partial(_by_value, tasks), slotted).shuffle(TASK, tasks)
        return _summed(together.map(partial(_repeats, shown), _FOUND).collect(), shown)


def _limited(found: Scan, condition: NotTrue) -> Scan:
    return replace(found, rows=replace(found.rows, predicate=condition), _chosen=[])


def _summed(found: pa.Table, shown: int) -> FoundRows:
    texts = sorted(found.column("shown").drop_null().to_pylist())
    return FoundRows(pc.sum(found.column("rows")).as_py() or 0, tuple(texts[:shown]))


def _counted(shown: int, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task function: counts rows, and makes texts of the first ones."""
    rows, texts = 0, list[str]()
    for batch in batches:
        rows += batch.num_rows
        if len(texts) < shown:
            texts += _texts(batch.slice(0, shown - len(texts)))
    yield _found(rows, texts)


def _by_value(tasks: int, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task function: returns rows without nulls, and the number of the task that gets all rows with the same values."""
    for batch in batches:
        kept = batch.drop_null()
        # Zero is added, so that -0.0 and 0.0, which are equal, have one text.
        columns = [pc.add(c, pa.scalar(0, c.type)) if pa.types.is_floating(c.type) else c for c in kept.columns]
        texts = pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), "\x1f")
        goes = (hash_keys(texts) % np.uint32(tasks)).astype(np.int32)
        yield pa.RecordBatch.from_arrays([*columns, pa.array(goes)], names=[*kept.schema.names, TASK])


def _repeats(shown: int, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task function: returns the values that several rows of the task have."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    rows = pa.Table.from_batches(held).drop_columns([TASK])
    counted = rows.group_by(rows.column_names, use_threads=False).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted.column("count_all"), 1))
    values = several.drop_columns(["count_all"]).slice(0, shown)
    texts = [text for batch in values.to_batches() for text in _texts(batch)]
    yield _found(pc.sum(several.column("count_all")).as_py() or 0, texts)


def _texts(rows: pa.RecordBatch) -> list[str]:
    """Return the rows of a finding as texts."""
    names = ["key" if name == RECORD_KEY else name for name in rows.schema.names]
    return [
        " ".join(f"{name}={value!r}" for name, value in zip(names, row.values(), strict=True))
        for row in rows.to_pylist()
    ]


def _found(rows: int, texts: list[str]) -> pa.RecordBatch:
    counts = [rows, *[0] * (max(1, len(texts)) - 1)]
    return pa.RecordBatch.from_arrays(
        [pa.array(counts, pa.int64()), pa.array(texts, pa.string()) if texts else pa.nulls(1, pa.string())],
        schema=_FOUND,
    )


# --- make a scan a dataset of an engine: tasks of the engine read its slices. Only collected rows come to the driver

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
