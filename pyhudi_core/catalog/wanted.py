"""Compute the catalog entries for a Hudi table, as Hudi's HiveSyncTool makes them: a pure function of the table's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.catalog.columns import hive_comment, hive_type, in_pieces, spark_schema
from pyhudi_core.catalog.objects import CatalogColumn, CatalogTable
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.properties import KeyGenerator, TableConfig, TableType
from pyhudi_core.options.catalog import GLUE, CatalogOptions, pairs_of

_FORMATS = "org.apache.hudi.hadoop."
READ_OPTIMIZED = f"{_FORMATS}HoodieParquetInputFormat"
REAL_TIME = f"{_FORMATS}realtime.HoodieParquetRealtimeInputFormat"
PROVIDER, SCHEMA = "spark.sql.sources.provider", "spark.sql.sources.schema"
LAST_COMMIT, LAST_COMPLETION = "last_commit_time_sync", "last_commit_completion_time_sync"
"""The parameters by which a sync knows what the catalog has: Hudi's tool writes and reads them, too."""
LAST_RESTORE = "pyhudi.last.restore.sync"
"""The completion time of the newest restore that a sync has seen. Hudi's tool does not change it."""
DROPS_PARTITIONS = "pyhudi.drops.partitions"
"""The marks of syncs that drop partitions, separated by semicolons: each the time in milliseconds, and a name of the sync."""
AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"


def is_hudi(table: CatalogTable) -> bool:
    """Say whether a table of a catalog is a Hudi table. Any tool may have created it."""
    by_provider = table.parameters.get(PROVIDER, "").lower() == "hudi"
    return by_provider or table.input_format in (READ_OPTIMIZED, REAL_TIME) or LAST_COMMIT in table.parameters


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """The state of a table that determines the objects of a catalog.

    Attributes:
        location: the table's location, in the catalog's form.
        schema: its columns, without meta columns.
    """

    location: str
    config: TableConfig
    schema: pa.Schema


def tables_of(state: SyncedTable, options: CatalogOptions) -> tuple[CatalogTable, ...]:
    """Return the tables. Raises `UnsupportedTableError` for base files that are not Parquet."""
    config, name = state.config, (options.table or state.config.name).lower()
    if config.base_file_format.lower() != "parquet" or config.several_formats:
        raise UnsupportedTableError(
            f"A sync to a catalog takes Parquet files, and the table has {config.base_file_format}",
            table=state.location,
            hint="Nothing was changed in the catalog.",
        )
    if config.table_type is TableType.COPY_ON_WRITE:
        return (_table(state, options, name, real_time=False),)
    if options.strategy != "ALL":
        return (_table(state, options, name, real_time=options.strategy == "RT"),)
    read_optimized = name if options.plain_ro else f"{name}_ro"
    names = {read_optimized: False, f"{name}_rt": True}
    if options.plain_snapshot and not options.plain_ro:
        names[name] = True
    return tuple(_table(state, options, each, real_time=real) for each, real in names.items())


def _table(state: SyncedTable, options: CatalogOptions, name: str, *, real_time: bool) -> CatalogTable:
    schema, fields = state.schema, set(state.config.partition_fields)
    if not options.no_meta_columns and state.config.populate_meta_fields:
        schema = with_meta_fields(schema, operation=state.config.operation_field)
    comments = state.config.rules.comments if options.comments else {}
    columns = tuple(
        CatalogColumn(
            each.name.lower(),
            hive_type(each.type, timestamps=options.timestamps),
            hive_comment(comments.get(each.name, "")),
        )
        for each in schema
        if each.name not in fields
    )
    serde = {"serialization.format": "1", **pairs_of("serde_properties", options.serde_properties)}
    parameters = {} if options.managed else {"EXTERNAL": "TRUE"}
    if options.data_source:
        serde |= {"path": state.location}
        serde |= {AS_READ_OPTIMIZED: str(not real_time and state.config.table_type is TableType.MERGE_ON_READ).lower()}
        parameters |= _for_spark(state.config, schema, comments, options.schema_piece)
    if options.mode == GLUE:
        parameters["hudi.metadata-listing-enabled"] = str(options.metadata_listing).upper()
    return CatalogTable(
        database=options.database.lower(),
        name=name,
        columns=columns,
        partition_keys=_partition_keys(state, options),
        location=state.location,
        input_format=REAL_TIME if real_time else READ_OPTIMIZED,
        parameters={**parameters, **pairs_of("table_properties", options.table_properties)},
        serde_parameters=serde,
        managed=options.managed,
    )


def _for_spark(config: TableConfig, schema: pa.Schema, comments: Mapping[str, str], piece: int) -> dict[str, str]:
    """Return the parameters by which Spark finds a table of Hudi's data source. Partition columns are last in its schema."""
    fields = [schema.field(name) for name in config.partition_fields if name in schema.names]
    others = [each for each in schema if each.name not in set(config.partition_fields)]
    found = {PROVIDER: "hudi", **in_pieces(SCHEMA, spark_schema([*others, *fields], comments), piece)}
    if config.partition_fields:
        found[f"{SCHEMA}.numPartCols"] = str(len(config.partition_fields))
        found |= {f"{SCHEMA}.partCol.{n}": name for n, name in enumerate(config.partition_fields)}
    return found


def _partition_keys(state: SyncedTable, options: CatalogOptions) -> tuple[CatalogColumn, ...]:
    """Return the keys with the types of their columns.

    The type is ``string`` for folders that cannot be parsed as the column's type, such as formatted times.
    """
    config = state.config
    alone = config.keygenerator_type is KeyGenerator.TIMESTAMP
    keys = []
    for place, name in enumerate(config.partition_fields):
        formatted = alone or config.partition_types[place : place + 1] == ("TIMESTAMP",)
        index = state.schema.get_field_index(name)
        known = None if formatted or index < 0 else state.schema.field(index).type
        kind = "string" if known is None or pa.types.is_timestamp(known) else hive_type(known, timestamps=True)
        comment = hive_comment(config.rules.comments.get(name, "")) if options.comments else ""
        keys.append(CatalogColumn(name.lower(), kind, comment))
    return tuple(keys)
