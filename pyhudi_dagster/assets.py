"""``@hudi_asset``: a function that returns rows becomes an asset whose materialization is one commit of one table.

The decorator builds an ordinary ``AssetsDefinition`` on `dagster.multi_asset`; it passes on everything that an asset can have (owners, groups,
tags, automation conditions, retry policies, resources, config, inputs). Arguments that cannot work are refused when the code location loads
(`asset_arguments`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.errors import PreCommitError, TableNotFoundError
from pyhudi_dagster import events, metadata, pipes, pre_commit, runner, writer
from pyhudi_dagster.annotations import parameter_hints
from pyhudi_dagster.asset_arguments import AssetArguments, Inputs, as_resource, asset_spec, inputs_of
from pyhudi_dagster.dagster_internals import current_context, metadata_of_asset
from pyhudi_dagster.errors import UpstreamMissingError, definition_error
from pyhudi_dagster.gaps import acceptance_of
from pyhudi_dagster.incremental import Changes, Reader, changes_since
from pyhudi_dagster.info import HudiAssetInfo, info_of, table_name
from pyhudi_dagster.late_data import report_late
from pyhudi_dagster.partitions import Backfill, ForeignRows, HudiPartitions
from pyhudi_dagster.pipes import HudiPipes
from pyhudi_dagster.pre_commit import Validator
from pyhudi_dagster.resource import HudiLakeResource
from pyhudi_dagster.service_settings import Services
from pyhudi_dagster.settings import HudiWrite, Operation, TableSettings, checked_operation, names
from pyhudi_dagster.translator import HudiTableDefinition, HudiTranslator

_OBSERVED = 10
"""Maximum number of partitions with an observation; a run without rows for more partitions writes only to the log."""
Results = dg.MaterializeResult[Any] | dg.AssetCheckResult
_ORDINARY = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, slots=True)
class HudiAsset:
    """The arguments of the decorator, ready to run."""

    function: Callable[..., Any]
    info: HudiAssetInfo
    inputs: Inputs
    lake_by_key: bool

    def run(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> Iterator[Results]:
        """The step: adopt or write, then report."""
        lake = self._lake(context, inputs)
        step = runner.step_of(context, self.info.key)
        rules = self.info.pre_commit
        try:
            found: Any = runner.run(step, lambda: self._write(context, step, lake, inputs))
        except dg.Failure as failure:
            if isinstance(failure.__cause__, PreCommitError):
                yield from pre_commit.answers(self.info.key, rules, failure.__cause__)
            raise
        written, remote = found, pipes.NOTHING
        if isinstance(found, HudiPipes):
            remote = pipes.run(context, step, lake, self.info, found)
            written = remote.written
        yield from remote.checks
        if written is not None and not written.is_empty:
            yield self._report(context, step, written, remote.metadata)
            # Not as a part of the result: in a direct call Dagster would not find them there.
            yield from pre_commit.passed(self.info.key, rules, "Asked before the commit.")
            return
        if written is not None:
            self._observe(context, step, written)
        yield from pre_commit.passed(self.info.key, rules, "The run published no rows.")

    def _observe(self, context: dg.AssetExecutionContext, step: runner.Step, written: writer.Written) -> None:
        """Report a commit that contains only positions. An observation makes no new data version, so nothing downstream runs."""
        event = events.commit_event(written.table, written.commit.instant, self.info)
        facts = {**event.metadata, **metadata.input_entries(written)}
        keys: Sequence[str | None] = step.partition_keys if self.info.partitions else [None]
        for key in keys if step.run is not None and len(keys) <= _OBSERVED else []:
            context.log_event(dg.AssetObservation(self.info.key, partition=key, metadata=facts, tags=event.tags))

    def _lake(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> HudiLakeResource:
        """The lake resource; it remains in the inputs if the function has a parameter for it."""
        key = self.info.lake
        lake: HudiLakeResource = getattr(context.resources, key) if self.lake_by_key else inputs.pop(key)
        if self.inputs.takes_lake:
            inputs[key] = lake
        return lake

    def _write(
        self, context: dg.AssetExecutionContext, step: runner.Step, lake: HudiLakeResource, inputs: dict[str, Any]
    ) -> writer.Written | HudiPipes | None:
        found = writer.adopted(lake, self.info, step)
        if found is not None:
            return found
        changes = self._changes(context, step, lake)
        if changes and not any(changes.values()):
            step.log.info("nothing has changed in %s since the last commit", ", ".join(changes))
            return writer.unreported(lake, self.info, step)
        arguments = {**inputs, **changes}
        result = self.function(context, **arguments) if self.inputs.takes_context else self.function(**arguments)
        if isinstance(result, HudiPipes):
            result.refuse_unfit(self.info, incremental=bool(changes))
            return result
        request = result if isinstance(result, HudiWrite) else HudiWrite(result, self.info.operation)
        checked_operation(request.operation)
        return writer.write(lake, self.info, request, step, tuple(changes.values()))

    def _changes(
        self, context: dg.AssetExecutionContext, step: runner.Step, lake: HudiLakeResource
    ) -> dict[str, Changes]:
        consumer = writer.existing(lake, self.info)
        identity, acceptance = step.identity, acceptance_of(step.run.tags) if step.run is not None else None
        reader = Reader(identity.asset_key, step.partition_keys, identity.run_id, acceptance)
        tables = {name: self._upstream_table(context, name) for name in self.inputs.changes}
        found = {name: changes_since(table, _upstream(lake, table), consumer, reader) for name, table in tables.items()}
        for each in found.values():
            step.log.info("%s: %s", each.name, each.backlog)
        return found

    def _upstream_table(self, context: dg.AssetExecutionContext, parameter: str) -> str:
        """The table of a `Changes` parameter: from the asset's definition, else the asset key as a path."""
        upstream = self.inputs.changes[parameter]
        info = upstream.info or info_of(upstream.key, metadata_of_asset(context, upstream.key))
        return info.table if info is not None else table_name(upstream.key)

    def _report(
        self, context: dg.AssetExecutionContext, step: runner.Step, written: writer.Written, told: Mapping[str, Any]
    ) -> dg.MaterializeResult[Any]:
        key = self.info.key
        entries: Mapping[str, Any] = {}
        known = events.known_size(step.instance, key) if step.instance is not None else None
        said = events.report(self.info, written, step.partition_keys, known)
        for partition, entries in said.by_partition.items():
            if step.run is not None:  # A direct call makes no event; its result has the entries of the last partition.
                context.add_asset_metadata(entries, asset_key=key, partition_key=partition)
        report_late(self.info, written, step, context.log_event)
        return dg.MaterializeResult(
            asset_key=key,
            metadata={**told, **(said.entries if step.run is not None else {**entries, **said.entries})},
            data_version=dg.DataVersion(written.commit.completion_time),
            tags=events.event_tags(written.commit),
        )


