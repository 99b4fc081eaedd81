"""Reads by key: look-ups by record key and by secondary key, and semi-joins. The record index gives the file groups to open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import (
    ConfigError,
    HudiError,
    InvalidOptionError,
    InvalidPartitionValueError,
    SchemaMismatchError,
    UnsupportedTableError,
    columns_named,
)
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.names import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import KeyGenerator, TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.predicates import Predicate, SemiJoin
from pyhudi_core.predicates.equality import named_values
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.snapshots import Columns, make_scan, snapshot
from pyhudi_core.snapshot.snapshot import Snapshot

_MOST_LOOKED_UP = 100_000


SemiJoinOn = tuple[object, str]
"""The join keys, and the column whose value must be among them."""


def joined(found: Scan, semi_join: SemiJoinOn | None) -> Scan:
    """Limit a scan to rows whose column has one of the keys."""
    if semi_join is None:
        return found
    if not isinstance(semi_join, tuple) or len(semi_join) != 2 or not isinstance(semi_join[1], str):
        raise InvalidOptionError(
            "semi_join= takes a pair: the keys, and the column to compare with them",
            hint='For example semi_join=([1, 2], "customer").',
        )
    rows = found.rows
    also = rows.predicate if isinstance(rows.predicate, Predicate) else None
    limit = SemiJoin.of(*semi_join, rows.schema, also)
    return replace(found, rows=replace(rows, predicate=limit), _chosen=[])


def located(found: Scan) -> Scan:
    """Limit a scan to the file groups that the record index has for its record keys.

    Returns the scan unchanged if its state has no such index, if the index is being dropped, or if it has no condition on record keys.
    """
    metadata, keys = found.snapshot.metadata, _record_keys(found)
    if metadata is None or found.snapshot.bound is not None or not metadata.has(RECORD_INDEX):
        return found
    if keys is None or len(keys) > _MOST_LOOKED_UP:
        return found
    places = metadata.unless_dropped(partial(metadata.record_locations, keys))
    if places is None:
        return found
    groups = zip(places.column("partition").to_pylist(), places.column("file_id").to_pylist(), strict=True)
    return found.in_groups(frozenset(groups))


def probing(found: Scan) -> Scan:
    """Add the record keys in the condition of a scan, such as ``id = 'a'`` or ``id IN ('a', 'b')``, so that the scan skips files by these keys."""
    config, limit = found.snapshot.config, found.rows.predicate
    if not isinstance(limit, Predicate) or len(config.record_key_fields) != 1 or not config.populate_meta_fields:
        return found
    [column] = config.record_key_fields
    if _has_two_texts(config) or not _has_known_texts(config, found.snapshot.schema):
        return found
    values = named_values(limit, column)
    if values is None or not 0 < len(values) <= _MOST_LOOKED_UP:
        return found
    try:
        named = pa.array(values, found.snapshot.schema.field(column).type)
        texts = key_texts(pa.record_batch([named], [column]), config)
    except (pa.ArrowException, HudiError):
        return found  # no row has such a value, or the value has no text: the condition itself decides
    return located(replace(found, rows=replace(found.rows, probe=texts)))


def _record_keys(found: Scan) -> pa.Array | None:
    """Return the record keys to which a scan is limited; None if it is not limited."""
    limit = found.rows.predicate
    if found.rows.keys is not None:
        return found.rows.keys
    if found.rows.probe is not None:
        return found.rows.probe
    if not isinstance(limit, SemiJoin) or limit.values.type != pa.string():
        return None
    config = found.snapshot.config
    one = config.record_key_fields == (limit.column,) and not _has_two_texts(config)
    plain = one and _has_known_texts(config, found.snapshot.schema)
    return limit.values if plain or limit.column == RECORD_KEY else None


def lookup(context: TableContext, keys: object, columns: Columns = None, index: str | None = None) -> Scan:
    """Read the rows with the given keys; ``keys`` holds the key columns, and the partition columns if they are known.

    With ``index``, a secondary index, ``keys`` holds values of its column; read the rows with these values. Raises `InvalidOptionError` if
    the index does not exist.
    """
    state = snapshot(context)
    try:
        given = as_table(keys)
    except ConfigError as error:
        raise InvalidOptionError(
            f"lookup takes rows that hold the keys, not {type(keys).__name__}",
            table=context.table,
            hint=f"For example pa.table({{{(*context.config.record_key_fields, 'id')[0]!r}: [...]}}); with index= the column of the index.",
        ) from error
    if index is not None:
        return _by_secondary_key(context, state, given, columns, index).pinned()
    config = context.config
    if config.generates_keys and RECORD_KEY not in given.schema.names:
        raise InvalidOptionError(
            "The table has no key columns, so rows cannot be looked up by their values",
            table=context.table,
            hint=f'Read them with a condition: table.scan(where="..."). Rows of a scan can be looked up by their {RECORD_KEY}.',
        )
    if nested := nested_keys(config, state.schema):
        raise UnsupportedTableError(
            f"Keys in the nested {columns_named(nested)} are not looked up",
            table=context.table,
            hint='Read the rows with a condition: table.scan(where="...").',
        )
    names = [name for name in config.naming_fields if name in given.schema.names]
    missing = [name for name in config.record_key_fields if name not in names]
    if missing:
        raise SchemaMismatchError(
            f"The keys have no {columns_named(missing)}",
            table=context.table,
            hint=f"Give the key columns: {', '.join(config.record_key_fields)}.",
        )
    batch = given.combine_chunks().to_batches()[0] if given.num_rows else given.schema.empty_table().to_batches()
    if not isinstance(batch, pa.RecordBatch):
        return make_scan(context, state, columns, None, keys=pa.array([], pa.string()))
    stored = with_meta_fields(state.schema)
    typed = cast_batch(batch.select(names), pa.schema([stored.field(name) for name in names]))
    has_partition_values = config.is_partitioned and all(name in names for name in config.partition_fields)
    by_text = _has_known_texts(config, state.schema) or len(config.record_key_fields) > 1
    folders = _folders(typed, config) if has_partition_values and by_text else None
    where = _values_of(typed, config.partition_fields) if has_partition_values and folders is None else None
    found = located(make_scan(context, state, columns, where, keys=key_texts(typed, config) if by_text else None))
    if _has_two_texts(config) or not by_text:
        # One key may have the same text as another form of a different key, so the value itself decides.
        found = joined(found, (typed.column(config.record_key_fields[0]), config.record_key_fields[0]))
    return (found if folders is None else found.with_keys_of(folders)).pinned()


def _folders(keys: pa.RecordBatch, config: TableConfig) -> dict[str, pa.Array] | None:
    """Return the record keys by partition folder; None if Hudi's folder name for a value is uncertain, as for times."""
    try:
        paths = partition_paths(keys, config)
    except (InvalidPartitionValueError, UnsupportedTableError):
        return None
    return {path: key_texts(keys.filter(pc.equal(paths, path)), config) for path in pc.unique(paths).to_pylist()}


