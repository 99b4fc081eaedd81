"""``@hudi_asset``: a function that returns rows becomes an asset whose materialization is one commit of one table.

The decorator builds an ordinary ``AssetsDefinition`` on `dagster.multi_asset`; whatever an asset can have (owners, groups, tags, checks,
automation conditions, retry policies, resources, config, inputs) passes through. The function runs in the work thread of
`pyhudi_dagster.interrupts`, so that Terminate ends its Spark jobs too.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pyhudi_core.errors import ConfigError, DataError, UnsupportedTableError
from pyhudi_dagster import interrupts, metadata, writer
from pyhudi_dagster.errors import definition_error
from pyhudi_dagster.identity import identity_of, partition_keys_of
from pyhudi_dagster.incremental import Changes, changes_since
from pyhudi_dagster.partitions import Backfill, ForeignRows, HudiPartitions, backfill_of
from pyhudi_dagster.resource import HudiLakeResource
from pyhudi_dagster.settings import HudiWrite, Operation, TableSettings, checked_operation, names

_SPEC_ARGUMENTS = frozenset(inspect.signature(dg.AssetSpec).parameters) - {"key", "metadata", "skippable", "deps"}
_ORDINARY = inspect.Parameter.POSITIONAL_OR_KEYWORD
_NOT_RETRIED = (DataError, ConfigError, UnsupportedTableError)


@dataclass(frozen=True, slots=True)
class HudiAsset:
    """What the decorator was told, ready to run."""

    function: Callable[..., Any]
    target: writer.Target
    operation: Operation
    upstream: Mapping[str, dg.AssetKey]
    lake: str
    takes_context: bool
    takes_lake: bool

    def run(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> Iterator[dg.MaterializeResult[Any]]:
        """The step: adopt or write, then report."""
        lake: HudiLakeResource = inputs[self.lake]
        if not self.takes_lake:
            del inputs[self.lake]
        try:
            written = interrupts.interruptibly(lambda: self._write(context, lake, inputs), f"{self.target.name}")
        except _NOT_RETRIED as error:
            raise dg.Failure(
                description=f"{type(error).__name__}: {error}",
                metadata={"hudi/error": type(error).__name__, "hudi/hint": error.hint or ""},
                allow_retries=False,
            ) from error
        if written is not None:
            yield self._report(context, written)

    def _write(
        self, context: dg.AssetExecutionContext, lake: HudiLakeResource, inputs: dict[str, Any]
    ) -> writer.Written | None:
        keys = tuple(partition_keys_of(context))
        step = writer.Step(context.instance, context.run, identity_of(context, self.target.key), keys)
        found = writer.adopted(lake, self.target, step)
        if found is not None:
            context.log.info("commit %s of this attempt is there already; adopted", found.commit.instant.requested_time)
            return found
        changes = self._changes(lake)
        if self.upstream and not any(changes.values()):
            context.log.info("nothing has changed in %s since the last commit", ", ".join(self.upstream))
            return None
        arguments = {**inputs, **changes}
        result = self.function(context, **arguments) if self.takes_context else self.function(**arguments)
        request = result if isinstance(result, HudiWrite) else HudiWrite(result, self.operation)
        checked_operation(request.operation)
        step = writer.Step(step.instance, step.run, step.identity, keys, tuple(changes.values()))
        return writer.write(lake, self.target, request, step)

    def _changes(self, lake: HudiLakeResource) -> dict[str, Changes]:
        consumer = writer.existing(lake, self.target.name)
        return {
            name: changes_since(table_name(key), lake.table(table_name(key)), consumer)
            for name, key in self.upstream.items()
        }

    def _report(self, context: dg.AssetExecutionContext, written: writer.Written) -> dg.MaterializeResult[Any]:
        key = self.target.key
        facts = metadata.commit_metadata(self.target, written)
        partitions = self.target.partitions
        if partitions is not None:
            keys = partition_keys_of(context)
            facts, once = metadata.shared(facts, len(keys))
            for partition, entries in metadata.partition_metadata(partitions, keys, written):
                context.add_asset_metadata({**entries, **once}, asset_key=key, partition_key=partition)
                once = {}
            for event in foreign_events(self.target, written):
                context.log_event(event)
        return dg.MaterializeResult(
            asset_key=key,
            metadata=facts,
            data_version=dg.DataVersion(written.commit.completion_time),
            tags=event_tags(written),
        )


def hudi_asset(
    *,
    key: dg.CoercibleToAssetKey | None = None,
    table: str | None = None,
    record_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table_type: str = "copy_on_write",
    schema: Any = None,
    options: Mapping[str, str] | None = None,
    operation: Operation = "upsert",
    partitions: HudiPartitions | None = None,
    backfill: Backfill | str = "single_run",
    on_foreign_rows: ForeignRows = "fail",
    changes_of: Mapping[str, dg.CoercibleToAssetKey] | None = None,
    deps: Sequence[Any] = (),
    lake: str = "lake",
    metadata: Mapping[str, Any] | None = None,
    **asset_arguments: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of a function that returns rows.

    The function returns a Spark DataFrame or Arrow data, or `HudiWrite` to choose the operation at run time, or None to skip: no
    commit and no event. A parameter annotated with `Changes` gets what changed in that upstream table since this one's last commit.

    Args:
        key: asset key; the function's name if not given.
        table: name of the table below the warehouse; the asset key if not given.
        record_key, partition_by, ordering, table_type, schema, options: used when the table has to be created.
        operation: upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table, delete or delete_partitions.
        partitions: how Dagster's partitions lie on the table's; also gives ``partition_by``.
        backfill: ``"single_run"`` (one commit for all partitions of a run), ``"per_partition"``, or ``chunked(n)``.
        on_foreign_rows: what to do with rows outside the run's partitions: fail, drop, or allow.
        changes_of: asset keys of `Changes` parameters that are not called like their asset.
        lake: resource key of the `HudiLakeResource`.
        asset_arguments: all else that an asset or ``dagster.multi_asset`` takes.
    """
    checked_operation(operation)
    columns = names(partition_by) or (partitions.columns if partitions else ())
    settings = TableSettings(names(record_key), columns, ordering, table_type, schema, dict(options or {}))

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        asset_key = dg.AssetKey.from_coercible(key if key is not None else function.__name__)
        name = table or table_name(asset_key)
        _check(name, settings, partitions)
        target = writer.Target(asset_key, name, settings, partitions, on_foreign_rows)
        upstream = _upstream(function, changes_of or {})
        inputs = _inputs(function, {*upstream, lake}, asset_arguments.pop("ins", {}))
        loaded = [each.key for each in inputs.values() if each.key is not None]
        spec = _spec(function, target, [*deps, *upstream.values(), *loaded], metadata or {}, asset_arguments)
        parameters = inspect.signature(function).parameters
        asset = HudiAsset(
            function, target, operation, upstream, lake, next(iter(parameters), "") == "context", lake in parameters
        )
        return dg.multi_asset(
            specs=[spec],
            ins=inputs,
            name=asset_arguments.get("name") or asset_key.to_python_identifier(),
            partitions_def=partitions.definition if partitions else None,
            backfill_policy=backfill_of(backfill).policy if partitions else None,
            pool=asset_arguments.get("pool", f"hudi/{name}"),
            **_operation_arguments(asset_arguments),
        )(_compute(asset))

    return decorate


