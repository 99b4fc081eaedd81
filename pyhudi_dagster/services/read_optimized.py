"""The read-optimized view of a merge-on-read table as its own asset: its materialization is a compaction.

A read-optimized query omits log files, so the query shows new rows only after a compaction. An asset that reads this view depends on the view's
asset. So the reading asset runs when the view has new rows, not after each commit. A freshness policy of the view's asset limits the delay of
compactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.data import descriptions_of
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.past_commits import PastCommit
from pyhudi_dagster.assets.asset_arguments import only_spec
from pyhudi_dagster.lake.info import HudiAssetInfo, info_of, refuse_unfit_kinds, step_name
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.reporting import events, metadata
from pyhudi_dagster.reporting.column_schema import column_schema
from pyhudi_dagster.services import service_runs
from pyhudi_dagster.steps import runner

VIEW = "hudi/read_optimized_view_of"
Views = Mapping[str, dg.AssetKey]
"""The asset of the read-optimized view, by table."""
_COMPACTS = frozenset({hudi.OperationType.COMPACT})


class _ViewEntry(dict[str, Any]):
    """The table of a view as a metadata value; Dagster stores it as JSON."""

    def __init__(self, info: HudiAssetInfo) -> None:
        super().__init__({"asset": info.key.to_user_string(), "table": info.table})
        self.info = info


@refuses_wrong_types
def hudi_read_optimized_asset(
    of: dg.AssetsDefinition | dg.AssetSpec, *, key: dg.CoercibleToAssetKey | None = None, **spec: Any
) -> dg.AssetsDefinition:
    """Return the asset of the read-optimized view of a merge-on-read table.

    A run of the view's asset compacts the table; if there is nothing to compact, the run makes no event. Pass the view's asset to
    `build_hudi_services` and `build_hudi_timeline_sensor`, together with the asset of the table: then a compaction by the services, or by another
    program, is a materialization of the view's asset, too.

    Args:
        of: the asset of the table, also a `hudi_external_asset`.
        key: asset key; default: the key of the table's asset with ``_ro`` at its end.
        spec: all other arguments of `dagster.AssetSpec`, such as ``freshness_policy``, ``owners`` and ``automation_condition``.

    Raises `InvalidOptionError` for an asset that is not a merge-on-read table.
    """
    table_spec = only_spec(of, "hudi_read_optimized_asset has") if isinstance(of, dg.AssetsDefinition) else of
    info = info_of(table_spec.key, table_spec.metadata)
    if info is None or info.settings.kind != "merge_on_read":
        raise definition_error(
            f"The asset {table_spec.key.to_user_string()} has no read-optimized view of its own, because it is no merge-on-read table",
            "Set table_type='merge_on_read' on the asset of the table; a copy-on-write table is read as it is.",
        )
    path = [*info.key.path[:-1], f"{info.key.path[-1]}_ro"]
    named = dg.AssetKey.from_coercible(key) if key is not None else dg.AssetKey(path)
    table_key = info.key.to_user_string()
    spec.setdefault(
        "description",
        f"What read-optimized queries of {table_key} show: its rows up to the last compaction. Each compaction is a materialization.",
    )
    of_table = metadata.definition_metadata(info)
    given = dict(spec.pop("metadata", None) or {})
    entries = {**of_table, "hudi/table": dg.MetadataValue.asset(info.key), **given, VIEW: _ViewEntry(info)}
    kinds = set(spec.pop("kinds", None) or {"hudi"})
    refuse_unfit_kinds(named, kinds)
    deps = [*(spec.pop("deps", None) or []), info.key]
    described = dg.AssetSpec(named, deps=deps, metadata=entries, kinds=kinds, skippable=True, **spec)

    @dg.multi_asset(
        specs=[described],
        name=step_name(named),
        pool=f"{info.pool}/services",
        required_resource_keys={info.lake},
    )
    def compact(context) -> Iterator[dg.MaterializeResult[Any]]:  # type: ignore[no-untyped-def]
        lake, step = getattr(context.resources, info.lake), runner.step_of(context, info.key, "compaction")
        outcome = service_runs.look_after(step, lake, info, "compaction", service_runs.Asked("always"))
        service_runs.report(step, lake, info, outcome, context.log_event)
        if outcome.done:
            table = lake.table(info.table, info.settings)
            event = materialization(table, events.past_commit(table, outcome.instants[-1]), info, named)
            yield dg.MaterializeResult(
                asset_key=named,
                metadata=event.metadata,
                data_version=dg.DataVersion(outcome.instants[-1].completion_time or ""),
                tags={name: text for name, text in (event.tags or {}).items() if name != "dagster/data_version"},
            )

    return compact


def views_of(specs: Iterable[dg.AssetSpec]) -> dict[str, dg.AssetKey]:
    """Return the assets of read-optimized views among specs, by table."""
    return {spec.metadata[VIEW].info.table: spec.key for spec in specs if is_view(spec)}


def is_view(spec: dg.AssetSpec) -> bool:
    """Say whether a spec belongs to a read-optimized view."""
    return table_of_view(spec) is not None


def table_of_view(spec: dg.AssetSpec) -> HudiAssetInfo | None:
    """Return the table of a read-optimized view by the view's spec; None for other assets."""
    entry = spec.metadata.get(VIEW)
    return entry.info if isinstance(entry, _ViewEntry) else None


def shows_more(past: PastCommit) -> bool:
    """Say whether this commit makes more rows visible to read-optimized queries."""
    return past.metadata.operation in _COMPACTS


def report(
    step: runner.Step,
    lake: HudiLakeResource,
    info: HudiAssetInfo,
    view: dg.AssetKey | None,
    outcome: service_runs.StepOutcome,
    log: service_runs.Log,
) -> None:
    """Store the events of a service. Each event is an observation of the table's asset. A compaction is also a materialization of the view's
    asset."""
    service_runs.report(step, lake, info, outcome, log)
    if view is None or not outcome.instants:
        return
    table = lake.table(info.table, info.settings)
    completed = set(table.timeline.completed)
    for instant in outcome.instants:
        if instant in completed and shows_more(past := events.past_commit(table, instant)):
            log(materialization(table, past, info, view))


def materialization(
    table: hudi.HudiTable, past: PastCommit, info: HudiAssetInfo, view: dg.AssetKey
) -> dg.AssetMaterialization:
    """Return the materialization of the view by a compaction. The data version is the completion time of the compaction."""
    described = descriptions_of(info.settings.schema)
    entries: dict[str, Any] = {
        **events.event_of(table, past, info).metadata,
        "dagster/column_schema": column_schema(table, described),
    }
    return dg.AssetMaterialization(view, metadata=entries, tags=events.data_tags(past))
