"""What Dagster has no public way for. Nothing else in the package reaches past ``import dagster as dg``.

Each function names what it uses; ``tests/dagster/test_dagster_contract.py`` calls each in a real run, so that a release of Dagster that changes one
fails there, with the function's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg


def metadata_of_asset(context: dg.AssetExecutionContext, key: dg.AssetKey) -> Mapping[str, Any]:
    """The definition metadata of any asset that the run's job knows, upstream ones included; empty for others. ``JobDefinition.asset_layer``."""
    layer = context.job_def.asset_layer
    return dict(layer.get(key).metadata) if layer.has(key) else {}


def instance_and_run_of(
    context: dg.AssetExecutionContext | dg.OutputContext,
) -> tuple[dg.DagsterInstance, dg.DagsterRun]:
    """The instance and the run of a step. An output has no public way to its run: ``OutputContext.step_context``."""
    if isinstance(context, dg.AssetExecutionContext):
        return context.instance, context.run
    return context.step_context.instance, context.step_context.dagster_run
