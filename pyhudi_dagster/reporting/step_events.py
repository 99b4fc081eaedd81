"""The events of a step's own commit: its materialization, or an observation of a commit without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.reporting import events, metadata
from pyhudi_dagster.reporting.late_data import report_late
from pyhudi_dagster.steps.runner import Step
from pyhudi_dagster.steps.writer import CompletedCommit

_OBSERVED = 10
"""Maximum number of partitions with an observation; a run without rows for more partitions writes only to the log."""


def materialized(
    context: dg.AssetExecutionContext,
    info: HudiAssetInfo,
    step: Step,
    written: CompletedCommit,
    added: Mapping[str, Any],
    tags: Mapping[str, str],
) -> dg.MaterializeResult[Any]:
    """Return the result for a commit with rows; ``added`` and ``tags`` are what the function, or another process, gives for the commit."""
    key = info.key
    entries: Mapping[str, Any] = {}
    known = events.known_size(step.instance, key) if step.instance is not None else None
    said = events.report(info, written, step.partition_keys, known)
    for partition, entries in said.by_partition.items():
        if step.run is not None:  # A direct call makes no event; its result has the entries of the last partition.
            context.add_asset_metadata(entries, asset_key=key, partition_key=partition)
    report_late(info, written, step, context.log_event, known)
    return dg.MaterializeResult(
        asset_key=key,
        metadata={**added, **(said.entries if step.run is not None else {**entries, **said.entries})},
        data_version=dg.DataVersion(written.commit.completion_time),
        tags={**tags, **events.event_tags(written.commit)},
    )


def observe(context: dg.AssetExecutionContext, info: HudiAssetInfo, step: Step, written: CompletedCommit) -> None:
    """Report a commit that contains only positions. An observation makes no new data version, so no downstream asset runs."""
    event = events.commit_event(written.table, written.commit.instant, info)
    facts = {**event.metadata, **metadata.input_entries(written)}
    keys: Sequence[str | None] = step.partition_keys if info.partitions else [None]
    for key in keys if step.run is not None and len(keys) <= _OBSERVED else []:
        context.log_event(dg.AssetObservation(info.key, partition=key, metadata=facts, tags=event.tags))
