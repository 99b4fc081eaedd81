"""Find errors in the Hudi assets of a code location, when the code location loads. Only all definitions together show these errors.

``@hudi_asset`` checks its own definition. The decorator sees neither the lake, nor an upstream asset that was given only by its key. An IO manager
sees its assets only when a step runs. So a code location passes its definitions through `checked_definitions`. Without this call, the step raises the
same errors before anything is written.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import dagster as dg

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.assets.asset_arguments import io_manager_key
from pyhudi_dagster.assets.io_manager import HudiIOManager
from pyhudi_dagster.lake.info import INFO, HudiAssetInfo, info_of, step_name
from pyhudi_dagster.lake.names import SERVED, WATCHED
from pyhudi_dagster.lake.resource import HudiLakeResource

_MANAGER_OF_SPEC = "dagster/io_manager_key"
_DAGSTERS = (dg.FilesystemIOManager, dg.InMemoryIOManager)


def checked_definitions(definitions: dg.Definitions) -> dg.Definitions:
    """Return the definitions if their Hudi assets can work with each other and with their resources.

    Raises `InvalidOptionError` for an asset that

    - reads the changes of a missing asset;
    - has options, such as the options of its lock, that do not fit its lake;
    - has a `HudiIOManager`, but metadata without a record key, or partitions without partition columns;
    - takes a Hudi asset as a parameter without a suitable IO manager (Dagster's own IO manager looks for a pickled file); this applies to asset
      checks, too;

    and for a table, a check or a name that two calls of a builder, such as `build_hudi_services` or `build_hudi_checks`, share.

    Example:
        defs = checked_definitions(dg.Definitions(assets=[orders], resources={"io_manager": HudiIOManager(lake=lake)}))
    """
    refuse_twins(definitions)
    refuse_unloadable(definitions)
    return checked_tables(definitions)


def refuse_twins(definitions: dg.Definitions) -> None:
    """Raise `InvalidOptionError` if two builders made definitions of one table, and if two jobs, schedules, sensors or steps have one name."""
    refuse_equal_names((key, "") for key in _with_steps(definitions))
    for entry, what in {SERVED: "look after", WATCHED: "report the commits of"}.items():
        having: dict[str, str] = {}
        for sensor in definitions.sensors or []:
            assets: Any = sensor.metadata[entry].value if entry in sensor.metadata else ()
            for asset in assets:
                if asset in having:
                    raise definition_error(
                        f"Two sensors, {having[asset]} and {sensor.name}, {what} the asset {asset}",
                        "Pass the asset to one of the two builders.",
                    )
                having[asset] = sensor.name
    for kind in ("jobs", "schedules", "sensors"):
        different = {id(each): each.name for each in getattr(definitions, kind) or []}
        for name in [name for name, count in Counter(different.values()).items() if count > 1]:
            raise definition_error(
                f"Two {kind} have the name {name}",
                "Pass name= to one of the calls that make them, such as name='large_tables'; give two lakes two resource keys.",
            )
    checks = Counter(key for each in definitions.asset_checks or [] for key in each.check_keys)
    for key in [key for key, count in checks.items() if count > 1]:
        raise definition_error(
            f"The asset {key.asset_key.to_user_string()} has the check {key.name} twice",
            "Pass the check of an asset to one build_hudi_checks.",
        )


def refuse_equal_names(assets: Iterable[tuple[dg.AssetKey, str]]) -> None:
    """Raise `InvalidOptionError` for two assets whose steps and jobs would have one name, such as ``a-b`` and ``a_b``.

    ``assets``: the assets, each with a description for the error, such as ``of the component east``.
    """
    having: dict[str, str] = {}
    for key, whose in assets:
        named, described = step_name(key), f"{key.to_user_string()} {whose}".rstrip()
        if named in having:
            raise definition_error(
                f"The assets {having[named]} and {described} have steps and jobs of one name: {named}",
                "Change the key of one of them (key: in YAML); Dagster writes '-' as '_' in names, and '/' as '__'.",
            )
        having[named] = described


def refuse_unloadable(definitions: dg.Definitions) -> None:
    """Raise `InvalidOptionError` for a parameter with a Hudi asset that no IO manager of these definitions can load."""
    resources = definitions.resources or {}
    specs = {spec.key: spec for spec in _specs(definitions)}
    for consumer in [*(definitions.assets or []), *(definitions.asset_checks or [])]:
        if not isinstance(consumer, dg.AssetsDefinition) or not consumer.is_executable:
            continue
        for name, key in consumer.node_keys_by_input_name.items():
            info = info_of(key, specs[key].metadata) if key in specs and INFO in specs[key].metadata else None
            taken = consumer.node_def.input_def_named(name)
            if info is None or taken.dagster_type.is_nothing or info.lake not in resources:
                continue
            manager = taken.input_manager_key or specs[key].metadata.get(_MANAGER_OF_SPEC) or "io_manager"
            found = resources.get(manager)
            own = manager == io_manager_key(info.lake)  # a @hudi_asset includes this IO manager
            if not own and (found is None or isinstance(found, _DAGSTERS)):
                raise definition_error(
                    f"{consumer.node_def.name} takes the Hudi asset {key.to_user_string()} as the parameter {name}, and no HudiIOManager loads it",
                    f"Add resources={{'{manager}': HudiIOManager(lake=...)}}, or name another one in ins={{'{name}': "
                    "dg.AssetIn(input_manager_key='...')}.",
                )


def checked_tables(definitions: dg.Definitions, elsewhere: Sequence[dg.AssetKey] = ()) -> dg.Definitions:
    """Return the definitions after all checks except the check of parameters: the IO manager of a parameter may be in other definitions.

    ``elsewhere``: assets of other definitions.
    """
    resources = definitions.resources or {}
    managers = {key for key, resource in resources.items() if isinstance(resource, HudiIOManager)}
    specs = list(_specs(definitions))
    known = [*(spec.key for spec in specs), *elsewhere]
    for asset in definitions.assets or []:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable:
            for name, key in asset.keys_by_output_name.items():
                output = asset.node_def.output_def_named(name)
                if output.io_manager_key in managers and not output.dagster_type.is_nothing:
                    _refuse_undescribed(asset.get_asset_spec(key))
    for spec in specs:
        info = info_of(spec.key, spec.metadata, spec.partitions_def)
        if info is not None:
            refuse_unknown_inputs(info, known)
            lake = resources.get(info.lake)
            if isinstance(lake, HudiLakeResource):
                lake.refuse_unfit(info)
    return definitions


def refuse_unknown_inputs(info: HudiAssetInfo, known: Sequence[dg.AssetKey]) -> None:
    """Raise `InvalidOptionError` if the asset reads the changes of an asset that is not in ``known``."""
    for key in info.reads:
        if key not in known:
            names = [each.to_user_string() for each in known]
            near = difflib.get_close_matches(key.to_user_string(), names, n=1)
            raise definition_error(
                f"The asset {info.key.to_user_string()} reads the changes of {key.to_user_string()}, which is no asset here",
                f"Did you mean {near[0]}? Name it in changes_of."
                if near
                else f"Name the asset in changes_of; for a table of another writer add hudi_external_asset({key.to_user_string()!r}).",
            )


def _with_steps(definitions: dg.Definitions) -> Iterator[dg.AssetKey]:
    """Yield the keys of the Hudi assets that have a step, a check or a job of their services, each once."""
    checked = {key.asset_key for each in definitions.asset_checks or [] for key in each.check_keys}
    for asset in definitions.assets or []:
        runs = isinstance(asset, dg.AssetsDefinition) and asset.is_executable
        for spec in (
            asset.specs
            if isinstance(asset, dg.AssetsDefinition)
            else [asset]
            if isinstance(asset, dg.AssetSpec)
            else []
        ):
            info = info_of(spec.key, spec.metadata) if INFO in spec.metadata else None
            if info is not None and (runs or info.services or spec.key in checked):
                yield spec.key


def _specs(definitions: dg.Definitions) -> Iterator[dg.AssetSpec]:
    for asset in definitions.assets or []:
        if isinstance(asset, dg.AssetsDefinition):
            yield from asset.specs
        elif isinstance(asset, dg.AssetSpec):
            yield asset


def _refuse_undescribed(spec: dg.AssetSpec) -> None:
    if info_of(spec.key, spec.metadata, spec.partitions_def) is None:
        raise definition_error(
            f"The asset {spec.key.to_user_string()} has no record key in its metadata",
            "Set metadata=hudi_metadata(record_key='column').",
        )
