"""``@hudi_multi_asset``: one function returns rows for several tables. Each table is an asset with its own commit.

The decorator is for one computation with several results: a file with orders and their lines, or one read of a source. Use ``@hudi_asset`` for tables
that share no computation, so that they run and fail independently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.assets.asset_arguments import AssetArguments, asset_spec, inputs_of
from pyhudi_dagster.assets.asset_function import AssetFunction
from pyhudi_dagster.assets.io_manager import io_manager_of
from pyhudi_dagster.assets.multi_step import HudiMultiAsset
from pyhudi_dagster.assets.outputs import HudiOutput
from pyhudi_dagster.assets.single_asset import with_inputs
from pyhudi_dagster.assets.translator import HudiTranslator
from pyhudi_dagster.dagster_internals import with_resources
from pyhudi_dagster.lake import pre_commit as checks_before
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.partitions.asset_partitions import Backfill, HudiPartitions
from pyhudi_dagster.reporting.checks import readable_spec


@refuses_wrong_types
def hudi_multi_asset(
    *,
    tables: Mapping[str, HudiOutput],
    partitions: HudiPartitions | None = None,
    backfill: Backfill | str | None = None,
    changes_of: Mapping[str, dg.CoercibleToAssetKey | dg.AssetsDefinition | dg.AssetSpec] | None = None,
    deps: Sequence[Any] = (),
    can_subset: bool = False,
    lake: str = "lake",
    translator: HudiTranslator | None = None,
    **asset_arguments: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make assets of a function that returns rows for several tables, as a dict: ``{"orders": rows, "lines": rows}``.

    Each value is as for a function of ``@hudi_asset``; a table without an entry is not written. **All tables change in one step, or none**: the rows
    are written and checked first, then one decision publishes the commits of all tables, with one completion time. Tables in different stores are
    published one after the other, in the order of ``tables``. If the commit of one table fails, the earlier commits are published and reported, and
    the step fails. A retry keeps the commits that are already published, and makes the missing commits.

    Args:
        tables: what `hudi_output` returns, by names; the name is the default asset key, and the key of the rows in the returned dict.
        partitions: partitions of all tables. An output may have its own partitions with other columns, but the Dagster partitions must be the same.
        backfill: as in `hudi_asset`; one commit for each table and run.
        changes_of: as in `hudi_asset`. Each table stores its own position. A table that is ahead of the other tables waits for the other tables.
        deps: other assets on which all assets of the step depend.
        can_subset: whether a run may select some of the tables (``context.selected_asset_keys``). Rows for the other tables are omitted.
        lake: resource key of the `HudiLakeResource`.
        translator: translator of the outputs that have no translator of their own.
        asset_arguments: arguments of `dagster.AssetSpec` for all outputs without such arguments of their own, and of ``dagster.multi_asset``.

    Raises `InvalidOptionError` for an invalid definition while the code location loads.
    """
    declared = _Declared(tables, partitions, backfill, changes_of or {}, deps, can_subset, lake, asset_arguments)
    return replace(declared, tables=declared.checked(translator)).assets_of


@dataclass(frozen=True, slots=True)
class _Declared:
    """The arguments of the decorator, before it is applied to its function."""

    tables: Mapping[str, HudiOutput]
    partitions: HudiPartitions | None
    backfill: Backfill | str | None
    changes_of: Mapping[str, Any]
    deps: Sequence[Any]
    can_subset: bool
    lake: str
    further: Mapping[str, Any]

    def checked(self, translator: HudiTranslator | None) -> dict[str, HudiOutput]:
        """Return the outputs with the shared settings. Raises `InvalidOptionError` for outputs that contradict each other."""
        if not isinstance(self.tables, Mapping) or not self.tables:
            raise definition_error(
                f"A hudi_multi_asset has tables={self.tables!r}",
                "Pass a dict: tables={'orders': hudi_output(record_key='id'), ...}.",
            )
        found: dict[str, HudiOutput] = {}
        for name, output in self.tables.items():
            if not isinstance(output, HudiOutput):
                raise definition_error(
                    f"The output {name} of a hudi_multi_asset is {output!r}", "Pass hudi_output(record_key='column')."
                )
            shared = output.with_partitions(self.partitions)
            found[name] = replace(shared, translator=shared.translator or translator)
        definitions = {name: output.partitions and output.partitions.definition for name, output in found.items()}
        first, *others = definitions
        for name in others:
            if definitions[name] != definitions[first]:
                raise definition_error(
                    f"The outputs {first} and {name} of a hudi_multi_asset have different partitions",
                    "A run has the same partitions for all its tables: pass partitions= to hudi_multi_asset, or make two assets.",
                )
        return found

    def assets_of(self, function: Callable[..., Any]) -> dg.AssetsDefinition:
        """Return the assets of a function. Raises `InvalidOptionError` for an invalid definition."""
        step_name = dg.AssetKey(function.__name__)
        partitions = next(iter(self.tables.values())).partitions
        shared = AssetArguments.of(step_name, self.further, self.backfill, partitions)
        inputs = inputs_of(step_name, function, self.changes_of, self.lake, shared.ins)
        specs, infos = [], {}
        for name, output in self.tables.items():
            given = self._given(name, output, shared)
            key = output.named(name)
            spec, info = output.defined(key, function, given, self.lake)
            infos[name] = with_inputs(info, inputs)
            specs.append(asset_spec(spec, infos[name], inputs, [*self.deps, *output.deps], given))
        _refuse_equal(infos)
        checks = [each for info in infos.values() for each in checks_before.check_specs(info.key, info.pre_commit)]
        checks += [readable_spec(info.key) for info in infos.values()]
        keys = shared.resource_keys
        called = AssetFunction(function, inputs, self.lake, lake_by_key=keys is not None)
        made = dg.multi_asset(
            specs=specs,
            check_specs=checks,
            ins=inputs.loaded,
            name=shared.name or function.__name__,
            can_subset=self.can_subset,
            partitions_def=partitions.definition if partitions else None,
            backfill_policy=shared.backfill.policy if partitions else None,
            pool=shared.pool or f"hudi/{function.__name__}",
            required_resource_keys={*keys, self.lake} if keys is not None else None,
            **shared.of_the_step,
        )(called.for_dagster(HudiMultiAsset(called, infos).run))
        return with_resources(made, io_manager_of(self.lake))

    def _given(self, name: str, output: HudiOutput, shared: AssetArguments) -> AssetArguments:
        """Return the spec arguments of one output, and the spec arguments of all outputs. Raises `InvalidOptionError` for an argument of the step."""
        key = output.named(name)
        own = AssetArguments.of(key, output.further, None, output.partitions)
        of_step = sorted(set(output.further) - set(own.of_the_spec) - {"io_manager_key"})
        if of_step:
            raise definition_error(
                f"The output {key.to_user_string()} cannot take {', '.join(of_step)}=, because its tables share one step",
                "Pass it to hudi_multi_asset.",
            )
        spec = {**shared.of_the_spec, **own.of_the_spec}
        return replace(own, of_the_spec=spec, io_manager_key=own.io_manager_key or shared.io_manager_key)


def _refuse_equal(infos: Mapping[str, HudiAssetInfo]) -> None:
    """Raise `InvalidOptionError` for two outputs with one asset key or one table."""
    found: dict[str, str] = {}
    for name, info in infos.items():
        for what in (f"the key {info.key.to_user_string()}", f"the table {info.table}"):
            if what in found:
                raise definition_error(
                    f"The outputs {found[what]} and {name} of a hudi_multi_asset both have {what}",
                    "Give each output its own key= and table=.",
                )
            found[what] = name
