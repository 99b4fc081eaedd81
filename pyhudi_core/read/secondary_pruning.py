"""Prune slices by a secondary index: a condition that names values of an indexed column reads only the file groups of their record keys.

Specification, "Secondary Index". The index gives the record keys of the values, and the record index gives the file groups of these keys. The
condition still filters each row. A read-optimized query returns rows without the changes in logs, but the index describes the changed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.secondary_index import has_one_text
from pyhudi_core.predicates import Condition
from pyhudi_core.predicates.equality import named_values
from pyhudi_core.read.read_optimized import ReadOptimizedView
from pyhudi_core.snapshot.snapshot import Snapshot

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
