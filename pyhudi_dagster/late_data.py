"""Late data: partitions outside a run that its commit changed as well, and what Dagster is told about them.

Dagster counts an event of a run as work of that run: a materialization of another partition raised a backfill above 100 %, and turned
a partition green that never ran. So a late partition that ran before gets a materialization **outside of any run** (it has a new data version, so
what is downstream runs again), and any other an observation in the run: it never ran, its run failed, or its run is still under way. When
such a run succeeds, its own materialization announces the late rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

from pyhudi_dagster import events
from pyhudi_dagster.info import HudiAssetInfo
from pyhudi_dagster.reported import is_observed, reported_until
from pyhudi_dagster.runner import Step
from pyhudi_dagster.writer import Written

_NAMED = 10


def report_late(
    info: HudiAssetInfo, written: Written, step: Step, log_event: Callable[[dg.AssetObservation], None]
) -> None:
    """Tell Dagster which partitions outside the run the commit changed. Says nothing twice about a commit that a retry adopts."""
    partitions, instance, running = info.partitions, step.instance, step.run
    if partitions is None or not written.foreign:
        return
    if instance is None or running is None:  # called directly: nobody to tell
        return
    owners = {value: partitions.key_of(value, instance) for value in written.foreign}
    if unowned := ["/".join(value) for value, key in owners.items() if key is None]:
        step.log.warning("the commit also changed folders that no partition of %s owns: %s", info.table, _some(unowned))
    keys = sorted({key for key in owners.values() if key is not None})
    statuses = instance.get_status_by_partition(info.key, keys, partitions.definition) or {}
    ran = [key for key in keys if statuses.get(key) is dg.AssetPartitionStatus.MATERIALIZED]
    run = {"hudi/run": dg.MetadataValue.dagster_run(running.run_id)}
    for key, entries in events.late_entries(info, written, keys).items():
        if written.adopted and _is_reported(instance, info.key, key, written):
            continue
        facts = {**entries, **run}
        if key in ran:
            tags = events.data_tags(written.commit)
            instance.report_runless_asset_event(dg.AssetMaterialization(info.key, None, facts, key, tags))
        else:
            log_event(dg.AssetObservation(info.key, None, facts, key, events.event_tags(written.commit)))
    if keys:
        step.log.info("late data: the commit also changed the partitions %s", _some(keys))


def _is_reported(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str, written: Written) -> bool:
    """Whether Dagster knows of the late rows already: a crash came after that, and this is the retry.

    A materialization of a later commit counts too: the partition ran meanwhile, and an older version must not follow a newer one. A later
    observation does not: it may be about a commit without rows.
    """
    completion = written.commit.completion_time
    return reported_until(instance, asset, [partition]) >= completion or is_observed(
        instance, asset, partition, completion
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
