"""Report late data: partitions that a run's commit changed although they do not belong to the run.

Dagster counts an event of a run as work of that run: a materialization of another partition raised a backfill above 100 %, and marked a partition
that never ran as successful. Therefore a late partition whose last run succeeded gets a materialization **outside any run**, and the new data version
starts the downstream assets again. Any other late partition (a partition that never ran, whose run failed, or whose run is still active) gets an
observation in the run. If the run of such a partition succeeds, the materialization of that run announces the late rows, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

import pyhudi as hudi
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.partitions.partition_values import DynamicKeys
from pyhudi_dagster.reporting import events, metadata
from pyhudi_dagster.steps.runner import Step
from pyhudi_dagster.steps.writer import CompletedCommit
from pyhudi_dagster.timeline.reported_commits import is_observed, reported_until

_NAMED = 10


def report_late(
    info: HudiAssetInfo,
    written: CompletedCommit,
    step: Step,
    log_event: Callable[[dg.AssetObservation], None],
    known: hudi.TableSize | None = None,
) -> None:
    """Report the partitions outside the run that the commit changed. A retry that finds the commit of an earlier attempt does not report these
    partitions again.

    ``known``: the table's size in an earlier event.
    """
    partitions, instance, running = info.partitions, step.instance, step.run
    if partitions is None or not written.foreign:
        return
    if instance is None or running is None:  # a direct call has no instance to report to
        return
    known_keys = DynamicKeys(instance)
    owners = {value: partitions.key_of(value, known_keys) for value in written.foreign}
    if unowned := ["/".join(value) for value, key in owners.items() if key is None]:
        step.log.warning("the commit also changed folders that no partition of %s owns: %s", info.table, _some(unowned))
    keys = sorted({key for key in owners.values() if key is not None})
    statuses = instance.get_status_by_partition(info.key, keys, partitions.definition) or {}
    ran = [key for key in keys if statuses.get(key) is dg.AssetPartitionStatus.MATERIALIZED]
    run = {"hudi/run": dg.MetadataValue.dagster_run(running.run_id)}
    for key, entries in events.late_entries(info, written, keys, known).items():
        if written.adopted and _is_reported(instance, info.key, key, written):
            continue
        facts = {**entries, **run}
        if key in ran:
            tags = events.data_tags(written.commit)
            instance.report_runless_asset_event(dg.AssetMaterialization(info.key, None, facts, key, tags))
        else:
            shown = {name: value for name, value in facts.items() if name not in metadata.OVERVIEW}
            log_event(dg.AssetObservation(info.key, None, shown, key, events.event_tags(written.commit)))
    if keys:
        step.log.info("late data: the commit also changed the partitions %s", _some(keys))


def _is_reported(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str, written: CompletedCommit) -> bool:
    """Say whether the late rows were already reported, before a crash of an earlier attempt.

    A materialization of a later commit counts, too: the partition ran after the late commit, and an older data version must not follow a newer data
    version. A later observation does not count, because the observation may belong to a commit without rows.
    """
    completion = written.commit.completion_time
    return reported_until(instance, asset, [partition]) >= completion or is_observed(
        instance, asset, partition, completion
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
