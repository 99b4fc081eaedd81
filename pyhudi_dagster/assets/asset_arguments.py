"""The arguments of ``@hudi_asset`` that it does not define itself, because they are arguments of Dagster.

Each argument is passed on to the spec, the step or the inputs of the asset, or is refused with an error that names the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.incremental import Changes
from pyhudi_core.orchestration.settings import refuse_empty
from pyhudi_dagster.assets.annotations import parameter_hints
from pyhudi_dagster.lake.info import HudiAssetInfo, info_of, refuse_unfit_kinds
from pyhudi_dagster.partitions.asset_partitions import Backfill, HudiPartitions, backfill_of
from pyhudi_dagster.reporting import metadata

_CONTEXT = frozenset({"_", "_context", "context", "context_"})
"""The parameter names that Dagster treats as the context if they come first."""
_OWN = frozenset({"key", "skippable", "deps", "partitions_def"})
_SPEC = frozenset(inspect.signature(dg.AssetSpec).parameters) - _OWN
_STEP = frozenset({"config_schema", "hooks", "op_tags", "resource_defs", "retry_policy"})
_SORTED = frozenset({"backfill_policy", "ins", "io_manager_key", "name", "pool", "required_resource_keys"})
_REFUSED: Mapping[str, str] = {
    "partitions_def": "Pass partitions=HudiPartitions.daily(...) or HudiPartitions.of(partitions_def, columns): it also names the partition "
    "columns of the table.",
    "check_specs": "A function that returns rows cannot return check results. Define them with @dg.asset_check(asset=...).",
    "outs": "A hudi_asset is one table. Use hudi_multi_asset for several.",
    "specs": "A hudi_asset is one table. Use hudi_multi_asset for several.",
    "can_subset": "A hudi_asset is one table, so it has no subset. hudi_multi_asset has can_subset=.",
    "io_manager_def": "Pass io_manager_key, and define the IO manager as a resource.",
}


@dataclass(frozen=True, slots=True)
class AssetArguments:
    """The arguments of Dagster for one asset, grouped by the part of the asset that receives the argument."""

    of_the_spec: Mapping[str, Any]
    of_the_step: Mapping[str, Any]
    backfill: Backfill
    ins: Mapping[str, dg.AssetIn]
    io_manager_key: str | None
    name: str | None
    pool: str | None
    resource_keys: frozenset[str] | None

    @classmethod
    def of(
        cls,
        key: dg.AssetKey,
        given: Mapping[str, Any],
        backfill: Backfill | str | None,
        partitions: HudiPartitions | None,
    ) -> AssetArguments:
        """Assign each argument to its receiver. Raises `InvalidOptionError` for an unknown or unusable argument."""
        for name in given:
            if name not in _SPEC | _STEP | _SORTED:
                hint = _REFUSED.get(
                    name,
                    "See pyhudi_dagster.hudi_asset, dagster.AssetSpec and dagster.multi_asset for the possible arguments.",
                )
                raise definition_error(f"The asset {key.to_user_string()} cannot take {name}=", hint)
        refuse_empty(
            f"The asset {key.to_user_string()}", {name: given.get(name) for name in ("pool", "io_manager_key")}
        )
        keys = given.get("required_resource_keys")
        return cls(
            of_the_spec={name: value for name, value in given.items() if name in _SPEC},
            of_the_step={name: value for name, value in given.items() if name in _STEP},
            backfill=_backfill(key, backfill, given.get("backfill_policy"), partitions),
            ins=dict(given.get("ins") or {}),
            io_manager_key=given.get("io_manager_key"),
            name=given.get("name"),
            pool=given.get("pool"),
            resource_keys=None if keys is None else frozenset(keys),
        )


def _backfill(
    key: dg.AssetKey, mode: Backfill | str | None, policy: dg.BackfillPolicy | None, partitions: HudiPartitions | None
) -> Backfill:
    if policy is None:
        return backfill_of(mode if mode is not None else "single_run")
    name = key.to_user_string()
    if mode is not None:
        raise definition_error(f"The asset {name} has backfill= and backfill_policy=", "Pass only one of them.")
    if partitions is None:
        raise definition_error(
            f"The asset {name} has a backfill_policy, but no partitions",
            "Pass partitions=HudiPartitions..., or no policy.",
        )
    return Backfill(policy.max_partitions_per_run)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The asset whose changes a parameter receives; ``info`` is set if the definition of this asset was passed."""

    key: dg.AssetKey
    info: HudiAssetInfo | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """The parameters of an asset's function, by the source of their values."""

    changes: Mapping[str, Upstream]
    loaded: Mapping[str, dg.AssetIn]
    context: str | None
    takes_lake: bool


