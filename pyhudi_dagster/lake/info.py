"""Maps an asset definition to its table: the name of the table and its settings.

The info object is in the metadata of the asset's spec, as dagster-dbt stores its manifest in the metadata of specs. The decorator, the IO manager,
inputs, `Changes` and events use it; no other module reads an asset's metadata. Dagster's UI shows the object as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, get_args

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import Operation, TableSettings, checked_operation, names
from pyhudi_dagster.lake.pre_commit import Validator, check_name
from pyhudi_dagster.lake.service_settings import Services
from pyhudi_dagster.partitions.asset_partitions import ForeignRows, HudiPartitions

INFO = "hudi/info"


@dataclass(frozen=True, slots=True)
class HudiAssetInfo:
    """The table of an asset.

    Attributes:
        key: the asset's key.
        table: the table's name below the warehouse.
        settings: the organisation of the table.
        partitions: maps the asset's partitions to the table's; None for an asset without partitions.
        on_foreign_rows: action for rows outside the partitions of a run.
        operation: the write operation, unless the asset returns another one at run time.
        lake: the key of the lake resource.
        services: the table services that Dagster runs; their options are in ``settings``.
        pre_commit: validators of each commit.
        reads: upstream assets (of `Changes`) that were given by their keys; `checked_definitions` looks for these assets.
        translated: whether a translator was given, for assets that can have one.
        column_lineage: the source columns of the table's columns, as the asset's definition states them.
    """

    key: dg.AssetKey
    table: str
    settings: TableSettings
    partitions: HudiPartitions | None = None
    on_foreign_rows: ForeignRows = "fail"
    operation: Operation = "upsert"
    lake: str = "lake"
    services: Services | None = None
    pre_commit: tuple[Validator, ...] = ()
    reads: tuple[dg.AssetKey, ...] = ()
    translated: bool | None = None
    column_lineage: dg.TableColumnLineage | None = None

    def __post_init__(self) -> None:
        name = self.key.to_user_string()
        if self.on_foreign_rows not in get_args(ForeignRows):
            raise definition_error(
                f"The asset {name} has on_foreign_rows={self.on_foreign_rows!r}",
                f"Use one of {', '.join(get_args(ForeignRows))}.",
            )
        if not str(self.lake).isidentifier() or iskeyword(str(self.lake)) or self.lake == "io_manager":
            raise definition_error(
                f"The asset {name} has lake={self.lake!r}, which cannot be the key of a resource",
                "Use letters, digits and underscores, such as 'archive'; the default is 'lake'.",
            )
        parts = self.table.split("/") if isinstance(self.table, str) else [""]
        if not all(parts) or {".", ".."} & set(parts):
            raise definition_error(
                f"The asset {name} has the table name {self.table!r}, which is not a path below the warehouse",
                "Use a name such as 'orders' or 'sales/orders'.",
            )
        self.settings.refuse_unfit(f"The asset {name}")

    @property
    def pool(self) -> str:
        """The pool of the steps that write the table. A pool's name has no spaces."""
        return f"hudi/{'_'.join(self.table.split())}"

    @property
    def services_job(self) -> str:
        """The name of the job of `build_hudi_services` for an asset with services."""
        return f"hudi__{step_name(self.key)}__services"

    @property
    def has_step(self) -> bool:
        """Whether a decorator made the asset. The step of such an asset reports whether the timeline can be read."""
        return self.translated is not None

    def metadata(self) -> dict[str, Any]:
        """Return the entry for the spec's metadata from which `info_of` restores this object."""
        return {INFO: InfoEntry(self)}

    def facts(self) -> dict[str, Any]:
        """Return the object as JSON, without unset values."""
        settings = self.settings
        entries = {
            "lake": self.lake,
            "table": self.table,
            "table_type": settings.kind,
            "record_key": list(settings.record_key),
            "partition_by": list(settings.partition_by),
            "ordering": settings.ordering,
            "operation": self.operation,
            "on_foreign_rows": self.on_foreign_rows if self.partitions else None,
            "pre_commit": [check_name(each) for each in self.pre_commit],
            "services": repr(self.services) if self.services else None,
        }
        return {name: value for name, value in entries.items() if value}


class InfoEntry(dict[str, Any]):
    """The info object as a metadata value. Dagster stores the entry as JSON; within this process the entry also contains the object."""

    def __init__(self, info: HudiAssetInfo) -> None:
        super().__init__(info.facts())
        self.info = info


