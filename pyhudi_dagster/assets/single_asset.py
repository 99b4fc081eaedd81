"""``@hudi_asset``: a function that returns rows becomes an asset whose materialization is one commit of one table.

The decorator builds an ordinary ``AssetsDefinition`` on `dagster.multi_asset`; the decorator passes on everything that an asset can have (owners,
groups, tags, automation conditions, retry policies, resources, config, inputs). Arguments that cannot work are refused when the code location loads
(`asset_arguments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import Operation
from pyhudi_dagster.assets.asset_arguments import AssetArguments, Inputs, asset_spec, inputs_of
from pyhudi_dagster.assets.asset_function import AssetFunction
from pyhudi_dagster.assets.asset_step import HudiAsset
from pyhudi_dagster.assets.io_manager import io_manager_of
from pyhudi_dagster.assets.outputs import HudiOutput, hudi_output
from pyhudi_dagster.assets.translator import HudiTranslator
from pyhudi_dagster.dagster_internals import with_resources
from pyhudi_dagster.lake import pre_commit as checks_before
from pyhudi_dagster.lake.info import HudiAssetInfo, step_name
from pyhudi_dagster.lake.pre_commit import Validator
from pyhudi_dagster.lake.service_settings import Services
from pyhudi_dagster.partitions.asset_partitions import Backfill, ForeignRows, HudiPartitions
from pyhudi_dagster.reporting.checks import readable_spec


@refuses_wrong_types
def hudi_asset(
    *,
    key: dg.CoercibleToAssetKey | None = None,
    key_prefix: dg.CoercibleToAssetKeyPrefix | None = None,
    table: str | None = None,
    record_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table_type: str | None = None,
    schema: Any = None,
    options: Mapping[str, str] | None = None,
    operation: Operation = "upsert",
    partitions: HudiPartitions | None = None,
    backfill: Backfill | str | None = None,
    on_foreign_rows: ForeignRows = "fail",
    changes_of: Mapping[str, dg.CoercibleToAssetKey | dg.AssetsDefinition | dg.AssetSpec] | None = None,
    deps: Sequence[Any] = (),
    pre_commit: Sequence[Validator] = (),
    services: Services | None = None,
    lake: str = "lake",
    translator: HudiTranslator | None = None,
    column_lineage: Mapping[str, Sequence[str]] | None = None,
    **asset_arguments: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of a function that returns rows.

    The function returns a Spark DataFrame or Arrow data, or `HudiWrite` to choose the operation at run time, or None to skip: no
    commit and no event. A parameter annotated with `Changes` receives the changes of an upstream table since the last commit of this asset.

    Args (all other arguments are the arguments of `hudi_output`):
        backfill: ``"single_run"`` (the default: one commit for all partitions of a run), ``"per_partition"``, or ``chunked(n)``;
                alternatively pass Dagster's ``backfill_policy``.
        changes_of: maps a `Changes` parameter to its upstream asset (an asset, its spec or its key) if their names differ.
        lake: resource key of the `HudiLakeResource`.
        asset_arguments: all other arguments of an asset or of ``dagster.multi_asset``. ``name`` is the last part of the key, as in
                ``dagster.asset``; the default is the function's name.

    Raises `InvalidOptionError` for an invalid definition while the code location loads.
    """
    output = hudi_output(
        key=key,
        key_prefix=key_prefix,
        table=table,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        schema=schema,
        options=options,
        operation=operation,
        partitions=partitions,
        on_foreign_rows=on_foreign_rows,
        deps=deps,
        pre_commit=pre_commit,
        services=services,
        translator=translator,
        column_lineage=column_lineage,
        **asset_arguments,
    )
    return _Declared(output, backfill, changes_of or {}, lake).asset_of


@dataclass(frozen=True, slots=True)
class _Declared:
    """The arguments of the decorator, before it is applied to its function."""

    output: HudiOutput
    backfill: Backfill | str | None
    changes_of: Mapping[str, Any]
    lake: str

    @property
    def _name(self) -> str | None:
        """The given name of the asset: the last part of its key, as in ``dagster.asset``."""
        name: str | None = self.output.further.get("name")
        if name is not None and self.output.key is not None:
            raise definition_error(
                f"The asset {self.output.named(name).to_user_string()} has key= and name={name!r}",
                "Pass only one of them: a name is the last part of the key.",
            )
        return name

    def asset_of(self, function: Callable[..., Any]) -> dg.AssetsDefinition:
        """Return the asset of a function. Raises `InvalidOptionError` for an invalid definition."""
        output = self.output
        named = output.named(self._name or function.__name__)
        given = AssetArguments.of(named, output.further, self.backfill, output.partitions)
        spec, info = output.defined(named, function, given, self.lake)
        inputs = inputs_of(spec.key, function, self.changes_of, self.lake, given.ins)
        info = with_inputs(info, inputs)
        keys = given.resource_keys
        called = AssetFunction(function, inputs, self.lake, lake_by_key=keys is not None)
        made = dg.multi_asset(
            specs=[asset_spec(spec, info, inputs, output.deps, given)],
            check_specs=[*checks_before.check_specs(info.key, info.pre_commit), readable_spec(info.key)],
            can_subset=not info.pre_commit,  # with can_subset=True, a run could select the asset without its validators
            ins=inputs.loaded,
            name=step_name(info.key),
            partitions_def=output.partitions.definition if output.partitions else None,
            backfill_policy=given.backfill.policy if output.partitions else None,
            pool=given.pool or info.pool,
            required_resource_keys={*keys, self.lake} if keys is not None else None,
            **given.of_the_step,
        )(called.for_dagster(HudiAsset(called, info).run))
        return with_resources(made, io_manager_of(self.lake))


def with_inputs(info: HudiAssetInfo, inputs: Inputs) -> HudiAssetInfo:
    """Return the table with the upstream assets that were given by their keys."""
    return replace(info, reads=tuple(each.key for each in inputs.changes.values() if each.info is None))
