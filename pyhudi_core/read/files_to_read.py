"""Choose the files that a scan reads, and record why others are skipped: pruning by partition and by Parquet statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.secondary_index import has_one_text
from pyhudi_core.model.java_numbers import highest_widened, lowest_widened
from pyhudi_core.model.partition_path import parse_partition
from pyhudi_core.model.printing import printable
from pyhudi_core.predicates import ColumnStats, Condition, partition_stats
from pyhudi_core.predicates.equality import named_values
from pyhudi_core.read.pruning import (
    by_bloom_filters,
    by_column_stats,
    by_partition_stats,
    list_statistics,
    read_statistics,
)
from pyhudi_core.read.read_optimized import ReadOptimizedView
from pyhudi_core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
@printable
class PlanStep:
    """One step of planning, and how many items it kept."""

    name: str
    kept: int
    of: int

    def __str__(self) -> str:
        return f"{self.name}: {self.kept:,} of {self.of:,}"


@dataclass(frozen=True, slots=True)
@printable
class Explanation:
    """The result of each planning step of a scan. Prints as a list, and as a table in notebooks."""

    steps: tuple[PlanStep, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def __repr__(self) -> str:
        return f"Explanation: {', '.join(map(str, self.steps))}"

    def _shown(self) -> list[dict[str, object]]:
        return [{"step": step.name, "kept": step.kept, "of": step.of} for step in self.steps]


def choose_slices(
    snapshot: Snapshot, predicate: Condition | None, keys: pa.Array | None = None, *, utc: bool = False
) -> tuple[list[FileSlice], list[PlanStep]]:
    """Return the slices that can hold a matching row, by partition values, then by the metadata table.

    ``keys`` are the requested record keys, None for all; ``utc`` says that sessions in UTC wrote the expression indexes.
    """
    if predicate is not None:
        list_statistics(snapshot, predicate)
    partitions = snapshot.view.partitions()
    kept = [path for path in partitions if may_match(snapshot, predicate, path)]
    steps = [PlanStep("partitions", len(kept), len(partitions))]
    if snapshot.metadata is None:
        return snapshot.view.all_slices(kept), steps
    use = partial(_by_indexes, snapshot, predicate, keys, kept, list(steps), utc=utc)
    # An index that was dropped after this state was loaded is still correct for this state; it only saves work.
    return snapshot.metadata.unless_dropped(use) or (snapshot.view.all_slices(kept), steps)


def _by_indexes(
    snapshot: Snapshot,
    predicate: Condition | None,
    keys: pa.Array | None,
    kept: list[str],
    steps: list[PlanStep],
    *,
    utc: bool,
) -> tuple[list[FileSlice], list[PlanStep]]:
    """Return the slices that remain after pruning by the metadata table, and the planning steps with the new ones."""
    if predicate is not None:
        if kept:
            read_statistics(snapshot, predicate)
        by_stats = by_partition_stats(snapshot, predicate, kept, utc=utc)
        steps.append(PlanStep("partitions after partition statistics", len(by_stats), len(kept)))
        kept = by_stats
    slices = snapshot.view.all_slices(kept)
    if predicate is not None:
        chosen = by_column_stats(snapshot, predicate, slices, utc=utc)
        steps.append(PlanStep("slices after column statistics", len(chosen), len(slices)))
        slices = chosen
        found = by_secondary_index(snapshot, predicate, slices)
        if found is not None:
            steps.append(PlanStep("slices after secondary index", len(found), len(slices)))
            slices = found
    if keys is not None:
        chosen = by_bloom_filters(snapshot, keys, slices)
        steps.append(PlanStep("slices after bloom filters", len(chosen), len(slices)))
        slices = chosen
    return slices, steps


def may_match(snapshot: Snapshot, predicate: Condition | None, path: str) -> bool:
    """Say whether a partition, existing or not, can hold a matching row, by its values alone."""
    if predicate is None:
        return True
    config = snapshot.config
    stats = partition_stats(config.partition_fields, parse_partition(path, config), snapshot.schema)
    return not stats or predicate.could_match(stats)


def choose_row_groups(
    reader: BaseFileReader, predicate: Condition | None, schema: pa.Schema, constants: Collection[str] = ()
) -> list[int]:
    """Return the row groups of a file that can hold a matching row, by the statistics in its footer. Columns in
    ``constants`` have the folder's value instead.
    """
    rows = reader.row_group_rows
    if predicate is None:
        return list(range(len(rows)))
    names = [name for name in sorted(predicate.columns or schema.names) if name not in constants]
    own = frozenset(reader.schema.names)
    present = [name for name in names if name in own]
    ranges = reader.row_group_statistics(present)
    widened = {
        n for n in present if reader.schema.field(n).type == pa.float32() and schema.field(n).type == pa.float64()
    }
    absent = [name for name in names if name not in own]
    return [
        number
        for number, (count, known) in enumerate(zip(rows, ranges, strict=True))
        if predicate.could_match(
            {
                **{name: ColumnStats(None, None, count, count) for name in absent},
                **{name: _stats(r, count, widened=name in widened) for name, r in known.items()},
            }
        )
    ]


def _stats(known: ColumnRange, rows: int, *, widened: bool) -> ColumnStats:
    low, high = (lowest_widened(known.min), highest_widened(known.max)) if widened else (known.min, known.max)
    return ColumnStats(low, high, known.null_count, rows)


# --- prune slices by a secondary index: a condition that names values of an indexed column reads only the file groups of their record keys
# Specification, "Secondary Index". The index gives the record keys of the values, and the record index gives the file groups of these keys. The
# condition still filters each row. A read-optimized query returns rows without the changes in logs, but the index describes the changed rows.

_MOST_VALUES = 1_000
_MOST_KEYS = 100_000
"""The maximum number of keys: with more keys, opening the files costs less than looking up the keys."""


def by_secondary_index(snapshot: Snapshot, predicate: Condition, slices: Sequence[FileSlice]) -> list[FileSlice] | None:
    """Return the slices that can hold a matching row; None if no secondary index helps."""
    metadata = snapshot.metadata
    if isinstance(snapshot.view, ReadOptimizedView):
        return None
    if metadata is None or snapshot.bound is not None or len(slices) < 2 or not metadata.has(names.RECORD_INDEX):
        return None
    for index, values in _helping(snapshot, metadata, predicate):
        keys = metadata.few_record_keys_of(index, values, _MOST_KEYS)
        if keys is not None:
            places = metadata.record_locations(pa.array(keys, pa.string())) if keys else None
            groups = set() if places is None else _groups(places)
            return [piece for piece in slices if piece.group in groups]
    return None


def _helping(snapshot: Snapshot, metadata: MetadataTable, predicate: Condition) -> Iterator[tuple[str, list[str]]]:
    """Yield the secondary indexes on columns for which the condition names values, each with the texts of these values."""
    listed = {name for name in metadata.partitions if name.startswith(names.SECONDARY_INDEX_PREFIX)}
    columns = (predicate.columns or frozenset()) & {*snapshot.schema.names} - {*snapshot.config.partition_fields}
    if not listed or not columns:
        return
    for item in read_definitions(metadata.slices.storage, snapshot.config.index_defs_path):
        if item.name in listed and item.column in columns and not item.more:
            values = (
                named_values(predicate, item.column) if has_one_text(snapshot.schema.field(item.column).type) else None
            )
            if values is not None and len(values) <= _MOST_VALUES:
                yield item.name, [str(value) for value in values]


def _groups(places: pa.Table) -> set[tuple[str, str]]:
    return set(zip(places.column("partition").to_pylist(), places.column("file_id").to_pylist(), strict=True))
