"""Errors of plain ``@dg.asset`` definitions that only Hudi knows, found when the code location loads.

``@hudi_asset`` checks itself. Dagster gives an IO manager no look at the assets that use it before a step has run, so a code location with
`HudiIOManager` passes its definitions through `checked_definitions`. Without it the same errors come at the step, before anything is written.
"""

from __future__ import annotations

import dagster as dg

from pyhudi_dagster.errors import definition_error
from pyhudi_dagster.info import info_of
from pyhudi_dagster.io_manager import HudiIOManager


def checked_definitions(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, if every asset that a `HudiIOManager` writes says how its table is organised.

    Raises `InvalidOptionError` for an asset without a record key, and for one with partitions whose table has no partition columns.

    Example:
        defs = checked_definitions(dg.Definitions(assets=[orders], resources={"io_manager": HudiIOManager(lake=lake)}))
    """
    resources = definitions.resources or {}
    hudi = {key for key, resource in resources.items() if isinstance(resource, HudiIOManager)}
    for asset in definitions.assets or []:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable:
            for name, key in asset.keys_by_output_name.items():
                output = asset.node_def.output_def_named(name)
                if output.io_manager_key in hudi and not output.dagster_type.is_nothing:
                    _check(asset.get_asset_spec(key))
    return definitions


def _check(spec: dg.AssetSpec) -> None:
    if info_of(spec.key, spec.metadata, spec.partitions_def) is None:
        raise definition_error(
            f"The asset {spec.key.to_user_string()} does not say what its record key is",
            "Give it metadata=hudi_metadata(record_key='column').",
        )
