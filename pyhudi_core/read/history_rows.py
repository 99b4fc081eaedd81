"""The history of a table as rows: one for each completed commit, newest first, archived ones included."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import SCHEMA_KEY, WRITER_KEY, CommitMetadata
from pyhudi_core.model.instant import Instant, epoch_ms
from pyhudi_core.transaction.begin import TOKEN_KEY

SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("completion_time", pa.string()),
        ("completed", pa.timestamp("ms", "UTC")),
        ("action", pa.string()),
        ("operation", pa.string()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("files_written", pa.int64()),
        ("bytes_written", pa.int64()),
        ("partitions", pa.int64()),
        ("writer", pa.string()),
        *((name, pa.string()) for name in ("user", "host", "program", "run")),
        ("extra_metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""``completed`` takes times of a table in LOCAL time for those of this machine; ``writer`` is ``pyhudi`` or ``other``. ``user``, ``host``,
``program`` and ``run`` (``dagster RUN_ID`` or ``airflow DAG/TASK/RUN``) are null if the commit does not say them, as those of Hudi do not.
"""
_RUN_OF_DAGSTER = "dagster.run_id"
"""Where the resource of Dagster keeps the run."""


def writer_of(commit: CommitMetadata) -> dict[str, str | None]:
    """Who wrote a commit: user, host, program and run; None for what the commit does not say."""
    found = {name: commit.extra.get(WRITER_KEY + name) for name in ("user", "host", "program", "run")}
    run = commit.extra.get(_RUN_OF_DAGSTER)
    return {**found, "run": f"dagster {run}"} if run else found


def history_rows(commits: Iterable[tuple[Instant, CommitMetadata]], *, utc: bool, limit: int | None) -> pa.Table:
    """Return one row for each commit, at most ``limit``. Raises `InvalidOptionError` for a negative limit."""
    if limit is not None and limit < 0:
        raise InvalidOptionError(
            f"history(limit={limit}) is less than 0", hint="Give the most commits to show, or None for all."
        )
    return pa.Table.from_pylist([_row(instant, commit, utc=utc) for instant, commit in islice(commits, limit)], SCHEMA)


def row_counts(commit: CommitMetadata) -> tuple[int, int, int]:
    """How many rows a commit inserted, updated and deleted."""
    stats = commit.stats
    return sum(stat.inserts for stat in stats), sum(stat.updates for stat in stats), sum(stat.deletes for stat in stats)


def _row(instant: Instant, commit: CommitMetadata, *, utc: bool) -> dict[str, object]:
    stats, (inserted, updated, deleted) = commit.stats, row_counts(commit)
    completion = instant.completion_time or instant.requested_time
    return {
        "instant": instant.requested_time,
        "completion_time": completion,
        "completed": moment(completion, utc=utc),
        "action": str(instant.action),
        "operation": commit.operation,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "rows_deleted": deleted,
        "files_written": len(stats),
        "bytes_written": sum(stat.size for stat in stats),
        "partitions": len(commit.partitions),
        "writer": "pyhudi" if TOKEN_KEY in commit.extra else "other",
        **writer_of(commit),
        "extra_metadata": sorted((key, value) for key, value in commit.extra.items() if key != SCHEMA_KEY),
    }


def moment(time: str, *, utc: bool) -> datetime | None:
    """Return the moment of an instant time; None for special ones."""
    known = epoch_ms(time, utc=utc)
    return None if known is None else datetime.fromtimestamp(known / 1000, UTC)