def inputs_of(
    key: dg.AssetKey,
    function: Callable[..., Any],
    changes_of: Mapping[str, Any],
    lake: str,
    given: Mapping[str, dg.AssetIn],
) -> Inputs:
    """Find the source of each parameter: the context, the lake, `Changes`, config or resources. An IO manager gives all other parameters."""
    refuse_unfit_function(key, function)
    hints = parameter_hints(function)
    parameters = list(inspect.signature(function).parameters)
    context = _context_of(key, parameters, hints)
    incremental = [name for name in parameters if hints.get(name) is Changes]
    unknown = sorted(set(changes_of) - set(incremental))
    if unknown:
        raise definition_error(
            f"The asset {key.to_user_string()} has changes_of={', '.join(unknown)}, but no parameter annotated with Changes has this name",
            "Annotate the parameter with pyhudi_dagster.Changes.",
        )
    loaded = {}
    for name in parameters:
        if name in (context, lake) or name in incremental or _is_config_or_resource(hints.get(name)):
            continue
        described = given.get(name, dg.AssetIn())
        loaded[name] = described if described.key is not None else described._replace(key=dg.AssetKey(name))
    return Inputs(
        changes={name: _upstream(key, changes_of.get(name, name)) for name in incremental},
        loaded=loaded,
        context=context,
        takes_lake=lake in parameters,
    )


def refuse_unfit_function(key: dg.AssetKey, function: Callable[..., Any]) -> None:
    """Raise `InvalidOptionError` for a function that no step could call."""
    if inspect.isasyncgenfunction(inspect.unwrap(function)):
        raise definition_error(
            f"The function of the asset {key.to_user_string()} is an async generator",
            "Collect the rows in it and return them: an async function may return rows, and a generator without async may yield them.",
        )


def _context_of(key: dg.AssetKey, parameters: Sequence[str], hints: Mapping[str, Any]) -> str | None:
    """Return the parameter that receives the context. Raises `InvalidOptionError` for a context parameter that Dagster would treat as an input."""
    first = parameters[0] if parameters and parameters[0] in _CONTEXT else None
    for name in parameters:
        kind = hints.get(name)
        is_context = inspect.isclass(kind) and issubclass(kind, dg.AssetExecutionContext | dg.OpExecutionContext)
        if name != first and (is_context or name == "context"):
            raise definition_error(
                f"The asset {key.to_user_string()} has the parameter {name} for the context, which Dagster would take for an input",
                "Make it the first parameter, and name it context (or _context, context_, _).",
            )
    return first


def asset_spec(
    spec: dg.AssetSpec, info: HudiAssetInfo, inputs: Inputs, deps: Sequence[Any], given: AssetArguments
) -> dg.AssetSpec:
    """Return the translator's spec with the metadata of the table and all dependencies."""
    refuse_unfit_kinds(spec.key, spec.kinds)
    upstream = [each.key for each in inputs.changes.values()]
    loaded = [each.key for each in inputs.loaded.values() if each.key is not None]
    entries = {**metadata.definition_metadata(info), **spec.metadata, **info.metadata()}
    complete = spec.replace_attributes(deps=[*spec.deps, *deps, *upstream, *loaded], metadata=entries)
    return complete.with_io_manager_key(given.io_manager_key or io_manager_key(info.lake))


def io_manager_key(lake: str) -> str:
    """Return the resource key of the IO manager that reads the assets of a lake, for assets that name no IO manager."""
    return f"{lake}__io_manager"


def only_spec(asset: dg.AssetsDefinition, whose: str) -> dg.AssetSpec:
    """Return the spec of a definition with one asset. Raises `InvalidOptionError` for several assets, such as a hudi_multi_asset."""
    spec, *others = asset.specs
    if others:
        names = ", ".join(each.key.to_user_string() for each in asset.specs)
        raise definition_error(
            f"{whose} a definition of several assets: {names}",
            "Pass the spec of one: .get_asset_spec(dg.AssetKey(...)).",
        )
    return spec


def _upstream(key: dg.AssetKey, given: Any) -> Upstream:
    if isinstance(given, dg.AssetsDefinition):
        given = only_spec(given, f"The asset {key.to_user_string()} has changes_of=")
    if isinstance(given, dg.AssetSpec):
        return Upstream(given.key, info_of(given.key, given.metadata))
    if not isinstance(given, dg.AssetKey | str | Sequence):
        raise definition_error(
            f"The asset {key.to_user_string()} has changes_of={given!r}, which is no asset",
            "Pass an asset, its spec, or its key as a text or a list.",
        )
    return Upstream(dg.AssetKey.from_coercible(given))


def as_resource(hint: Any) -> Any:
    """Return the annotation by which Dagster treats a parameter as a resource, for any kind of Pipes client."""
    is_client = inspect.isclass(hint) and issubclass(hint, dg.PipesClient)
    return dg.ResourceParam[hint] if is_client else hint  # type: ignore[misc]


def _is_config_or_resource(hint: Any) -> bool:
    if inspect.isclass(hint):
        return issubclass(hint, dg.Config | dg.ConfigurableResource | dg.ConfigurableIOManager | dg.PipesClient)
    return "resource_param" in getattr(hint, "__metadata__", ())