def _values_of(keys: pa.RecordBatch, columns: Sequence[str]) -> pc.Expression:
    """Return the condition that the columns have the values of the keys."""
    parts = [pc.field(name).isin(pc.unique(keys.column(name))) for name in columns]
    return reduce(and_, parts)


def nested_keys(config: TableConfig, schema: pa.Schema) -> list[str]:
    """Return the key columns that are nested in others, as Hudi allows: ``address.street``."""
    return [name for name in config.record_key_fields if name not in schema.names]


def _has_known_texts(config: TableConfig, schema: pa.Schema) -> bool:
    return not why_unknown_texts(config, schema)


def why_unknown_texts(config: TableConfig, schema: pa.Schema) -> str:
    """Return a text about a property of the table due to which the stored texts of its keys may differ from `key_texts`; empty if there is none."""
    if config.keygenerator_type in (KeyGenerator.OTHER, KeyGenerator.GLOBAL_DELETE):
        return f"the key generator {config.keygenerator_type.value}, which may write any text"
    kinds = [schema.field(name).type for name in config.record_key_fields if name in schema.names]
    timestamps = any(map(pa.types.is_timestamp, kinds))
    return "timestamps as keys, which operations of Hudi write in different ways" if timestamps else ""


def _has_two_texts(config: TableConfig) -> bool:
    """Say whether releases of Hudi write the record keys of the table in two ways."""
    return len(config.record_key_fields) == 1 and config.keygenerator_type is KeyGenerator.COMPLEX


def key_texts(keys: pa.RecordBatch, config: TableConfig) -> pa.Array:
    """Return the record keys in every form that the table may have, each once. See `why_unknown_texts`."""
    found = record_keys(keys, config)
    if _has_two_texts(config):
        found = pa.concat_arrays([found, record_keys(keys, config, complex_single_new_encoding=True)])
    return pc.unique(found)


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
            f"No secondary index {index!r} exists for a look-up of {given.num_columns} columns",
            table=context.table,
            hint=f"The table has: {', '.join(known) or 'none'}; give keys with one column.",
        )
    column = given.schema.names[0]
    _check_indexed(context, state, name, column)
    whole = make_scan(context, state, columns, None)
    limit = SemiJoin.of(given.column(0), column, whole.rows.schema, None)
    kind = limit.values.type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        # The index's text of other types depends on the release and the operation; statistics still prune files.
        return joined(whole, (limit.values, column))
    values = limit.values.cast(pa.string()).to_pylist()
    record = metadata.unless_dropped(partial(metadata.record_keys_of, name, values))
    if record is None:
        return joined(whole, (limit.values, column))
    found = located(make_scan(context, state, columns, None, keys=pa.array(record, pa.string())))
    # The index may be ahead of or behind a row's own value for a moment, so the value itself decides.
    return joined(found, (limit.values, column))


def _check_indexed(context: TableContext, state: Snapshot, name: str, column: str) -> None:
    """Raise `InvalidOptionError` if the index is defined on another column."""
    definitions = read_definitions(context.storage, state.config.index_defs_path)
    indexed = next((item.column for item in definitions if item.name == name), column)
    if indexed != column:
        raise InvalidOptionError(
            f"The secondary index {name.removeprefix(SECONDARY_INDEX_PREFIX)!r} is on column {indexed!r}, not on {column!r}",
            table=context.table,
            hint=f"Give keys with one column, {indexed!r}.",
        )
