"""Read one file slice that has logs: its base rows with the logs laid over them, filtered as the scan wants it.

Statistics of the base file prune nothing here: a base row that does not match may be replaced by a row that does, and the other way round.
Memory is bounded by the slice's logs in the wanted columns, and a batch of base rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader, conform
from pyhudi_core.merge.fold import CommitTimeRule, EventTimeRule, Rule, fold
from pyhudi_core.merge.log_entries import IS_DELETED
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.merge.ordering import orders_by_event_time
from pyhudi_core.merge.slice_merge import merge_slice
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import MergeMode, TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Merging:
    """How a table's rows are merged; a value that can be sent to tasks."""

    config: TableConfig

    @property
    def ordering(self) -> tuple[str, ...]:
        """The columns that decide; none if only the order of commits does."""
        return tuple(self.config.ordering_fields) if orders_by_event_time(self.config) else ()

    def rule(self) -> Rule:
        """The rule between two versions of a row. Raises `UnsupportedTableError` for mergers that are not known here."""
        if self.config.merge_mode is MergeMode.CUSTOM:
            raise UnsupportedTableError(
                "The table's rows are merged by code of its own (hoodie.record.merge.mode=CUSTOM)",
                hint="Read it with Hudi, or compact it with Hudi and read the base files.",
            )
        return EventTimeRule() if self.ordering else CommitTimeRule()

    def keys_of(self, batch: pa.RecordBatch) -> pa.Array:
        """The record keys of a batch."""
        if self.config.populate_meta_fields:
            return batch.column(RECORD_KEY)
        return record_keys(batch, self.config)

    def columns(self, wanted: pa.Schema, schema: pa.Schema) -> pa.Schema:
        """What must be read to merge and then give the wanted columns; in the order of the table's schema."""
        keys = (RECORD_KEY,) if self.config.populate_meta_fields else tuple(self.config.record_key_fields)
        names = {*wanted.names, *keys, *self.ordering, IS_DELETED}
        return pa.schema([item for item in schema if item.name in names])


def merged_batches(
    storage: Storage, piece: FileSlice, merging: Merging, wanted: pa.Schema, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice as they are now, in (at least) the wanted columns.

    Raises `CorruptionError` and its kinds, and `LimitExceededError`.
    """
    columns = merging.columns(wanted, schema)
    rule = merging.rule()
    scan = LogScan(storage, piece.logs, piece.requested_times.__contains__)
    entries = scan.entries(LogColumns(columns, merging.ordering, merging.keys_of))
    base = _base_batches(storage, piece, columns)
    if entries is None:
        yield from base
    else:
        yield from merge_slice(base, fold(entries, rule), rule, merging.keys_of, merging.ordering)


def _base_batches(storage: Storage, piece: FileSlice, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    if piece.base_file is None:
        return
    path = piece.base_file.path
    with storage.open_input(path) as source:
        for batch in BaseFileReader(source, path, columns.names).iter_batches():
            yield conform(batch, columns)
