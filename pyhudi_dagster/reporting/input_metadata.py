"""The metadata entries of a materialization about its inputs: the backlog before the run, and the gaps that the run's commit skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from pyhudi_core.orchestration import gaps
from pyhudi_core.orchestration.incremental import Changes


def backlog_entries(changes: Sequence[Changes]) -> dict[str, Any]:
    """Return the sums over the inputs of a run, and the time of the oldest commit that the run had not read. The entries are empty without inputs."""
    if not changes:
        return {}
    backlogs = [each.backlog for each in changes]
    moments = [one.since for one in backlogs if one.since is not None]
    entries: dict[str, Any] = {
        "hudi/backlog_commits": sum(one.commits for one in backlogs),
        "hudi/backlog_rows": sum(one.rows for one in backlogs),
    }
    if moments:
        entries["hudi/backlog_since"] = dg.MetadataValue.timestamp(min(moments))
    return entries


def gap_entries(extra: Mapping[str, str]) -> dict[str, Any]:
    """Return the gaps in the extra metadata of a commit."""
    found = gaps.gaps_in(extra)
    return {"hudi/gap_accepted": found} if found else {}
