"""Tables with a few commits, for tests of archival and of the files that it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.model.instant import time_after
from support.tables import make, orders, rows

FAST = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}
MANUAL = {**FAST, "hoodie.archive.automatic": False, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 4}
AUTOMATIC = {**MANUAL, "hoodie.archive.automatic": True, "hoodie.timeline.compaction.batch.size": 3}


def filled(location: str, commits: int = 7, options: dict[str, Any] = MANUAL) -> tuple[hudi.HudiTable, list[Any]]:
    """A table after some upserts; each upsert has its own row and one row that all share."""
    table = make(location, options=options)
    done = [table.upsert(orders((n, "ab"[n % 2], 1.0, n), (0, "a", float(n), n))) for n in range(1, commits + 1)]
    return table, done


def timeline_files(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, ".hoodie/timeline").iterdir() if path.is_file())


def history_files(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, ".hoodie/timeline/history").iterdir())


def everything(table: hudi.HudiTable, done: list[Any]) -> dict[str, Any]:
    """The results of all queries that a table without cleaned slices must answer."""
    answers: dict[str, Any] = {
        "snapshot": rows(table),
        "schema": str(table.schema),
        "cursor": table.scan().completion_time,
    }
    points = ["0", *(c.completion_time for c in done), *(c.instant for c in done)]
    for number, commit in enumerate(done):
        # Before the first commit there are no rows, until it is archived: then such a time is refused.
        between = (time_after(commit.instant),) if number else ()
        for point in (commit.instant, commit.completion_time, *between):
            scan = table.scan(as_of=point)
            answers[f"as of {point}"] = (rows(scan), scan.completion_time, str(scan.schema))
        answers[f"status {number}"] = table.commit_status(commit.token)
    for after in points:
        answers[f"after {after}"] = rows(table.incremental(after=after))
        for until in points[:: max(1, len(points) // 4)]:
            answers[f"{after} to {until}"] = rows(table.incremental(after=after, until=until))
    answers["lookup"] = rows(table.lookup(pa.table({"id": list(range(8))})))
    return answers


def commits(table: hudi.HudiTable, count: int, first: int = 300) -> list[str]:
    """Make commits, each to its own partition; returns their requested times."""
    return [table.upsert(orders((first + n, "z", 1.0))).instant for n in range(count)]
