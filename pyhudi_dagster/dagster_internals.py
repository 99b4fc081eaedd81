"""All uses of Dagster's private API. No other module of the package uses more than ``import dagster as dg``.

Each docstring names the private attributes that the function uses. ``tests/dagster/test_dagster_contract.py`` calls each function in a real run,
so a change in a new release of Dagster fails there, with the function's name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The run of a step, and the facts about the step."""

    instance: dg.DagsterInstance
    run: dg.DagsterRun
    step_key: str
    retry_number: int
    code_version: str
    code_location: str


def run_facts_of(
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.OutputContext, key: dg.AssetKey
) -> RunFacts | None:
    """Return the facts of the running step; None for a direct call without a run, for example in a unit test.

    Uses ``get_step_execution_context()``, and ``OutputContext.step_context`` for an output; of the step's context ``step.key``,
    ``previous_attempt_count`` and ``job_def.asset_layer``; of the run ``remote_job_origin``.
    """
    if isinstance(context, dg.AssetExecutionContext) and is_called_directly(context):
        return None
    step = context.step_context if isinstance(context, dg.OutputContext) else context.get_step_execution_context()
    layer, origin = step.job_def.asset_layer, step.dagster_run.remote_job_origin
    return RunFacts(
        instance=step.instance,
        run=step.dagster_run,
        step_key=step.step.key,
        retry_number=step.previous_attempt_count,
        code_version=(layer.get(key).code_version if layer.has(key) else None) or "",
        code_location=origin.location_name if origin else "",
    )


@dataclass(frozen=True, slots=True)
class InputFacts:
    """The run of a step that loads an input, and the assets that this run writes."""

    instance: dg.DagsterInstance
    run: dg.DagsterRun
    writes: frozenset[dg.AssetKey]


def input_facts_of(context: dg.InputContext) -> InputFacts:
    """Return the facts of a step that loads an input. Uses ``step_context``, with ``dagster_run``, ``instance`` and ``job_def.asset_layer``."""
    step = context.step_context
    selected = step.dagster_run.asset_selection  # empty in a run of a complete job
    return InputFacts(
        step.instance, step.dagster_run, frozenset(selected or step.job_def.asset_layer.executable_asset_keys)
    )


def is_own_input(context: dg.InputContext) -> bool:
    """Say whether the step writes the asset that this input reads. Uses ``step_context.get_output_asset_keys``; a unit test's context has no step."""
    try:
        return context.asset_key in context.step_context.get_output_asset_keys()
    except dg.DagsterInvariantViolationError:
        return False


def is_called_directly(context: dg.AssetExecutionContext) -> bool:
    """Say whether a context comes from ``dg.build_asset_context``. Such a context has no run, and Dagster raises an error if its run is accessed."""
    try:
        return context.run is None
    except dg.DagsterError:
        return True


def current_context() -> dg.AssetExecutionContext:
    """Return the context of the step that runs in this thread, or a context without a run. Uses ``AssetExecutionContext.get``."""
    try:
        return dg.AssetExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return dg.build_asset_context()


def metadata_of_asset(context: dg.AssetExecutionContext, key: dg.AssetKey) -> Mapping[str, Any]:
    """Return the definition metadata of any asset in the run's job, including upstream assets; empty for other assets.

    Uses ``JobDefinition.asset_layer``.
    """
    if is_called_directly(context):
        return {}
    layer = context.job_def.asset_layer
    return dict(layer.get(key).metadata) if layer.has(key) else {}


def with_resources(asset: dg.AssetsDefinition, resources: Mapping[str, dg.ResourceDefinition]) -> dg.AssetsDefinition:
    """Return the asset with its own resources, which may need resources of the definitions. Uses ``AssetsDefinition.get_attributes_dict``."""
    attributes = asset.get_attributes_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # of arguments that Dagster's own methods pass in the same way
        return dg.AssetsDefinition(**{**attributes, "resource_defs": {**resources, **attributes["resource_defs"]}})


def add_output_entries(context: dg.OutputContext, key: dg.AssetKey, partition: str, entries: Mapping[str, Any]) -> None:
    """Add entries to the event of one partition of an output. Uses ``step_context.add_asset_metadata``."""
    context.step_context.add_asset_metadata(entries, asset_key=key, partition_key=partition)


def with_output_named(context: dg.AssetExecutionContext, output: str) -> None:
    """Make this output the default of ``context.add_output_metadata(...)``.

    The checks of an asset are outputs of its step, too, and with several outputs Dagster requires a name. Uses ``vars(context)``: an entry there
    replaces the method.
    """
    add = context.add_output_metadata

    def named(metadata: Mapping[str, Any], output_name: str | None = None, mapping_key: str | None = None) -> None:
        add(metadata, output_name or output, mapping_key)

    vars(context)["add_output_metadata"] = named


def set_output_data_version(context: dg.OutputContext, key: dg.AssetKey, version: str) -> None:
    """Set the data version of an output. Uses ``step_context.set_data_version``."""
    context.step_context.set_data_version(key, dg.DataVersion(version))


def resource_definitions_of(context: dg.SensorEvaluationContext) -> Mapping[str, Any]:
    """Return all resources of the sensor's code location, also resources that the sensor does not require.

    Resources that a test passes in the context override them.

    Uses ``resource_defs`` and ``RepositoryDefinition.get_top_level_resources``.
    """
    of_location = context.repository_def.get_top_level_resources() if context.repository_def is not None else {}
    return {**of_location, **(context.resource_defs or {})}


def without_config(resource: dg.ConfigurableResource[Any], about: str) -> dg.ResourceDefinition:
    """Return a resource with the values that it has, and without a config schema that a run could fill.

    Dagster loads the snapshot of each job again each minute, with the schema and the complete description of each of its resources.

    Uses ``get_resource_definition`` and ``config_schema.default_value``.
    """
    definition = resource.get_resource_definition()
    return definition.configured(definition.config_schema.default_value, description=about)


def worker_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int | None:
    """Return the process id of a started run if the run is on this machine; otherwise None.

    Uses the tag ``.dagster/grpc_info`` of the default launcher, and the ``pid`` of the event with which the run started.
    """
    server = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    if not server.get("socket") and server.get("host") not in _THIS_MACHINE:
        return None
    started = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_START, limit=1, ascending=False)
    event = started.records[0].event_log_entry.dagster_event if started.records else None
    return None if event is None else event.pid


def worker_health(gone: str) -> Any:
    """Return the health of a worker for run monitoring. ``gone``: why the worker is lost; empty if the worker is alive or unknown."""
    return CheckRunHealthResult(WorkerStatus.FAILED, gone) if gone else CheckRunHealthResult(WorkerStatus.RUNNING)
