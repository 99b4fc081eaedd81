"""The backlog of an incremental asset for one input: unread commits, their rows, and the oldest time. It is read from commits; no data file is
opened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyhudi_core.errors import CorruptionError, LimitExceededError, ObjectNotFoundError
from pyhudi_core.orchestration.instant_times import moment_of

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable

_log = logging.getLogger(__name__)

COUNTED = 500
"""Maximum number of commits that are counted, newest first; for a longer backlog the text says "at least"."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The commits of a table after a completion time.

    Attributes:
        commits: number of commits that changed rows; table services and commits without rows do not count.
        rows: number of rows that these commits inserted, updated and deleted.
        since: when the oldest of these commits completed; None if there is none.
        is_complete: False if more commits exist than were counted, or some cannot be read.
    """

    commits: int = 0
    rows: int = 0
    since: datetime | None = None
    is_complete: bool = True

    def __bool__(self) -> bool:
        return self.commits > 0 or not self.is_complete

    def __str__(self) -> str:
        if not self:
            return "nothing to read"
        least = "" if self.is_complete else "at least "
        since = f", since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since is not None else ""
        return f"{least}{self.commits:,} commits and {self.rows:,} rows behind{since}"


def backlog_of(upstream: HudiTable, after: str | None, until: str | None = None) -> Backlog:
    """Count the commits after a completion time and up to another; None: all. Archived commits that cannot be read are not counted."""
    commits = rows = 0
    since: datetime | None = None
    try:
        for number, (instant, commit) in enumerate(upstream.commits_with("", after or "")):
            if number == COUNTED:
                return Backlog(commits, rows, since, is_complete=False)
            if commit.changes_rows and (until is None or (instant.completion_time or "") <= until):
                commits += 1
                rows += sum(stat.inserts + stat.updates + stat.deletes for stat in commit.stats)
                since = moment_of(upstream, instant.completion_time or instant.requested_time)
    except (CorruptionError, LimitExceededError, ObjectNotFoundError) as error:
        _log.warning("the backlog of %s is not known: %s", upstream.location, error)
        return Backlog(commits, rows, since, is_complete=False)
    return Backlog(commits, rows, since)