def table_name(key: dg.AssetKey) -> str:
    """The table of an asset key: its parts as folders."""
    return "/".join(key.path)


def event_tags(written: writer.Written) -> dict[str, str]:
    """The tags by which a materialization names its own commit."""
    return {"hudi/instant": written.commit.instant.requested_time, "hudi/completion": written.commit.completion_time}


def foreign_events(target: writer.Target, written: writer.Written) -> Iterator[dg.AssetMaterialization]:
    """Events for partitions outside the run that the commit touched as well, so that late data is seen downstream."""
    partitions = target.partitions
    if partitions is None or not written.foreign:
        return
    keys = sorted({key for key in map(partitions.key_of, written.foreign) if key is not None})
    for key, entries in metadata.partition_metadata(partitions, keys, written):
        tags = {**event_tags(written), "dagster/data_version": written.commit.completion_time}
        facts = {**metadata.commit_names(written), **entries, "hudi/late_data": True}
        yield dg.AssetMaterialization(asset_key=target.key, partition=key, metadata=facts, tags=tags)


def _check(name: str, settings: TableSettings, partitions: HudiPartitions | None) -> None:
    if not settings.record_key:
        raise definition_error(f"The asset of table {name} names no record key", "Give record_key='column' or a list.")
    missing = [column for column in (partitions.columns if partitions else ()) if column not in settings.partition_by]
    if missing or (partitions and partitions.columns != settings.partition_by):
        raise definition_error(
            f"The asset of table {name} is partitioned by {partitions.columns if partitions else ()}, "
            f"its table by {settings.partition_by}",
            "Leave partition_by away, or give the same columns in the same order.",
        )


