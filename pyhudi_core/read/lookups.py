"""Reads by key: point look-ups by record key and by secondary key, and semi-joins; the record index says which file groups to open."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError
from pyhudi_core.metadata_table.names import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import KeyGenerator
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.predicates import Predicate, SemiJoin
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.snapshots import Columns, make_scan, snapshot
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.context import TableContext

_MOST_LOOKED_UP = 100_000


SemiJoinOn = tuple[object, str]
"""Join keys, and the column that must be one of them."""


def joined(found: Scan, semi_join: SemiJoinOn | None) -> Scan:
    """The scan, limited to rows whose column is among the keys."""
    if semi_join is None:
        return found
    rows = found.rows
    also = rows.predicate if isinstance(rows.predicate, Predicate) else None
    limit = SemiJoin.of(*semi_join, rows.schema, also)
    return replace(found, rows=replace(rows, predicate=limit), _chosen=[])


def located(found: Scan) -> Scan:
    """The scan, limited to the file groups that the record index names for the record keys it asks for.

    It is as it was where there is no such index for its state, or where it does not ask for record keys.
    """
    metadata, keys = found.snapshot.metadata, _record_keys(found)
    if metadata is None or found.snapshot.bound is not None or not metadata.has(RECORD_INDEX):
        return found
    if keys is None or len(keys) > _MOST_LOOKED_UP:
        return found
    places = metadata.record_locations(keys.to_pylist())
    groups = zip(places.column("partition").to_pylist(), places.column("file_id").to_pylist(), strict=True)
    return found.in_groups(frozenset(groups))


def _record_keys(found: Scan) -> pa.Array | None:
    """The record keys that a scan is limited to; None if it is not."""
    limit = found.rows.predicate
    if found.rows.keys is not None:
        return found.rows.keys
    if not isinstance(limit, SemiJoin) or limit.values.type != pa.string():
        return None
    config = found.snapshot.config
    # Keys of a COMPLEX generator over one field look different in different releases of Hudi.
    plain = config.record_key_fields == (limit.column,) and config.keygenerator_type is not KeyGenerator.COMPLEX
    return limit.values if plain or limit.column == RECORD_KEY else None


def lookup(context: TableContext, keys: object, columns: Columns = None, index: str | None = None) -> Scan:
    """The rows with the given keys; ``keys`` holds the key columns, and the partition columns where they are known.

    With ``index`` the rows with the given values of a secondary index's column, which ``keys`` holds. Raises `InvalidOptionError` if
    there is no such index.
    """
    state = snapshot(context)
    given = as_table(keys)
    if index is not None:
        return _by_secondary_key(context, state, given, columns, index)
    config = context.config
    names = [
        name
        for name in dict.fromkeys((*config.record_key_fields, *config.partition_fields))
        if name in given.schema.names
    ]
    missing = [name for name in config.record_key_fields if name not in names]
    if missing:
        raise SchemaMismatchError(
            f"The keys have no column {', '.join(map(repr, missing))}",
            table=context.table,
            hint=f"Give the key columns: {', '.join(config.record_key_fields)}.",
        )
    batch = given.combine_chunks().to_batches()[0] if given.num_rows else given.schema.empty_table().to_batches()
    if not isinstance(batch, pa.RecordBatch):
        return make_scan(context, state, columns, None, keys=pa.array([], pa.string()))
    typed = cast_batch(batch.select(names), pa.schema([state.schema.field(name) for name in names]))
    wanted = pc.unique(record_keys(typed, config))
    found = located(make_scan(context, state, columns, None, keys=wanted))
    if config.is_partitioned and all(name in names for name in config.partition_fields):
        return found.in_partitions(frozenset(partition_paths(typed, config).to_pylist()))
    return found


def _by_secondary_key(context: TableContext, state: Snapshot, given: pa.Table, columns: Columns, index: str) -> Scan:
    name = index if index.startswith(SECONDARY_INDEX_PREFIX) else SECONDARY_INDEX_PREFIX + index
    metadata = state.metadata
    if metadata is None or not metadata.has(name) or given.num_columns != 1:
        known = [
            p.removeprefix(SECONDARY_INDEX_PREFIX)
            for p in (metadata.partitions if metadata else ())
            if p.startswith(SECONDARY_INDEX_PREFIX)
        ]
        raise InvalidOptionError(
            f"There is no secondary index {index!r} to look {given.num_columns} columns up in",
            table=context.table,
            hint=f"The table has: {', '.join(known) or 'none'}; give keys with one column.",
        )
    column = given.schema.names[0]
    values = [str(value) for value in pc.unique(given.column(0)).drop_null().cast(pa.string()).to_pylist()]
    record = metadata.record_keys_of(name, values)
    found = located(make_scan(context, state, columns, None, keys=pa.array(record, pa.string())))
    # The index may be ahead of or behind a row's own value for a moment, so the value itself decides.
    return joined(found, (given.column(0), column))
