"""Find the commits of an asset that were reported to Dagster. The events of these commits have the tag ``hudi/completion``.

The event of an IO manager's output cannot have tags except its data version, which is the completion time of its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

_EVENTS_READ = 5
"""Number of newest events that are read. One event is not enough: a person can report an event without tags, and a retry can report an older commit.
"""
_PAGE = 1000
Reported = tuple[str, str | None]
"""The completion time of a commit, and the partition of the event that reports it."""


def reported_until(instance: dg.DagsterInstance, asset: dg.AssetKey, keys: Sequence[str] = ()) -> str:
    """Return the completion time up to which materializations reported the commits, for all of these partitions; without keys, for the asset.

    Empty if one of the partitions has no event with a commit.
    """
    reported = ""
    for key in keys or (None,):
        reported_of_key = max(_reported_completions(instance, asset, key), default="")
        if not reported_of_key:
            return ""
        reported = min(reported or reported_of_key, reported_of_key)
    return reported


def reported_since(instance: dg.DagsterInstance, asset: dg.AssetKey, moment: datetime) -> frozenset[Reported]:
    """Return the commits and partitions of all materializations and observations that were stored after a moment.

    Dagster does not index the tags of events, so the events themselves are read, in pages.
    """
    wanted = dg.AssetRecordsFilter(asset, after_timestamp=moment.timestamp())
    return _found(wanted, instance.fetch_materializations) | _found(wanted, instance.fetch_observations)


def materialized_since(instance: dg.DagsterInstance, asset: dg.AssetKey, moment: datetime) -> frozenset[Reported]:
    """Return commits and partitions as `reported_since` does, but only of materializations. Materializations report commits with rows."""
    wanted = dg.AssetRecordsFilter(asset, after_timestamp=moment.timestamp())
    return _found(wanted, instance.fetch_materializations)


def _found(wanted: dg.AssetRecordsFilter, fetch: Callable[..., Any]) -> frozenset[Reported]:
    found: set[Reported] = set()
    cursor, more = None, True
    while more:
        page = fetch(wanted, _PAGE, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization or record.event_log_entry.asset_observation
            if event is not None and (completion := _completion_of(event)):
                found.add((completion, event.partition))
        cursor, more = page.cursor, page.has_more
    return frozenset(found)


def is_observed(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str, completion: str) -> bool:
    """Say whether one of the newest observations of the partition reports the commit with this completion time."""
    wanted = dg.AssetRecordsFilter(asset, asset_partitions=[partition])
    found = [
        record.event_log_entry.asset_observation
        for record in instance.fetch_observations(wanted, limit=_EVENTS_READ).records
    ]
    return any(event is not None and (event.tags or {}).get("hudi/completion") == completion for event in found)


def _reported_completions(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str | None) -> list[str]:
    wanted = dg.AssetRecordsFilter(asset, asset_partitions=None if partition is None else [partition])
    found = [record.asset_materialization for record in instance.fetch_materializations(wanted, _EVENTS_READ).records]
    completions = [_completion_of(event) for event in found if event is not None]
    return [completion for completion in completions if completion]


def _completion_of(event: dg.AssetMaterialization | dg.AssetObservation) -> str:
    """Return the completion time of the commit that an event reports; empty if the event reports no commit."""
    tags = event.tags or {}
    of_output = tags.get("dagster/data_version", "") if "hudi/instant" in event.metadata else ""
    return tags.get("hudi/completion") or of_output