def hudi_asset(
    *,
    key: dg.CoercibleToAssetKey | None = None,
    key_prefix: dg.CoercibleToAssetKeyPrefix | None = None,
    table: str | None = None,
    record_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table_type: str = "copy_on_write",
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
    **asset_arguments: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of a function that returns rows.

    The function returns a Spark DataFrame or Arrow data, or `HudiWrite` to choose the operation at run time, or None to skip: no
    commit and no event. A parameter annotated with `Changes` receives the changes of an upstream table since the last commit of this asset.

    Args:
        key: asset key; default: the function's name. ``key_prefix`` is prepended.
        table: name of the table below the warehouse; default: the asset key.
        record_key, partition_by, ordering, table_type: used to create the table. An existing table must have the same record key,
                partition columns, ordering and table type, and a key generator that names folders by the values of the partition columns.
        schema: used to create the table; not compared with an existing table.
        options: options of Hudi and of this package (docs/options.md) for every run; they override the lake's options. Table options
                are used to create the table, and not compared with an existing table.
        operation: upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table, delete or delete_partitions.
        partitions: maps Dagster's partitions to the table's partitions; also sets ``partition_by``.
        backfill: ``"single_run"`` (the default: one commit for all partitions of a run), ``"per_partition"``, or ``chunked(n)``;
                alternatively pass Dagster's ``backfill_policy``.
        on_foreign_rows: action for rows outside the run's partitions: fail, drop, or allow.
        changes_of: maps a `Changes` parameter to its upstream asset (an asset, its spec or its key) if their names differ.
        pre_commit: validators of each commit, such as ``pyhudi_core.not_null("id")``, or functions of a `Candidate`. Each is an asset check;
                if one refuses, its check fails, and nothing is published.
        services: the table services that Dagster runs, and when; see `build_hudi_services`. Commits then run none of them.
        lake: resource key of the `HudiLakeResource`.
        translator: defines the asset's key, table name, group and other attributes.
        asset_arguments: all other arguments of an asset or of ``dagster.multi_asset``.

    Raises `InvalidOptionError` for an invalid definition while the code location loads.
    """
    columns = names(partition_by) or (partitions.columns if partitions else ())
    settings = TableSettings(names(record_key), columns, ordering, table_type, schema, dict(options or {}))
    declared = _Declared(
        key=key,
        key_prefix=key_prefix,
        table=table,
        settings=settings,
        partitions=partitions,
        backfill=backfill,
        on_foreign_rows=on_foreign_rows,
        operation=operation,
        changes_of=changes_of or {},
        deps=deps,
        validators=pre_commit,
        services=services,
        lake=lake,
        translator=translator or HudiTranslator(),
        further=asset_arguments,
    )
    return declared.asset_of


@dataclass(frozen=True, slots=True)
class _Declared:
    """The arguments of the decorator, before it is applied to its function."""

    key: dg.CoercibleToAssetKey | None
    key_prefix: dg.CoercibleToAssetKeyPrefix | None
    table: str | None
    settings: TableSettings
    partitions: HudiPartitions | None
    backfill: Backfill | str | None
    on_foreign_rows: ForeignRows
    operation: Operation
    changes_of: Mapping[str, Any]
    deps: Sequence[Any]
    validators: Sequence[Validator]
    services: Services | None
    lake: str
    translator: HudiTranslator
    further: Mapping[str, Any]

    def asset_of(self, function: Callable[..., Any]) -> dg.AssetsDefinition:
        """The asset of a function. Raises `InvalidOptionError` for an invalid definition."""
        named = dg.AssetKey.from_coercible(self.key if self.key is not None else function.__name__)
        named = named.with_prefix(self.key_prefix) if self.key_prefix else named
        checked_operation(self.operation, f"The asset {named.to_user_string()}")
        given = AssetArguments.of(named, self.further, self.backfill, self.partitions)
        description = inspect.getdoc(function)
        definition = HudiTableDefinition(
            named, self.table, self.settings, self.partitions, description, given.of_the_spec
        )
        spec = self.translator.get_asset_spec(definition)
        inputs = inputs_of(spec.key, function, self.changes_of, self.lake, given.ins)
        info = self._info(spec.key, self.translator.get_table_name(definition))
        info = replace(info, reads=tuple(each.key for each in inputs.changes.values() if each.info is None))
        keys = given.resource_keys
        return dg.multi_asset(
            specs=[asset_spec(spec, info, inputs, self.deps, given)],
            check_specs=pre_commit.check_specs(info.key, info.pre_commit) or None,
            ins=inputs.loaded,
            name=given.name or info.key.to_python_identifier(),
            partitions_def=self.partitions.definition if self.partitions else None,
            backfill_policy=given.backfill.policy if self.partitions else None,
            pool=given.pool or f"hudi/{info.table}",
            required_resource_keys={*keys, self.lake} if keys is not None else None,
            **given.of_the_step,
        )(_compute(HudiAsset(function, info, inputs, lake_by_key=keys is not None)))

    def _info(self, key: dg.AssetKey, table: str) -> HudiAssetInfo:
        if not self.settings.record_key:
            raise definition_error(
                f"The asset of table {table} has no record key", "Pass record_key='column' or a list."
            )
        partitions, columns = self.partitions, self.settings.partition_by
        if partitions and partitions.columns != columns:
            raise definition_error(
                f"The asset of table {table} is partitioned by {partitions.columns}, but its table by {columns}",
                "Omit partition_by, or pass the same columns in the same order.",
            )
        if partitions and isinstance(self.settings.schema, pa.Schema):
            partitions.check_types(self.settings.schema)
        settings = self.settings
        if self.services is not None:
            settings = self.services.applied_to(key.to_user_string(), settings)
        return HudiAssetInfo(
            key=key,
            table=table,
            settings=settings,
            partitions=partitions,
            on_foreign_rows=self.on_foreign_rows,
            operation=self.operation,
            lake=self.lake,
            services=self.services,
            pre_commit=pre_commit.checked_validators(key.to_user_string(), self.validators, settings.schema),
        )


def _upstream(lake: HudiLakeResource, name: str) -> hudi.HudiTable:
    try:
        return lake.table(name)
    except TableNotFoundError as error:
        raise UpstreamMissingError(
            f"The upstream table {name} does not exist yet",
            table=lake.location(name),
            hint="Materialize the upstream asset first, or name its table in changes_of if it has another one.",
        ) from error


def _compute(asset: HudiAsset) -> Callable[..., Iterator[Results]]:
    """The function that Dagster calls: it has the user's parameters without the `Changes`, and the lake."""

    def compute(context: dg.AssetExecutionContext | None = None, **inputs: Any) -> Iterator[Results]:
        # A function without a context parameter can be called without a context in a unit test.
        yield from asset.run(context or current_context(), inputs)

    own = inspect.signature(asset.function)
    hints = parameter_hints(asset.function)
    kept = [
        parameter.replace(annotation=as_resource(hints.get(name, parameter.annotation)), kind=_ORDINARY)
        for name, parameter in own.parameters.items()
        if name != "context" and name not in asset.inputs.changes and name != asset.info.lake
    ]
    context = inspect.Parameter("context", _ORDINARY, annotation=dg.AssetExecutionContext)
    first = [context] if asset.inputs.takes_context else []
    resource = inspect.Parameter(asset.info.lake, _ORDINARY, annotation=HudiLakeResource)
    lakes = [] if asset.lake_by_key else [resource]
    compute.__signature__ = inspect.Signature([*first, *lakes, *kept])  # type: ignore[attr-defined]
    compute.__name__ = asset.function.__name__
    compute.__module__ = asset.function.__module__
    compute.__doc__ = asset.function.__doc__
    return compute
