"""The identity of a commit's step, stored in the commit. A retry reads the identity to find out whether this attempt has already committed.

An attempt consists of this run and the runs that this run resumes: the parents by Dagster's resume tags. A retry of an op keeps its run id, and an
automatic retry of a run has a resume tag. "Re-execute all" has no resume tag, because that run must write again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from pyhudi_dagster.dagster_internals import run_facts_of

PREFIX = "dagster."
RUN_ID = f"{PREFIX}run_id"
"""The entry of a commit's extra metadata that every step of Dagster writes."""
WRITE = "write"
"""The default action of a commit: the commit writes the rows of an asset."""
_RESUME_TAGS = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
_PARENT_TAG = "dagster/parent_run_id"
_BACKFILL_TAG = "dagster/backfill"
_LONGEST_CHAIN = 64
_LONGEST_LIST = 8


@dataclass(frozen=True, slots=True)
class Identity:
    """The action of a step of a run on one table. ``partitions`` is a text; equal sets of keys have equal texts."""

    run_id: str
    asset_key: str
    step_key: str
    action: str = WRITE
    retry_number: int = 0
    partitions: str = ""
    code_location: str = ""
    job: str = ""
    code_version: str = ""
    backfill_id: str = ""

    def extra(self) -> dict[str, str]:
        """Return the entries for the commit's ``extraMetadata``, without empty values."""
        entries = {name: str(getattr(self, name)) for name in self.__dataclass_fields__}
        return {PREFIX + name: text for name, text in entries.items() if text}

    def made(self, extra: Mapping[str, str], attempt: frozenset[str]) -> bool:
        """Say whether this step made a commit with this extra metadata, in this run or in a run that this run resumes."""
        same_step = extra.get(PREFIX + "step_key", "") == self.step_key
        return self.concerns(extra) and same_step and extra.get(PREFIX + "run_id", "") in attempt

    def concerns(self, extra: Mapping[str, str]) -> bool:
        """Say whether a commit with this extra metadata belongs to this action of the asset for these partitions, in any run."""
        same = all(extra.get(PREFIX + name, "") == getattr(self, name) for name in ("asset_key", "partitions"))
        return same and extra.get(PREFIX + "action", WRITE) == self.action


def identity_of(
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.OutputContext,
    asset_key: dg.AssetKey,
    action: str = WRITE,
) -> Identity:
    """Return the identity of the running step, for an action on the asset's table. If the asset was called directly, the identity has no run."""
    facts, partitions = run_facts_of(context, asset_key), partitions_text(partition_keys_of(context))
    name = asset_key.to_user_string()
    if facts is None:
        return Identity("", name, "", action, partitions=partitions)
    return Identity(
        run_id=facts.run.run_id,
        asset_key=name,
        step_key=facts.step_key,
        action=action,
        retry_number=facts.retry_number,
        partitions=partitions,
        code_location=facts.code_location,
        job=facts.run.job_name,
        code_version=facts.code_version,
        backfill_id=facts.run.tags.get(_BACKFILL_TAG, ""),
    )


def partition_keys_of(context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.OutputContext) -> Sequence[str]:
    """Return the partition keys of the run; no keys for a run without partitions."""
    if isinstance(context, dg.OutputContext):
        return list(context.asset_partition_keys) if context.has_asset_partitions else []
    return list(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else []


def partitions_text(keys: Sequence[str]) -> str:
    """Return a few keys as a list; many keys as the first, the last, their number and a digest. The order of the keys does not matter."""
    ordered = sorted(keys)
    if len(ordered) <= _LONGEST_LIST:
        return ",".join(ordered)
    digest = hashlib.sha256("\0".join(ordered).encode()).hexdigest()[:16]
    return f"{ordered[0]}...{ordered[-1]} ({len(ordered)}, {digest})"


def attempt_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> frozenset[str]:
    """Return the ids of the run and of all runs that the run resumes."""
    found = [run.run_id]
    current: dg.DagsterRun | None = run
    while current is not None and len(found) < _LONGEST_CHAIN:
        parent = current.parent_run_id or current.tags.get(_PARENT_TAG)
        if parent is None or parent in found or not any(current.tags.get(tag) == "true" for tag in _RESUME_TAGS):
            break
        found.append(parent)
        current = instance.get_run_by_id(parent)
    return frozenset(found)


def begun(instance: dg.DagsterInstance, attempt: frozenset[str]) -> datetime | None:
    """Return the creation time of the first run of an attempt; None if Dagster no longer has all runs of the attempt."""
    records = [instance.get_run_record_by_id(run_id) for run_id in attempt]
    times = [record.create_timestamp for record in records if record is not None]
    return min(times) if times and len(times) == len(records) else None


def is_left_to_its_run(instance: dg.DagsterInstance, extras: Sequence[Mapping[str, str]]) -> bool:
    """Say whether a run that is not finished made a commit with this extra metadata, or shares such a commit. An unfinished run reports its own
    commits.
    """
    made_by = {extra[RUN_ID] for extra in extras if extra.get(RUN_ID)}
    runs = (instance.get_run_by_id(run_id) for run_id in made_by)
    return any(run is not None and not run.is_finished for run in runs)
