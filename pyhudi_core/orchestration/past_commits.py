"""Reads a table's commits for adoption, checkpoints and metadata. No other module reads them. Starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import dagster as dg

import pyhudi as hudi
from pyhudi import CommitMetadata
from pyhudi.errors import HudiError, TableError
from pyhudi_dagster.timeline.identity import PREFIX, Identity
from pyhudi_dagster.timeline.timeline_view import SHOWN, Entry, operation_name, time_of

_SKEW = timedelta(hours=1)
"""Assumed maximum difference between the clocks of Dagster and of a writer."""


@dataclass(frozen=True, slots=True)
class PastCommit:
    """One completed commit: its instant on the timeline and its metadata."""

    instant: hudi.Instant
    metadata: CommitMetadata

    @property
    def completion_time(self) -> str:
        return self.instant.completion_time or self.instant.requested_time

    @property
    def extra(self) -> Mapping[str, str]:
        """The commit's ``extraMetadata``."""
        return self.metadata.extra


def is_left_to_its_run(instance: dg.DagsterInstance, past: PastCommit) -> bool:
    """Whether a run that is not finished made the instant: it reports its own commits."""
    run_id = past.extra.get(PREFIX + "run_id")
    run = instance.get_run_by_id(run_id) if run_id else None
    return run is not None and not run.is_finished


def commits_newest_first(table: hudi.HudiTable) -> Iterator[PastCommit]:
    """The completed commits of the active timeline, latest completion first, read one at a time."""
    for instant in reversed(list(table.timeline.commits)):
        yield PastCommit(instant, table.commit_metadata(instant))


def newest_change(table: hudi.HudiTable, touches: Callable[[str], bool] = lambda _: True) -> PastCommit | None:
    """The newest commit of the active timeline that changed rows of a partition for which ``touches`` returns true."""
    changes = (commit for commit in commits_newest_first(table) if commit.metadata.changes_rows)
    return next((commit for commit in changes if any(map(touches, commit.metadata.partitions))), None)


def commit_of(table: hudi.HudiTable, instant: str) -> PastCommit:
    """A completed commit by its requested time. Raises `TableError` if it does not exist."""
    for found in table.timeline.commits:
        if found.requested_time == instant:
            return PastCommit(found, table.commit_metadata(found))
    raise TableError("The timeline has no such completed commit", table=table.location, instant=instant)


def find_made(
    table: hudi.HudiTable, identity: Identity, attempt: frozenset[str], begun: datetime | None = None
) -> PastCommit | None:
    """The newest commit of this step in this attempt, archived or active, or None.

    ``begun``: start time of the attempt; older commits are not read, so commits of other writers cost nothing.
    """
    bound = ""
    if begun is not None and table.config.timeline_timezone == "UTC":
        bound = time_of(table, begun - _SKEW)
    for instant, metadata in table.commits_with(PREFIX + "run_id", bound):
        if identity.made(metadata.extra, attempt):
            return PastCommit(instant, metadata)
    return None


def newest_with_rows(table: hudi.HudiTable, identity: Identity, after: str) -> PastCommit | None:
    """The newest commit of any run of the asset for these partitions that completed after this time, or None.

    Skips commits that contain only positions; includes archived commits.
    """
    for instant, metadata in table.commits_with(PREFIX + "run_id", after):
        if identity.concerns(metadata.extra) and not metadata.is_empty:
            return PastCommit(instant, metadata)
    return None


def dropped_rows(table: hudi.HudiTable, commit: PastCommit) -> dict[str, int]:
    """The number of rows in each partition that a commit dropped, by path; empty for other commits, and if the number is no longer known."""
    metadata = commit.metadata
    if metadata.operation != hudi.OperationType.DELETE_PARTITION:
        return {}
    if len(metadata.replaced) == 1 and metadata.rows_replaced is not None:
        return dict.fromkeys(metadata.replaced, metadata.rows_replaced)
    before = [other for other in table.timeline.commits if (other.completion_time or "") < commit.completion_time]
    try:
        sizes = table.partition_sizes(list(metadata.replaced), as_of=before[-1]) if before else {}
    except HudiError:  # A clean has removed the files since.
        return {}
    return {path: sizes[path].rows or 0 for path in metadata.replaced if path in sizes}


def entries(table: hudi.HudiTable, until: hudi.Instant) -> list[Entry]:
    """The newest instants up to the completion of this one, for the timeline view, newest last."""
    timeline, end = table.timeline, until.completion_time or until.requested_time
    commits = set(timeline.commits)
    shown = [instant for instant in timeline if instant.requested_time <= end][-SHOWN:]
    return [_entry(table, instant, instant in commits) for instant in shown]


def _entry(table: hudi.HudiTable, instant: hudi.Instant, is_commit: bool) -> Entry:
    action = str(instant.action)
    if not is_commit:
        return Entry(instant.requested_time, instant.completion_time, action, operation_name(None, action))
    commit = table.commit_metadata(instant)
    return Entry(
        requested=instant.requested_time,
        completed=instant.completion_time,
        action=action,
        operation=operation_name(commit.operation, action),
        inserted=sum(stat.inserts for stat in commit.stats),
        updated=sum(stat.updates for stat in commit.stats),
        deleted=hudi.CommitStats.of(commit).rows_deleted,
        run_id=commit.extra.get(PREFIX + "run_id", ""),
    )
