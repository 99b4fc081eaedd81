"""The properties of a new table.

Format reference: timeline 1.4 (column DF), 1.5 and 1.6. The project's own choices: a UTC timeline, hive-style and url-encoded partitions, and no key
generator whose encoding differs between releases of Hudi.

Invariants
- one key field and several partition fields give CUSTOM, never COMPLEX: releases of Hudi encode a single COMPLEX key differently;
- the properties do not list a metadata table, because readers trust a listed metadata table; the first commit makes it if it is enabled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
from pyhudi_core.model.merge_mode import MIGRATED, PARTIAL_MODE
from pyhudi_core.model.properties import (
    CHECKSUM,
    DATABASE,
    FORMAT,
    INDEX_DEFINITIONS,
    NAME,
    POPULATE,
    MergeMode,
    TableConfig,
    TableType,
    checksum,
)
from pyhudi_core.model.safe_path import is_unicode

_LAST_WITH_PAYLOADS = 8
_PAYLOAD, _LEGACY = "hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"
_STRATEGY = "hoodie.record.merge.strategy.id"
_FIXED = {
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    POPULATE: "true",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.partition.metafile.use.base.format": "false",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.table.metadata.partitions.inflight": "",
    INDEX_DEFINITIONS: ".hoodie/.index_defs/index.json",
}


def new_table_config(
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    ordering: Sequence[str],
    table_type: TableType,
    create_schema_avro: str | None,
    *,
    hive_style: bool = True,
    url_encode: bool = True,
    database: str = "",
    timeline_timezone: str = "UTC",
    merge_mode: MergeMode | None = None,
    extra: Mapping[str, str] | None = None,
    version: int = 8,
) -> TableConfig:
    """Choose the properties of a new table.

    Args:
        name: the table's name.
        record_key: key columns; none if the keys of rows are generated.
        partition_by: partition columns, or none.
        ordering: columns that decide which version of a row is newer, or none.
        table_type: copy-on-write or merge-on-read.
        create_schema_avro: Avro JSON of the schema without meta columns, or None.
        hive_style: name folders ``field=value``.
        url_encode: write special characters of values as ``%XX``.
        database: database name, empty for none; it is part of the checksum.
        timeline_timezone: ``UTC`` or ``LOCAL``.
        merge_mode: None means event time if there is an ordering column, else commit time. For CUSTOM, ``extra`` names the merger.
        extra: further properties, stored unchanged.
        version: the version of the table format, 8 or 9.

    Raises:
        UnsupportedTableError: version 9 cannot store the payload class or the merger.
        InvalidOptionError: a column name is empty or repeated, the table name is empty, the merge mode does not fit the ordering, or generated keys
            contradict another property.
    """
    _check(name, record_key, partition_by, ordering)
    if not record_key:
        _check_generated(ordering, extra or {})
    given = dict(extra or {})
    if version > _LAST_WITH_PAYLOADS:
        merge_mode, given = _migrated(merge_mode, given, version, ordering)
    mode = _mode(merge_mode, ordering)
    properties = {
        NAME: name,
        **({DATABASE: database} if database else {}),
        "hoodie.table.type": table_type.value,
        **_FIXED,
        **_keys(record_key, partition_by),
        "hoodie.record.merge.mode": mode.value,
        **_of_version(version, mode, ordering),
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(url_encode).lower(),
        "hoodie.table.timeline.timezone": timeline_timezone,
        **({"hoodie.table.create.schema": create_schema_avro} if create_schema_avro else {}),
        **given,
    }
    properties[CHECKSUM] = checksum(properties)
    return TableConfig.from_properties(properties, table=name)


def _mode(wanted: MergeMode | None, ordering: Sequence[str]) -> MergeMode:
    mode = wanted or (MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING)
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        raise InvalidOptionError(
            "event-time ordering needs an ordering column",
            hint="Give ordering='column', or omit the merge mode for commit-time ordering",
        )
    return mode


def _migrated(
    mode: MergeMode | None, extra: dict[str, str], version: int, ordering: Sequence[str]
) -> tuple[MergeMode | None, dict[str, str]]:
    """Return the merge mode and the properties of version 9 for a payload class of version 8 (RFC-97).

    Raises `UnsupportedTableError` for a class without such a mode, and for a user's merger, and `InvalidOptionError` if the class requires other
    ordering columns.
    """
    payload, strategy = extra.pop(_PAYLOAD, ""), extra.pop(_STRATEGY, "")
    if not payload and (mode is not MergeMode.CUSTOM):
        return mode, extra
    if payload not in MIGRATED:
        raise UnsupportedTableError(
            f"A new table of version {version} whose rows are merged by {payload or strategy or 'a merger'} is not made by this release",
            hint="Create it with version 8, or with event-time or commit-time ordering. Nothing was created.",
        )
    said = MIGRATED[payload]
    if said.ordering and tuple(ordering) != said.ordering:
        raise InvalidOptionError(
            f"The payload class {payload} orders rows by {', '.join(said.ordering)} in version {version}",
            hint=f"Give ordering={list(said.ordering)!r}. Nothing was created.",
        )
    partial = {PARTIAL_MODE: said.partial} if said.partial else {}
    return said.mode, {**extra, _LEGACY: payload, **partial, **said.properties}


def _of_version(version: int, mode: MergeMode, ordering: Sequence[str]) -> dict[str, str]:
    """Return the properties of the version. Version 9 renames or omits some properties: only the mode decides how rows merge."""
    versions = dict.fromkeys(("hoodie.table.version", "hoodie.table.initial.version"), str(version))
    listed = ",".join(ordering)
    if version > _LAST_WITH_PAYLOADS:
        return {**versions, FORMAT: "native", **({"hoodie.table.ordering.fields": listed} if ordering else {})}
    return {
        **versions,
        **({"hoodie.table.precombine.field": listed} if ordering else {}),
        _STRATEGY: mode.strategy_id,
        _PAYLOAD: mode.payload_class,
    }


def _keys(record_key: Sequence[str], partition_by: Sequence[str]) -> dict[str, str]:
    partitions = ",".join(partition_by)
    if not partition_by:
        generator = "NON_PARTITION"
    elif len(record_key) > 1:
        generator = "COMPLEX"
    elif len(partition_by) == 1:
        generator = "SIMPLE"
    else:
        generator = "CUSTOM"
        partitions = ",".join(f"{field}:SIMPLE" for field in partition_by)
    return {
        **({"hoodie.table.recordkey.fields": ",".join(record_key)} if record_key else {}),
        "hoodie.table.partition.fields": partitions,
        "hoodie.table.keygenerator.type": generator,
    }


def _check(name: str, record_key: Sequence[str], partition_by: Sequence[str], ordering: Sequence[str]) -> None:
    if not name.strip() or any(character in name for character in "/\\\0\n\r") or not is_unicode(name):
        raise InvalidOptionError(
            f"the table name {name!r} is empty or holds a slash, a NUL, a line end or an incomplete character",
            hint="Give another name=",
        )
    for argument, fields in (("record_key", record_key), ("partition_by", partition_by), ("ordering", ordering)):
        refuse_unfit_columns(argument, fields)


def refuse_unfit_columns(argument: str, fields: Sequence[str]) -> None:
    """Raise `InvalidOptionError` for an empty or repeated name of a column, or a name that Hudi could not store in a list of columns."""
    bad = [field for field in fields if not field.strip() or "," in field or ":" in field]
    if bad:
        raise InvalidOptionError(
            f"{argument} names the column {bad[0]!r}, which is empty or holds a comma or a colon",
            hint="Hudi separates column names by commas; rename the column",
        )
    if len(set(fields)) != len(fields):
        raise InvalidOptionError(f"{argument} names a column twice: {', '.join(fields)}", hint="Name it once")


def _check_generated(ordering: Sequence[str], extra: Mapping[str, str]) -> None:
    """Raise `InvalidOptionError` for properties that a table without key columns cannot have, because its rows are never updated."""
    if ordering:
        raise InvalidOptionError(
            f"ordering={', '.join(ordering)} decides between two versions of a row, but a table without a record key has one of each",
            hint="Name the key columns in record_key=, or omit ordering=",
        )
    if extra.get(POPULATE) == "false":
        raise InvalidOptionError(
            f"{POPULATE}=false leaves out the column of the record key, but a table without key columns has its keys only there",
            hint="Name the key columns in record_key=, or omit the option",
        )
