"""Reads a table's commits for adoption, checkpoints and metadata. Starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyhudi_core.errors import HudiError, TableError
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.shared_commits import extras_of
from pyhudi_core.orchestration.instant_times import time_of

if TYPE_CHECKING:
    from pyhudi_core.model.commit import CommitMetadata
    from pyhudi_core.model.instant import Instant
    from pyhudi_core.table import HudiTable

_SKEW = timedelta(hours=1)
"""Assumed maximum difference between the clocks of the orchestrator and of a writer."""


@dataclass(frozen=True, slots=True)
class PastCommit:
    """One completed commit: its instant on the timeline and its metadata."""

    instant: Instant
    metadata: CommitMetadata

    @property
    def completion_time(self) -> str:
        return self.instant.completion_time or self.instant.requested_time

    @property
    def extra(self) -> Mapping[str, str]:
        """The commit's ``extraMetadata``."""
        return self.metadata.extra

    @property
    def extras(self) -> list[Mapping[str, str]]:
        """The extra metadata of the commit, and of each writer that shares the commit."""
        return extras_of(self.metadata)


def commits_newest_first(table: HudiTable) -> Iterator[PastCommit]:
    """Yield the completed commits of the active timeline, latest completion first. Each commit is read when it is requested."""
    for instant in reversed(list(table.timeline.commits)):
        yield PastCommit(instant, table.commit_metadata(instant))


def newest_change(table: HudiTable, touches: Callable[[str], bool] = lambda _: True) -> PastCommit | None:
    """Return the newest commit of the active timeline that changed rows of a partition for which ``touches`` returns true."""
    changes = (commit for commit in commits_newest_first(table) if commit.metadata.changes_rows)
    return next((commit for commit in changes if any(map(touches, commit.metadata.partitions))), None)


def commit_of(table: HudiTable, instant: str) -> PastCommit:
    """Return a completed commit by its requested time. Raises `TableError` if it does not exist."""
    for found in table.timeline.commits:
        if found.requested_time == instant:
            return PastCommit(found, table.commit_metadata(found))
    raise TableError("The timeline has no such completed commit", table=table.location, instant=instant)


def place_of(table: HudiTable, instant: Instant) -> str:
    """Return the location of an instant's file, in the layout that the table's timeline has. Reads nothing."""
    return f"{table.location}/{table._opened.context().folder.file(instant)}"


def find_made(
    table: HudiTable, entry: str, made: Callable[[Mapping[str, str]], bool], begun: datetime | None = None
) -> PastCommit | None:
    """Return the newest commit, archived or active, whose extra metadata has ``entry`` and for which ``made`` is true: the commit of this attempt.

    ``begun``: start time of the attempt; commits that completed earlier are not read.
    """
    bound = ""
    if begun is not None and table.config.timeline_timezone == "UTC":
        bound = time_of(table, begun - _SKEW)
    for instant, metadata in table.commits_with(entry, bound):
        if made(metadata.extra):
            return PastCommit(instant, metadata)
    return None


def newest_with_rows(
    table: HudiTable, entry: str, concerns: Callable[[Mapping[str, str]], bool], after: str
) -> PastCommit | None:
    """Return the newest commit that completed after this time, has ``entry``, and for which ``concerns`` is true; or None.

    Skips commits that contain only positions; includes archived commits.
    """
    for instant, metadata in table.commits_with(entry, after):
        if concerns(metadata.extra) and not metadata.is_empty:
            return PastCommit(instant, metadata)
    return None


def dropped_rows(table: HudiTable, commit: PastCommit) -> dict[str, int]:
    """Return the number of rows in each partition that a commit dropped, by path; empty for other commits, and if the number is no longer known."""
    metadata = commit.metadata
    if metadata.operation != OperationType.DELETE_PARTITION:
        return {}
    if len(metadata.replaced) == 1 and metadata.rows_replaced is not None:
        return dict.fromkeys(metadata.replaced, metadata.rows_replaced)
    before = [other for other in table.timeline.commits if (other.completion_time or "") < commit.completion_time]
    try:
        sizes = table.partition_sizes(list(metadata.replaced), as_of=before[-1]) if before else {}
    except HudiError:  # A clean has removed the files since.
        return {}
    return {path: sizes[path].rows or 0 for path in metadata.replaced if path in sizes}
