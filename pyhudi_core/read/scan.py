"""Read one snapshot of a table, complete, filtered, or only the changed rows, as Arrow batches, an Arrow table or a Spark DataFrame. A scan reads
nothing until its rows are requested. It is pinned to one snapshot, so it returns the same rows every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.choice import frame_of, root_for
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, at_table, columns_named, needing
from pyhudi_core.file_groups.skeletons import open_base
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.lazy import lazy
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.conversions import Conversions
from pyhudi_core.read.engine_scan import EngineScan
from pyhudi_core.read.files_to_read import Explanation, PlanStep, choose_slices, may_match
from pyhudi_core.read.read_optimized import Staleness, staleness
from pyhudi_core.read.row_filter import RowFilter, SliceReader
from pyhudi_core.read.session_zones import refuse_other_zone
from pyhudi_core.read.tasks import Task, first_rows, tasks_for
from pyhudi_core.runtime.base import Executor
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    from pyhudi_core.read import duckdb_view
else:
    duckdb_view = lazy("pyhudi_core.read.duckdb_view")

_NAMED = 3
"""The maximum number of columns in the printed line of a scan."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Scan(Conversions):
    """A read of one pinned snapshot.

    ``written_by`` limits it to files that these instants wrote, ``partitions`` to these partitions, ``groups`` to these file groups.
    ``indexes_in_utc``: sessions in UTC wrote the expression indexes of the metadata table. ``most`` is the number of rows of `limit`.
    """

    snapshot: Snapshot
    storage: Storage
    executor: Executor
    rows: RowFilter
    written_by: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    groups: frozenset[tuple[str, str]] | None = None
    indexes_in_utc: bool = False
    most: int | None = None
    _chosen: list[list[FileSlice]] = field(default_factory=list, repr=False)

    @property
    def merging(self) -> Merging:
        """The merge settings for slices with logs."""
        return Merging(self.snapshot.config, self.snapshot.evolution, executor=self.executor)

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.rows.result_schema

    @property
    def completion_time(self) -> str:
        """The completion time of the newest commit in the scan: the cursor to pass as ``after`` next time."""
        return self.snapshot.completion_time

    def may_read(self, partition: str) -> bool:
        """Say whether rows of a partition, existing or not, could be part of the result."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        return may_match(self.snapshot, self.rows.predicate, partition)

    def with_keys_of(self, keys: Mapping[str, pa.Array]) -> Scan:
        """Return the same scan, limited to these partitions and to the record keys of each."""
        rows = replace(self.rows, keys_by_partition=keys)
        return replace(self, rows=rows, partitions=frozenset(keys), _chosen=[])

    def in_groups(self, groups: frozenset[tuple[str, str]]) -> Scan:
        """Return the same scan, limited to these file groups, each a (partition, file id)."""
        return replace(self, groups=groups, _chosen=[])

    def slices(self) -> list[FileSlice]:
        """Return the file slices to read, after pruning by partition and by the metadata table."""
        if not self._chosen:
            chosen, _ = self._choose()
            self._chosen.append([piece for piece in chosen if self._is_wanted(piece)])
        return self._chosen[0]

    def pinned(self) -> Scan:
        """Return the scan with its files chosen now. Later writes and cleans do not change this choice."""
        self.slices()
        return self

    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> Scan:
        """Return the same scan with fewer columns, and with an additional condition, which may use all of its columns.

        Raises `SchemaMismatchError` for a column that the scan does not have.
        """
        rows = self.rows
        if condition is not None:
            own = rows.predicate
            both = condition if own is None else own.expression & condition
            together = Predicate.of(both, rows.schema)
            text = None if own is None else own.text
            rows = replace(rows, predicate=None if together is None else replace(together, text=text))
        if columns is not None:
            unknown = [name for name in columns if name not in self.schema.names]
            if unknown:
                raise SchemaMismatchError(
                    f"The scan has no {columns_named(unknown)}",
                    table=self.storage.location,
                    hint=f"It has: {', '.join(self.schema.names)}.",
                )
            rows = replace(rows, columns=tuple(columns))
        wanted = {piece.path for piece in self.slices()}
        found = replace(self, rows=rows, _chosen=[])
        # The pinned files of this scan, without those that the new condition excludes.
        return replace(found, _chosen=[[piece for piece in found.slices() if piece.path in wanted]])

    def _limited(self, most: int) -> Scan:
        return replace(self, most=most)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows in batches; memory is bounded by one row group of one file and the logs of one slice."""
        return first_rows(self._all_batches(), self.most)

    def to_arrow(self) -> pa.Table:
        """Read all rows into one table. Files are read in parallel; if there are few files, columns, too."""
        if self.most is not None:
            return pa.Table.from_batches(list(self.to_batches()), self.schema)
        slices = self.slices()
        rows = replace(self.rows, threads=len(slices) < self.executor.workers)
        executor = self.executor.at_least(self.storage.capabilities.parallel_calls)
        read = executor.map(lambda piece: list(rows.read_slice(self.storage, piece, self.merging)), slices)
        return pa.Table.from_batches([batch for batches in read for batch in batches], self.schema)

    def to_dataset(self) -> Any:
        """Return the scan as a ``pyarrow.dataset.Dataset``: DuckDB reads only the columns that a query needs, and pushes its conditions down.

        The dataset has the columns, the condition and the table state of this scan. The rows of a scan with a `limit` are read now, because a query's
        conditions apply to these rows.
        """
        import pyarrow.dataset as ds  # noqa: PLC0415  (imports pandas, which takes a second)

        from pyhudi_core.read.dataset import ScanDataset  # noqa: PLC0415

        if self.most is not None:
            return ds.dataset(self.to_arrow())
        return ScanDataset(self)

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Make the scan a view of a DuckDB connection, by default of a new one. Returns the connection.

        Each query of the view reads only the columns and files that it needs, as with `to_dataset`. The rows are those of this scan; for newer
        rows, make the view again: it replaces the older one. Raises `MissingExtraError` if DuckDB is not installed, and `InvalidOptionError` if the
        name or the connection is not valid, or if the connection has a table, or a stored view, of this name.
        """
        if connection is None:
            with needing("duckdb", "to_duckdb()"):
                import duckdb  # noqa: PLC0415  (an extra)
            connection = duckdb.connect()
        if not isinstance(name, str) or not name or not hasattr(connection, "register"):
            raise InvalidOptionError(
                f"to_duckdb takes the name of a view and a connection, not {name!r} and {type(connection).__name__}",
                hint="Write scan.to_duckdb('orders', duckdb.connect('file.duckdb')).",
            )
        return duckdb_view.made(connection, name, self.to_dataset())

    def count(self) -> int:
        """Return the number of rows. A file whose rows all count is not read; of other files, only the deciding columns are read."""
        if self.most is not None:
            return Conversions.count(self)
        return sum(
            self.executor.map(lambda piece: self.rows.count_slice(self.storage, piece, self.merging), self.slices())
        )

    def to_spark(self, spark: Any) -> Any:
        """Return the rows as a DataFrame of this Spark session, classic or Spark Connect. Executors read them when the DataFrame is used.

        Conditions of the DataFrame on partition columns skip partitions. Slices with logs are read with all columns of the scan. Raises `ConfigError`
        if executors cannot run this package, and `PredicateError` if the condition means other rows in the session's time zone.
        """
        with at_table(self.storage.location):
            opened = partial(root_for, spark)
            parts = EngineScan(
                self.snapshot, self.storage, self.executor, self.rows, self.merging, self.slices(), opened
            )
            frame = frame_of(parts.reading(), spark, self.storage.location)
            self.refuse_other_zone(spark)
            return frame if self.most is None else frame.limit(self.most)

    def refuse_other_zone(self, spark: Any = None) -> None:
        """Raise `PredicateError` if the condition means other rows in the time zone of the given Spark session, or by default of this process's."""
        refuse_other_zone(self.rows.predicate, self.rows.schema, spark)

    def tasks(self, most_bytes: int = 0) -> list[Task]:
        """Return tasks that read the scan's slices: one for each slice, or for consecutive slices of at most ``most_bytes`` bytes together.

        A scan with a `limit` is one task, because tasks do not know how many rows the others have read.
        """
        reader = SliceReader(self.rows, self.merging)
        if self.most is not None:
            return [Task(self.storage.spec(), reader, tuple(self.slices()), self.most)]
        return tasks_for(self.storage, reader, self.slices(), most_bytes)

    def staleness(self) -> Staleness:
        """Return what a read-optimized scan of this state omits; reads the delete blocks of its logs."""
        return staleness(self.snapshot, self.storage)

    def explain(self) -> Explanation:
        """Return what each step of planning keeps. Reads the footers of the remaining files."""
        chosen, steps = self._choose()
        wanted = [piece for piece in chosen if self._is_wanted(piece)]
        groups = self.executor.map(self._row_groups, wanted)
        all_slices = self.snapshot.view.all_slices()
        return Explanation(
            (
                *steps,
                PlanStep("files", len(wanted), len(all_slices)),
                PlanStep("files after statistics", sum(1 for kept, _ in groups if kept), len(wanted)),
                PlanStep("row groups", sum(kept for kept, _ in groups), sum(total for _, total in groups)),
                PlanStep("columns", len(self.rows.read_schema.names), len(self.rows.schema.names)),
            )
        )

    def _all_batches(self) -> Iterator[pa.RecordBatch]:
        for piece in self.slices():  # chosen by `reads.scan`; reading a slice merges its logs with its base file
            yield from self.rows.read_slice(self.storage, piece, self.merging)

    def _choose(self) -> tuple[list[FileSlice], list[PlanStep]]:
        # If the record index has given the groups, bloom filters would add nothing.
        keys = (self.rows.probe if self.rows.keys is None else self.rows.keys) if self.groups is None else None
        return choose_slices(self.snapshot, self.rows.predicate, keys, utc=self.indexes_in_utc)

    def _is_wanted(self, piece: FileSlice) -> bool:
        if self.partitions is not None and piece.partition not in self.partitions:
            return False
        if self.groups is not None and piece.group not in self.groups:
            return False
        return self.written_by is None or not self.written_by.isdisjoint(piece.requested_times)

    def _row_groups(self, piece: FileSlice) -> tuple[int, int]:
        if piece.base is None:
            return (1, 1)
        with open_base(self.storage, piece.base.path) as reader:
            total = len(reader.row_group_rows)
            if piece.logs:
                return (total, total)
            if not self.rows.may_hold_keys(reader):
                return (0, total)
            return (len(self.rows.row_groups(reader, self.merging, piece)), total)

    def __str__(self) -> str:
        names = self.rows.columns
        columns = ", ".join(names) if len(names) <= _NAMED else f"{len(names):,} columns"
        where = " of rows that fit a condition" if self.rows.predicate is not None else ""
        most = f", at most {self.most:,} rows" if self.most is not None else ""
        read = f"{self.storage.location} as of {self.completion_time or 'its creation'}"
        return f"Scan of {columns}{where}{most}: {read}"

    def _shown(self) -> dict[str, object]:
        return {
            "table": self.storage.location,
            "as of": self.completion_time or "its creation",
            "columns": self.rows.columns,
            "condition": self.rows.predicate and str(self.rows.predicate.expression),
            "limit": self.most,
        }
