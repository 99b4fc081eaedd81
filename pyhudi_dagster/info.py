"""From an asset definition to its table: the one place that says which table an asset is, and how it is organised.

The info object stands in the metadata of the asset's spec, as dagster-dbt keeps its manifest there. The decorator, the IO manager, inputs,
`Changes` and events read it from there; nothing else looks into an asset's metadata. In Dagster's UI it shows as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import dagster as dg

from pyhudi_dagster.errors import definition_error
from pyhudi_dagster.partitions import ForeignRows, HudiPartitions
from pyhudi_dagster.settings import Operation, TableSettings, checked_operation, names

INFO = "hudi/info"


@dataclass(frozen=True, slots=True)
class HudiAssetInfo:
    """The table of an asset.

    Attributes:
        key: the asset's key.
        table: the table's name below the warehouse.
        settings: how the table is organised.
        partitions: how the asset's partitions lie on the table's; None for an asset without partitions.
        on_foreign_rows: what happens to rows outside the partitions of a run.
        operation: how rows are written unless the asset chooses at run time.
        lake: the key of the lake resource.
    """

    key: dg.AssetKey
    table: str
    settings: TableSettings
    partitions: HudiPartitions | None = None
    on_foreign_rows: ForeignRows = "fail"
    operation: Operation = "upsert"
    lake: str = "lake"

    def __post_init__(self) -> None:
        name = self.key.to_user_string()
        if self.on_foreign_rows not in get_args(ForeignRows):
            raise definition_error(
                f"The asset {name} has on_foreign_rows={self.on_foreign_rows!r}",
                f"Use one of {', '.join(get_args(ForeignRows))}.",
            )
        parts = self.table.split("/") if isinstance(self.table, str) else [""]
        if not all(parts) or {".", ".."} & set(parts):
            raise definition_error(
                f"The asset {name} names the table {self.table!r}, which is not a path below the warehouse",
                "Give a name such as 'orders' or 'sales/orders'.",
            )

    def metadata(self) -> dict[str, Any]:
        """The entry of the spec's metadata from which `info_of` gives this object back."""
        return {INFO: InfoEntry(self)}

    def facts(self) -> dict[str, Any]:
        """The same as JSON, without what is not set."""
        settings = self.settings
        entries = {
            "lake": self.lake,
            "table": self.table,
            "table_type": settings.table_type,
            "record_key": list(settings.record_key),
            "partition_by": list(settings.partition_by),
            "ordering": settings.ordering,
            "operation": self.operation,
            "on_foreign_rows": self.on_foreign_rows if self.partitions else None,
        }
        return {name: value for name, value in entries.items() if value}


class InfoEntry(dict[str, Any]):
    """The info object as a metadata value: JSON for Dagster, which must be able to store it, with the object itself in this process."""

    def __init__(self, info: HudiAssetInfo) -> None:
        super().__init__(info.facts())
        self.info = info


def table_name(key: dg.AssetKey) -> str:
    """The table of an asset that names none: the parts of its key as folders."""
    return "/".join(key.path)


def info_of(
    key: dg.AssetKey, metadata: Mapping[str, Any] | None, partitions_def: dg.PartitionsDefinition[Any] | None = None
) -> HudiAssetInfo | None:
    """What a definition's metadata says about its table; None if it describes no Hudi table.

    ``@hudi_asset`` and `hudi_metadata` leave the object itself; a plain ``@dg.asset`` may describe its table by plain entries: ``record_key``,
    ``partition_by``, ``ordering``, ``table_type``, ``table``, ``options``, ``schema``, ``operation``, ``on_foreign_rows``.
    """
    entries = metadata or {}
    entry = entries.get(INFO)
    if isinstance(entry, InfoEntry):
        return entry.info
    if not entries.get("record_key"):
        return None
    columns = names(entries.get("partition_by"))
    if partitions_def is not None and not columns:
        raise partitions_without_columns(key)
    return HudiAssetInfo(
        key=key,
        table=str(entries.get("table") or table_name(key)),
        settings=TableSettings(
            record_key=names(entries["record_key"]),
            partition_by=columns,
            ordering=entries.get("ordering"),
            table_type=str(entries.get("table_type", "copy_on_write")),
            schema=entries.get("schema"),
            options=dict(entries.get("options", {})),
        ),
        partitions=HudiPartitions.of(partitions_def, columns) if partitions_def is not None else None,
        on_foreign_rows=entries.get("on_foreign_rows", "fail"),
        operation=checked_operation(str(entries.get("operation", "upsert"))),
    )


def partitions_without_columns(key: dg.AssetKey) -> Exception:
    """A partitioned asset whose table is not partitioned: each partition would overwrite or hide the others."""
    return definition_error(
        f"The asset {key.to_user_string()} has partitions, but does not say which columns of its table they are",
        "Give hudi_metadata(partition_by='column') in its metadata, one column for each dimension, or use @hudi_asset(partitions=...).",
    )


def hudi_metadata(
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table: str | None = None,
    table_type: str = "copy_on_write",
    operation: Operation = "upsert",
    on_foreign_rows: ForeignRows = "fail",
    schema: Any = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The metadata of a plain ``@dg.asset`` whose output `HudiIOManager` writes: how its table is organised.

    Example:
        @dg.asset(metadata=hudi_metadata(record_key="id", partition_by="day"), partitions_def=DAYS, io_manager_key="hudi")
        def orders() -> pa.Table: ...
    """
    given = {
        "record_key": list(names(record_key)),
        "partition_by": list(names(partition_by)),
        "ordering": ordering,
        "table": table,
        "table_type": table_type,
        "operation": checked_operation(operation),
        "on_foreign_rows": on_foreign_rows,
        "schema": schema,
        "options": dict(options or {}),
    }
    return {name: value for name, value in given.items() if value}
