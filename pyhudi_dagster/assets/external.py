"""Tables of other writers as external assets. Dagster does not materialize these tables, but the timeline sensor reports their commits."""

from __future__ import annotations

from typing import Any

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import TableSettings, refuse_empty
from pyhudi_dagster.lake.info import HudiAssetInfo, key_of_path, refuse_unfit_kinds, table_name
from pyhudi_dagster.lake.service_settings import Services
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions
from pyhudi_dagster.reporting import metadata


@refuses_wrong_types
def hudi_external_asset(
    key: dg.CoercibleToAssetKey,
    *,
    table: str | None = None,
    partitions: HudiPartitions | None = None,
    services: Services | None = None,
    table_type: str = "copy_on_write",
    lake: str = "lake",
    **spec: Any,
) -> dg.AssetSpec:
    """Return the external asset of a table that another program writes, such as Hudi's Spark writer.

    `Changes` parameters can read the asset. `build_hudi_timeline_sensor` reports the commits of the table. `build_hudi_services` and
    `build_hudi_checks` accept the asset.

    Args:
        key: asset key, also as a path: ``"web/events"``.
        table: name of the table below the warehouse; default: the asset key as a path.
        partitions: maps Dagster's partitions to the table's, so that a commit is reported for each partition that the commit changed.
        services: table services that Dagster runs, if the writer does not run them.
        table_type: type of the table, against which ``services`` are checked.
        lake: resource key of the `HudiLakeResource`.
        spec: all other arguments of `dagster.AssetSpec`.

    Raises `InvalidOptionError` for an invalid definition.
    """
    named = key_of_path(key) if isinstance(key, str) else dg.AssetKey.from_coercible(key)
    name = named.to_user_string()
    if "partitions_def" in spec:
        raise definition_error(
            f"The external asset {name} cannot take partitions_def=",
            "Pass partitions=HudiPartitions.daily(...) or HudiPartitions.of(partitions_def, columns).",
        )
    refuse_empty(f"The external asset {name}", {"table": table})
    if any(dep.asset_key == named for dep in map(dg.AssetDep.from_coercible, spec.get("deps") or ())):
        raise definition_error(f"The external asset {name} depends on itself", "Remove its key from deps.")
    settings = TableSettings(partition_by=partitions.columns if partitions else (), table_type=table_type)
    if services is not None:
        settings = services.applied_to(name, settings)
    info = HudiAssetInfo(named, table or table_name(named), settings, partitions, lake=lake, services=services)
    entries = {**metadata.definition_metadata(info), **dict(spec.pop("metadata", None) or {}), **info.metadata()}
    kinds = set(spec.pop("kinds", None) or {"hudi"})
    refuse_unfit_kinds(named, kinds)
    definition = partitions.definition if partitions else None
    return dg.AssetSpec(named, metadata=entries, kinds=kinds, partitions_def=definition, **spec)
