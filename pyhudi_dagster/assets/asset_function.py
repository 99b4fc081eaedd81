"""The function that Dagster calls for an asset, and the values of the function's parameters.

Dagster sees the parameters of the user's function without the `Changes` parameters, and with a parameter for the lake. The step reads `Changes` from
the upstream tables.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import TableNotFoundError
from pyhudi_core.orchestration.errors import UpstreamMissingError
from pyhudi_dagster.assets.annotations import parameter_hints
from pyhudi_dagster.assets.asset_arguments import Inputs, as_resource
from pyhudi_dagster.dagster_internals import current_context, is_called_directly, metadata_of_asset
from pyhudi_dagster.lake.info import info_of, table_name
from pyhudi_dagster.lake.resource import HudiLakeResource

Results = dg.MaterializeResult[Any] | dg.ObserveResult | dg.AssetCheckResult
Run = Callable[[dg.AssetExecutionContext, dict[str, Any]], Iterator[Results]]
_ORDINARY = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, slots=True)
class AssetFunction:
    """The user's function, the sources of its parameters, and the resource key of its lake."""

    function: Callable[..., Any]
    inputs: Inputs
    lake_key: str
    lake_by_key: bool

    def lake(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> HudiLakeResource:
        """Return the lake resource. The lake remains in the inputs if the function has a parameter for the lake."""
        key = self.lake_key
        lake: HudiLakeResource = getattr(context.resources, key) if self.lake_by_key else inputs.pop(key)
        if self.inputs.takes_lake:
            inputs[key] = lake
        return lake

    def call(self, context: dg.AssetExecutionContext, arguments: Mapping[str, Any]) -> Any:
        """Return the result of the function; an async function is run to its end."""
        result = self.function(*[context] * (self.inputs.context is not None), **arguments)
        return asyncio.run(_awaited(result)) if inspect.iscoroutine(result) else result

    def upstream(
        self, context: dg.AssetExecutionContext, lake: HudiLakeResource
    ) -> dict[str, tuple[str, hudi.HudiTable]]:
        """Return, for each `Changes` parameter, the name of the upstream table, and the table. Raises `UpstreamMissingError`."""
        names = {parameter: self._upstream_name(context, parameter) for parameter in self.inputs.changes}
        return {parameter: (name, _opened(lake, name)) for parameter, name in names.items()}

    def _upstream_name(self, context: dg.AssetExecutionContext, parameter: str) -> str:
        """Return the table of a `Changes` parameter: from the asset's definition, or by default the asset key as a path."""
        upstream = self.inputs.changes[parameter]
        info = upstream.info or info_of(upstream.key, metadata_of_asset(context, upstream.key))
        return info.table if info is not None else table_name(upstream.key)

    def for_dagster(self, run: Run) -> Callable[..., Any]:
        """Return the function that Dagster calls. The function has the user's parameters without the `Changes` parameters, and a parameter for the
        lake.

        In a run, the returned function yields each result at once. In a direct call, as in a unit test, the function does the work and returns one
        result for each asset.
        """

        def compute(context: dg.AssetExecutionContext | None = None, **inputs: Any) -> Any:
            # A function without a context parameter can be called without a context in a unit test.
            here = context or current_context()
            results = run(here, inputs)
            return _answer(list(results)) if is_called_directly(here) else _asked(here, results)

        parameters = list(self._parameters())
        compute.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        # Dagster before 1.13.24 reads the names of parameters from the signature, and their types from this attribute.
        compute.__annotations__ = {
            each.name: each.annotation for each in parameters if each.annotation is not each.empty
        }
        compute.__name__ = self.function.__name__
        compute.__module__ = self.function.__module__
        compute.__doc__ = self.function.__doc__
        return compute

    def _parameters(self) -> Iterator[inspect.Parameter]:
        if self.inputs.context is not None:
            yield inspect.Parameter("context", _ORDINARY, annotation=dg.AssetExecutionContext)
        if not self.lake_by_key:
            yield inspect.Parameter(self.lake_key, _ORDINARY, annotation=HudiLakeResource)
        hints = parameter_hints(self.function)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name != self.inputs.context and name not in self.inputs.changes and name != self.lake_key:
                hint = as_resource(hints.get(name, parameter.annotation))
                yield parameter.replace(annotation=hint, kind=_ORDINARY)


def _asked(context: dg.AssetExecutionContext, results: Iterator[Results]) -> Iterator[Results]:
    """Yield the results, without the results of checks that the run does not select."""
    selected = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
    for each in results:
        if not isinstance(each, dg.AssetCheckResult) or (each.asset_key, each.check_name) in selected:
            yield each


def _answer(results: Sequence[Results]) -> Any:
    """Return the result of each asset with the results of the asset's checks. For a single asset, this is one result, and no tuple. Dagster counts
    the results of a direct call.
    """
    checks = [each for each in results if isinstance(each, dg.AssetCheckResult)]
    made = tuple(
        each._replace(check_results=[check for check in checks if check.asset_key == each.asset_key])
        for each in results
        if not isinstance(each, dg.AssetCheckResult)
    )
    return made[0] if len(made) == 1 else made


def nothing_written(context: dg.AssetExecutionContext, key: dg.AssetKey, why: str) -> Iterator[dg.ObserveResult]:
    """Yield the result of a direct call for an asset that was not written. A run has no event for such an asset."""
    if is_called_directly(context):
        yield dg.ObserveResult(asset_key=key, metadata={"skipped_because": why})


async def _awaited(result: Any) -> Any:
    return await result


def _opened(lake: HudiLakeResource, name: str) -> hudi.HudiTable:
    try:
        return lake.table(name)
    except TableNotFoundError as error:
        raise UpstreamMissingError(
            f"The upstream table {name} does not exist yet",
            table=lake.location(name),
            hint="Materialize the upstream asset first, or name its table in changes_of if it has another one.",
        ) from error
