"""The engine without Spark: Arrow tables in this process, tasks on the executor that was handed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, Source, TaskFunction, TaskInfo, sorted_counts
from pyhudi_core.errors import ConfigError, SchemaMismatchError
from pyhudi_core.runtime.base import Executor

_BATCH_ROWS = 65_536
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What Arrow calls the index of a pandas DataFrame that was filtered or sorted."""

Part = list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs tasks on the given executor."""

    executor: Executor
    cores: int = 1

    @property
    def in_process(self) -> bool:
        return True

    def dataset(self, data: object) -> Dataset:
        """Take anything that speaks the Arrow C stream interface, pandas included; its batches are spread over the cores."""
        table = as_table(data)
        batches = [batch for batch in table.to_batches(max_chunksize=_BATCH_ROWS) if batch.num_rows]
        width = max(1, min(self.cores, len(batches)))
        bounds = np.linspace(0, len(batches), width + 1).astype(int)
        parts = [batches[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
        return LocalDataset(self.executor, table.schema, lambda: parts)


@dataclass(slots=True)
class LocalDataset:
    """Tasks of batches, computed when first needed."""

    executor: Executor
    schema: pa.Schema
    compute: Callable[[], list[Part]]
    _kept: list[Part] | None = field(default=None)
    _keep: bool = False

    def source(self) -> Source | None:
        return None  # the rows are here, and are Arrow already

    def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
        def run(item: tuple[int, Part]) -> Part:
            number, part = item
            task = TaskInfo(number, payloads[number] if payloads else None)
            return [batch.cast(schema) if batch.schema != schema else batch for batch in fn(task, iter(part))]

        return LocalDataset(self.executor, schema, lambda: self.executor.map(run, list(enumerate(self.parts()))))

    def shuffle(self, by: str, tasks: int, sort_by: str) -> Dataset:
        def exchange() -> list[Part]:
            table = pa.Table.from_batches([batch for part in self.parts() for batch in part], self.schema)
            if table.num_rows == 0:
                return [[] for _ in range(tasks)]
            table = table.take(pc.sort_indices(table, sort_keys=[(by, "ascending"), (sort_by, "ascending")]))
            targets = table.column(by).to_numpy()
            edges = np.searchsorted(targets, np.arange(tasks + 1))
            pieces = (table.slice(start, end - start) for start, end in zip(edges[:-1], edges[1:], strict=True))
            return [piece.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS) for piece in pieces]

        return LocalDataset(self.executor, self.schema, exchange)

    def persist(self) -> Dataset:
        self._keep = True
        return self

    def release(self) -> None:
        self._kept = None

    def count_by(self, *columns: str) -> dict[tuple[str | None, ...], int]:
        rows = self.collect().select(list(columns))
        counts = rows.group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
        *values, numbers = (counts.column(name).to_pylist() for name in (*columns, "count_all"))
        return sorted_counts(zip(zip(*values, strict=True), numbers, strict=True))

    def collect(self) -> pa.Table:
        return pa.Table.from_batches([batch for part in self.parts() for batch in part], self.schema)

    def parts(self) -> list[Part]:
        """The batches of each task, computed now unless they are kept."""
        if self._kept is not None:
            return self._kept
        parts = self.compute()
        if self._keep:
            self._kept = parts
        return parts


def as_table(data: object) -> pa.Table:
    """Data that speaks the Arrow C stream interface as one table; the unnamed index of a pandas DataFrame is no column.

    Raises `ConfigError` for anything else, and `SchemaMismatchError` if its values do not become Arrow's.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if type(data).__module__.startswith("pandas."):
            table = pa.table(data)
            return table.select([name for name in table.schema.names if not _UNNAMED_INDEX.fullmatch(name)])
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"The data cannot be read as Arrow: {'; '.join(map(str, error.args))}",
            hint="Look at where the data comes from; each column takes values of one type.",
        ) from error
    raise ConfigError(
        f"Data of type {type(data).__module__}.{type(data).__qualname__} cannot be written",
        hint="Give a PySpark DataFrame, or anything with the Arrow C stream interface: a pyarrow Table, RecordBatch or "
        "RecordBatchReader, a pandas or polars DataFrame, a DuckDB relation.",
    )