class OptionsEntry(dict[str, Any]):
    """The options of a table as a metadata value. Dagster shows only the keys of the options, because a value may be a password. Within this process
    the entry also contains the values.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({"keys": sorted(options)})
        self.options = dict(options)


def step_name(key: dg.AssetKey) -> str:
    """Return the name of a step for an asset: its key, with only letters, digits and underscores, as Dagster requires."""
    return re.sub(r"[^A-Za-z0-9_]", "_", key.to_python_identifier())


def refuse_unfit_key(key: dg.AssetKey) -> None:
    """Raise `InvalidOptionError` for a key that no step or check of Dagster can have."""
    name = key.to_user_string()
    if step_name(key) != key.to_python_identifier():
        raise definition_error(
            f"The asset key {name!r} has characters that Dagster does not allow",
            f"Use letters, digits and underscores, and name the table apart: table={name!r}.",
        )


def refuse_unfit_kinds(key: dg.AssetKey, kinds: Collection[str]) -> None:
    """Raise `InvalidOptionError` for a kind that Dagster would take, and its UI could not show. Dagster checks other tags, but not kinds."""
    for kind in kinds:
        if not re.fullmatch(r"[A-Za-z0-9_.+#-]{1,63}", kind):
            raise definition_error(
                f"The asset {key.to_user_string()} has the kind {kind!r}",
                "Use 1 to 63 letters, digits and the characters '_', '-', '.', '+' and '#', such as 'duckdb'.",
            )


def key_of_path(path: str) -> dg.AssetKey:
    """Return the asset key that a path names, such as ``sales/orders``. Raises `InvalidOptionError` for a path with an empty part."""
    parts = path.split("/")
    if not all(part.strip() for part in parts):
        raise definition_error(
            f"{path!r} is not an asset key", "Write the parts of the key with '/' between them: sales/orders."
        )
    return dg.AssetKey(parts)


def table_name(key: dg.AssetKey) -> str:
    """Return the default table name of an asset: the parts of its key as a path."""
    return "/".join(key.path)


def info_of(
    key: dg.AssetKey, metadata: Mapping[str, Any] | None, partitions_def: dg.PartitionsDefinition[Any] | None = None
) -> HudiAssetInfo | None:
    """Return the table that a definition's metadata describes; None if the metadata describes no Hudi table.

    ``@hudi_asset`` and `hudi_metadata` store the object; a plain ``@dg.asset`` may describe its table with single entries: ``record_key``,
    ``partition_by``, ``fmt``, ``ordering``, ``table_type``, ``table``, ``options``, ``schema``, ``operation``, ``on_foreign_rows``.
    """
    entries = metadata or {}
    entry = entries.get(INFO)
    if isinstance(entry, InfoEntry):
        return entry.info
    if not entries.get("record_key"):
        return None
    columns = names(entries.get("partition_by"))
    options = entries.get("options", {})
    if partitions_def is not None and not columns:
        raise partitions_without_columns(key)
    return HudiAssetInfo(
        key=key,
        table=str(entries.get("table") or table_name(key)),
        settings=TableSettings(
            record_key=names(entries["record_key"]),
            partition_by=columns,
            ordering=entries.get("ordering"),
            table_type=entries.get("table_type"),
            schema=entries.get("schema"),
            options=options.options if isinstance(options, OptionsEntry) else dict(options),
        ),
        partitions=HudiPartitions.of(partitions_def, columns, fmt=entries.get("fmt")) if partitions_def else None,
        on_foreign_rows=entries.get("on_foreign_rows", "fail"),
        operation=checked_operation(str(entries.get("operation", "upsert"))),
    )


def partitions_without_columns(key: dg.AssetKey) -> Exception:
    """Return the error for a partitioned asset with an unpartitioned table: each partition would overwrite or hide the others."""
    return definition_error(
        f"The asset {key.to_user_string()} has partitions, but its metadata does not name the partition columns of its table",
        "Set hudi_metadata(partition_by='column') in its metadata, one column for each dimension, or use @hudi_asset(partitions=...).",
    )


@refuses_wrong_types
def hudi_metadata(
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table: str | None = None,
    table_type: str | None = None,
    operation: Operation = "upsert",
    on_foreign_rows: ForeignRows = "fail",
    schema: Any = None,
    options: Mapping[str, str] | None = None,
    fmt: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the metadata of a plain ``@dg.asset`` whose output `HudiIOManager` writes. The metadata describes the organisation of the table.

    ``fmt`` is the format of the partition columns for the times of the asset's partitions; for the default see `HudiPartitions.of`. Dagster's UI
    shows the keys of ``options``, but not the values, because a value may be a secret.

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
        "options": OptionsEntry(options) if options else None,
        "fmt": fmt,
    }
    return {name: value for name, value in given.items() if value}