def _upstream(function: Callable[..., Any], given: Mapping[str, dg.CoercibleToAssetKey]) -> dict[str, dg.AssetKey]:
    hints = typing.get_type_hints(function)
    wanted = [name for name in inspect.signature(function).parameters if hints.get(name) is Changes]
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        raise definition_error(
            f"changes_of names {', '.join(unknown)}, which is no parameter annotated with Changes",
            "Annotate the parameter with pyhudi_dagster.Changes.",
        )
    return {name: dg.AssetKey.from_coercible(given.get(name, name)) for name in wanted}


def _inputs(function: Callable[..., Any], others: set[str], given: Mapping[str, dg.AssetIn]) -> dict[str, dg.AssetIn]:
    """The parameters that an IO manager loads: all but the context, config, resources and `Changes`."""
    hints = typing.get_type_hints(function, include_extras=True)
    found = {}
    for name in inspect.signature(function).parameters:
        if name == "context" or name in others or _is_config_or_resource(hints.get(name)):
            continue
        described = given.get(name, dg.AssetIn())
        found[name] = described if described.key is not None else described._replace(key=dg.AssetKey(name))
    return found


def _is_config_or_resource(hint: Any) -> bool:
    if inspect.isclass(hint):
        return issubclass(hint, dg.Config | dg.ConfigurableResource | dg.ConfigurableIOManager)
    return "resource_param" in getattr(hint, "__metadata__", ())


def _spec(
    function: Callable[..., Any],
    target: writer.Target,
    deps: Sequence[Any],
    extra: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> dg.AssetSpec:
    given = {name: value for name, value in arguments.items() if name in _SPEC_ARGUMENTS}
    given.setdefault("description", inspect.getdoc(function))
    given.setdefault("kinds", {"hudi"})
    return dg.AssetSpec(
        target.key,
        deps=deps,
        metadata={**metadata.definition_metadata(target), **extra},
        skippable=True,
        **given,
    )


def _operation_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    taken = _SPEC_ARGUMENTS | {"name", "pool"}
    return {name: value for name, value in arguments.items() if name not in taken}


def _compute(asset: HudiAsset) -> Callable[..., Iterator[dg.MaterializeResult[Any]]]:
    """The function that Dagster calls: the user's parameters without the `Changes`, and the lake."""

    def compute(context: dg.AssetExecutionContext, **inputs: Any) -> Iterator[dg.MaterializeResult[Any]]:
        yield from asset.run(context, inputs)

    own = inspect.signature(asset.function)
    hints = typing.get_type_hints(asset.function)
    kept = [
        parameter.replace(annotation=hints.get(name, parameter.annotation), kind=_ORDINARY)
        for name, parameter in own.parameters.items()
        if name != "context" and name not in asset.upstream and name != asset.lake
    ]
    first = inspect.Parameter("context", _ORDINARY, annotation=dg.AssetExecutionContext)
    resource = inspect.Parameter(asset.lake, _ORDINARY, annotation=HudiLakeResource)
    compute.__signature__ = inspect.Signature([first, resource, *kept])  # type: ignore[attr-defined]
    compute.__name__ = asset.function.__name__
    compute.__module__ = asset.function.__module__
    compute.__doc__ = asset.function.__doc__
    return compute
