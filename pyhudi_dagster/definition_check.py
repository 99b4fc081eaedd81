"""Finds Hudi errors in plain ``@dg.asset`` definitions when the code location loads.

``@hudi_asset`` checks its own definition. Dagster does not show an IO manager its assets before a step runs, so a code location with
`HudiIOManager` passes its definitions through `checked_definitions`. Otherwise the step raises the same errors, before anything is written.
"""

from __future__ import annotations

import dagster as dg

from pyhudi_dagster.errors import definition_error
from pyhudi_dagster.info import info_of
from pyhudi_dagster.io_manager import HudiIOManager


def checked_definitions(definitions: dg.Definitions) -> dg.Definitions:
    """Return the definitions if the metadata of every asset with a `HudiIOManager` describes its table.

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
            f"The asset {spec.key.to_user_string()} has no record key in its metadata",
            "Set metadata=hudi_metadata(record_key='column').",
        )
